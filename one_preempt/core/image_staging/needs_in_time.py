"""Whether more images can be in time beside those that all are: found by adding up, where a plan would say the same.

A plan looks at everything that was promised. Of many who ask at once each would be judged by a plan of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from one_preempt.core.image_staging.staging_plan import ImageNeed, StagingState, largest_mib
from one_preempt.core.image_staging.time_on_link import TimeOnLink, Work
from one_preempt.core.model.image_transfer import ImageOrderKind, Place, TransferPhase


class NeedsInTime:
    """The needs of those who were promised hosts, by place. It knows where it cannot say what a plan would say:

    where transfers wait for a host that is not on, or for a pause after a failure; where what is under way comes late;
    where the policy does not keep deadlines; and where somebody is late already.
    """

    def __init__(self, state: StagingState) -> None:
        """Without any needs yet."""
        self._state, self._known, self._rules, self._now_s = state, state.known, state.rules, state.now_s
        self._users: dict[Place, tuple[ImageNeed, ...]] = {}
        self._not_told: set[ImageNeed] = set()
        ends_s = {one.order.place: state.expected_end_s(one) for one in self._known.coming}
        self._coming_s = {place: max(end_s, self._now_s + 1) for place, end_s in ends_s.items()}
        self._time = TimeOnLink(max([self._now_s, *ends_s.values()]))
        self._is_kept: bool | None = True
        self._mib_on: dict[int, int] = {}
        self._by_image: dict[int, set[Place]] = {}

    def replace(self, before: Sequence[ImageNeed], now: Sequence[ImageNeed]) -> None:
        """Somebody needs something else than before."""
        self._not_told.difference_update(before)
        users = self._users_with(before, now)
        more_mib = self._more_mib(users)
        self._time = self._time_with(users)
        self._is_kept = None
        self._users.update(users)
        for place, of_place in users.items():
            self._by_image.setdefault(place[0], set()).add(place)
            if not of_place:
                del self._users[place]
                self._by_image[place[0]].discard(place)
        for host_id, mib in more_mib.items():
            self._mib_on[host_id] = self._mib_on.get(host_id, 0) + mib
        self._not_told.update(one for one in now if not self._can_tell(one))

    @property
    def are_all(self) -> bool:
        """All that are needed are in time, and no plan says otherwise."""
        if not self._rules.policy.keeps_deadlines or self._not_told:
            return False
        if self._is_kept is None:
            self._is_kept = self._time.keeps_deadlines
        return self._is_kept

    def also(self, needs: Sequence[ImageNeed]) -> bool | None:
        """Would these be in time, too, and nobody late for them? None: only a plan can tell."""
        if not self.are_all or not all(self._can_tell(one) for one in needs):
            return None
        return self._time_with(self._users_with((), needs)).keeps_deadlines

    def room_mib(self, needs: Sequence[ImageNeed]) -> Mapping[int, int]:
        """By host what all images take there with these, if none of them is ever removed."""
        more_mib = self._more_mib(self._users_with((), needs))
        return {
            host_id: self._mib_on.get(host_id, 0) + more_mib.get(host_id, 0)
            for host_id in self._mib_on.keys() | more_mib.keys()
        }

    def others_s(self, places: Iterable[Place]) -> int:
        """For how long the link is taken by what comes to other places than these."""
        own_s = sum(work.takes_s for place in set(places) for work in self._work(place, self._users.get(place, ())))
        return self._time.free_from_s - self._now_s + self._time.takes_s - own_s

    def come_by(self, image_id: int, start_s: int) -> Iterable[int]:
        """The hosts to which an image comes for somebody who starts by then. Only where `are_all`."""
        for place in self._by_image.get(image_id, ()):
            if min(one.start_s for one in self._users[place]) <= start_s:
                yield place[1]

    def _users_with(self, less: Sequence[ImageNeed], more: Sequence[ImageNeed]) -> dict[Place, tuple[ImageNeed, ...]]:
        """Who needs the images of these needs' places then."""
        users = {one.place: self._users.get(one.place, ()) for one in (*less, *more)}
        for one in less:
            users[one.place] = tuple(other for other in users[one.place] if other != one)
        for one in more:
            users[one.place] = (*users[one.place], one)
        return users

    def _time_with(self, users: Mapping[Place, Sequence[ImageNeed]]) -> TimeOnLink:
        """The time on the link if so many need images at these places."""
        before = [work for place in users for work in self._work(place, self._users.get(place, ()))]
        return self._time.changed(before, [work for place, of in users.items() for work in self._work(place, of)])

    def _more_mib(self, users: Mapping[Place, Sequence[ImageNeed]]) -> dict[int, int]:
        """By host what its images will take more than so far if so many need them."""
        found: dict[int, int] = {}
        for place, of_place in users.items():
            more_mib = self._size_mib(place, of_place) - self._size_mib(place, self._users.get(place, ()))
            found[place[1]] = found.get(place[1], 0) + more_mib
        return found

    def _size_mib(self, place: Place, users: Sequence[ImageNeed]) -> int:
        """What an image takes on a host while somebody needs it there."""
        held = self._known.images_on(place[1]) if users else ()
        held_mib = [one.size_mib for one in held if one.image_id == place[0]]
        return max([*held_mib, *(one.size_mib for one in users)], default=0)

    def _work(self, place: Place, users: Sequence[ImageNeed]) -> list[Work]:
        """What the link has to do for a place."""
        if not users or place in self._coming_s or self._known.is_held(place):
            return []
        deadline_s = min(one.start_s for one in users) - self._rules.margin_s
        return [Work(deadline_s, self._rules.transfer_s(largest_mib(users)))]

    def _can_tell(self, need: ImageNeed) -> bool:
        if self._known.is_held(need.place):
            return True
        coming_s = self._coming_s.get(need.place)
        if coming_s is not None:
            return coming_s <= need.start_s - self._rules.margin_s
        record = self._known.record_of(ImageOrderKind.BRING, need.place)
        has_failed = record is not None and record.phase is TransferPhase.FAILED
        return not has_failed and self._state.up_at_s.get(need.host_id, 0) <= self._now_s
