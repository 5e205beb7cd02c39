"""From two numbers to one by rules in words (Wang 1994, as PEMP12 uses it: Equation 8).

Singleton fuzzifier: an input is taken as it is, without spread. Product inference: a rule fires by the product of
the memberships of its inputs. Centre-average defuzzifier: the answer is the mean of the centres of the rules' output
sets, weighted by how much each rule fires. Fractions, so that the answer is exact and the same on every machine.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from itertools import pairwise

from msgspec import Struct


class TriangularSet(Struct, frozen=True):
    """Membership rises from 0 at `left` to 1 at `peak` and falls to 0 at `right`.

    Where `left` equals `peak` the set is a shoulder: everything below belongs to it wholly; likewise on the right.
    """

    left: Fraction
    peak: Fraction
    right: Fraction

    def membership(self, value: Fraction) -> Fraction:
        """How much the value belongs to the set, from 0 to 1."""
        if value == self.peak:
            return Fraction(1)
        edge = self.left if value < self.peak else self.right
        if edge == self.peak:
            return Fraction(1)
        return max(Fraction(0), (value - edge) / (self.peak - edge))


def partition(peaks: Mapping[str, Fraction]) -> Mapping[str, TriangularSet]:
    """Sets that each reach to the peaks of their neighbours: at every value the memberships add up to 1.

    `peaks` ascend in the order of the mapping; the first and the last set are shoulders. Raises ValueError otherwise.
    """
    places = list(peaks.values())
    if not places or any(after <= before for before, after in pairwise(places)):
        raise ValueError(f"the peaks of fuzzy sets ascend; these are {[str(place) for place in places]}")
    lefts, rights = [places[0], *places[:-1]], [*places[1:], places[-1]]
    return {
        name: TriangularSet(left, peak, right)
        for (name, peak), left, right in zip(peaks.items(), lefts, rights, strict=True)
    }


class Rule(Struct, frozen=True):
    """If the first input is `first` and the second is `second`, then the output is `then`: names of sets."""

    first: str
    second: str
    then: str


class FuzzyEngine(Struct, frozen=True):
    """Sets of both inputs, centres of the outputs, and the rules. Every pair of input sets has exactly one rule.

    Raises ValueError where a pair has none or two, or a rule names what there is not.
    """

    first: Mapping[str, TriangularSet]
    second: Mapping[str, TriangularSet]
    centres: Mapping[str, Fraction]
    rules: Sequence[Rule]

    def __post_init__(self) -> None:
        pairs = [(rule.first, rule.second) for rule in self.rules]
        missing = [(one, other) for one in self.first for other in self.second if (one, other) not in pairs]
        if missing:
            raise ValueError(f"no rule for {_listed(missing)}: a rule base has one for every pair of input sets")
        twice = sorted({pair for pair in pairs if pairs.count(pair) > 1})
        if twice:
            raise ValueError(f"two rules for {_listed(twice)}: a rule base has one for every pair of input sets")
        unknown = [pair for pair in pairs if pair[0] not in self.first or pair[1] not in self.second]
        if unknown:
            raise ValueError(f"rules for {_listed(unknown)}, which are no input sets")
        nowhere = sorted({rule.then for rule in self.rules} - self.centres.keys())
        if nowhere:
            raise ValueError(f"rules lead to {', '.join(nowhere)}, which are no output sets")

    def infer(self, first: Fraction, second: Fraction) -> Fraction:
        """f = sum(centre * mu_first * mu_second) / sum(mu_first * mu_second) over the rules."""
        firsts = _memberships(self.first, first)
        seconds = _memberships(self.second, second)
        total = weight = Fraction(0)
        for rule in self.rules:
            if rule.first in firsts and rule.second in seconds:
                fires = firsts[rule.first] * seconds[rule.second]
                total += self.centres[rule.then] * fires
                weight += fires
        return total / weight


def _memberships(sets: Mapping[str, TriangularSet], value: Fraction) -> Mapping[str, Fraction]:
    """The sets to which the value belongs at all; other rules do not fire."""
    return {name: degree for name, one in sets.items() if (degree := one.membership(value))}


def _listed(pairs: Iterable[tuple[str, str]]) -> str:
    return ", ".join(f"({one}, {other})" for one, other in pairs)
