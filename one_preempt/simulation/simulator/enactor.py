"""One action of a plan, carried out on the simulated cloud: look at the VM again, then call once."""

from __future__ import annotations

from collections.abc import Sequence

from one_preempt.core.model.outcome import Outcome
from one_preempt.core.model.plan import Action, ActionKind
from one_preempt.core.model.virtual_machine import PREEMPTION_LOCK
from one_preempt.ports import CHANGED_HANDS, CallResult
from one_preempt.simulation.simulated_cloud.calls.vm_states import state_name
from one_preempt.simulation.simulated_cloud.cloud import SimulatedCloud
from one_preempt.simulation.simulated_cloud.errors import OnedError
from one_preempt.simulation.simulated_cloud.objects import ONEADMIN, SimVm
from one_preempt.simulation.simulated_cloud.states import VmState
from one_preempt.simulation.simulated_cloud.templates import write_template

OWN_CHOICE = -1
_ACCEPTED = CallResult(Outcome.ACCEPTED)
APPEND = 1
_DONE = VmState.DONE
_DEPLOY = ActionKind.DEPLOY
_LOCKING = frozenset({ActionKind.LOCK, ActionKind.UNLOCK})
_SIMPLE_ACTIONS = frozenset({
    ActionKind.SUSPEND, ActionKind.STOP, ActionKind.UNDEPLOY, ActionKind.TERMINATE, ActionKind.RESUME,
    ActionKind.HOLD,
})  # fmt: skip


class SimulatedEnactor:
    """Implements `ports.Enactor` on a `SimulatedCloud`, as oneadmin, with the checks of the live one."""

    def __init__(self, cloud: SimulatedCloud) -> None:
        self._cloud = cloud

    def perform(self, action: Action) -> CallResult:
        """Carry out `action`, unless its VM is not as the plan expects it."""
        changed = self._changed_hands(action)
        if changed:
            return CallResult(Outcome.DROPPED, CHANGED_HANDS, changed)
        try:
            self._call(action)
        except OnedError as error:
            return CallResult(Outcome.REFUSED, error.code.name, str(error))
        return _ACCEPTED

    def start_together(self, actions: Sequence[Action]) -> bool:
        """Carry out what are starts of new VMs, all as `perform` would, or nothing where one might be refused."""
        places = []
        for action in actions:
            host_id, datastore_id = action.host_id, action.datastore_id
            if action.kind is not _DEPLOY or not action.enforce_capacity or action.nics or self._changed_hands(action):
                return False
            if host_id is None or datastore_id is None:
                return False
            places.append((action.vm_id, host_id, datastore_id))
        return self._cloud.deploy_together(ONEADMIN, places)

    def _changed_hands(self, action: Action) -> str:
        """Why the VM is not ours to act on any more, '' where it is as expected."""
        vm = self._cloud.vms.get(action.vm_id)
        if vm is None or vm.state == _DONE:
            return f"VM {action.vm_id} does not exist any more"
        if action.expected_states and state_name(vm) not in action.expected_states:
            return f"VM {vm.id} is {state_name(vm)}, expected was {' or '.join(action.expected_states)}"
        if action.expected_uid is not None and vm.uid != action.expected_uid:
            return f"VM {vm.id} belongs to user {vm.uid} now, expected was user {action.expected_uid}"
        return _foreign_lock(action, vm) if action.kind in _LOCKING else ""

    def _call(self, action: Action) -> None:
        cloud = self._cloud
        datastore_id = OWN_CHOICE if action.datastore_id is None else action.datastore_id
        enforce = action.enforce_capacity
        if action.kind is _DEPLOY:
            cloud.vm_deploy(ONEADMIN, action.vm_id, _host_of(action), enforce, datastore_id, _nics_of(action))
            return
        match action.kind:
            case ActionKind.MIGRATE | ActionKind.LIVE_MIGRATE:
                live, how = action.kind is ActionKind.LIVE_MIGRATE, int(action.migration_type)
                cloud.vm_migrate(ONEADMIN, action.vm_id, _host_of(action), live, enforce, datastore_id, how)
            case ActionKind.MESSAGE:
                text = write_template({name: [text] for name, text in action.attributes})
                cloud.vm_update(ONEADMIN, action.vm_id, text, APPEND)
            case ActionKind.LOCK:
                cloud.vm_lock(ONEADMIN, action.vm_id, int(PREEMPTION_LOCK))
            case ActionKind.UNLOCK:
                cloud.vm_unlock(ONEADMIN, action.vm_id)
            case kind if kind in _SIMPLE_ACTIONS:
                cloud.vm_action(ONEADMIN, kind.value, action.vm_id)
            case kind:
                raise ValueError(f"action {action.id}: no call of the simulated cloud carries out {kind}")


def _foreign_lock(action: Action, vm: SimVm) -> str:
    """Whose lock it is that LOCK must not replace and UNLOCK not take away, '' where there is none."""
    lock = vm.lock
    if lock is None:
        return "" if action.kind is ActionKind.LOCK else f"VM {vm.id} is not locked any more"
    if lock.level == PREEMPTION_LOCK and lock.owner_uid == action.lock_owner_uid:
        return ""
    return f"VM {vm.id} is locked by user {lock.owner_uid}: that is not our lock"


def _host_of(action: Action) -> int:
    if action.host_id is None:
        raise ValueError(f"action {action.id} names no host to {action.kind} to")
    return action.host_id


def _nics_of(action: Action) -> str:
    """The networks chosen for automatic NICs."""
    if not action.nics:
        return ""
    return "\n".join(
        f'NIC=[NIC_ID="{nic:d}",NETWORK_MODE="auto",NETWORK_ID="{network:d}"]' for nic, network in action.nics
    )
