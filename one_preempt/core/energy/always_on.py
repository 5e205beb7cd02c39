"""Always on: hosts never sleep. What every saving is measured against."""

from __future__ import annotations

from msgspec import Struct

from one_preempt.core.energy.policy import BINDING, SupplyDecision, SupplyQuestion
from one_preempt.core.energy.supply_split import split_supply


class AlwaysOn(Struct, frozen=True):
    """Wakes whatever sleeps, and lets nothing sleep."""

    name: str = "always-on"
    description: str = "no host ever sleeps"
    puts_off: bool = False
    strands: bool = False

    def decide(self, question: SupplyQuestion) -> SupplyDecision:
        """All that are off are woken, whoever asks; a request takes free nodes, then preempts."""
        split = split_supply(question.nodes_asked if question.occasion in BINDING else 0, 0, question.nodes)
        return SupplyDecision(wake=question.nodes.bootable, preempt=split.preempt)


POLICY = AlwaysOn()
