"""An expression of the administrator's (sched.conf POLICY 3); without one all hosts are equal."""

from __future__ import annotations

from one_preempt.core.host_selection.selection import ByRank

POLICY = ByRank("custom", "", "the host with the highest rank, by the expression matchmaker.host_rank")


def by_expression(rank: str) -> ByRank:
    """The policy with the RANK of the configuration; `parse_rank` tells whether it can be read."""
    return ByRank("custom", rank)
