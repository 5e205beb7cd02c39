"""Which call is legal in which state, tried in every state."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from one_preempt.simulation.simulated_cloud.errors import ErrorCode, OnedError
from one_preempt.simulation.simulated_cloud.objects import ONEADMIN

if TYPE_CHECKING:
    from tests.simulation.simulated_cloud.conftest import Stage

# Written down once more, by hand, from the reference: what the cloud allows must be exactly this.
LEGAL = {
    "suspend": "RUNNING",
    "stop": "RUNNING SUSPENDED",
    "resume": "STOPPED UNDEPLOYED SUSPENDED POWEROFF UNKNOWN",
    "poweroff": "RUNNING UNKNOWN",
    "poweroff-hard": "RUNNING UNKNOWN SHUTDOWN_POWEROFF",
    "undeploy": "RUNNING UNKNOWN POWEROFF",
    "undeploy-hard": "RUNNING UNKNOWN POWEROFF SHUTDOWN_UNDEPLOY",
    "hold": "PENDING",
    "release": "HOLD",
    "resched": "RUNNING UNKNOWN POWEROFF",
    "unresched": "RUNNING UNKNOWN POWEROFF",
    "reboot": "RUNNING",
    "reboot-hard": "RUNNING",
}
TERMINABLE = "PENDING HOLD RUNNING UNKNOWN SUSPENDED POWEROFF STOPPED UNDEPLOYED DONE".split()  # noqa: SIM905
AFTER = {
    ("suspend", "RUNNING"): "SUSPENDED",
    ("stop", "RUNNING"): "STOPPED",
    ("stop", "SUSPENDED"): "STOPPED",
    ("resume", "STOPPED"): "PENDING",
    ("resume", "UNDEPLOYED"): "PENDING",
    ("resume", "SUSPENDED"): "RUNNING",
    ("resume", "POWEROFF"): "RUNNING",
    ("poweroff", "RUNNING"): "POWEROFF",
    ("poweroff-hard", "RUNNING"): "POWEROFF",
    ("poweroff-hard", "SHUTDOWN_POWEROFF"): "POWEROFF",
    ("undeploy", "RUNNING"): "UNDEPLOYED",
    ("undeploy", "POWEROFF"): "UNDEPLOYED",
    ("undeploy-hard", "SHUTDOWN_UNDEPLOY"): "UNDEPLOYED",
    ("hold", "PENDING"): "HOLD",
    ("release", "HOLD"): "PENDING",
    ("reboot", "RUNNING"): "RUNNING",
}


@pytest.mark.parametrize("action", [*LEGAL, "terminate", "terminate-hard"])
def test_an_action_is_accepted_exactly_in_its_states(stage: Stage, action: str, any_state: str) -> None:
    vm = stage.bring(any_state)
    if action.startswith("terminate"):
        hard = action.endswith("hard") and any_state == "SHUTDOWN"
        legal = any_state in TERMINABLE or any_state.endswith("_FAILURE") or hard
    else:
        legal = any_state in LEGAL[action].split()
    if not legal:
        with pytest.raises(OnedError) as refused:
            stage.cloud.vm_action(ONEADMIN, action, vm.id)
        assert refused.value.code == ErrorCode.ACTION
        unavailable = f"This action is not available for state {any_state}"
        words = f"Could not terminate VM {vm.id}, wrong state {any_state}."
        expected = words if action.startswith("terminate") else unavailable
        assert refused.value.message == f'Error performing action "{action}": {expected}'
        return
    assert stage.cloud.vm_action(ONEADMIN, action, vm.id) == vm.id
    stage.cloud.settle()
    assert stage.cloud.audit() == []
    if action.startswith("terminate") and any_state != "UNKNOWN":
        assert vm.state.name == "DONE"
    elif (action, any_state) in AFTER:
        reached = vm.lcm_state.name if vm.state.name == "ACTIVE" else vm.state.name
        assert reached == AFTER[action, any_state]


def test_deploy_is_accepted_exactly_at_rest_off_a_host(stage: Stage, any_state: str) -> None:
    vm = stage.bring(any_state)
    if any_state in ("PENDING", "HOLD", "STOPPED", "UNDEPLOYED"):
        stage.cloud.vm_deploy(ONEADMIN, vm.id, stage.hosts[2].id)
        stage.cloud.settle()
        assert (vm.lcm_state.name, vm.history[-1].host_id) == ("RUNNING", stage.hosts[2].id)
        assert stage.cloud.audit() == []
    else:
        with pytest.raises(OnedError, match=f"Deploy action is not available for state {any_state}"):
            stage.cloud.vm_deploy(ONEADMIN, vm.id, stage.hosts[2].id)


@pytest.mark.parametrize("live", [True, False])
def test_migrate_is_accepted_exactly_where_a_vm_can_be_moved(stage: Stage, any_state: str, live: bool) -> None:
    vm = stage.bring(any_state)
    if any_state in ("RUNNING", "UNKNOWN", "POWEROFF", "SUSPENDED"):
        stage.cloud.vm_migrate(ONEADMIN, vm.id, stage.hosts[2].id, live)
        stage.cloud.settle()
        back = {"UNKNOWN": "RUNNING"}.get(any_state, any_state)
        assert (vm.lcm_state.name if vm.state.name == "ACTIVE" else vm.state.name) == back
        assert vm.history[-1].host_id == stage.hosts[2].id
        assert stage.cloud.audit() == []
    else:
        with pytest.raises(OnedError, match=f"Migrate action is not available for state {any_state}"):
            stage.cloud.vm_migrate(ONEADMIN, vm.id, stage.hosts[2].id, live)


@pytest.mark.parametrize("operation", [0, 1, 2, 3, 4, 5])
def test_recovery_keeps_the_books_right_in_every_state(stage: Stage, any_state: str, operation: int) -> None:
    vm = stage.bring(any_state)
    at_rest = vm.state.name != "ACTIVE"
    if (operation < 3 and at_rest) or (operation == 4 and any_state in ("HOLD", "DONE")):
        word = {0: "a recover operation", 1: "a recover operation", 2: "a retry", 4: "delete-recreate"}[operation]
        with pytest.raises(OnedError, match=f"Could not perform {word} on VM {vm.id}, wrong state {any_state}"):
            stage.cloud.vm_recover(ONEADMIN, vm.id, operation)
        return
    stage.cloud.vm_recover(ONEADMIN, vm.id, operation)
    assert stage.cloud.audit() == []
    stage.cloud.settle()
    assert stage.cloud.audit() == []
    if operation in (3, 5):
        assert vm.state.name == "DONE"


def test_a_retried_failure_goes_on_where_it_broke(stage: Stage) -> None:
    vm = stage.bring("EPILOG_STOP_FAILURE")
    assert vm.id in stage.hosts[0].vm_ids
    stage.cloud.vm_recover(ONEADMIN, vm.id, 2)
    stage.cloud.settle()
    assert vm.state.name == "STOPPED"
    assert stage.hosts[0].vm_ids == []


def test_a_lost_migration_is_taken_back_to_its_source_by_recover_failure(stage: Stage) -> None:
    vm = stage.bring("PROLOG_MIGRATE_FAILURE")
    assert stage.hosts[1].vm_ids == [vm.id]
    stage.cloud.vm_recover(ONEADMIN, vm.id, 0)
    stage.cloud.settle()
    assert (vm.lcm_state.name, [record.host_id for record in vm.history]) == ("RUNNING", [0, 1, 0])
    assert (stage.hosts[0].vm_ids, stage.hosts[1].vm_ids) == ([vm.id], [])


def test_actions_that_oned_does_not_know_are_named(stage: Stage) -> None:
    vm = stage.create()
    with pytest.raises(OnedError, match='Action "fly" is not supported'):
        stage.cloud.vm_action(ONEADMIN, "fly", vm.id)
