"""What goes wrong at an instant of a simulation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from one_preempt.simulation.simulated_cloud.cloud import SimulatedCloud
from one_preempt.simulation.simulated_cloud.faults import Fault


class TimedFault(Protocol):
    """A mishap; instants in seconds since the start of the workload."""

    @property
    def at_s(self) -> int:
        """When."""

    def strike(self, cloud: SimulatedCloud) -> None:
        """Let it happen."""


@dataclass(frozen=True, slots=True)
class HostDies:
    """A machine dies, and its guests with it as far as oned can tell."""

    at_s: int
    host_id: int

    def strike(self, cloud: SimulatedCloud) -> None:
        """Let it happen."""
        cloud.kill_host(self.host_id)


@dataclass(frozen=True, slots=True)
class HostReturns:
    """A dead machine is back."""

    at_s: int
    host_id: int
    guests_survived: bool = False

    def strike(self, cloud: SimulatedCloud) -> None:
        """Let it happen."""
        cloud.revive_host(self.host_id, self.guests_survived)


@dataclass(frozen=True, slots=True)
class DriverFails:
    """From now on driver operations misbehave as `fault` says; chances are drawn from the cloud's seed."""

    at_s: int
    fault: Fault

    def strike(self, cloud: SimulatedCloud) -> None:
        """Let it happen."""
        cloud.faults.add(self.fault)
