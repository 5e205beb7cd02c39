"""Expressions of many VMs, read once each."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from msgspec import Struct, field

from one_preempt.core.matching.expressions.attributes import AttributeTable, BoolArray
from one_preempt.core.matching.expressions.owners_trials import (
    EXPRESSION_TRIALS,
    OwnersTrials,
    rank_trials,
    reading_trials,
)
from one_preempt.core.matching.expressions.rank import Rank, parse_rank
from one_preempt.core.matching.expressions.requirements import Requirement, Residents, nowhere, parse_requirement
from one_preempt.core.matching.expressions.tokens import ExpressionError

# What expressions call the load of a host; the rest of a host changes only when somebody changes it.
_LOAD_WORDS = ("CPU_USAGE", "MEM_USAGE", "RUNNING_VMS", "VMS", "HOST_SHARE")

# Users write the expressions, and new ones for ever: what was read must not pile up. It is read again when needed.
MOST_CHARACTERS = 8_000_000
# The same of what was found by them, where it lasts as long as nothing changes.
MOST_ANSWERS = 10_000


class UnreadableExpression(Exception):
    """A VM's expression cannot be read; the message names the attribute and the place."""


class TooExpensive(UnreadableExpression):
    """A VM's expression takes too long on what there is now; the message says what to write instead."""


class NotThisCycle(TooExpensive):
    """It was not looked at: the expressions of its owner have taken as long as they may in this cycle."""


def _not_this_cycle(attribute: str, whose: str) -> NotThisCycle:
    return NotThisCycle(
        f"{attribute} waits for a later cycle: the {whose} took as long as they may "
        "in this one. Write fewer patterns, and the same text for many VMs."
    )


def speaks_of_load(expression: str) -> bool:
    """Might it have another value when VMs come or go?"""
    upper = expression.upper()
    return any(word in upper for word in _LOAD_WORDS)


class Expressions(Struct):
    """Remembers what was read, and what could not be, and how long it took whom in this cycle."""

    trials: OwnersTrials = field(default_factory=OwnersTrials)
    _requirements: dict[str, Requirement | ExpressionError] = field(default_factory=dict)
    _ranks: dict[str, Rank | ExpressionError] = field(default_factory=dict)
    _characters: int = 0

    def requirement(self, attribute: str, text: str) -> Requirement:
        """The requirement `text`, which the VM has as `attribute`. Raises UnreadableExpression."""
        known = self._requirements.get(text)
        if known is None:
            self._count(text)
            try:
                known = parse_requirement(text)
            except ExpressionError as error:
                known = error
            self._requirements[text] = known
        if isinstance(known, ExpressionError):
            raise UnreadableExpression(f"{attribute} cannot be read: {known}.")
        return known

    def all_met(
        self, parts: tuple[tuple[str, str], ...], table: AttributeTable, residents: Residents = nowhere, *, uid: int
    ) -> BoolArray:
        """The rows that meet all of several (attribute, text) requirements of a VM whose owner is `uid`.

        Each is read by itself: a parenthesis in one cannot undo another. Raises UnreadableExpression, and TooExpensive
        where one of them, or all of its owner's in this cycle, would take longer than they may.
        """
        mask = np.ones(len(table), dtype=np.bool_)
        for attribute, text in parts:
            if text:
                requirement, before = self._affordable(attribute, text, table, uid), table.trials
                mask &= requirement.mask(table, residents)
                self.trials.spend(uid, table.trials - before)
        return mask

    def _affordable(self, attribute: str, text: str, table: AttributeTable, uid: int) -> Requirement:
        # What oned wrote is not held against the owner's other VMs: nobody can have it written without end.
        if not attribute.startswith("AUTOMATIC_"):
            self._demand_trials(attribute, uid)
        if text not in self._requirements:
            self.trials.spend(uid, reading_trials(text))
        requirement = self.requirement(attribute, text)
        self.trials.spend(uid, len(requirement.program))
        trials = requirement.pattern_trials(table)
        if trials > EXPRESSION_TRIALS:
            raise TooExpensive(
                f"{attribute} takes too long: its patterns (texts with * ? or [) would be tried on too many values. "
                "Write fewer of them, or whole values."
            )
        if not self.trials.may_take(trials):
            raise _not_this_cycle(attribute, "expressions of all owners' VMs")
        return requirement

    def _demand_trials(self, attribute: str, uid: int) -> None:
        if not self.trials.has_left(uid):
            raise _not_this_cycle(attribute, "expressions of its owner's VMs")

    def scores(self, attribute: str, text: str, table: AttributeTable, *, uid: int) -> npt.NDArray[np.int64]:
        """Each row's rank by `text`, which a VM of the owner `uid` has as `attribute`.

        Raises TooExpensive where all expressions of its owner have taken as long as they may in this cycle.
        """
        self._demand_trials(attribute, uid)
        if text not in self._ranks:
            self.trials.spend(uid, reading_trials(text))
        rank = self.rank(text)
        self.trials.spend(uid, rank_trials(len(rank.program), len(table)))
        return rank.scores(table)

    def rank(self, text: str) -> Rank:
        """The rank `text`; one that cannot be read makes all equal, as it does for the matchmaker."""
        known = self._read_rank(text)
        return known if isinstance(known, Rank) else parse_rank("")

    def rank_problem(self, attribute: str, text: str, *, uid: int) -> str:
        """What is wrong with the rank `text`, which a VM of the owner `uid` has as `attribute`; "" where nothing is.

        Nor where it was not read yet and its owner's expressions have taken as long as they may: a later cycle tells.
        """
        if text not in self._ranks:
            if not self.trials.has_left(uid):
                return ""
            self.trials.spend(uid, reading_trials(text))
        known = self._read_rank(text)
        return "" if isinstance(known, Rank) else f"{attribute} cannot be read and has no effect: {known}."

    def _read_rank(self, text: str) -> Rank | ExpressionError:
        known = self._ranks.get(text)
        if known is None:
            self._count(text)
            try:
                known = parse_rank(text)
            except ExpressionError as error:
                known = error
            self._ranks[text] = known
        return known

    def _count(self, text: str) -> None:
        self._characters += len(text)
        if self._characters > MOST_CHARACTERS:
            self._requirements.clear()
            self._ranks.clear()
            self._characters = len(text)
