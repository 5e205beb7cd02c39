"""How long the requirements and ranks of an owner may take: users write them, and others wait for the same cycle.

Trials are counted (`column_texts.py`), not seconds: the same plan on every machine, however busy it is.
"""

from __future__ import annotations

EXPRESSION_TRIALS = 500_000
OWNER_TRIALS = 1_000_000
# Once those of all owners have taken so much, each has only so little: many who act as one gain nothing by it, and
# whoever writes what people write does not notice.
TRIALS_FOR_ALL = 4_000_000
FEW_TRIALS = 20_000
_STAR_TRIALS = 32
_BRACKET_TRIALS = 8
_STEP_TRIALS = 2
_ROWS_A_TRIAL = 512


def reading_trials(text: str) -> int:
    """What it takes to read an expression: what stands between two stars is compiled by itself."""
    return len(text) + _STAR_TRIALS * text.count("*") + _BRACKET_TRIALS * text.count("[")


def rank_trials(steps: int, rows: int) -> int:
    """What it takes to count a rank of so many terms and operators."""
    return steps * (_STEP_TRIALS + rows // _ROWS_A_TRIAL)


class OwnersTrials:
    """What the expressions of each owner took in this cycle."""

    def __init__(self) -> None:
        self._spent: dict[int, int] = {}
        self._spent_by_all = 0

    def begin_cycle(self) -> None:
        """Everybody has taken nothing yet."""
        self._spent.clear()
        self._spent_by_all = 0

    def spend(self, uid: int, trials: int) -> None:
        """The expressions of this owner took so much more."""
        self._spent[uid] = self._spent.get(uid, 0) + trials
        self._spent_by_all += trials

    def has_left(self, uid: int) -> bool:
        """May one more expression of this owner be looked at?"""
        return self._spent.get(uid, 0) < (FEW_TRIALS if self._are_few_left else OWNER_TRIALS)

    def may_take(self, trials: int) -> bool:
        """May one expression take so much now?"""
        return trials <= FEW_TRIALS or not self._are_few_left

    @property
    def _are_few_left(self) -> bool:
        return self._spent_by_all >= TRIALS_FOR_ALL
