"""The order that PRIORITY in host or cluster templates gives (sched.conf POLICY 4)."""

from __future__ import annotations

from one_preempt.core.host_selection.selection import ByRank

POLICY = ByRank("fixed", "PRIORITY", "the host with the highest PRIORITY in its template or that of its cluster")
