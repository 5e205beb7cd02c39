"""A VM of a gang is ended between our look at the cloud and the deployment."""

from __future__ import annotations

from pathlib import Path

import pytest

from one_preempt.adapters.opennebula.transport import Parameter
from one_preempt.adapters.opennebula.xmlrpc_reply import Reply
from one_preempt.simulation.simulated_cloud.states import VmState
from tests.hostile.front_row import FrontRow, RewrittenAnswers, front_row

GANG = 'LEASE=[TYPE="BE-SUSPENDABLE", NAME="gang", SIZE="3"]'


def ended_at_the_first_deployment(row: FrontRow, monkeypatch: pytest.MonkeyPatch, vm_id: int) -> None:
    call, ended = RewrittenAnswers.call, list[int]()

    def called(self: RewrittenAnswers, method: str, *parameters: Parameter) -> Reply:
        if method == "one.vm.deploy" and not ended:
            ended.append(vm_id)
            row.cloud.vm_action(row.caller("eva"), "terminate-hard", vm_id)
        return call(self, method, *parameters)

    monkeypatch.setattr(RewrittenAnswers, "call", called)


def test_a_gang_that_has_lost_one_does_not_begin_in_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with front_row(tmp_path) as row:
        gang = [row.submit("eva", more=GANG) for _ in range(3)]
        ended_at_the_first_deployment(row, monkeypatch, gang[0])
        row.run(4)
        assert [row.vm(vm).state for vm in gang] == [VmState.DONE, VmState.HOLD, VmState.HOLD], row.log
        status = str(row.vm(gang[1]).user_template["LEASE_STATUS"])
        assert "1 of the 3 VMs of lease 'gang' ended before it began" in status


@pytest.mark.parametrize("lost", [1, 2])
def test_a_gang_that_had_begun_goes_on_with_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lost: int
) -> None:
    """As where one of them is ended while they run."""
    with front_row(tmp_path) as row:
        gang = [row.submit("eva", more=GANG) for _ in range(3)]
        ended_at_the_first_deployment(row, monkeypatch, gang[lost])
        row.run(4)
        assert [row.is_running(vm) for vm in gang] == [number != lost for number in range(3)], row.log
