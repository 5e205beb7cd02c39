"""What a host draws: by utilization while it is on, and while it boots, shuts down and is off.

Whole milliwatts and millijoules, so that energies compare as integers. `CONSTANT_117_W` is the host of PEMP12.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from msgspec import Struct

MW_PER_W = 1000
FULL_PERCENT = 100


class PowerCurve(Struct, frozen=True):
    """Power over utilization: straight lines between points.

    `points` are (utilization in per cent, power in milliwatts), the utilizations ascending from 0 to 100, the powers
    not negative. Raises ValueError for anything else.
    """

    points: tuple[tuple[int, int], ...]

    def __post_init__(self) -> None:
        loads = [load for load, _power in self.points]
        if len(loads) < 2 or loads[0] != 0 or loads[-1] != FULL_PERCENT:
            raise ValueError(f"a power curve goes from 0 to 100 % utilization; these points are at {loads}")
        if any(after <= before for before, after in pairwise(loads)):
            raise ValueError(f"the utilizations of a power curve ascend; these are {loads}")
        if any(power < 0 for _load, power in self.points):
            raise ValueError("a host does not draw less than nothing: give powers of 0 W and more")

    def power_mw(self, used: int, capacity: int) -> int:
        """The power with `used` of `capacity` busy (hundredths of a CPU, or nodes), rounded down to milliwatts.

        More than the capacity draws what the full host draws; a host of no capacity draws what an idle one does.
        """
        if capacity <= 0:
            return self.points[0][1]
        busy = min(max(used, 0), capacity)
        for (low, low_mw), (high, high_mw) in pairwise(self.points):
            if busy * FULL_PERCENT <= high * capacity:
                beyond = busy * FULL_PERCENT - low * capacity
                return low_mw + (high_mw - low_mw) * beyond // ((high - low) * capacity)
        raise AssertionError("the curve ends at 100 %")

    @property
    def idle_mw(self) -> int:
        """The power of a host that is on and does nothing."""
        return self.points[0][1]

    @property
    def peak_mw(self) -> int:
        """The power of a host that is fully used."""
        return self.points[-1][1]


def constant_power(power_w: float) -> PowerCurve:
    """A host that draws the same at any utilization: PEMP12's 117 W."""
    return linear_power(power_w, power_w)


def linear_power(idle_w: float, peak_w: float) -> PowerCurve:
    """A host that is known by two numbers: idle and fully used."""
    return power_table((idle_w, peak_w))


def power_table(powers_w: Sequence[float]) -> PowerCurve:
    """Powers at even steps from idle to full use, as SPECpower_ssj2008 gives them (eleven, at 0, 10, .. 100 %).

    Raises ValueError where the steps are no whole per cent, or there are fewer than two.
    """
    steps = len(powers_w) - 1
    if steps < 1 or FULL_PERCENT % steps:
        raise ValueError(f"{len(powers_w)} powers do not divide 0 to 100 % into steps of whole per cent: give 2 or 11")
    return PowerCurve(tuple((at * FULL_PERCENT // steps, milliwatts(power)) for at, power in enumerate(powers_w)))


def milliwatts(power_w: float) -> int:
    """Watts as whole milliwatts, half away from zero."""
    return int(power_w * MW_PER_W + 0.5) if power_w >= 0 else -int(-power_w * MW_PER_W + 0.5)


CONSTANT_117_W = constant_power(117)
"""The average of a comparable machine in SPECpower (PEMP12 section IV-A)."""


class HostPower(Struct, frozen=True):
    """All that is known of the power of one kind of host. Times in seconds, powers in milliwatts.

    `boot_s` is the time after which a woken host is surely up. `boot_mw` and `shutdown_mw` are the mean power during
    boot and shutdown; `off_mw` is what the board controller draws while the host is off.
    """

    curve: PowerCurve = CONSTANT_117_W
    boot_s: int = 120
    boot_mw: int = CONSTANT_117_W.peak_mw
    shutdown_s: int = 0
    shutdown_mw: int = CONSTANT_117_W.idle_mw
    off_mw: int = 0

    @property
    def boot_energy_mj(self) -> int:
        """The energy of one boot."""
        return self.boot_s * self.boot_mw

    @property
    def shutdown_energy_mj(self) -> int:
        """The energy of one shutdown."""
        return self.shutdown_s * self.shutdown_mw

    @property
    def break_even_s(self) -> int | None:
        """The shortest time without work in which off and on again takes no more energy than staying idle.

        At least the time that both take; None where idling draws no more than being off, so that nothing is saved.
        """
        saved_mw = self.curve.idle_mw - self.off_mw
        if saved_mw <= 0:
            return None
        under_way_s = self.boot_s + self.shutdown_s
        spent_mj = self.boot_energy_mj + self.shutdown_energy_mj - self.off_mw * under_way_s
        return max(under_way_s, -(-spent_mj // saved_mw))


def most_economical_first(hosts: Iterable[tuple[int, HostPower]]) -> tuple[int, ...]:
    """Host ids in the order in which to wake them: the least power at full use, the cheapest boot, then the id."""
    by_price = sorted((power.curve.peak_mw, power.boot_energy_mj, host) for host, power in hosts)
    return tuple(host for _peak_mw, _boot_mj, host in by_price)
