"""What the simulator asks of the scheduler: one cycle after the other. The production cycle fits as it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from one_preempt.core.memory.quiet_changes import Quiet
from one_preempt.core.model.cluster_state import ClusterState
from one_preempt.core.model.plan import Plan


class Report(Protocol):
    """What a cycle tells of itself."""

    @property
    def plan(self) -> Plan | None:
        """What it decided."""

    @property
    def state(self) -> ClusterState | None:
        """What it decided upon."""

    @property
    def violations(self) -> Sequence[object]:
        """What the recount found against the plan; it was decided again, more cautiously."""

    @property
    def is_refused(self) -> bool:
        """The recount refused that too, and nothing was done."""

    @property
    def quiet(self) -> Quiet:
        """Starts and ends that are no reason to look again before something else is."""


class Scheduler(Protocol):
    """A scheduling cycle with its surroundings plugged in."""

    def run(self) -> Report:
        """Observe, decide, act."""
