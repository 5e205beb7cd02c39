"""SESP, the saver that looks at the promise (PEMP12 section IV-A): wakes when waits are longer than promised.

While V < 1 as few as under GESP, from V = 1 on all the nodes that a request asks for.
"""

from __future__ import annotations

from fractions import Fraction

from msgspec import Struct
from msgspec.structs import replace

from one_preempt.core.energy.load import violation_risk
from one_preempt.core.energy.policy import Occasion, SupplyDecision, SupplyQuestion
from one_preempt.core.energy.supply_split import split_supply, wake_for_queue


class ServiceLevelEnergySaver(Struct, frozen=True):
    """`waiting_factor` is alpha: the mean wait promised to best-effort requests, in mean durations; `promised_wait_s`
    is that wait itself (MAWT), where it is given."""

    name: str = "SESP"
    description: str = "wakes a request's hosts once best-effort leases wait longer than promised"
    puts_off: bool = False
    strands: bool = False
    waiting_factor: Fraction = Fraction(5)
    promised_wait_s: int | None = None

    def with_promise(self, waiting_factor: Fraction, promised_wait_s: int | None) -> ServiceLevelEnergySaver:
        """This policy with another promise of waits: see `PromisesWaits`."""
        return replace(self, waiting_factor=waiting_factor, promised_wait_s=promised_wait_s)

    def decide(self, question: SupplyQuestion) -> SupplyDecision:
        """Wake all that is asked for at V >= 1, else as little as possible."""
        if question.occasion == Occasion.IDLE:
            return SupplyDecision(switch_off=question.nodes.unscheduled)
        broken = violation_risk(question.queue, self.waiting_factor, self.promised_wait_s) >= 1
        wished = question.nodes_asked if broken else 0
        if question.occasion == Occasion.PERIODIC:
            return SupplyDecision(wake=wake_for_queue(wished, question.nodes))
        split = split_supply(question.nodes_asked, wished, question.nodes)
        return SupplyDecision(wake=split.wake, preempt=split.preempt)


POLICY = ServiceLevelEnergySaver()
