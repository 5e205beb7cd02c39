"""What became of a call."""

from __future__ import annotations

from enum import StrEnum


class Outcome(StrEnum):
    """What became of a call: ACCEPTED by oned, REFUSED by it, UNKNOWN (no answer), DROPPED before the call.

    HELD_BACK: a host's power control did not try it, for what had failed before.
    """

    ACCEPTED = "accepted"
    REFUSED = "refused"
    UNKNOWN = "unknown"
    DROPPED = "dropped"
    HELD_BACK = "held-back"


NOTHING_DONE = (Outcome.REFUSED, Outcome.DROPPED)
"""The outcomes after which it is sure that oned did not do what it was to do."""
