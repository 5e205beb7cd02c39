"""The recorded clouds: every VM that waits there is placed validly or refused in words."""

from __future__ import annotations

from pathlib import Path

import pytest

from one_preempt.adapters.opennebula.snapshot_assembly import assemble_snapshot
from one_preempt.core.matching.host_table import host_table
from one_preempt.core.matching.options import MatchOptions
from one_preempt.core.matching.placement import Matchmaker
from one_preempt.core.model.plan import Placement
from one_preempt.core.model.pool_snapshot import PoolSnapshot
from one_preempt.core.model.virtual_machine import VmState

RECORDINGS = Path(__file__).parents[2] / "recordings"
POOLS = ("vmpool.infoextended", "hostpool.info", "hostpool.monitoring", "clusterpool.info", "datastorepool.info")
MORE_POOLS = ("vnpool.info", "vmgrouppool.info", "acl.info", "userpool.info", "grouppool.info")


def recorded(version: str) -> PoolSnapshot:
    folder = RECORDINGS / version
    return assemble_snapshot({name: (folder / f"{name}.xml").read_bytes() for name in POOLS + MORE_POOLS}, 0)


# By mm_sched's rule nothing new starts in the 6.10.0 recording: its system datastore was never monitored.
@pytest.mark.parametrize(
    ("version", "accept_unmonitored", "starting"),
    [("7.4.0", False, {9, 11, 14, 16, 18, 19}), ("6.10.0", False, {9}), ("6.10.0", True, {9, 11, 14, 16, 18, 19})],
)
def test_waiting_vms_are_placed_within_capacity_or_told_why_not(
    version: str, accept_unmonitored: bool, starting: set[int]
) -> None:
    snapshot = recorded(version)
    options = MatchOptions(max_dispatch=0, max_host=0, accept_unmonitored_datastores=accept_unmonitored)
    maker = Matchmaker(snapshot, host_table(snapshot.hosts), options)
    room = maker.new_room()
    waiting = [vm for vm in snapshot.vms.values() if vm.state in (VmState.PENDING, VmState.HOLD)]
    outcomes = {vm.id: maker.place(vm, room) for vm in waiting}

    assert (room.free >= 0).all()
    assert {vm_id for vm_id, outcome in outcomes.items() if isinstance(outcome, Placement)} == starting
    for outcome in outcomes.values():
        if isinstance(outcome, Placement):
            assert snapshot.hosts[outcome.host_id].accepts_vms
            assert outcome.datastore_id == 100
        else:
            assert outcome.reason.text.endswith(".")
