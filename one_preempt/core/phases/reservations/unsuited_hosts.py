"""Hosts that were promised to a lease and do not suit it any more.

Its owner has written other SCHED_REQUIREMENTS since, or an administrator has given the host other attributes or another
cluster, or taken the right to use it away.
"""

from __future__ import annotations

from msgspec.structs import replace

from one_preempt.core.model.lease import Lease
from one_preempt.core.model.virtual_machine import VirtualMachine
from one_preempt.core.phases.draft import PlanDraft
from one_preempt.core.phases.reservations.promised import standing_stays
from one_preempt.core.phases.reservations.stays import vms_of_stay


def has_unsuited_host(draft: PlanDraft, lease: Lease) -> bool:
    """One of the hosts that it was firmly promised takes VMs, and surely not the one of the lease that is to go there.

    Nothing is sure of a host that sleeps or is lost, for then oned does not tell its attributes; nor of requirements
    that speak of what goes on there. A gang of which some have begun goes on where it is.
    """
    known = draft.timeline.stays.get(lease.id, ())
    follows_from = (lease, known, draft.matchmaker.matched_at)
    if draft.memory.suited.holds(lease.id, follows_from):
        return False
    stays = [stay for stay in known if stay.firm]
    if not stays:
        return False
    vms = draft.startable(lease)
    if len(vms) < len(lease.vm_ids):
        return False
    if draft.matchmaker.are_alike(vms):
        rows = [row for stay in stays for row in stay.host_rows]
        # Nearly always all of them suit it, which is seen at once. If they do not any more by their load alone, that
        # is not sure.
        if draft.matchmaker.match(vms[0]).mask[rows].all():
            draft.memory.suited.keep(lease.id, follows_from, len(draft.state.leases))
            return False
        return any(_is_unsuited(draft, vms[0], row) for row in rows)
    pairs = {
        (vm.id, row): vm
        for stay in stays
        for vm, row in zip(vms_of_stay(draft, stay, vms), stay.host_rows, strict=False)
    }
    return any(_is_unsuited(draft, vm, row) for (_, row), vm in pairs.items())


def set_apart(draft: PlanDraft, lease: Lease) -> None:
    """What is still promised to it on such hosts is kept from others, and nothing is done for it there."""
    if standing_stays(draft, lease) and has_unsuited_host(draft, lease):
        stays = draft.timeline.stays[lease.id]
        kept = [replace(stay, displaced=True, vm_ids=stay.vm_ids or lease.vm_ids) for stay in stays if stay.firm]
        draft.timeline.replace(lease.id, tuple(kept))


def _is_unsuited(draft: PlanDraft, vm: VirtualMachine, row: int) -> bool:
    match = draft.matchmaker.match(vm)
    if match.mask[row] or match.is_put_off or match.follows_load or match.follows_current_vms or not vm.extended:
        return False
    return draft.state.snapshot.hosts[int(draft.state.hosts.ids[row])].accepts_vms
