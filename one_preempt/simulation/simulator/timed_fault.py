"""What goes wrong at an instant of a simulation."""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from one_preempt.simulation.simulated_cloud.cloud import SimulatedCloud
from one_preempt.simulation.simulated_cloud.faults import Fault


class TimedFault(Protocol):
    """A mishap; instants in seconds since the start of the workload."""

    @property
    def at_s(self) -> int:
        """When."""

    def strike(self, cloud: SimulatedCloud) -> None:
        """Let it happen."""


class HostDies(Struct, frozen=True):
    """A machine dies, and its guests with it as far as oned can tell."""

    at_s: int
    host_id: int

    def strike(self, cloud: SimulatedCloud) -> None:
        """Let it happen."""
        cloud.kill_host(self.host_id)


class HostReturns(Struct, frozen=True):
    """A dead machine is back."""

    at_s: int
    host_id: int
    guests_survived: bool = False

    def strike(self, cloud: SimulatedCloud) -> None:
        """Let it happen."""
        cloud.revive_host(self.host_id, self.guests_survived)


class DriverFails(Struct, frozen=True):
    """From now on driver operations misbehave as `fault` says; chances are drawn from the cloud's seed."""

    at_s: int
    fault: Fault

    def strike(self, cloud: SimulatedCloud) -> None:
        """Let it happen."""
        # A copy: what misbehaves for a number of times is counted down, and the same story may be played again.
        cloud.faults.add(replace(self.fault))
