"""The calls that move a VM through its life: one.vm.action, recover."""

from __future__ import annotations

from one_preempt.simulation.simulated_cloud.authorization import Right
from one_preempt.simulation.simulated_cloud.calls.vm_placements import VmPlacements
from one_preempt.simulation.simulated_cloud.calls.vm_states import state_name
from one_preempt.simulation.simulated_cloud.cloud_state import oned_call
from one_preempt.simulation.simulated_cloud.errors import ErrorCode, OnedError
from one_preempt.simulation.simulated_cloud.life_cycle import FAILURES, WORK_OF_FAILURE
from one_preempt.simulation.simulated_cloud.objects import Caller, SimVm
from one_preempt.simulation.simulated_cloud.quotas import running_request
from one_preempt.simulation.simulated_cloud.states import (
    HistoryAction,
    LcmState,
    VmState,
)
from one_preempt.simulation.simulated_cloud.vm_building import (
    set_automatic_requirements,
)

_L, _S = LcmState, VmState
_ACTIVE = _S.ACTIVE
_AT_REST_WITH_DISKS = frozenset({_S.SUSPENDED, _S.POWEROFF, _S.STOPPED, _S.UNDEPLOYED})
_NEVER_DEPLOYED = frozenset({_S.INIT, _S.PENDING, _S.HOLD, _S.CLONING, _S.CLONING_FAILURE})
_FAILURE_STATES = frozenset(FAILURES.values())
_ENDABLE = frozenset(
    {"RUNNING", "UNKNOWN", "DONE"}
    | {state.name for state in (*_AT_REST_WITH_DISKS, *_NEVER_DEPLOYED)}
    | {state.name for state in _FAILURE_STATES}
)
# Action -> the states (by `state_name`) that allow it.
LEGAL: dict[str, frozenset[str]] = {
    "suspend": frozenset({"RUNNING"}),
    "stop": frozenset({"RUNNING", "SUSPENDED"}),
    "resume": frozenset({"STOPPED", "UNDEPLOYED", "SUSPENDED", "POWEROFF", "UNKNOWN"}),
    "poweroff": frozenset({"RUNNING", "UNKNOWN"}),
    "poweroff-hard": frozenset({"RUNNING", "UNKNOWN", "SHUTDOWN_POWEROFF"}),
    "undeploy": frozenset({"RUNNING", "UNKNOWN", "POWEROFF"}),
    "undeploy-hard": frozenset({"RUNNING", "UNKNOWN", "POWEROFF", "SHUTDOWN_UNDEPLOY"}),
    "terminate": _ENDABLE,
    "terminate-hard": _ENDABLE | {"SHUTDOWN"},
    "hold": frozenset({"PENDING"}),
    "release": frozenset({"HOLD"}),
    "resched": frozenset({"RUNNING", "UNKNOWN", "POWEROFF"}),
    "unresched": frozenset({"RUNNING", "UNKNOWN", "POWEROFF"}),
    "reboot": frozenset({"RUNNING"}),
    "reboot-hard": frozenset({"RUNNING"}),
}
# Action -> the method that carries it out, and for those that can be hard, whether it is.
_WAYS: dict[str, tuple[str, tuple[bool, ...]]] = {
    action: (f"_{word}", (bool(hardness),) if word in ("poweroff", "undeploy", "terminate") else ())
    for action, (word, _, hardness) in ((action, action.partition("-")) for action in LEGAL)
}
_ADMIN_ACTIONS = ("resched", "unresched")


def _objection(action: str, vm: SimVm) -> str:
    if action.startswith("terminate"):
        return f"Could not terminate VM {vm.id}, wrong state {state_name(vm)}."
    return f"This action is not available for state {state_name(vm)}"


