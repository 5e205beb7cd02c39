"""SCHED_MESSAGE: why a VM waits, for its owner. oned writes there too; what is ours is known by its mark."""

from __future__ import annotations

SCHED_MESSAGE = "SCHED_MESSAGE"
OUR_MARK = "one_preempt: "
