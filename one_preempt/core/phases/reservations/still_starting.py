"""Members of a gang that are still to start: its START has come, and others of it are on their hosts already."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from one_preempt.core.availability.timeline import Stay
from one_preempt.core.memory.lease_concerns import Concern
from one_preempt.core.model.lease import Lease
from one_preempt.core.observed_room import amounts_of, hosts_of_members
from one_preempt.core.phases.draft import PlanDraft


@contextmanager
def their_hosts_kept(draft: PlanDraft) -> Iterator[None]:
    """Meanwhile nobody is promised the hosts that those members were promised and are not on yet.

    What the timeline has of such a gang is where it is; the rest is given to it once reservations are kept.
    """
    before: dict[int, tuple[Stay, ...]] = {}
    for lease in draft.concerns.ordered(Concern.HALF_STARTED):
        for stay in _still_to_come(draft, lease):
            before.setdefault(lease.id, draft.timeline.stays.get(lease.id, ()))
            draft.timeline.hold_beside(stay)
    try:
        yield
    finally:
        for lease_id, stays in before.items():
            draft.timeline.replace(lease_id, stays)


def _still_to_come(draft: PlanDraft, lease: Lease) -> Iterator[Stay]:
    """What is left from now on of its promises that have begun, for its members that are on no host."""
    if not draft.is_accepted(lease):
        return
    vms, now_s, row_of_host = draft.members(lease), draft.state.now_s, draft.state.hosts.index_by_id
    for one in draft.state.reservations.get(lease.id, ()):
        host_ids = hosts_of_members(draft.state, lease, one)
        has_begun = one.start_at_s <= now_s and (one.end_at_s is None or one.end_at_s > now_s)
        if not one.firm or not has_begun or len(host_ids) != len(vms):
            continue
        waiting = [
            (vm, row)
            for vm, host_id in zip(vms, host_ids, strict=True)
            if vm.host_id is None and (row := row_of_host.get(host_id)) is not None
        ]
        if waiting:
            rows = tuple(row for _, row in waiting)
            yield Stay(lease.id, now_s, one.end_at_s, rows, amounts_of([vm for vm, _ in waiting]), firm=True)
