"""PEMP (PEMP12, Algorithm 1): waking, preempting and consolidating weighed by fuzzy rules.

f < 0: wake all that the request asks for; 0 <= f < 1: wake ceil(n (1 - f)), the rest by preemption; f = 1: all by
preemption; f > 1: all by preemption, and floor(n (f - 1)) nodes are emptied, if the nodes left still cover what is
scheduled for reservations. For each reservation that arrives, and periodically for the head of the queue.
"""

from __future__ import annotations

from fractions import Fraction
from math import ceil, floor

from msgspec import Struct
from msgspec.structs import replace

from one_preempt.core.energy.fuzzy.engine import FuzzyEngine
from one_preempt.core.energy.fuzzy.rule_base import ENGINE
from one_preempt.core.energy.load import utilization, violation_risk
from one_preempt.core.energy.policy import BINDING, Occasion, SupplyDecision, SupplyQuestion
from one_preempt.core.energy.supply_split import split_supply, wake_for_queue


class PreemptionAware(Struct, frozen=True):
    """`waiting_factor` is alpha: the mean wait promised to best-effort requests, in mean durations; `promised_wait_s`
    is that wait itself (MAWT), where it is given."""

    name: str = "PEMP"
    description: str = "weighs waking, preempting and consolidating by utilization and by the risk of long waits"
    puts_off: bool = False
    strands: bool = False
    waiting_factor: Fraction = Fraction(5)
    promised_wait_s: int | None = None
    engine: FuzzyEngine = ENGINE

    def with_promise(self, waiting_factor: Fraction, promised_wait_s: int | None) -> PreemptionAware:
        """This policy with another promise of waits: see `PromisesWaits`."""
        return replace(self, waiting_factor=waiting_factor, promised_wait_s=promised_wait_s)

    def decide(self, question: SupplyQuestion) -> SupplyDecision:
        """PEMP12's Algorithm 1: the share 1 - f of the nodes asked for is woken, and f beyond 1 consolidates."""
        if question.occasion == Occasion.IDLE:
            return SupplyDecision(switch_off=question.nodes.unscheduled)
        risk = violation_risk(question.queue, self.waiting_factor, self.promised_wait_s)
        f = self.engine.infer(utilization(question), risk)
        asked = question.nodes_asked
        wished = min(ceil(asked * (1 - f)), asked)
        consolidated = self._consolidated(floor(asked * (f - 1)), question)
        if question.occasion == Occasion.PERIODIC:
            return SupplyDecision(wake=wake_for_queue(wished, question.nodes), consolidate=consolidated)
        split = split_supply(asked, wished, question.nodes)
        return SupplyDecision(wake=split.wake, preempt=split.preempt, consolidate=consolidated)

    def _consolidated(self, wished: int, question: SupplyQuestion) -> int:
        if wished <= 0:
            return 0
        nodes = question.nodes
        reserved = nodes.required_at_start + (question.nodes_asked if question.occasion in BINDING else 0)
        emptied = min(wished, len(question.emptiable.empty_s))
        # Line 15: the nodes that are left cover what is scheduled for reservations.
        return emptied if reserved <= nodes.on - emptied else 0


POLICY = PreemptionAware()