class VmActions(VmPlacements):
    """one.vm.action and one.vm.recover, beside those that place."""

    # ---------------------------------------------------------------- action

    @oned_call
    def vm_action(self, caller: Caller, action: str, vm_id: int) -> int:
        """Do what `action` names (the keys of `LEGAL`). Raises ACTION where the state does not allow it."""
        vm = self.vm(vm_id)
        self.demand_vm(caller, Right.ADMIN if action in _ADMIN_ACTIONS else Right.MANAGE, vm)
        if action not in LEGAL:
            raise OnedError(ErrorCode.ACTION, f'Action "{action}" is not supported')
        if action == "resume" and (objection := self.quota_books.objection(vm.uid, vm.gid, running_request(vm))):
            raise OnedError(ErrorCode.ACTION, objection)
        if state_name(vm) not in LEGAL[action]:
            raise OnedError(ErrorCode.ACTION, f'Error performing action "{action}": {_objection(action, vm)}')
        method, hardness = _WAYS[action]
        getattr(self, method)(vm, caller, *hardness)
        return vm_id

    def _suspend(self, vm: SimVm, caller: Caller) -> None:
        vm.resched = False
        self.sign(vm.history[-1], caller, HistoryAction.SUSPEND)
        self.begin(vm, _L.SAVE_SUSPEND)

    def _stop(self, vm: SimVm, caller: Caller) -> None:
        self.sign(vm.history[-1], caller, HistoryAction.STOP)
        if vm.state == _S.SUSPENDED:
            vm.history[-1].estime_s = self.now_s
            self.begin_with_quota(vm, _L.EPILOG_STOP)
        else:
            vm.resched = False
            self.begin(vm, _L.SAVE_STOP)

    def _poweroff(self, vm: SimVm, caller: Caller, hard: bool) -> None:
        self.cancel_work(vm)
        vm.resched = False
        self.sign(vm.history[-1], caller, HistoryAction.POWEROFF_HARD if hard else HistoryAction.POWEROFF)
        self.begin(vm, _L.SHUTDOWN_POWEROFF)

    def _undeploy(self, vm: SimVm, caller: Caller, hard: bool) -> None:
        if vm.state == _S.POWEROFF:
            self.sign(vm.history[-1], caller, HistoryAction.UNDEPLOY)
            vm.history[-1].estime_s = self.now_s
            self.begin_with_quota(vm, _L.EPILOG_UNDEPLOY)
            return
        self.cancel_work(vm)
        vm.resched = False
        self.sign(vm.history[-1], caller, HistoryAction.UNDEPLOY_HARD if hard else HistoryAction.UNDEPLOY)
        self.begin(vm, _L.SHUTDOWN_UNDEPLOY)

    def _terminate(self, vm: SimVm, caller: Caller, hard: bool) -> None:
        # oned writes the VM's owner as the one who asked.
        owner = caller if caller.uid == vm.uid and caller.gid == vm.gid else Caller(vm.uid, vm.gid, (vm.gid,))
        if vm.state in _NEVER_DEPLOYED:
            self.end(vm)
        elif vm.state in _AT_REST_WITH_DISKS:
            self.sign(vm.history[-1], owner, HistoryAction.TERMINATE)
            vm.history[-1].estime_s = self.now_s
            self.begin_with_quota(vm, _L.EPILOG)
        elif vm.lcm_state in _FAILURE_STATES and vm.state == _S.ACTIVE:
            self.clean_up(vm, caller, resubmit=False)
        elif vm.state == _S.ACTIVE:
            self.cancel_work(vm)
            vm.resched = False
            self.sign(vm.history[-1], owner, HistoryAction.TERMINATE_HARD if hard else HistoryAction.TERMINATE)
            self.begin(vm, _L.SHUTDOWN)

    def _resume(self, vm: SimVm, caller: Caller) -> None:
        if vm.state in (_S.STOPPED, _S.UNDEPLOYED):
            set_automatic_requirements(self, vm)
            self.enter_with_quota(vm, _S.PENDING)
        elif vm.state == _S.ACTIVE:
            self.begin(vm, _L.BOOT_UNKNOWN)
        else:
            boot = _L.BOOT_SUSPENDED if vm.state == _S.SUSPENDED else _L.BOOT_POWEROFF
            self.sign(self.repeat_record(vm), caller, HistoryAction.RESUME)
            self.begin_with_quota(vm, boot)
            self.note_load(vm, vm.history[-1].host_id)

    def _hold(self, vm: SimVm, caller: Caller) -> None:
        self.change_vm(vm, _S.HOLD)

    def _release(self, vm: SimVm, caller: Caller) -> None:
        set_automatic_requirements(self, vm)
        self.change_vm(vm, _S.PENDING)

    def _resched(self, vm: SimVm, caller: Caller) -> None:
        set_automatic_requirements(self, vm)
        vm.resched = True

    def _unresched(self, vm: SimVm, caller: Caller) -> None:
        vm.resched = False

    def _reboot(self, vm: SimVm, caller: Caller) -> None:
        vm.resched = False

    # ---------------------------------------------------------------- recover

    @oned_call
    def vm_recover(self, caller: Caller, vm_id: int, operation: int) -> int:
        """0 the operation failed, 1 it succeeded, 2 try again, 3 delete, 4 delete and recreate, 5 delete."""
        if operation not in range(6):
            raise OnedError(ErrorCode.ACTION, "Wrong recovery operation code")
        vm = self.vm(vm_id)
        self.demand_vm(caller, Right.ADMIN, vm)
        if operation in (3, 5):
            self._delete(vm, caller)
        elif operation == 4:
            self._recreate(vm, caller)
        elif vm.state != _S.ACTIVE:
            word = "a retry" if operation == 2 else "a recover operation"
            raise OnedError(ErrorCode.ACTION, f"Could not perform {word} on VM {vm_id}, wrong state {state_name(vm)}.")
        else:
            self._recover_active(vm, operation)
        return vm_id

    def _recover_active(self, vm: SimVm, operation: int) -> None:
        if vm.lcm_state in (_L.RUNNING, _L.LCM_INIT):
            return
        if vm.lcm_state == _L.UNKNOWN:
            if operation != 2:
                self.change_vm(vm, _S.ACTIVE, _L.RUNNING)
            return
        self.cancel_work(vm)
        if operation == 2:
            self.begin(vm, WORK_OF_FAILURE.get(vm.lcm_state, vm.lcm_state))
        elif operation == 1:
            self.succeed(vm)
        else:
            self.fail(vm)

    def _delete(self, vm: SimVm, caller: Caller) -> None:
        if vm.state == _S.ACTIVE:
            self.clean_up(vm, caller, resubmit=False)
        elif vm.state != _S.DONE:
            self.end(vm)

    def _recreate(self, vm: SimVm, caller: Caller) -> None:
        if vm.state in (_S.HOLD, _S.DONE):
            raise OnedError(
                ErrorCode.ACTION,
                f"Could not perform delete-recreate on VM {vm.id}, wrong state {state_name(vm)}.",
            )
        if vm.state in (_S.STOPPED, _S.UNDEPLOYED):
            self.sign(vm.history[-1], caller, HistoryAction.DELETE_RECREATE)
            self.enter_with_quota(vm, _S.PENDING)
        elif vm.state != _S.PENDING:
            self.clean_up(vm, caller, resubmit=True)
