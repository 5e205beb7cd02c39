"""Spread load: the host with most idle CPU, as monitored, first (sched.conf POLICY 2)."""

from __future__ import annotations

from one_preempt.core.host_selection.selection import ByRank

POLICY = ByRank("load-aware", "FREE_CPU", "the host with most idle CPU, as monitored")
