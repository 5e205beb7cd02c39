"""What power control remembers of a host that did not obey of late: it is not asked again for a while."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct


class PowerAttempt(StrEnum):
    """What can fail again and again, each counted by itself for each host."""

    LOGIN = "login"
    """Getting let in by the controller; every order and question needs it."""
    ON = "on"
    """The order to start, until the power is seen on."""
    OFF = "off"
    """The order to stop, until the power is seen off."""
    BOOT = "boot"
    """Coming up after the power is on, which only OpenNebula sees."""


class PowerStanding(Struct, frozen=True):
    """What happened lately to one attempt at the host of one name.

    `failures` in a row; `not_before_s`: not again before, in seconds since the epoch; `ordered_at_s`: taken then,
    and not seen to show yet; `why`: the last failure, as a sentence.
    """

    host_name: str
    attempt: PowerAttempt
    failures: int = 0
    not_before_s: int = 0
    ordered_at_s: int | None = None
    why: str = ""

    @property
    def key(self) -> tuple[str, PowerAttempt]:
        """What it is found by: the host's name and what was attempted there."""
        return self.host_name, self.attempt

    @property
    def is_clear(self) -> bool:
        """There is nothing to remember."""
        return not self.failures and self.ordered_at_s is None

    @property
    def last_s(self) -> int:
        """Until when it mattered, in seconds since the epoch."""
        return max(self.not_before_s, self.ordered_at_s or 0)


PowerStandings = Mapping[tuple[str, PowerAttempt], PowerStanding]
"""By their keys; what is clear may be missing."""
