"""Spread VMs: the host with fewest VMs first (sched.conf POLICY 1, as shipped)."""

from __future__ import annotations

from one_preempt.core.host_selection.selection import ByRank

POLICY = ByRank("striping", "- RUNNING_VMS", "the host with fewest VMs, so that they are spread")
