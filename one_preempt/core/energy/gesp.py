"""GESP, the greedy energy saver (PEMP12 section IV-A): the fewest nodes that reservations need.

Best-effort requests run in the gaps that reservations leave; it never asks for a node to be woken for them.
Reservations are packed: spread over all nodes that are on, they would keep more of these from sleeping than they need.

To the letter of the paper it `strands` whoever needs more nodes than reservations have woken. Nobody who runs a cloud
wants that, so that it has to be asked for; the experiment does.
"""

from __future__ import annotations

from msgspec import Struct

from one_preempt.core.energy.policy import Occasion, SupplyDecision, SupplyQuestion
from one_preempt.core.energy.supply_split import split_supply


class GreedyEnergySaver(Struct, frozen=True):
    """Preempts whatever it can, wakes what then lacks."""

    name: str = "GESP"
    description: str = "wakes the fewest hosts that reservations need; best-effort leases fill the gaps"
    puts_off: bool = False
    strands: bool = False

    def decide(self, question: SupplyQuestion) -> SupplyDecision:
        """A reservation gets free nodes, then preempted ones, and woken ones for the rest; the queue has none woken."""
        if question.occasion == Occasion.IDLE:
            return SupplyDecision(switch_off=question.nodes.unscheduled)
        if question.occasion == Occasion.PERIODIC:
            return SupplyDecision()
        split = split_supply(question.nodes_asked, 0, question.nodes)
        return SupplyDecision(wake=split.wake, preempt=split.preempt, packed=True)


POLICY = GreedyEnergySaver()
