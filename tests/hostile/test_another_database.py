"""oned begins again with another database, and gives ids to other VMs: the ledger's leases are not theirs."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from one_preempt.composition import open_store
from one_preempt.configuration.settings import parse_settings
from tests.hostile.front_row import FrontRow, front_row

ENFORCED = True
ALONE = 'LEASE=[TYPE="BE-CANCELLABLE"]'
SUSPENDABLE = 'LEASE=[TYPE="BE-SUSPENDABLE"]'
GANG = 'LEASE=[TYPE="BE-CANCELLABLE", NAME="gang", SIZE="3"]'
RESERVED = 'LEASE=[TYPE="DC-NON-PREEMPTABLE", START="+01:00:00"]'


def an_hour_later(row: FrontRow, before: FrontRow) -> None:
    row.cloud.advance(before.cloud.now_s - row.cloud.now_s + 3600)


def put_on_hosts(row: FrontRow, vm_ids: list[int]) -> None:
    """By an administrator, two on each host."""
    for number, vm_id in enumerate(vm_ids):
        row.cloud.vm_deploy(row.caller("root"), vm_id, number // 2, ENFORCED, -1, "")
    row.cloud.advance(60)


def test_a_plain_vm_is_not_sent_out_because_another_had_its_id(tmp_path: Path) -> None:
    with front_row(tmp_path) as row:
        for _ in range(4):
            row.submit("eva", cpu="2", more=ALONE)
        row.run(6)
        row.submit("lea", cpu="2")
        assert row.run().plan is not None
        assert "terminate VM 0" in "\n".join(row.log)
    with front_row(tmp_path) as another:
        an_hour_later(another, row)
        plain = [another.submit("eva", cpu="2") for _ in range(4)]
        put_on_hosts(another, plain)
        request = another.submit("lea", cpu="2")
        another.run(6)
        told = "\n".join(another.log)
        assert all(map(another.is_running, plain)), told
        assert not another.is_running(request)
        assert "vm-is-another, VM 0: lease 0 has ended: OpenNebula gave the id of a VM of it to another VM" in told


def test_nobody_leaves_for_another_that_has_the_id_of_a_preemptor(tmp_path: Path) -> None:
    """Who was to leave had been warned, and not been sent out yet."""
    warned = {"time": {"grace_s": 120}}
    with front_row(tmp_path, warned) as row:
        for _ in range(4):
            row.submit("eva", cpu="2", more=SUSPENDABLE)
        row.run(6)
        row.submit("lea", cpu="2")
        row.run()
        assert "lease 0 leaves for lease 4" in "\n".join(row.log)
    with front_row(tmp_path, warned) as another:
        an_hour_later(another, row)
        vms = [another.submit("eva", cpu="2", more=SUSPENDABLE) for _ in range(4)]
        another.cloud.vm_deploy(another.caller("root"), vms[0], 1, ENFORCED, -1, "")
        another.cloud.vm_deploy(another.caller("root"), vms[1], 1, ENFORCED, -1, "")
        for vm_id in vms[2:]:
            another.cloud.vm_action(another.caller("eva"), "terminate-hard", vm_id)
        another.cloud.advance(60)
        request = another.submit("lea", cpu="2")
        another.run(12)
        assert (request, another.is_running(request)) == (4, True)
        assert "stop VM" not in "\n".join(another.log)
        assert "is over: another VM has the id of one of its VMs by now" in "\n".join(another.log)


def test_nobody_was_preempted_because_another_with_his_id_was(tmp_path: Path) -> None:
    """The stop of the other one was under way when oned began anew."""
    with front_row(tmp_path) as row:
        for _ in range(4):
            row.submit("eva", cpu="2", more=SUSPENDABLE)
        row.run(6)
        row.submit("lea", cpu="2")
        row.run()
        assert "stop VM 0 on host 1: accepted" in "\n".join(row.log)
    with front_row(tmp_path) as another:
        an_hour_later(another, row)
        put_on_hosts(another, [another.submit("eva", cpu="2", more=SUSPENDABLE) for _ in range(2)])
        another.run(2)
    with closing(open_store(parse_settings(f"store: {{url: 'sqlite:///{tmp_path}/leases.db'}}", "test"))) as store:
        assert [(one.id, one.preemptions, one.last_preempted_at_s) for one in store.leases()] == [
            (0, 0, None),
            (1, 0, None),
        ]


def test_vms_of_others_are_no_gang_because_its_vms_had_their_ids(tmp_path: Path) -> None:
    with front_row(tmp_path) as row:
        gang = [row.submit("eva", more=GANG) for _ in range(3)]
        row.run(4)
        assert all(map(row.is_running, gang))
    with front_row(tmp_path) as another:
        an_hour_later(another, row)
        others = [another.submit(user) for user in ("paul", "lea", "evan")]
        another.cloud.vm_action(another.caller("paul"), "hold", others[0])
        another.run(4)
        assert [another.is_running(vm) for vm in others] == [False, True, True], another.log
        assert not any("LEASE_STATUS" in another.vm(vm).user_template for vm in others)


@pytest.mark.parametrize("lease", ["", 'LEASE=[TYPE="DC-NON-PREEMPTABLE"]'], ids=["plain", "lease"])
def test_nobody_waits_for_a_start_that_another_was_promised(tmp_path: Path, lease: str) -> None:
    with front_row(tmp_path) as row:
        row.submit("lea", more=RESERVED)
        row.run(2)
        assert "reserved: starts at " in str(row.vm(0).user_template["LEASE_STATUS"])
    with front_row(tmp_path) as another:
        another.cloud.advance(row.cloud.now_s - another.cloud.now_s + 60)
        vm = another.submit("lea", more=lease)
        another.run(3)
        assert another.is_running(vm), another.log
