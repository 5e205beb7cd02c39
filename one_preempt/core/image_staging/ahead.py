"""Which image may come next ahead of a start that is only expected: one at a time, while nothing else has the link.

For leases without an exact start (VW07's best effort). Nobody was promised anything by it, and nobody waits for it; so
it takes nothing from those who were: it ends before the next of their transfers begins, and makes none of them late.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec.structs import replace

from one_preempt.core.image_staging.image_staging_rules import ImageStagingRules
from one_preempt.core.image_staging.staging_plan import (
    ImageNeed,
    Place,
    PlannedTransfer,
    StagingPlan,
    bringing,
    is_held,
    staging_plan,
)
from one_preempt.core.model.image_transfer import (
    ImageOrder,
    ImageOrderKind,
    KnownImages,
    TransferPhase,
    TransferRecord,
    order_id,
)


def under_way_ahead(expected: Iterable[ImageNeed], known: KnownImages, plan: StagingPlan) -> list[PlannedTransfer]:
    """What is under way and still wanted ahead, for nobody who was promised it."""
    users, promised = _users(expected, known), {one.place for one in plan.transfers}
    found = []
    for record in bringing(known):
        order = record.order
        place = order.image_id, order.host_id
        if place in users and place not in promised:
            found.append(_transfer(users[place], order.begin_at_s, order.due_at_s, order.size_mib, record))
    return found


def may_come_ahead(
    expected: Iterable[ImageNeed],
    needs: Sequence[ImageNeed],
    plan: StagingPlan,
    known: KnownImages,
    rules: ImageStagingRules,
    now_s: int,
    up_at_s: Mapping[int, int],
) -> Iterator[PlannedTransfer]:
    """The transfers of which any one may begin now, those for the earliest starts first.

    Args:
        expected: Images that are wanted where somebody is expected to start, at `start_s`.
        needs: Those of who was promised a start.
        plan: The plan for them.
        known: What hosts hold, what is under way and has failed.
        rules: The bounds.
        now_s: The instant; seconds since the epoch.
        up_at_s: When hosts that are not on can be, by their ids.
    """
    if bringing(known) or any(one.begin_s <= now_s for one in plan.transfers):
        return
    next_s = min((one.begin_s for one in plan.transfers), default=None)
    # What is planned for a start stays as planned: a failure now, and the pause after it, could make it late.
    promised, needed = {one.place for one in plan.transfers}, {one.place for one in needs}
    # How long it takes settles whom it makes late, unless somebody needs just that image there.
    delays: dict[tuple[int, Place | None], bool] = {}
    for (image_id, host_id), users in _users(expected, known).items():
        if (image_id, host_id) in promised:
            continue
        size_mib = max(one.size_mib for one in users)
        end_s = now_s + rules.transfer_s(size_mib)
        in_time = [one for one in users if one.start_s >= end_s]
        if not in_time or (next_s is not None and end_s > next_s) or up_at_s.get(host_id, 0) > now_s:
            continue
        record = known.transfers.get(order_id(ImageOrderKind.BRING, image_id, host_id))
        transfer = _transfer(in_time, now_s, end_s, size_mib, record)
        if _is_given_up(transfer, rules, now_s):
            continue
        kind = end_s, transfer.place if transfer.place in needed else None
        if kind not in delays:
            delays[kind] = _delays(transfer, needs, plan, known, rules, up_at_s)
        if not delays[kind]:
            yield transfer


def _users(expected: Iterable[ImageNeed], known: KnownImages) -> dict[Place, list[ImageNeed]]:
    """Who wants what is not there, by place; who is expected to start first comes first."""
    users: dict[Place, list[ImageNeed]] = {}
    for one in sorted(expected, key=lambda one: (one.start_s, one.asked_s, one.lease_id, one.place)):
        if not is_held(known, *one.place):
            users.setdefault(one.place, []).append(one)
    return users


def _transfer(
    users: Sequence[ImageNeed], begin_s: int, end_s: int, size_mib: int, record: TransferRecord | None
) -> PlannedTransfer:
    first, lease_ids = users[0], tuple(sorted({one.lease_id for one in users}))
    return PlannedTransfer(
        first.image_id, first.host_id, size_mib, first.datastore_id, begin_s, end_s, first.start_s, lease_ids, record
    )


def order_ahead(transfer: PlannedTransfer, host_name: str = "", reason_text: str = "") -> ImageOrder:
    """The order for a transfer of which nothing was promised."""
    return ImageOrder(
        kind=ImageOrderKind.BRING,
        image_id=transfer.image_id,
        host_id=transfer.host_id,
        host_name=host_name,
        datastore_id=transfer.datastore_id,
        size_mib=transfer.size_mib,
        begin_at_s=transfer.begin_s,
        due_at_s=transfer.end_s,
        needed_at_s=None,
        lease_ids=transfer.lease_ids,
        reason_code="ahead",
        reason_text=reason_text,
    )


def _is_given_up(transfer: PlannedTransfer, rules: ImageStagingRules, now_s: int) -> bool:
    """It has failed a moment ago, or often enough for one of these."""
    record = transfer.record
    if record is None or record.phase is not TransferPhase.FAILED:
        return False
    often = record.attempts >= rules.attempts and order_ahead(transfer).is_as_before(record.order)
    return often or record.not_before_s > now_s


def _delays(
    transfer: PlannedTransfer,
    needs: Sequence[ImageNeed],
    plan: StagingPlan,
    known: KnownImages,
    rules: ImageStagingRules,
    up_at_s: Mapping[int, int],
) -> bool:
    """With it on the link somebody would be late who was promised to be in time."""
    if not plan.transfers:
        return False
    record = TransferRecord(order_ahead(transfer), TransferPhase.UNDER_WAY, transfer.begin_s)
    then = staging_plan(
        needs, replace(known, transfers={**known.transfers, record.id: record}), rules, transfer.begin_s, up_at_s
    )
    return bool(then.left.keys() - plan.left.keys() or then.tight - plan.tight)
