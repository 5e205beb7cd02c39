"""How long the requirements of an owner may take: users write them, and must not keep the cycle from the others.

Trials are counted (`column_texts.py`), not seconds: the same plan on every machine, however busy it is.
"""

from __future__ import annotations

EXPRESSION_TRIALS = 500_000
OWNER_TRIALS = 2_000_000
_CHARACTERS_A_TRIAL = 2
_STAR_TRIALS = 32
_BRACKET_TRIALS = 8


def reading_trials(text: str) -> int:
    """What it takes to read a requirement: what stands between two stars is compiled by itself."""
    return len(text) // _CHARACTERS_A_TRIAL + _STAR_TRIALS * text.count("*") + _BRACKET_TRIALS * text.count("[")


class OwnersTrials:
    """What the requirements of each owner took in this cycle."""

    def __init__(self) -> None:
        self._spent: dict[int, int] = {}

    def begin_cycle(self) -> None:
        """Everybody has taken nothing yet."""
        self._spent.clear()

    def spend(self, uid: int, trials: int) -> None:
        """The requirements of this owner took so much more."""
        self._spent[uid] = self._spent.get(uid, 0) + trials

    def has_left(self, uid: int) -> bool:
        """May one more requirement of this owner be looked at?"""
        return self._spent.get(uid, 0) < OWNER_TRIALS
