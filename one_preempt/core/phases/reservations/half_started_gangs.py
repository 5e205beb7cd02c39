"""Members of a gang that are still to start: its START has come, and others of it are on their hosts already."""

from __future__ import annotations

from collections.abc import Iterable

from one_preempt.core.availability.timeline import Stay
from one_preempt.core.memory.lease_concerns import Concern
from one_preempt.core.model.lease import Lease
from one_preempt.core.observed_room import amounts_of, hosts_of_members, keeps_reservations
from one_preempt.core.phases.draft import PlanDraft


def keep_hosts_of_half_started_gangs(draft: PlanDraft) -> None:
    """Nobody else has, or is promised, the hosts that those members were promised and are not on yet.

    What the timeline was told of such a gang is where it is, and what lies ahead as a whole.
    """
    for lease in draft.concerns.ordered(Concern.HALF_STARTED):
        rest = _still_to_come(draft, lease)
        if rest is not None:
            known = draft.timeline.stays.get(lease.id, ())
            draft.timeline.replace(lease.id, tuple(sorted((*known, rest), key=lambda stay: stay.start_s)))


def without_the_rest(stays: Iterable[Stay]) -> tuple[Stay, ...]:
    """The stays of a gang but for what is kept for its members that are still to start."""
    return tuple(stay for stay in stays if not stay.vm_ids or stay.displaced)


def _still_to_come(draft: PlanDraft, lease: Lease) -> Stay | None:
    """What is left from now on of its promise that has begun, for its members that are on no host.

    In the very second of its start all of it still lies ahead.
    """
    if not keeps_reservations(lease):
        return None
    vms, now_s, hosts = draft.members(lease), draft.state.now_s, draft.state.hosts
    row_of_host, accepts_vms = hosts.index_by_id, hosts.accepts_vms
    for one in draft.state.reservations.get(lease.id, ()):
        host_ids = hosts_of_members(draft.state, lease, one)
        has_begun = one.start_at_s < now_s and (one.end_at_s is None or one.end_at_s > now_s)
        if not one.firm or not has_begun or len(host_ids) != len(vms):
            continue
        waiting = [
            (vm, row)
            for vm, host_id in zip(vms, host_ids, strict=True)
            if vm.host_id is None and (row := row_of_host.get(host_id)) is not None and accepts_vms[row]
        ]
        if not waiting or all(vm.host_id is None for vm in vms):
            return None
        rows, amounts = tuple(row for _, row in waiting), amounts_of([vm for vm, _ in waiting])
        return Stay(lease.id, now_s, one.end_at_s, rows, amounts, firm=True, vm_ids=tuple(vm.id for vm, _ in waiting))
    return None
