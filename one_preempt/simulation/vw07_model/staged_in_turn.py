"""What becomes of transfers that are asked for one after the other: a policy that plans slots plans anew each time."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from one_preempt.core.image_staging.fifo import POLICY as FIFO
from one_preempt.core.image_staging.link import Link, link_from
from one_preempt.core.image_staging.policy import ImageStagingPolicy
from one_preempt.core.image_staging.transfer import Span, StagedTransfer, Transfer


def staged_as_asked(
    transfers: Sequence[Transfer], link: Link, policy: ImageStagingPolicy
) -> tuple[StagedTransfer, ...]:
    """Nothing is known of a transfer before it is ready; one of a reservation that has begun is not moved any more.

    Reservations have their slots by `policy`, best effort has what they leave; all in the order in which they begin.
    A policy without slots stages both kinds, and does the same whether it knows of what comes or not.
    """
    if not policy.plans_slots:
        return policy.stage(transfers, link)
    reserved = _reserved_as_asked([one for one in transfers if one.is_reserved], link, policy)
    # Until the next one is asked for, the slots are as planned: to fill what was left of them in the end is to fill
    # what was left of each plan for as long as it stood.
    others = FIFO.stage([one for one in transfers if not one.is_reserved], link.less(reserved))
    return tuple(sorted((*reserved, *others), key=lambda one: (one.begin_ms, one.transfer.id)))


def _reserved_as_asked(
    transfers: Sequence[Transfer], link: Link, policy: ImageStagingPolicy
) -> tuple[StagedTransfer, ...]:
    instants = sorted({max(one.ready_ms, link.now_ms) for one in transfers})
    begun: list[StagedTransfer] = []
    waiting: list[Transfer] = []
    for at_ms, next_ms in pairwise([*instants, None]):
        assert at_ms is not None
        waiting += [one for one in transfers if max(one.ready_ms, link.now_ms) == at_ms]
        under_way = [Span(at_ms, begun[-1].end_ms)] if begun and begun[-1].end_ms > at_ms else []
        plan = policy.stage(waiting, link_from(at_ms, [*link.taken, *under_way]))
        begun += [one for one in plan if next_ms is None or one.begin_ms < next_ms]
        known = {one.transfer.id for one in begun}
        waiting = [one for one in waiting if one.id not in known]
    return tuple(begun)
