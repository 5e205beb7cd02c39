"""When whoever is on a host will have left it of his own accord, as far as anybody knows."""

from __future__ import annotations

from one_preempt.core.availability.timeline import Stay
from one_preempt.core.model.lease import Lease
from one_preempt.core.model.virtual_machine import VirtualMachine
from one_preempt.core.phases.draft import PlanDraft
from one_preempt.core.victims import has_overrun


def ends_s_of(draft: PlanDraft, vm: VirtualMachine) -> int | None:
    """When a VM will have left its host; None where nobody knows."""
    lease = draft.state.leases.get(draft.state.lease_of_vm.get(vm.id, -1))
    stays = () if lease is None else draft.timeline.stays.get(lease.id, ())
    return known_end_s(draft, lease, stays[0]) if lease is not None and stays else None


def known_end_s(draft: PlanDraft, lease: Lease, stay: Stay) -> int | None:
    """When a lease that is in this stay will have left its hosts.

    None where nobody knows, as of what outlives its DURATION and is expected to end any second, by the queue alone.
    """
    any_second = stay.end_s == draft.state.now_s + 1 and not stay.firm
    return None if any_second and has_overrun(lease, draft.state.now_s) else stay.end_s


def has_ended_by(draft: PlanDraft, lease: Lease, at_s: int) -> bool:
    """It will have left its hosts of its own accord, or by the rule for what outlives its DURATION."""
    stays = draft.timeline.stays.get(lease.id, ())
    end_s = known_end_s(draft, lease, stays[0]) if stays and stays[0].start_s <= draft.state.now_s else None
    return end_s is not None and end_s <= at_s
