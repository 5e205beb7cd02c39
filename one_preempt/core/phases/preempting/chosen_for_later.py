"""What was chosen for a start to come: must those leave already, and what is promised of the hosts that were chosen?"""

from __future__ import annotations

from one_preempt.core.availability.timeline import Stay
from one_preempt.core.model.plan import Reason
from one_preempt.core.phases.devices_and_groups.matched_then import has_all_then
from one_preempt.core.phases.draft import PlanDraft
from one_preempt.core.phases.images.promised_images import may_be_staged
from one_preempt.core.phases.preempting.leaving_together import leaving_of, who_overtake_others
from one_preempt.core.phases.reservations.leaving_in_time import lay_back, prepare
from one_preempt.core.phases.reservations.stays import book, stay_at
from one_preempt.core.phases.room_wanted import RoomWanted
from one_preempt.core.preemption.problem import Choice
from one_preempt.core.victims import Hindered, PossibleVictim

_LEAVES_LATE = Reason("leaves-late", "others can leave in time, and those who are cheapest to preempt cannot")
_PROMISED_TO_OTHERS = Reason("promised", "others have the devices or cores of the hosts that are free by then")


def there_is_time(
    draft: PlanDraft, wanted: RoomWanted, chosen: list[PossibleVictim], choice: Choice, *, surely: bool
) -> Hindered | bool:
    """They need not begin to leave yet: the next decision about it is due when they must.

    Those who would leave too late had better stay while those who were counted on can still leave in time: so had all
    whose turns on the storage they would take. For whoever will be late either way nobody leaves, until his start has
    come, who would make others late as well.
    """
    lease_id, now_s = wanted.lease.id, draft.state.now_s
    if wanted.start_s <= now_s:
        return False
    planned = draft.preparations.get(lease_id)
    prepared = prepare(draft, lease_id, wanted.start_s, leaving_of(chosen))
    if prepared is None and planned is not None and (now_s < planned.begin_s or not surely):
        lay_back(draft, lease_id, planned)
        if now_s >= planned.begin_s:
            return Hindered(frozenset(), _LEAVES_LATE, frozenset(choice.host_of_request))
        prepared = planned
    if prepared is None:
        return who_overtake_others(draft, wanted.start_s, chosen) or False
    draft.wake_by(prepared.begin_s)
    is_early = now_s < prepared.begin_s
    if is_early and planned is not None and now_s < planned.begin_s:
        # Until then it can still fall back upon those who were counted on, and keeps their turns.
        lay_back(draft, lease_id, planned)
        draft.wake_by(planned.begin_s)
    elif is_early:
        _promise_where_they_leave(draft, wanted, choice)
    return is_early


def _promise_where_they_leave(draft: PlanDraft, wanted: RoomWanted, choice: Choice) -> None:
    """Its own hosts nobody could leave in time any more: nobody else is to count on those who still can elsewhere."""
    stays, there = draft.timeline.stays.get(wanted.lease.id, ()), _stay_then(wanted, choice)
    is_elsewhere = bool(stays) and not stays[0].displaced and stays[0].host_rows != there.host_rows
    if is_elsewhere and may_be_staged(draft, wanted.lease, wanted.vms, there):
        book(draft, wanted.lease, (there, *stays[1:]))


def others_were_promised(draft: PlanDraft, wanted: RoomWanted, choice: Choice) -> Hindered | None:
    """Of the hosts that were chosen for a time to come others were promised what it needs, unless it was itself."""
    stays = draft.timeline.stays.get(wanted.lease.id, ())
    if stays and not stays[0].displaced and stays[0].host_rows == choice.host_of_request:
        return None
    return _lacks_then(draft, wanted, choice)


def promise_elsewhere(draft: PlanDraft, wanted: RoomWanted, choice: Choice) -> Hindered | None:
    """Nobody has to leave where the queue alone would be by then: it is kept off these hosts from now on."""
    lacks = _lacks_then(draft, wanted, choice)
    if lacks is None:
        stays = draft.timeline.stays.get(wanted.lease.id, ())
        book(draft, wanted.lease, (_stay_then(wanted, choice), *stays[1:]))
    return lacks


def _lacks_then(draft: PlanDraft, wanted: RoomWanted, choice: Choice) -> Hindered | None:
    """The hosts that were chosen for a time to come lack devices, cores or a place for it, though others leave."""
    if has_all_then(draft, wanted.vms, _stay_then(wanted, choice)):
        return None
    return Hindered(frozenset(), _PROMISED_TO_OTHERS, frozenset(choice.host_of_request))


def _stay_then(wanted: RoomWanted, choice: Choice) -> Stay:
    return stay_at(wanted.lease, wanted.vms, choice.host_of_request, wanted.start_s, wanted.end_s, firm=True)
