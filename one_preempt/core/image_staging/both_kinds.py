"""Transfers of reservations and of best effort on one link: which of them has how much of it."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from one_preempt.core.image_staging.fifo import POLICY as FIFO
from one_preempt.core.image_staging.link import Link
from one_preempt.core.image_staging.policy import ImageStagingPolicy
from one_preempt.core.image_staging.transfer import StagedTransfer, Transfer


def staged_together(
    transfers: Sequence[Transfer], link: Link, policy: ImageStagingPolicy, reserved_per_cent: int | None = None
) -> tuple[StagedTransfer, ...]:
    """Those of reservations by `policy`, those of best effort by FIFO; all in the order in which they begin.

    Args:
        transfers: Of both kinds.
        link: What is free of the link.
        policy: How those of reservations are staged.
        reserved_per_cent: None: reservations have the whole link in their slots, and best effort what these leave.
            Otherwise (1 to 99) reservations have this share of the link for themselves at all times, and best effort
            the rest, as VW07 6.2 has it.
    """
    reserved = [one for one in transfers if one.is_reserved]
    others = [one for one in transfers if not one.is_reserved]
    if reserved_per_cent is None:
        first = policy.stage(reserved, link)
        found = (*first, *FIFO.stage(others, link.less(first)))
    else:
        found = (
            *_on_share(reserved, link, policy, reserved_per_cent),
            *_on_share(others, link, FIFO, 100 - reserved_per_cent),
        )
    return tuple(sorted(found, key=lambda one: (one.begin_ms, one.transfer.id)))


def _on_share(
    transfers: Sequence[Transfer], link: Link, policy: ImageStagingPolicy, per_cent: int
) -> list[StagedTransfer]:
    """On a part of the link everything takes longer."""
    whole = {one.id: one for one in transfers}
    slower = [replace(one, duration_ms=-(-one.duration_ms * 100 // per_cent)) for one in transfers]
    return [replace(one, transfer=whole[one.transfer.id]) for one in policy.stage(slower, link)]
