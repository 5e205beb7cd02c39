r"""Where a lease stands, read off the states of its VMs and what the ledger says was done to it.

    WAITING -> STARTING -> RUNNING -> ENDED
                              |  \-> PAUSED_BY_OWNER (the owner suspended, stopped or powered off)
                              v      v
                           LEAVING -> PREEMPTED -> RETURNING -> RUNNING

What its owner had paused when it was sent out stays so: the others of its lease are PREEMPTED and return. Where all
were paused, the lease is PAUSED_BY_OWNER off its hosts as it was on them.

Nothing here is stored: after a crash the same observation gives the same state.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from enum import StrEnum
from operator import attrgetter

from one_preempt.core.model.lease import LeaseState
from one_preempt.core.model.virtual_machine import (
    FAILURE_STATES,
    OFF_HOST_STATES,
    SUSPENDED_STATES,
    LcmState,
    VirtualMachine,
    VmState,
)


class VmPhase(StrEnum):
    """What a VM is doing, as far as a scheduler cares."""

    WAITING = "waiting"
    STARTING = "starting"
    RUNNING = "running"
    LEAVING = "leaving"
    MOVING = "moving"
    OUT = "out"
    PAUSED = "paused"
    BUSY = "busy"
    FAILED = "failed"


_LEAVING = frozenset(
    {
        LcmState.SAVE_STOP,
        LcmState.EPILOG_STOP,
        LcmState.SHUTDOWN_UNDEPLOY,
        LcmState.EPILOG_UNDEPLOY,
        LcmState.SHUTDOWN,
        LcmState.EPILOG,
        LcmState.CLEANUP_DELETE,
    }
)
_STARTING = frozenset(
    {
        LcmState.LCM_INIT,
        LcmState.PROLOG,
        LcmState.BOOT,
        LcmState.PROLOG_RESUME,
        LcmState.PROLOG_UNDEPLOY,
        LcmState.BOOT_STOPPED,
        LcmState.BOOT_UNDEPLOY,
        LcmState.BOOT_POWEROFF,
        LcmState.BOOT_SUSPENDED,
        LcmState.BOOT_UNKNOWN,
        LcmState.CLEANUP_RESUBMIT,
    }
)
_MOVING = frozenset(
    {
        LcmState.MIGRATE,
        LcmState.SAVE_MIGRATE,
        LcmState.PROLOG_MIGRATE,
        LcmState.BOOT_MIGRATE,
        LcmState.PROLOG_MIGRATE_POWEROFF,
        LcmState.PROLOG_MIGRATE_UNKNOWN,
    }
)
_states_of = attrgetter("state", "lcm_state")
_ACTIVE = VmState.ACTIVE
_WAITING_PHASE, _LEAVING_PHASE, _FAILED_PHASE = VmPhase.WAITING, VmPhase.LEAVING, VmPhase.FAILED
_WAITING_LEASE, _RUNNING_LEASE = LeaseState.WAITING, LeaseState.RUNNING
_AT_WORK = frozenset({VmPhase.RUNNING, VmPhase.MOVING, VmPhase.BUSY})
_AWAY = frozenset({VmPhase.PAUSED, VmPhase.OUT})
_PHASES = {
    VmState.PENDING: VmPhase.WAITING,
    VmState.HOLD: VmPhase.WAITING,
    VmState.CLONING: VmPhase.WAITING,
    VmState.INIT: VmPhase.WAITING,
    VmState.STOPPED: VmPhase.OUT,
    VmState.UNDEPLOYED: VmPhase.OUT,
    VmState.SUSPENDED: VmPhase.PAUSED,
    VmState.POWEROFF: VmPhase.PAUSED,
    VmState.CLONING_FAILURE: VmPhase.FAILED,
    VmState.DONE: VmPhase.LEAVING,
}
_ACTIVE_PHASES: dict[int, VmPhase] = {
    **dict.fromkeys(_STARTING, VmPhase.STARTING),
    **dict.fromkeys(_LEAVING, VmPhase.LEAVING),
    **dict.fromkeys(_MOVING, VmPhase.MOVING),
    **dict.fromkeys(FAILURE_STATES, VmPhase.FAILED),
    **dict.fromkeys(OFF_HOST_STATES, VmPhase.OUT),
    **dict.fromkeys(SUSPENDED_STATES, VmPhase.PAUSED),
    LcmState.RUNNING: VmPhase.RUNNING,
}


def phase_of(vm: VirtualMachine) -> VmPhase:
    """The phase of one VM. BUSY: running, but in the middle of a snapshot, backup, hotplug or shutdown."""
    if vm.state is not _ACTIVE:
        return _PHASES[vm.state]
    return _ACTIVE_PHASES.get(vm.lcm_state) or VmPhase.BUSY


def may_be_sent_out(vm: VirtualMachine) -> bool:
    """It runs, or its owner paused it where it is: oned takes a call that brings it off its host."""
    return vm.is_at_rest or phase_of(vm) is VmPhase.RUNNING


def phases_of(vms: Iterable[VirtualMachine]) -> frozenset[VmPhase]:
    """What VMs are doing, each phase once."""
    members = tuple(vms)
    # Those of a gang are mostly all in the same state.
    one_in_each = dict(zip(map(_states_of, members), members, strict=True))
    return frozenset(map(phase_of, one_in_each.values()))


def phase_in_place(vm: VirtualMachine) -> VmPhase:
    """The phase of a VM that we suspended on its host: LEAVING while it is saved, and then OUT."""
    if vm.is_suspended:
        return VmPhase.OUT
    saved = vm.state == VmState.ACTIVE and vm.lcm_state == LcmState.SAVE_SUSPEND
    return VmPhase.LEAVING if saved else phase_of(vm)


def lease_state(
    vms: Iterable[VirtualMachine], *, preempted: bool, in_place: Container[int] = (), paused: Container[int] = ()
) -> LeaseState:
    """The state of a lease from its members; `preempted`: we sent it out and it is not back yet.

    `in_place` are the ids of VMs that we suspended on their hosts, `paused` of those that their owner has paused: once
    they are off their hosts, the others alone tell whether the lease is back.
    """
    if preempted and paused:
        vms = [vm for vm in vms if vm.holds_capacity or vm.id not in paused]
        if not vms:
            return LeaseState.PAUSED_BY_OWNER
    if in_place:
        phases = frozenset([phase_in_place(vm) if vm.id in in_place else phase_of(vm) for vm in vms])
    else:
        phases = phases_of(vms)
    if not phases:
        return LeaseState.ENDED
    if _FAILED_PHASE in phases:
        return LeaseState.FAILED
    if preempted:
        return _preempted_state(phases)
    if _LEAVING_PHASE in phases:
        return LeaseState.LEAVING
    if phases & _AWAY:
        return LeaseState.PAUSED_BY_OWNER
    if phases <= _AT_WORK:
        return _RUNNING_LEASE
    return _WAITING_LEASE if phases == {_WAITING_PHASE} else LeaseState.STARTING


def _preempted_state(phases: frozenset[VmPhase]) -> LeaseState:
    if phases & {VmPhase.LEAVING}:
        return LeaseState.LEAVING
    if phases <= {VmPhase.OUT, VmPhase.WAITING}:
        return LeaseState.PREEMPTED
    if phases <= _AT_WORK:
        return LeaseState.RUNNING
    return LeaseState.PAUSED_BY_OWNER if VmPhase.PAUSED in phases else LeaseState.RETURNING
