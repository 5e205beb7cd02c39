"""Which operation of a driver belongs to each state under way, and on which host."""

from __future__ import annotations

from one_preempt.simulation.simulated_cloud.durations import Durations, Operation
from one_preempt.simulation.simulated_cloud.objects import SimVm
from one_preempt.simulation.simulated_cloud.states import HistoryAction, LcmState

_L = LcmState
OPERATIONS = {
    _L.PROLOG: Operation.PROLOG,
    _L.PROLOG_RESUME: Operation.PROLOG_RESUME,
    _L.PROLOG_UNDEPLOY: Operation.PROLOG_RESUME,
    _L.PROLOG_MIGRATE: Operation.PROLOG_MIGRATE,
    _L.PROLOG_MIGRATE_POWEROFF: Operation.PROLOG_MIGRATE,
    _L.PROLOG_MIGRATE_SUSPEND: Operation.PROLOG_MIGRATE,
    _L.PROLOG_MIGRATE_UNKNOWN: Operation.PROLOG_MIGRATE,
    _L.BOOT: Operation.BOOT,
    _L.BOOT_UNKNOWN: Operation.BOOT,
    _L.BOOT_POWEROFF: Operation.BOOT,
    _L.BOOT_UNDEPLOY: Operation.BOOT,
    _L.BOOT_SUSPENDED: Operation.RESTORE,
    _L.BOOT_STOPPED: Operation.RESTORE,
    _L.BOOT_MIGRATE: Operation.RESTORE,
    _L.MIGRATE: Operation.LIVE_MIGRATE,
    _L.SAVE_STOP: Operation.SAVE,
    _L.SAVE_SUSPEND: Operation.SAVE,
    _L.SAVE_MIGRATE: Operation.SAVE,
    _L.SHUTDOWN: Operation.SHUTDOWN,
    _L.SHUTDOWN_POWEROFF: Operation.SHUTDOWN,
    _L.SHUTDOWN_UNDEPLOY: Operation.SHUTDOWN,
    _L.EPILOG: Operation.EPILOG,
    _L.EPILOG_STOP: Operation.EPILOG_STOP,
    _L.EPILOG_UNDEPLOY: Operation.EPILOG_STOP,
}
_HARD_ACTIONS = frozenset(
    {
        HistoryAction.POWEROFF_HARD,
        HistoryAction.UNDEPLOY_HARD,
        HistoryAction.TERMINATE_HARD,
        HistoryAction.POWEROFF_HARD_MIGRATE,
    }
)
POWEROFF_MIGRATIONS = (HistoryAction.POWEROFF_MIGRATE, HistoryAction.POWEROFF_HARD_MIGRATE)
# What the driver may do in place of an operation, by what was asked for.
_INSTEAD_OF = {
    Operation.SHUTDOWN: (Operation.CANCEL,),
    Operation.SAVE: (Operation.CANCEL, Operation.SHUTDOWN),
}
_LEAVES_HOST = frozenset({_L.SAVE_MIGRATE, _L.MIGRATE})


def instant_states(durations: Durations) -> frozenset[LcmState]:
    """The states of which the work takes no time, whichever of its operations that is."""
    instant = durations.instant_operations()
    return frozenset(
        state
        for state, operation in OPERATIONS.items()
        if instant.issuperset((operation, *_INSTEAD_OF.get(operation, ())))
    )


def operation_of(vm: SimVm, state: LcmState) -> Operation:
    """What the driver does for a VM that enters `state`."""
    operation = OPERATIONS[state]
    if operation not in _INSTEAD_OF:
        return operation
    action = vm.history[-1].action
    if operation == Operation.SHUTDOWN and action in _HARD_ACTIONS:
        return Operation.CANCEL
    if state == _L.SAVE_MIGRATE and action in POWEROFF_MIGRATIONS:
        return Operation.CANCEL if action == HistoryAction.POWEROFF_HARD_MIGRATE else Operation.SHUTDOWN
    return operation


def host_of(vm: SimVm, state: LcmState) -> int:
    """The host whose driver is at work: what moves is taken off the one before."""
    return vm.history[-2 if state in _LEAVES_HOST else -1].host_id
