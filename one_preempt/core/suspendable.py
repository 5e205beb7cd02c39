"""Which running leases may be taken off their hosts for what was promised a start (VW07 6.1, SR11)."""

from __future__ import annotations

from collections.abc import Sequence

from one_preempt.core.model.cluster_state import ClusterState
from one_preempt.core.model.lease import Lease, LeaseState
from one_preempt.core.model.policies import Mode
from one_preempt.core.model.time_rules import Overrun, Suspension
from one_preempt.core.model.virtual_machine import VirtualMachine
from one_preempt.core.overhead.planning import start_s
from one_preempt.core.overhead.rates import RatesByStorage
from one_preempt.core.policies import Policies
from one_preempt.core.preemption.nop import POLICY as NOP
from one_preempt.core.victims import first_methods, has_overrun, is_guarded, is_shielded, undisturbed_s, why_never


def is_suspendable(state: ClusterState, policies: Policies, lease: Lease) -> bool:
    """It gives way to a reservation: by its type or because it overruns, not spared by a lock, limit or mode.

    A lease with a deadline holds its room firmly: whether it can be moved in time is looked at when it is chosen.
    """
    rules = policies.time
    forbidden = policies.limits.victims_per_hour == 0 or policies.preemption.name == NOP.name
    if policies.mode is not Mode.ACT or state.paused or forbidden or rules.suspension is Suspension.NONE:
        return False
    if lease.promised_deadline_at_s is not None:
        return False
    if rules.suspension is Suspension.SERIAL_ONLY and lease.terms.size > 1:
        return False
    if lease.state in (LeaseState.PAUSED_BY_OWNER, LeaseState.FAILED):
        return False
    overrun = rules.overrun is Overrun.PREEMPT and has_overrun(lease, state.now_s)
    if not overrun and (not lease.terms.type.preemptable or is_guarded(lease)):
        return False
    vms = [state.snapshot.vms[vm_id] for vm_id in lease.vm_ids]
    if any(is_shielded(vm, lease) or why_never(vm, lease, policies.victims) for vm in vms):
        return False
    return first_methods(state.snapshot, lease, vms, policies.victims) is not None


def may_be_suspended_later(
    state: ClusterState, policies: Policies, rates: RatesByStorage, lease: Lease, vms: Sequence[VirtualMachine]
) -> int | None:
    """How many seconds a lease must have to be worth starting before it gives way; None: it never gives way."""
    return worth_s(policies, rates, lease, vms) if is_suspendable(state, policies, lease) else None


def worth_s(policies: Policies, rates: RatesByStorage, lease: Lease, vms: Sequence[VirtualMachine]) -> int:
    """How many seconds, at least 1, a lease must have to be worth starting: its overheads, and a run of some length."""
    rules = policies.time
    overheads_s = start_s(vms, rates, rules.exclusion)
    return max(1, overheads_s + max(rules.least_run_before_suspension_s, undisturbed_s(lease, policies.limits)))
