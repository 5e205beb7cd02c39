"""What the administrator chose and every plan has to keep to, as the recount is told of it."""

from __future__ import annotations

from msgspec import Struct

from one_preempt.core.model.image_transfer import ImageBounds
from one_preempt.core.model.time_rules import TimeRules


class RecountRules(Struct, frozen=True):
    """`time`: what becomes of what outlives its DURATION. `images`: within which bounds they are ordered; None: none
    are.
    """

    time: TimeRules = TimeRules()
    images: ImageBounds | None = None


AS_SHIPPED = RecountRules()
