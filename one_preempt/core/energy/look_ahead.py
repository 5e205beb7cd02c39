"""Look-ahead: hosts are on when there is work for them, and only then. The project's own policy.

A reservation is bound shortly before its start, not when it is accepted: until then nothing stays on for it. It is
served from free nodes, then by preempting as far as that is cheaper than a boot, then by waking. For the queue hosts
are woken periodically. A node that nobody needs goes off at once, unless a reservation or an end of the queue's wait
needs it again within the break-even time of its boot.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from one_preempt.core.energy.policy import Occasion, SupplyDecision, SupplyQuestion
from one_preempt.core.energy.supply_split import split_supply, wake_for_queue


@dataclass(frozen=True, slots=True)
class LookAhead:
    """`margin_s` is added to the boot time: what a host may take longer to be up."""

    name: str = "look-ahead"
    description: str = "binds hosts at the start of work, preempts before it wakes, lets hosts sleep at once"
    margin_s: int = 60

    def decide(self, question: SupplyQuestion) -> SupplyDecision:
        """By occasion."""
        match question.occasion:
            case Occasion.IDLE:
                return SupplyDecision(switch_off=max(question.nodes.unscheduled - self._needed_soon(question), 0))
            case Occasion.PERIODIC:
                return SupplyDecision(wake=wake_for_queue(int(question.queue.nodes.sum()), question.nodes))
            case Occasion.ARRIVAL | Occasion.DUE:
                return self._reservation(question)

    def _reservation(self, question: SupplyQuestion) -> SupplyDecision:
        due_s = question.start_s - question.power.boot_s - self.margin_s
        if question.occasion == Occasion.ARRIVAL and question.now_s < due_s:
            return SupplyDecision(ask_again_s=due_s)
        split = split_supply(question.nodes_asked, 0, question.nodes)
        return SupplyDecision(wake=split.wake, preempt=split.preempt)

    def _needed_soon(self, question: SupplyQuestion) -> int:
        """Nodes that accepted reservations will have within the break-even time."""
        break_even_s = question.power.break_even_s
        if break_even_s is None:
            return question.nodes.unscheduled
        soon = question.reservations.start_s <= question.now_s + break_even_s
        return int(np.dot(question.reservations.nodes, soon))


POLICY = LookAhead()
