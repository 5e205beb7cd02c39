"""When the images of reservations are brought to the hosts that these were promised, as things stand now.

Made anew from what was promised, what hosts hold and what is under way: the same whenever it is asked, until one of
these changes. Under a policy that stages just in time nothing moves but what has to.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from msgspec import Struct

from one_preempt.core.image_staging.image_staging_rules import ImageStagingRules
from one_preempt.core.image_staging.link import link_from
from one_preempt.core.image_staging.transfer import Span, StagedTransfer, Transfer
from one_preempt.core.model.image_transfer import (
    ImageOrder,
    ImageOrderKind,
    KnownImages,
    Place,
    TransferPhase,
    TransferRecord,
)
from one_preempt.core.model.time import MS_PER_S

_ALL_UP: Mapping[int, int] = MappingProxyType({})


class StagingState(Struct, frozen=True):
    """How things stand: what hosts hold, what is under way and has failed, at an instant, and the bounds.

    `up_at_s`: when hosts that are not on can be, by their ids; nothing comes to them before.
    """

    known: KnownImages
    rules: ImageStagingRules
    now_s: int
    up_at_s: Mapping[int, int] = _ALL_UP

    def expected_end_s(self, record: TransferRecord) -> int:
        """When a transfer that is under way has had the link for long enough."""
        return record.since_s + self.rules.transfer_s(record.order.size_mib)


class ImageNeed(Struct, frozen=True):
    """A lease that was promised a host needs an image there when it starts, which it asked for at `asked_s`.

    The image is of a datastore, and takes `size_mib` at most.
    """

    lease_id: int
    image_id: int
    host_id: int
    size_mib: int
    datastore_id: int | None
    start_s: int
    asked_s: int

    @property
    def place(self) -> Place:
        """Where it is needed."""
        return self.image_id, self.host_id


class PlannedTransfer(Struct, frozen=True):
    """An image that is brought to a host from `begin_s` until `end_s`, for leases of which the first starts at
    `needed_s`. `record` is what is known of it: None, it was never ordered."""

    image_id: int
    host_id: int
    size_mib: int
    datastore_id: int | None
    begin_s: int
    end_s: int
    needed_s: int
    lease_ids: tuple[int, ...]
    record: TransferRecord | None = None

    @property
    def place(self) -> Place:
        """Where it is brought to."""
        return self.image_id, self.host_id

    @property
    def is_under_way(self) -> bool:
        """It was ordered, and its end was not heard of."""
        return self.record is not None and self.record.phase is TransferPhase.UNDER_WAY

    def order(self, host_name: str, needed_at_s: int | None, reason_code: str, reason_text: str) -> ImageOrder:
        """The order for it; `needed_at_s` None: nobody was promised that it is there."""
        return ImageOrder(
            kind=ImageOrderKind.BRING,
            image_id=self.image_id,
            host_id=self.host_id,
            host_name=host_name,
            datastore_id=self.datastore_id,
            size_mib=self.size_mib,
            begin_at_s=self.begin_s,
            due_at_s=self.end_s,
            needed_at_s=needed_at_s,
            lease_ids=self.lease_ids,
            reason_code=reason_code,
            reason_text=reason_text,
        )


class StagingPlan(Struct, frozen=True):
    """`transfers` in the order in which they begin.

    `left` are leases that have to wait for oned's own copy of an image at their start, and why. `tight` are places
    where an image comes later than its margin before the start allows.
    """

    transfers: tuple[PlannedTransfer, ...] = ()
    left: Mapping[int, str] = {}
    tight: frozenset[Place] = frozenset()


NOTHING_PLANNED = StagingPlan()


def staging_plan(needs: Iterable[ImageNeed], state: StagingState) -> StagingPlan:
    """When each image that is missing somewhere is brought there, and for whom none can be in time."""
    users = _missing(needs, state.known)
    if not users:
        return NOTHING_PLANNED
    left: dict[int, str] = {}
    under_way = _under_way(users, state, left)
    waiting = {place: of_place for place, of_place in users.items() if place not in under_way}
    for place, of_place in list(waiting.items()):
        record = state.known.record_of(ImageOrderKind.BRING, place)
        if record is not None and _is_given_up(record, of_place[0], state.rules):
            _leave(of_place, f"image {place[0]} did not come to its host: {record.text}", left)
            del waiting[place]
    planned = (*under_way.values(), *_in_time(waiting, state, left))
    return StagingPlan(
        transfers=tuple(sorted(planned, key=lambda one: (one.begin_s, one.place))),
        left=left,
        tight=frozenset(one.place for one in planned if one.end_s > one.needed_s - state.rules.margin_s),
    )


def _missing(needs: Iterable[ImageNeed], known: KnownImages) -> dict[Place, list[ImageNeed]]:
    """Who needs what is not there, the first to start first; places in that order, too."""
    users: dict[Place, list[ImageNeed]] = {}
    for need in sorted(needs, key=lambda one: (one.start_s, one.place, one.lease_id)):
        if not known.is_held(need.place):
            users.setdefault(need.place, []).append(need)
    return users


def _under_way(
    users: Mapping[Place, Sequence[ImageNeed]], state: StagingState, left: dict[int, str]
) -> dict[Place, PlannedTransfer]:
    """Those of the missing ones that are coming already. What overruns its time may come any second."""
    found: dict[Place, PlannedTransfer] = {}
    for record in state.known.coming:
        place = record.order.place
        if place not in users:
            continue
        end_s = max(state.expected_end_s(record), state.now_s + 1)
        found[place] = planned_transfer(users[place], record.since_s, end_s, record.order.size_mib, record)
        late = [one for one in users[place] if one.start_s < end_s]
        _leave(late, f"image {place[0]} is still on its way to its host", left)
    return found


def _is_given_up(record: TransferRecord, first: ImageNeed, rules: ImageStagingRules) -> bool:
    """It failed often enough for this start."""
    return (
        record.phase is TransferPhase.FAILED
        and record.attempts >= rules.attempts
        and record.order.needed_at_s == first.start_s
    )


def _in_time(
    waiting: Mapping[Place, Sequence[ImageNeed]], state: StagingState, left: dict[int, str]
) -> list[PlannedTransfer]:
    """Slots for all that can end by the start for which it is; for whom it cannot, no time of the link is wasted."""
    # What is expected to end takes the link until then; what overruns its time holds up nobody.
    now_s, ends_s = state.now_s, [state.expected_end_s(record) for record in state.known.coming]
    link = link_from(now_s * MS_PER_S, [Span(now_s * MS_PER_S, end_s * MS_PER_S) for end_s in ends_s if end_s > now_s])
    users = {place: list(of_place) for place, of_place in waiting.items()}
    while True:
        staged = state.rules.policy.stage(_transfers(users, state), link)
        late = next((at for at, one in enumerate(staged) if one.end_ms > _first(one, users).start_s * MS_PER_S), None)
        if late is None:
            return [_planned(one, users[_place(one)], state.known) for one in staged]
        _leave_until(staged[late].end_ms, _place(staged[late]), users, left)
        # Whatever comes after it begins no earlier without it: who would be late even in its turn is late in any case.
        # One by one they would be found, too, but each by a plan of its own, and a gang may need a thousand.
        for one in staged[late + 1 :]:
            _leave_until(staged[late].begin_ms + one.transfer.duration_ms, _place(one), users, left)


def _leave_until(end_ms: int, place: Place, users: dict[Place, list[ImageNeed]], left: dict[int, str]) -> None:
    """Of a place, leave those who start before an image can be there."""
    too_early = [one for one in users[place] if one.start_s * MS_PER_S < end_ms]
    _leave(too_early, f"image {place[0]} cannot be on its host by then: the link is taken", left)
    users[place] = users[place][len(too_early) :]
    if not users[place]:
        del users[place]


def _transfers(users: Mapping[Place, Sequence[ImageNeed]], state: StagingState) -> list[Transfer]:
    """As the policy is asked, numbered by the start for which they are."""
    found, rules = [], state.rules
    in_order = sorted(users.items(), key=lambda item: (item[1][0].start_s, item[0]))
    for number, (place, of_place) in enumerate(in_order):
        image_id, host_id = place
        record = state.known.record_of(ImageOrderKind.BRING, place)
        # Who may be tried again only later is not ready yet; who was asked for earlier comes first under FIFO.
        ready_s = min(one.asked_s for one in of_place)
        not_before_s = max(state.up_at_s.get(host_id, 0), 0 if record is None else record.not_before_s)
        if not_before_s > state.now_s:
            ready_s = not_before_s
        found.append(
            Transfer(
                id=number,
                image=str(image_id),
                nodes=(host_id,),
                duration_ms=rules.transfer_s(largest_mib(of_place)) * MS_PER_S,
                ready_ms=ready_s * MS_PER_S,
                deadline_ms=(of_place[0].start_s - rules.margin_s) * MS_PER_S,
                owner=of_place[0].lease_id,
            )
        )
    return found


def _place(staged: StagedTransfer) -> Place:
    return int(staged.transfer.image), staged.transfer.nodes[0]


def _first(staged: StagedTransfer, users: Mapping[Place, Sequence[ImageNeed]]) -> ImageNeed:
    return users[_place(staged)][0]


def _planned(staged: StagedTransfer, of_place: Sequence[ImageNeed], known: KnownImages) -> PlannedTransfer:
    begin_s, end_s = staged.begin_ms // MS_PER_S, -(-staged.end_ms // MS_PER_S)
    record = known.record_of(ImageOrderKind.BRING, _place(staged))
    return planned_transfer(of_place, begin_s, end_s, largest_mib(of_place), record)


def planned_transfer(
    users: Sequence[ImageNeed], begin_s: int, end_s: int, size_mib: int, record: TransferRecord | None
) -> PlannedTransfer:
    """The transfer that serves all of these, of whom the first one starts first."""
    first, lease_ids = users[0], tuple(sorted({one.lease_id for one in users}))
    return PlannedTransfer(
        first.image_id, first.host_id, size_mib, first.datastore_id, begin_s, end_s, first.start_s, lease_ids, record
    )


def largest_mib(of_place: Iterable[ImageNeed]) -> int:
    """At most so much has to be brought: an image may have grown between those who were made from it."""
    return max(one.size_mib for one in of_place)


def _leave(needs: Iterable[ImageNeed], why: str, left: dict[int, str]) -> None:
    for need in needs:
        left.setdefault(need.lease_id, why)
