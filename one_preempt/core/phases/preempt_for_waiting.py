"""Who leaves so that a request which may preempt, and fits nowhere, can start (CCPE13 section 6)."""

from __future__ import annotations

from collections.abc import Sequence

from one_preempt.core.memory.lease_concerns import Concern
from one_preempt.core.model.lease import Lease
from one_preempt.core.model.plan import Reason
from one_preempt.core.phases.draft import PlanDraft
from one_preempt.core.phases.preempting.room_made import CHOICES_A_CYCLE, decide_who_leaves
from one_preempt.core.phases.queue.turns import waiting_leases
from one_preempt.core.phases.queue.turns_by_lot import drawn_place
from one_preempt.core.phases.reservations.in_danger import IN_DANGER
from one_preempt.core.phases.reservations.stays import expected_end_s
from one_preempt.core.phases.room_wanted import RoomWanted


def preempt_for_waiting(draft: PlanDraft) -> None:
    """Decide a preemption for each request that may preempt and was not placed, in queue order."""
    preempting = draft.concerns.all(Concern.PREEMPTS).keys() & draft.lacking_room
    if not preempting:
        return
    requests = [lease for lease in waiting_leases(draft) if lease.id in preempting]
    for lease in looked_at_in_turn(requests, draft.state.now_s):
        vms, now_s = tuple(draft.startable(lease)), draft.state.now_s
        obstacle = decide_who_leaves(draft, RoomWanted(lease, vms, now_s, expected_end_s(draft, lease, vms, now_s)))
        if obstacle is not None:
            told = draft.waits.get(lease.id)
            if told is not None and told.code == IN_DANGER:
                # What was promised a time stays in danger, whatever keeps others from leaving for it.
                obstacle = Reason(IN_DANGER, f"{told.text}; {obstacle.text}")
            draft.waits[lease.id] = obstacle


def looked_at_in_turn(requests: Sequence[Lease], now_s: int) -> Sequence[Lease]:
    """The queue's order, but that the last look of a cycle goes to anyone behind those who get the others.

    Else a few at the head for whom nobody can make room would keep all behind them from ever being looked at.
    """
    first, behind = requests[: CHOICES_A_CYCLE - 1], list(requests[CHOICES_A_CYCLE - 1 :])
    if len(behind) < 2:
        return requests
    drawn = behind.pop(drawn_place(len(behind), now_s))
    return (*first, drawn, *behind)
