"""What a random story about host power adds to one about time: hosts that may sleep, and what goes wrong there."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

from one_preempt.configuration.power_settings import HandedOverSettings, HostPowerSettings, PowerSettings
from one_preempt.simulation.simulated_cloud.cloud import SimulatedCloud
from one_preempt.simulation.simulated_cloud.host_power import PowerMishap, SimulatedHostPower
from one_preempt.simulation.simulator.timed_fault import TimedFault
from tests.simulation.time_stories.drawn_story import CALM_AT_S


def draw_power(seed: int) -> PowerSettings:
    """The administrator's rules: all hosts are handed over."""
    chance = random.Random(f"power {seed}")
    return PowerSettings(
        mode="enforce",
        policy=chance.choice(("PEMP", "SESP", "GESP", "look-ahead")),
        hosts=(HandedOverSettings(),),
        floor=chance.choice((0, 0, 1)),
        most_booting=chance.choice((1, 2, 4)),
        boot_timeout_s=300,
        shutdown_timeout_s=120,
        least_on_s=chance.choice((0, 60)),
        least_off_s=chance.choice((0, 60)),
        period_s=chance.choice((60, 300)),
        first_pause_s=60,
        longest_pause_s=300,
        model=HostPowerSettings(
            boot_s=chance.choice((0, 20, 120)), shutdown_s=chance.choice((0, 10)), idle_w=100, peak_w=200
        ),
    )


@dataclass(frozen=True, slots=True)
class PowerGoesWrong:
    """The power of a host begins to go wrong, or no host's does any more."""

    at_s: int
    machines: SimulatedHostPower
    host_id: int
    mishap: PowerMishap | None

    def strike(self, cloud: SimulatedCloud) -> None:
        """Let it happen."""
        if self.mishap is None:
            self.machines.mishaps.clear()
        else:
            self.machines.mishaps[self.host_id] = self.mishap


def draw_mishaps(seed: int, machines: SimulatedHostPower, hosts: int) -> Iterator[TimedFault]:
    """Machines that do not obey, in one story of four."""
    chance = random.Random(f"mishaps {seed}")
    for _ in range(chance.choice((0, 0, 0, 1, 2)) if seed % 2 else 0):
        yield PowerGoesWrong(chance.randint(0, 900), machines, chance.randrange(hosts), chance.choice([*PowerMishap]))
    yield PowerGoesWrong(CALM_AT_S, machines, 0, None)
