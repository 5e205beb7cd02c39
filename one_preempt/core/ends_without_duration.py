"""When VMs will have left their hosts though no DURATION tells: they are on their way out, or are made to leave."""

from __future__ import annotations

from collections.abc import Sequence

from one_preempt.core.model.cluster_state import ClusterState
from one_preempt.core.model.lease import Lease, PreemptionMethod
from one_preempt.core.model.lease_lifecycle import VmPhase, phase_of, phases_of
from one_preempt.core.model.modes_and_limits import Mode
from one_preempt.core.model.plan import ActionKind
from one_preempt.core.model.pool_snapshot import PoolSnapshot
from one_preempt.core.model.time_rules import Overrun
from one_preempt.core.model.virtual_machine import LcmState, LockLevel, VirtualMachine
from one_preempt.core.overhead.planning import leave_s
from one_preempt.core.overhead.rates import RatesByStorage
from one_preempt.core.policies import Policies
from one_preempt.core.victims import method_is_possible

OVERRUNS_ENDED_BY = {Overrun.STOP: ActionKind.STOP, Overrun.TERMINATE: ActionKind.TERMINATE}
_METHODS = {ActionKind.STOP: PreemptionMethod.STOP, ActionKind.TERMINATE: PreemptionMethod.TERMINATE}
_SAVED = frozenset({LcmState.SAVE_STOP, LcmState.EPILOG_STOP})
_UNDEPLOYED = frozenset({LcmState.SHUTDOWN_UNDEPLOY, LcmState.EPILOG_UNDEPLOY})
_LEAVING, _RUNNING = frozenset({VmPhase.LEAVING}), frozenset({VmPhase.RUNNING})
_WHOLE_S = 60


def leaving_until_s(
    state: ClusterState, policies: Policies, rates: RatesByStorage, vms: Sequence[VirtualMachine]
) -> int | None:
    """When VMs on hosts will be gone that are all on their way out; None where some are not.

    Nobody knows since when they are, so it is counted from now on. It is a whole minute, so that it is not said anew in
    every cycle.
    """
    if phases_of(vms) != _LEAVING:
        return None
    rules, leaving = policies.time, [(vm, _way_out(vm)) for vm in vms]
    gone_at_s = state.now_s + leave_s(leaving, rates, rules.exclusion) + rules.preparation_margin_s
    return -(-(gone_at_s + 1) // _WHOLE_S) * _WHOLE_S


def _way_out(vm: VirtualMachine) -> PreemptionMethod:
    if vm.lcm_state in _SAVED:
        return PreemptionMethod.STOP
    return PreemptionMethod.UNDEPLOY if vm.lcm_state in _UNDEPLOYED else PreemptionMethod.TERMINATE


def overrun_until_s(
    state: ClusterState, policies: Policies, rates: RatesByStorage, lease: Lease, vms: Sequence[VirtualMachine]
) -> int | None:
    """When a lease that has outlived its DURATION will be gone from the hosts of `vms`, by the rule for overruns.

    None where nothing ends it, or did not when it should have.
    """
    rules, kind = policies.time, OVERRUNS_ENDED_BY.get(policies.time.overrun)
    ended_in_s, end_at_s = rules.overruns_are_ended_in_s, lease.expected_end_at_s
    if kind is None or ended_in_s is None or end_at_s is None or state.now_s > end_at_s + ended_in_s:
        return None
    if policies.mode is not Mode.ACT or state.paused or phases_of(vms) != _RUNNING:
        return None
    if any(is_beyond_ending(state.snapshot, lease, vm, kind) for vm in vms):
        return None
    takes_s = leave_s([(vm, _METHODS[kind]) for vm in vms], rates, rules.exclusion)
    return max(end_at_s + ended_in_s + takes_s, state.now_s + 2)


def is_beyond_ending(snapshot: PoolSnapshot, lease: Lease, vm: VirtualMachine, kind: ActionKind) -> bool:
    """It runs, and a lock or what it is made of keeps it from leaving in this way."""
    if phase_of(vm) is not VmPhase.RUNNING:
        return False
    stoppable = kind is not ActionKind.STOP or method_is_possible(snapshot, vm, lease, PreemptionMethod.STOP)
    return vm.lock_level is not LockLevel.NONE or not stoppable
