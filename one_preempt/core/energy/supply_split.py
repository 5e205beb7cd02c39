"""A wish to wake so many nodes, fitted to the nodes there are."""

from __future__ import annotations

from typing import NamedTuple

from one_preempt.core.energy.policy import NodeCounts


class SupplySplit(NamedTuple):
    """Nodes of a request that are woken and that are preempted; the others are free ones."""

    wake: int
    preempt: int


def split_supply(nodes_asked: int, wished: int, nodes: NodeCounts) -> SupplySplit:
    """As many woken as wished; the rest from free nodes, then by preempting; what still lacks is woken after all.

    Where there are fewer nodes than asked for, all of them.
    """
    wake = min(max(wished, 0), nodes.bootable, nodes_asked)
    preempt = min(max(nodes_asked - wake - nodes.free, 0), nodes.preemptable)
    lacking = nodes_asked - wake - preempt - nodes.free
    return SupplySplit(wake + min(max(lacking, 0), nodes.bootable - wake), preempt)


def wake_for_queue(wished: int, nodes: NodeCounts) -> int:
    """Of the nodes wished for the queue, those to be woken now: less what is free or on its way."""
    return min(max(wished - nodes.free - nodes.booting, 0), nodes.bootable)
