"""How early others must begin to leave for what starts later: overheads have reservations of their own (VW07 5).

The preparations of all reservations are laid down before anything new is decided, each as late as the next one allows,
so that two that start at the same time do not count on the same minutes.
"""

from __future__ import annotations

from one_preempt.core.model.lease import LeaseState
from one_preempt.core.phases.draft import PlanDraft
from one_preempt.core.phases.reservations.giving_way import alone_from_the_start
from one_preempt.core.phases.reservations.leaving_in_time import prepare, who_must_leave
from one_preempt.core.phases.reservations.promised import promised_leases, standing_stays


def plan_preparations(draft: PlanDraft) -> None:
    """Lay what must be done before each accepted reservation into the lanes, the last to start first.

    Nobody leaves for one that has lost a host, and could not start on those that are left, nor for who preempts nobody.
    """
    now_s = draft.state.now_s
    waiting = [lease for lease in promised_leases(draft) if lease.state is LeaseState.WAITING]
    first = [(standing_stays(draft, lease)[:1], lease) for lease in waiting]
    coming = [(stay, lease) for stays, lease in first for stay in stays if stay.start_s > now_s]
    alone = alone_from_the_start(draft, [stay for stay, _ in coming])
    disturbed = [(stay, lease) for stay, lease in coming if lease.preempts and lease.id not in alone]
    for stay, lease in sorted(disturbed, key=lambda one: (-one[0].start_s, one[1].id)):
        prepare(draft, lease.id, stay.start_s, who_must_leave(draft, lease, stay))
