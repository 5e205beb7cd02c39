"""How risky and how used things are: PEMP12's Equations 1 to 5. Fractions, so that thresholds are exact."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from one_preempt.core.energy.policy import QueuedWork, SupplyQuestion

FULL = Fraction(1)


def violation_risk(queue: QueuedWork, waiting_factor: Fraction, promised_wait_s: int | None = None) -> Fraction:
    """V = tau / (alpha E), with E and tau the mean duration and mean wait of queued requests, weighted by nodes.

    The weights cancel: V = sum n_i w_i / (alpha sum n_i d_i). 0 where nobody waits. With `promised_wait_s` that is the
    mean wait promised (MAWT), in place of alpha E.
    """
    if not len(queue.nodes):
        return Fraction(0)
    if promised_wait_s is not None:
        promised = max(int(queue.nodes.sum()) * promised_wait_s, 1)
        return Fraction(int(np.dot(queue.nodes, queue.waited_s)), promised)
    work = max(int(np.dot(queue.nodes, queue.duration_s)), 1)
    return Fraction(int(np.dot(queue.nodes, queue.waited_s))) / (waiting_factor * work)


def utilization(question: SupplyQuestion) -> Fraction:
    """C = L / (P T) of the nodes that are on: L the load, P the nodes, T the latest end of what runs, from now.

    L is what remains of what runs and of what waits. Where nothing is on or running C is 1: then there is
    nothing that could be preempted or consolidated.
    """
    running, queue, now_s = question.running, question.queue, question.now_s
    latest_s = int(running.end_s.max(initial=now_s)) - now_s
    if question.nodes.on <= 0 or latest_s <= 0:
        return FULL
    remaining = int(np.dot(running.nodes, np.maximum(running.end_s - now_s, 0)))
    load = remaining + int(np.dot(queue.nodes, queue.remaining_s))
    return min(Fraction(load, question.nodes.on * latest_s), FULL)
