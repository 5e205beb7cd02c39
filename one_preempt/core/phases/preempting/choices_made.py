"""How often victims were chosen in one decision, and for what there was no time."""

from __future__ import annotations

from msgspec import Struct, field

from one_preempt.core.phases.room_wanted import RoomWanted


class ChoicesMade(Struct):
    """Choices of victims for who waits `now`, and for starts `ahead`.

    Those that are `put_off` were not looked at yet, each with the instant at which others must begin to leave for it.
    """

    now: int = 0
    ahead: int = 0
    put_off: list[tuple[RoomWanted, int]] = field(default_factory=list)
