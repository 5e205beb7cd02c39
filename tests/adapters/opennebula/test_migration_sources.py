"""Whence a VM is copied: oned is asked about it, over a real socket, once a migration."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from one_preempt.adapters.opennebula.pool_reader import OpenNebulaPoolReader
from one_preempt.simulation.simulated_cloud.states import LcmState
from tests.hostile.front_row import FrontRow, front_row

COPY_S = 1200
OWN_DISKS = [
    {"name": "local", "type": "system", "ds_mad": "-", "tm_mad": "ssh", "clusters": ["main"], "total_mib": 409600,
     "template": {"SHARED": "NO"}},
]  # fmt: skip
DURATIONS = {"copy_s": COPY_S, "prolog_s": 0, "prolog_mib_per_s": 0, "boot_s": 0, "save_s": 0, "cancel_s": 0}


@pytest.fixture
def row(tmp_path: Path) -> Iterator[FrontRow]:
    with front_row(tmp_path, datastores=OWN_DISKS, durations=DURATIONS) as found:
        yield found


def migrating(row: FrontRow) -> tuple[int, int, int]:
    """A VM that is off and on its way to another host; with where it comes from and where it goes."""
    vm = row.submit("paul")
    row.run(4)
    source = row.vm(vm).history[-1].host_id
    target, root = 1 - source, row.caller("oneadmin")
    row.cloud.vm_action(root, "poweroff-hard", vm)
    row.run()
    row.cloud.vm_migrate(root, vm, target, False, False, -1, 0)
    row.run()
    assert row.vm(vm).lcm_state is LcmState.PROLOG_MIGRATE_POWEROFF
    return vm, source, target


def asked(row: FrontRow) -> list[bytes]:
    """The answers about single VMs, as they are asked for from now on."""
    answers: list[bytes] = []

    def noted(answer: bytes) -> bytes:
        answers.append(answer)
        return answer

    row.transport.rewrite = {"vm.info": noted}
    return answers


def test_the_source_is_told_until_the_copy_is_over_and_asked_for_once(row: FrontRow) -> None:
    vm, source, target = migrating(row)
    answers, reader = asked(row), OpenNebulaPoolReader(row.transport, row.clock)
    for _ in range(3):
        seen = reader.read().vms[vm]
        assert (seen.host_id, seen.source_host_id, len(seen.history)) == (target, source, 1)
        assert sorted(seen.needed_host_ids) == [0, 1]
    assert len(answers) == 1
    row.cloud.advance(COPY_S)
    after = reader.read().vms[vm]
    assert (after.state_name, after.source_host_id, after.needed_host_ids) == ("POWEROFF", None, (target,))


def test_the_way_back_is_another_migration(row: FrontRow) -> None:
    vm, source, target = migrating(row)
    answers, reader = asked(row), OpenNebulaPoolReader(row.transport, row.clock)
    assert reader.read().vms[vm].source_host_id == source
    row.cloud.advance(COPY_S)
    row.cloud.vm_migrate(row.caller("oneadmin"), vm, source, False, False, -1, 0)
    assert reader.read().vms[vm].source_host_id == target
    assert len(answers) == 2


def test_a_vm_of_which_the_source_is_not_told_counts_as_unreadable(row: FrontRow) -> None:
    vm, _, _ = migrating(row)
    row.transport.rewrite = {"vm.info": lambda answer: answer.replace(b"<SEQ>", b"<SEQ>x")}
    snapshot = OpenNebulaPoolReader(row.transport, row.clock).read()
    assert vm not in snapshot.vms
    assert snapshot.unreadable_vm_ids == snapshot.untraced_vm_ids == {vm}
    assert f"VM {vm} leaves a host that is not known: VM {vm} cannot be read" in " ".join(snapshot.problems)


def test_nobody_is_asked_for_who_only_runs(row: FrontRow) -> None:
    vm = row.submit("paul")
    row.run(4)
    assert row.is_running(vm)
    answers = asked(row)
    assert OpenNebulaPoolReader(row.transport, row.clock).read().vms[vm].source_host_id is None
    assert answers == []
