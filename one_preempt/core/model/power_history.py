"""How long each host was on, booting, shutting down or off, under which policy: what energy is counted from."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace


class HostUse(StrEnum):
    """What a host did, as far as energy is concerned."""

    ON = "on"
    BOOTING = "booting"
    """From the order to start until OpenNebula monitors it."""
    SHUTTING_DOWN = "shutting-down"
    OFF = "off"
    FAILED = "failed"
    """It did not come up, or did not obey: nobody can tell what it does."""


class HostUseStay(Struct, frozen=True):
    """One host in one use, from `since_s` until before `until_s` (None: it lasts), in seconds since the epoch.

    `policy` is the energy policy that was obeyed, '' where none was. `load_percent` is what oned had given out of the
    host's CPU, where it was on. A host has one stay at an instant, and no two that begin at the same one.
    """

    host_id: int
    host_name: str
    cluster_name: str
    use: HostUse
    policy: str
    since_s: int
    until_s: int | None = None
    load_percent: int = 0

    @property
    def key(self) -> tuple[int, str, str, int]:
        """What is added up: host id, use, policy, load."""
        return self.host_id, self.use.value, self.policy, self.load_percent


class HostUseTotal(Struct, frozen=True):
    """All that is left of stays that were pruned: how many they were, and how long they lasted together.

    They lie between `first_s` and `last_s`, in seconds since the epoch. Names are those of the latest.
    """

    host_id: int
    host_name: str
    cluster_name: str
    use: HostUse
    policy: str
    load_percent: int
    stays: int
    lasted_s: int
    first_s: int
    last_s: int

    @property
    def key(self) -> tuple[int, str, str, int]:
        """What is added up: host id, use, policy, load."""
        return self.host_id, self.use.value, self.policy, self.load_percent


def with_stay(total: HostUseTotal | None, stay: HostUseStay) -> HostUseTotal:
    """The total of a stay's key once the stay, which has ended, is in it."""
    assert stay.until_s is not None, "only what has ended is added up"
    lasted_s = stay.until_s - stay.since_s
    if total is None:
        return HostUseTotal(
            stay.host_id, stay.host_name, stay.cluster_name, stay.use, stay.policy, stay.load_percent,
            stays=1, lasted_s=lasted_s, first_s=stay.since_s, last_s=stay.until_s,
        )  # fmt: skip
    latest = stay if stay.until_s >= total.last_s else total
    return replace(
        total,
        host_name=latest.host_name,
        cluster_name=latest.cluster_name,
        stays=total.stays + 1,
        lasted_s=total.lasted_s + lasted_s,
        first_s=min(total.first_s, stay.since_s),
        last_s=max(total.last_s, stay.until_s),
    )
