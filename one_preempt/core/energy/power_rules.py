"""What the administrator chose about power: which hosts may sleep, who decides it, and within which bounds."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from fnmatch import fnmatchcase
from functools import lru_cache

from msgspec import Struct, field

from one_preempt.core.energy.always_on import POLICY as ALWAYS_ON
from one_preempt.core.energy.policy import EnergyPolicy
from one_preempt.core.energy.power_model import HostPower
from one_preempt.core.model.host import Host
from one_preempt.core.model.host_name import is_host_name

MINUTES_A_DAY = 24 * 60


def utc_minute(now_s: int) -> int:
    """The minute of the day at an instant, in UTC."""
    return now_s // 60 % MINUTES_A_DAY


class PowerMode(StrEnum):
    """OFF asks no policy; ADVISE decides and says it; ENFORCE acts. None of them forgets a host that sleeps."""

    OFF = "off"
    ADVISE = "advise"
    ENFORCE = "enforce"


class HostPattern(Struct, frozen=True):
    """Hosts by shell patterns of their name and their cluster's."""

    host: str = "*"
    cluster: str = "*"

    def matches(self, host: Host) -> bool:
        """Does the pattern fit the names of this host and of its cluster?"""
        return self.suits(host.name, host.cluster_name)

    def suits(self, name: str, cluster_name: str) -> bool:
        """Does the pattern fit these names? For whoever has no observed host at hand, as reports of the past."""
        return _matches(self.host, name) and _matches(self.cluster, cluster_name)


@lru_cache(maxsize=1 << 14)
def _matches(pattern: str, name: str) -> bool:
    """Asked of every host in every decision."""
    return fnmatchcase(name, pattern)


class QuietHours(Struct, frozen=True):
    """A time of day, in minutes since midnight, from `begins` until before `ends`; over midnight where it ends earlier.

    Every day where both are equal.
    """

    begins: int
    ends: int

    def contain(self, minute: int) -> bool:
        """Is it quiet at this minute of the day?"""
        return (minute - self.begins) % MINUTES_A_DAY < ((self.ends - self.begins) % MINUTES_A_DAY or MINUTES_A_DAY)


class PowerRules(Struct, frozen=True):
    """The bounds within which `policy` is asked and obeyed. All times in whole seconds.

    `period_s`: how often the policy looks after the queue. `handed_over`: the hosts that may be switched, none as
    shipped. `floor`: of these, so many are not let sleep, and where fewer are on some are woken. `most_booting`:
    told to start and not up yet. `boot_timeout_s`, `shutdown_timeout_s`: after these a host has failed, and is left
    alone for `first_pause_s`, doubled with each failure in a row up to `longest_pause_s`. `emptying_timeout_s`: a
    host that is not empty by then is used again. `least_on_s`, `least_off_s`: a host stays on, or asleep, at least
    so long. `enable_after_s`: how long after the order to start a host is enabled in OpenNebula; None: its
    `boot_s`. `asleep_reading_s`: how often it is looked whether a sleeping host still has no power; 0: never.
    `minute_of_day` tells the time of the day, as it is meant by `quiet_hours`, of seconds since the epoch. `models`
    give the power of the hosts that match, the first that does; `power` is that of all others.
    """

    mode: PowerMode = PowerMode.OFF
    policy: EnergyPolicy = ALWAYS_ON
    period_s: int = 300
    handed_over: tuple[HostPattern, ...] = ()
    floor: int = 1
    most_booting: int = 4
    boot_timeout_s: int = 900
    shutdown_timeout_s: int = 600
    emptying_timeout_s: int = 3600
    first_pause_s: int = 300
    longest_pause_s: int = 86_400
    least_on_s: int = 600
    least_off_s: int = 300
    enable_after_s: int | None = None
    asleep_reading_s: int = 300
    quiet_hours: tuple[QuietHours, ...] = ()
    minute_of_day: Callable[[int], int] = utc_minute
    models: tuple[tuple[HostPattern, HostPower], ...] = ()
    power: HostPower = field(default_factory=HostPower)

    @property
    def enforced(self) -> bool:
        """Are steps carried out, and not only advised?"""
        return self.mode is PowerMode.ENFORCE

    def is_handed_over(self, host: Host) -> bool:
        """May this host be switched on and off? None whose name no power control would take."""
        return self.hands_over(host.name, host.cluster_name)

    def hands_over(self, name: str, cluster_name: str) -> bool:
        """The same by the names of a host and its cluster."""
        return is_host_name(name) and any(pattern.suits(name, cluster_name) for pattern in self.handed_over)

    def names(self, host: Host) -> bool:
        """Does a pattern of the hosts handed over fit it? Still its name may be one that no power control takes."""
        return any(pattern.matches(host) for pattern in self.handed_over)

    def power_of(self, host: Host) -> HostPower:
        """What is known of the power of this host."""
        return next((power for pattern, power in self.models if pattern.matches(host)), self.power)

    def power_named(self, host_name: str, cluster_name: str) -> HostPower:
        """The same by the names of the host and of its cluster."""
        return next((power for pattern, power in self.models if pattern.suits(host_name, cluster_name)), self.power)

    def up_after_s(self, host: Host) -> int:
        """How long after the order to start this host takes VMs: it boots, and is enabled."""
        return self.up_after(self.power_of(host))

    def up_after(self, power: HostPower) -> int:
        """The same of a host of which this is known."""
        return max(power.boot_s, self.enable_after_s or 0)

    def is_quiet(self, now_s: int) -> bool:
        """Is it a quiet hour at this instant, in which no host is switched?"""
        return any(hours.contain(self.minute_of_day(now_s)) for hours in self.quiet_hours)

    def pause_s(self, failures: int) -> int:
        """How long a host is left alone after so many failures in a row."""
        return min(self.first_pause_s << min(max(failures - 1, 0), 32), self.longest_pause_s)
