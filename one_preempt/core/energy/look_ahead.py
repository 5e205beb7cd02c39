"""Look-ahead: hosts are on when there is work for them, and only then. The project's own policy.

A reservation is bound shortly before its start, not when it is accepted: until then nothing stays on for it. It gets
free nodes, then woken ones, and preempts only where no more can be woken. For the queue hosts are woken periodically,
as many as it lacks after the ends expected during a boot. What nobody needs goes off at once, unless a reservation
needs it again within the break-even time of a host. A node with leases is emptied where that saves more than moving
them takes.
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from one_preempt.core.energy.policy import Occasion, SupplyDecision, SupplyQuestion
from one_preempt.core.energy.supply_split import split_supply, wake_for_queue


class LookAhead(Struct, frozen=True):
    """Relies on the boot time that it is told: hosts woken that long before a reservation's start are up by then."""

    name: str = "look-ahead"
    description: str = "wakes hosts when work starts and not before, lets them sleep as soon as nothing needs them"
    puts_off: bool = True
    strands: bool = False

    def decide(self, question: SupplyQuestion) -> SupplyDecision:
        """Wakes for reservations that are due and for what waits, less the nodes that end soon; idle ones sleep."""
        match question.occasion:
            case Occasion.IDLE:
                return SupplyDecision(switch_off=max(question.nodes.unscheduled - _needed_soon(question), 0))
            case Occasion.PERIODIC:
                # Without a request no boot helps anybody in the queue.
                lacking = int(question.queue.nodes.sum()) - _ending_soon(question) if question.nodes_asked else 0
                return SupplyDecision(
                    wake=wake_for_queue(lacking, question.nodes), consolidate=_worth_emptying(question)
                )
            case Occasion.ARRIVAL | Occasion.DUE:
                return _for_reservation(question)


def _for_reservation(question: SupplyQuestion) -> SupplyDecision:
    due_s = question.start_s - question.power.boot_s
    if question.occasion == Occasion.ARRIVAL and question.now_s < due_s:
        return SupplyDecision(ask_again_s=due_s)
    # A preempted lease is given a host again, so that preempting takes a boot too, and the move besides.
    lacking = question.nodes_asked - question.nodes.free
    split = split_supply(question.nodes_asked, lacking, question.nodes)
    return SupplyDecision(wake=split.wake, preempt=split.preempt)


def _needed_soon(question: SupplyQuestion) -> int:
    """Nodes that reservations need within the break-even time; all, where switching off saves nothing."""
    break_even_s = question.power.break_even_s
    if break_even_s is None:
        return question.nodes.unscheduled
    return int(np.dot(question.put_off.nodes, question.put_off.start_s <= question.now_s + break_even_s))


def _ending_soon(question: SupplyQuestion) -> int:
    """Nodes that are expected to be free before a host could be up."""
    ends = question.running.end_s
    soon = (ends > question.now_s) & (ends <= question.now_s + question.power.boot_s)
    return int(np.dot(question.running.nodes, soon))


def _worth_emptying(question: SupplyQuestion) -> int:
    """The nodes, in their order, whose idle power until they are empty by themselves is more than emptying takes."""
    nodes, idle_mw = question.emptiable, question.power.curve.idle_mw
    worth = (nodes.empty_s - question.now_s) * idle_mw > nodes.energy_mj
    return int(np.logical_and.accumulate(worth).sum())


POLICY = LookAhead()
