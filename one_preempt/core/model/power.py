"""What a host's power supply is doing, and what became of an order to it."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from msgspec import Struct, field


class PowerStatus(Enum):
    """Whether a host has power. UNKNOWN is neither: nothing may be concluded from it."""

    ON = "on"
    OFF = "off"
    UNKNOWN = "unknown"


class PowerAnswer(Enum):
    """What became of one order or question."""

    ACCEPTED = "accepted"
    """The controller took it. An order is done only once a reading says so."""
    REFUSED = "refused"
    """The controller understood and said no: nothing was done."""
    DENIED = "denied"
    """The login failed: nothing was done, and asking again may lock the account."""
    UNREACHABLE = "unreachable"
    """Nobody was there to take it: nothing was done."""
    NO_ANSWER = "no_answer"
    """It was sent and nothing came back: it may have been done or not."""
    MISCONFIGURED = "misconfigured"
    """Something is missing or wrong on this side: nothing was done."""
    HELD_BACK = "held_back"
    """Not tried now, because of what happened before: nothing was done."""
    CHANGED_HANDS = "changed_hands"
    """Not tried, for the host is not as the order expects it any more: nothing was done."""
    ADVICE_ONLY = "advice_only"
    """No power control is configured: the text says what would have been done."""


class ListedHost(Struct, frozen=True):
    """What OpenNebula's list of hosts tells of one: `attributes` are those of its template that are about power.

    Encrypted values stay so.
    """

    handed_over: bool = False
    attributes: Mapping[str, str] = field(default_factory=dict)


class PowerOutcome(Struct, frozen=True):
    """The answer to one order. `text` is one sentence for a person: what happened, where, and how to mend it.

    `retry_at_s`: when to try again, in seconds since the epoch; None where only a person can mend it, or where
    there is nothing to retry.
    """

    answer: PowerAnswer
    text: str
    retry_at_s: int | None = None

    @property
    def accepted(self) -> bool:
        """Whether the order was taken."""
        return self.answer is PowerAnswer.ACCEPTED


class PowerReading(Struct, frozen=True):
    """The status that was read; `outcome` tells how, and why it is UNKNOWN where it is."""

    status: PowerStatus
    outcome: PowerOutcome
