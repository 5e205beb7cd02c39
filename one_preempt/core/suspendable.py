"""Which running leases may be taken off their hosts for what was promised a start (VW07 6.1, SR11)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from one_preempt.core.model.cluster_state import ClusterState
from one_preempt.core.model.lease import Lease, LeaseState, PreemptionMethod
from one_preempt.core.model.modes_and_limits import Mode
from one_preempt.core.model.pool_snapshot import PoolSnapshot
from one_preempt.core.model.time_rules import Overrun, Suspension
from one_preempt.core.model.virtual_machine import VirtualMachine
from one_preempt.core.overhead.planning import leave_s, start_s
from one_preempt.core.overhead.rates import RatesByStorage
from one_preempt.core.policies import Policies
from one_preempt.core.preemption.nop import POLICY as NOP
from one_preempt.core.tried_in_vain import methods_in_vain
from one_preempt.core.victims import (
    first_methods_of,
    has_overrun,
    is_guarded,
    is_shielded,
    kinds_of,
    on_hosts,
    undisturbed_s,
    why_never,
)

_PAUSED, _FAILED = LeaseState.PAUSED_BY_OWNER, LeaseState.FAILED
_ACT, _NEVER, _SERIAL_ONLY, _PREEMPT = Mode.ACT, Suspension.NONE, Suspension.SERIAL_ONLY, Overrun.PREEMPT


def ways_out(state: ClusterState, policies: Policies, lease: Lease) -> tuple[PreemptionMethod, ...] | None:
    """How each VM of a lease would leave for a reservation; None where the lease does not give way to it.

    Of one that its owner has paused only those VMs count that are on hosts.

    It does by its type, or because it overruns, where no lock, limit or mode spares it. While its DURATION lasts, a
    lease with a deadline holds its room firmly: whether it can be moved in time is looked at when it is chosen. By a
    method that was tried in vain lately it leaves only where it has no other one.
    """
    rules = policies.time
    forbidden = policies.limits.victims_per_hour == 0 or policies.preemption.name == NOP.name
    if policies.mode is not _ACT or state.paused or forbidden or rules.suspension is _NEVER:
        return None
    overrun = rules.overrun is _PREEMPT and has_overrun(lease, state.now_s)
    if lease.promised_deadline_at_s is not None and not overrun:
        return None
    if rules.suspension is _SERIAL_ONLY and lease.terms.size > 1:
        return None
    if lease.state is _FAILED or (lease.state is _PAUSED and not policies.victims.paused_by_owner):
        return None
    if not overrun and (not lease.terms.type.preemptable or is_guarded(lease)):
        return None
    vms = [state.snapshot.vms[vm_id] for vm_id in lease.vm_ids]
    kinds = kinds_of(state.snapshot, on_hosts(state.snapshot, lease) if lease.state is _PAUSED else vms)
    if any(is_shielded(vm, lease) or why_never(vm, lease, policies.victims) for vm, _ in kinds):
        return None
    in_vain = methods_in_vain(state, policies.limits).get(lease.id)
    another = first_methods_of(state.snapshot, lease, kinds, policies.victims, in_vain) if in_vain else None
    return another or first_methods_of(state.snapshot, lease, kinds, policies.victims)


def are_on_shared_storage(snapshot: PoolSnapshot, vms: Iterable[VirtualMachine]) -> bool:
    """None of them has its memory image written to the disks of one host, as far as that is known."""
    stores = map(snapshot.datastores.get, {vm.history[-1].datastore_id for vm in vms if vm.history})
    return not [store for store in stores if store is not None and not store.shared]


def worth_s(
    policies: Policies,
    rates: RatesByStorage,
    lease: Lease,
    vms: Sequence[VirtualMachine],
    methods: Sequence[PreemptionMethod],
) -> int:
    """How many seconds a lease must have to be worth starting: its overheads, and a run of some length, at least 1 s.

    `methods`, one for each VM of the lease, are how it would leave again, which must be over before its room is needed.
    """
    rules = policies.time
    run_s = max(1, rules.least_run_before_suspension_s, undisturbed_s(lease, policies.limits))
    leaving = dict(zip(lease.vm_ids, methods, strict=True))
    in_flight = policies.limits.victims_in_flight
    leaves_s = leave_s(((vm, leaving[vm.id]) for vm in vms), rates, rules.exclusion, in_flight)
    return start_s(vms, rates, rules.exclusion) + run_s + rules.grace_s + leaves_s + rules.preparation_margin_s
