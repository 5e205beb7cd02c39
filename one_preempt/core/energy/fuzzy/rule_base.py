"""PEMP12's fuzzy engine with a rule base of our own: the published one is gone with its site.

Inputs: C, the utilization of the nodes that are on (Equation 4), and V, the risk that best-effort requests wait for
more than they are promised on the mean (Equation 1; beyond 1 they do). Output: f in [-1, 2], see `pemp.py`.
"""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

from one_preempt.core.energy.fuzzy.engine import FuzzyEngine, Rule, partition

UTILIZATION_PEAKS = {
    "VL": Fraction(0),
    "L": Fraction(1, 4),
    "M": Fraction(1, 2),
    "H": Fraction(3, 4),
    "VH": Fraction(1),
}
"""C: very low, low, medium, high, very high."""

RISK_PEAKS = {
    "VLR": Fraction(0),
    "LR": Fraction(1, 10),
    "HR": Fraction(1, 5),
    "VHR": Fraction(2, 5),
}
"""V: very low, low, high, very high risk; the paper's rule for medium V stands where LR and HR meet. V is a mean over
the queue of now: by the time it comes to 1, many have waited for longer than promised. So very high lies well below."""

DECISION_CENTRES = {
    "NP": Fraction(-1),
    "QP": Fraction(1, 4),
    "HP": Fraction(1, 2),
    "3QP": Fraction(3, 4),
    "AP": Fraction(1),
    "LC": Fraction(4, 3),
    "MC": Fraction(5, 3),
    "HC": Fraction(2),
}
"""D: the centres that its words have. NP is at -1, the least that the paper says f takes: were it at 0, the branch for
f < 0 of Algorithm 1 could never be reached. Quarters of preemption are what they say. Above 1 lie the three
consolidations, evenly, up to as many nodes as the request asks for."""


class ExplainedRule(NamedTuple):
    """A rule and why it is so."""

    utilization: str
    risk: str
    decision: str
    why: str

    @property
    def rule(self) -> Rule:
        """As the engine takes it."""
        return Rule(self.utilization, self.risk, self.decision)


RULE_BASE: tuple[ExplainedRule, ...] = (
    ExplainedRule("VL", "VLR", "HC", "Nearly nothing runs and nobody waits: give back as many nodes as are asked for."),
    ExplainedRule("VL", "LR", "AP", "There is room on the nodes that are on; those who wait can wait longer."),
    ExplainedRule("VL", "HR", "3QP", "The nodes have room for nearly all of it, but the queue grows old."),
    ExplainedRule("VL", "VHR", "NP", "The queue is about to wait longer than promised: preempt nobody."),
    ExplainedRule("L", "VLR", "HC", "Much room, nobody waits: give back as many nodes as are asked for."),
    ExplainedRule("L", "LR", "AP", "Much room: whoever is preempted finds another place soon."),
    ExplainedRule("L", "HR", "HP", "Room, and a queue that grows old: half and half."),
    ExplainedRule("L", "VHR", "NP", "The queue is about to wait longer than promised: preempt nobody."),
    ExplainedRule("M", "VLR", "MC", "Half of the nodes' time is free and nobody waits: give some back."),
    ExplainedRule("M", "LR", "AP", "Half of the nodes' time is free for those who are preempted."),
    ExplainedRule("M", "HR", "HP", "Half of the nodes' time is free, but the queue grows old: half and half."),
    ExplainedRule("M", "VHR", "NP", "The queue is about to wait longer than promised: preempt nobody."),
    ExplainedRule("H", "VLR", "LC", "Well used, yet nobody waits: give a few back."),
    ExplainedRule("H", "LR", "3QP", "Well used: those who are preempted need some of it elsewhere."),
    ExplainedRule("H", "HR", "QP", "Well used and a queue that grows old; with the rule before, half at medium risk."),
    ExplainedRule("H", "VHR", "NP", "The queue is about to wait longer than promised: preempt nobody."),
    ExplainedRule("VH", "VLR", "AP", "Fully used, yet nobody waits: no more nodes, and none to give back."),
    ExplainedRule("VH", "LR", "HP", "Fully used: whoever is preempted waits long, so half of it only."),
    ExplainedRule("VH", "HR", "QP", "Fully used and a queue that grows old: wake nearly all."),
    ExplainedRule("VH", "VHR", "NP", "The queue is about to wait longer than promised: preempt nobody."),
)

ENGINE = FuzzyEngine(
    first=partition(UTILIZATION_PEAKS),
    second=partition(RISK_PEAKS),
    centres=DECISION_CENTRES,
    rules=tuple(explained.rule for explained in RULE_BASE),
)
