"""One action of a plan, carried out by XML-RPC: look at the VM again, then call once."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from one_preempt.adapters.opennebula.message_template import ForbiddenAttribute, message_template
from one_preempt.adapters.opennebula.oned_errors import OnedError
from one_preempt.adapters.opennebula.pyone_server import pyone_server
from one_preempt.adapters.opennebula.transport import OnedTransport
from one_preempt.core.model.outcome import Outcome
from one_preempt.core.model.plan import Action, ActionKind
from one_preempt.core.model.virtual_machine import PREEMPTION_LOCK, LockLevel, VirtualMachine, VmState
from one_preempt.ports import CHANGED_HANDS, CallResult, CloudUnavailable, PoolReader, VmNotTold

OWN_CHOICE = -1  # lets oned choose the datastore
APPEND = 1  # one.vm.update: add to the user template, keep the rest
NO_ANSWER = "NO_ANSWER"
FORBIDDEN_ATTRIBUTE = "FORBIDDEN_ATTRIBUTE"

_SIMPLE_ACTIONS = frozenset({
    ActionKind.SUSPEND, ActionKind.STOP, ActionKind.UNDEPLOY, ActionKind.TERMINATE, ActionKind.RESUME,
    ActionKind.HOLD,
})  # fmt: skip


class OpenNebulaEnactor:
    """Implements `ports.Enactor`."""

    def __init__(self, transport: OnedTransport, reader: PoolReader) -> None:
        self._transport = transport
        self._reader = reader

    def perform(self, action: Action) -> CallResult:
        """Carry out `action`, unless its VM is not as the plan expects it."""
        try:
            changed = self._changed_hands(action)
            if changed:
                return CallResult(Outcome.DROPPED, CHANGED_HANDS, changed)
            self._call(action)
        except CloudUnavailable as error:
            return CallResult(Outcome.UNKNOWN, NO_ANSWER, str(error))
        except VmNotTold as error:
            return CallResult(Outcome.DROPPED, error.code, str(error))
        except OnedError as error:
            return CallResult(Outcome.REFUSED, error.code_name, error.text)
        except ForbiddenAttribute as error:
            return CallResult(Outcome.DROPPED, FORBIDDEN_ATTRIBUTE, str(error))
        return CallResult(Outcome.ACCEPTED)

    @cached_property
    def _server(self) -> Any:
        return pyone_server(self._transport)

    def _changed_hands(self, action: Action) -> str:
        """Why the VM is not ours to act on any more, '' where it is as expected."""
        vm = self._reader.read_vm(action.vm_id)
        if vm is None or vm.state == VmState.DONE:
            return f"VM {action.vm_id} does not exist any more"
        if action.expected_states and vm.state_name not in action.expected_states:
            return f"VM {vm.id} is {vm.state_name}, expected was {' or '.join(action.expected_states)}"
        if action.expected_uid is not None and vm.uid != action.expected_uid:
            return f"VM {vm.id} belongs to user {vm.uid} now, expected was user {action.expected_uid}"
        return _foreign_lock(action, vm)

    def _call(self, action: Action) -> None:
        vm = self._server.vm
        match action.kind:
            case ActionKind.DEPLOY:
                vm.deploy(
                    action.vm_id, _host_of(action), action.enforce_capacity, _datastore_of(action), _nics_of(action)
                )
            case ActionKind.MIGRATE | ActionKind.LIVE_MIGRATE:
                live = action.kind is ActionKind.LIVE_MIGRATE
                enforce, datastore = action.enforce_capacity, _datastore_of(action)
                vm.migrate(action.vm_id, _host_of(action), live, enforce, datastore, int(action.migration_type))
            case ActionKind.MESSAGE:
                vm.update(action.vm_id, message_template(action.attributes), APPEND)
            case ActionKind.LOCK:
                vm.lock(action.vm_id, int(PREEMPTION_LOCK))
            case ActionKind.UNLOCK:
                vm.unlock(action.vm_id)
            case kind if kind in _SIMPLE_ACTIONS:
                vm.action(kind.value, action.vm_id)
            case kind:
                raise ValueError(f"action {action.id}: no call of oned carries out {kind}")


def _foreign_lock(action: Action, vm: VirtualMachine) -> str:
    """Whose lock it is that must be neither replaced nor taken away, '' where there is none."""
    if action.kind not in (ActionKind.LOCK, ActionKind.UNLOCK):
        return ""
    own = action.lock_owner_uid is not None and vm.is_locked_by_scheduler(action.lock_owner_uid)
    if own or (action.kind is ActionKind.LOCK and vm.lock_level is LockLevel.NONE):
        return ""
    if vm.lock_level is LockLevel.NONE:
        return f"VM {vm.id} is not locked any more"
    return f"VM {vm.id} is locked by user {vm.lock_owner_uid} ({vm.lock_level.name}): that is not our lock"


def _host_of(action: Action) -> int:
    if action.host_id is None:
        raise ValueError(f"action {action.id} names no host to {action.kind} to")
    return action.host_id


def _datastore_of(action: Action) -> int:
    return OWN_CHOICE if action.datastore_id is None else action.datastore_id


def _nics_of(action: Action) -> str:
    """The networks chosen for automatic NICs, in oned's template language; numbers cannot break out of it."""
    return "\n".join(
        f'NIC=[NIC_ID="{nic:d}",NETWORK_MODE="auto",NETWORK_ID="{network:d}"]' for nic, network in action.nics
    )
