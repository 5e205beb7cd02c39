"""Which image may come next ahead of a start that is only expected: one at a time, while nothing else has the link.

For leases without an exact start (VW07's best effort). Nobody was promised anything by it, and nobody waits for it; so
it takes nothing from those who were: it ends before the next of their transfers begins, and makes none of them late.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import replace

from one_preempt.core.image_staging.image_staging_rules import ImageStagingRules
from one_preempt.core.image_staging.staging_plan import (
    ImageNeed,
    PlannedTransfer,
    StagingPlan,
    StagingState,
    largest_mib,
    planned_transfer,
    staging_plan,
)
from one_preempt.core.model.image_transfer import (
    ImageOrder,
    ImageOrderKind,
    KnownImages,
    Place,
    TransferPhase,
    TransferRecord,
)


def under_way_ahead(expected: Iterable[ImageNeed], known: KnownImages, plan: StagingPlan) -> list[PlannedTransfer]:
    """What is under way and still wanted ahead, for nobody who was promised it."""
    users, promised = _users(expected, known), {one.place for one in plan.transfers}
    found = []
    for record in known.coming:
        order = record.order
        if order.place in users and order.place not in promised:
            of_place = users[order.place]
            found.append(planned_transfer(of_place, order.begin_at_s, order.due_at_s, order.size_mib, record))
    return found


def may_come_ahead(
    expected: Iterable[ImageNeed], needs: Sequence[ImageNeed], plan: StagingPlan, state: StagingState
) -> Iterator[PlannedTransfer]:
    """The transfers of which any one may begin now, those for the earliest starts first.

    `expected` are images that are wanted where somebody is expected to start, at `start_s`; `needs` those of who was
    promised a start, and `plan` is for these.
    """
    known, rules, now_s = state.known, state.rules, state.now_s
    if known.coming or any(one.begin_s <= now_s for one in plan.transfers):
        return
    next_s = min((one.begin_s for one in plan.transfers), default=None)
    # What is planned for a start stays as planned: a failure now, and the pause after it, could make it late.
    promised, needed = {one.place for one in plan.transfers}, {one.place for one in needs}
    # How long it takes settles whom it makes late, unless somebody needs just that image there.
    delays: dict[tuple[int, Place | None], bool] = {}
    for place, users in _users(expected, known).items():
        if place in promised:
            continue
        size_mib = largest_mib(users)
        end_s = now_s + rules.transfer_s(size_mib)
        in_time = [one for one in users if one.start_s >= end_s]
        if not in_time or (next_s is not None and end_s > next_s) or state.up_at_s.get(place[1], 0) > now_s:
            continue
        record = known.record_of(ImageOrderKind.BRING, place)
        transfer = planned_transfer(in_time, now_s, end_s, size_mib, record)
        if _is_given_up(transfer, rules, now_s):
            continue
        kind = end_s, place if place in needed else None
        if kind not in delays:
            delays[kind] = _delays(transfer, needs, plan, state)
        if not delays[kind]:
            yield transfer


def _users(expected: Iterable[ImageNeed], known: KnownImages) -> dict[Place, list[ImageNeed]]:
    """Who wants what is not there, by place; who is expected to start first comes first."""
    users: dict[Place, list[ImageNeed]] = {}
    for one in sorted(expected, key=lambda one: (one.start_s, one.asked_s, one.lease_id, one.place)):
        if not known.is_held(one.place):
            users.setdefault(one.place, []).append(one)
    return users


def order_ahead(transfer: PlannedTransfer, host_name: str = "", reason_text: str = "") -> ImageOrder:
    """The order for a transfer of which nothing was promised."""
    return transfer.order(host_name, None, "ahead", reason_text)


def _is_given_up(transfer: PlannedTransfer, rules: ImageStagingRules, now_s: int) -> bool:
    """It has failed a moment ago, or often enough for one of these."""
    record = transfer.record
    if record is None or record.phase is not TransferPhase.FAILED:
        return False
    often = record.attempts >= rules.attempts and order_ahead(transfer).is_as_before(record.order)
    return often or record.not_before_s > now_s


def _delays(transfer: PlannedTransfer, needs: Sequence[ImageNeed], plan: StagingPlan, state: StagingState) -> bool:
    """With it on the link somebody would be late who was promised to be in time."""
    if not plan.transfers:
        return False
    record = TransferRecord(order_ahead(transfer), TransferPhase.UNDER_WAY, transfer.begin_s)
    known = replace(state.known, transfers={**state.known.transfers, record.id: record})
    then = staging_plan(needs, replace(state, known=known, now_s=transfer.begin_s))
    return bool(then.left.keys() - plan.left.keys() or then.tight - plan.tight)
