"""Fill hosts up: the one with most VMs first (sched.conf POLICY 0)."""

from __future__ import annotations

from one_preempt.core.host_selection.selection import ByRank

POLICY = ByRank("packing", "RUNNING_VMS", "the host with most VMs, so that hosts are filled up")
