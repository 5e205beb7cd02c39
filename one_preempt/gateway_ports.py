"""What the gateway knows of the world outside: its ledger, and the zones as its administrator sees them.

Adapters implement these Protocols; `gateway_composition` picks them. Times are seconds since the epoch.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from one_preempt.core.gateway.requests import GatewayRequest
from one_preempt.core.gateway.shares import Allocation
from one_preempt.core.gateway.streams import HostRoom, ZoneMeasure
from one_preempt.core.gateway.vm_runs import VmRun
from one_preempt.ports import CloudUnavailable


class AnotherZone(CloudUnavailable):
    """The endpoint is that of another zone: what is seen there, and created there, is not in the zone that is meant."""


class SeenZone(Struct, frozen=True):
    """A zone's hosts that take VMs, and the VMs of which a part of a stay lies in the window that was asked for.

    `problems` are sentences about what could not be read. `is_disabled`: nothing can be created there now.
    `hosts_offline`: so many hosts do not tell what they have, for they are asleep, or put away by an administrator.
    """

    hosts: tuple[HostRoom, ...]
    runs: tuple[VmRun, ...]
    problems: tuple[str, ...] = ()
    is_disabled: bool = False
    hosts_offline: int = 0


class ZoneWatcher(Protocol):
    """Looks at one zone and changes nothing there. Every method raises `OnePreemptError` where the zone has no answer.

    The message says what was asked, where, and what to look at. Once `seen` has raised `AnotherZone`, every method does
    until `seen` finds the right one.
    """

    @property
    def endpoint(self) -> str:
        """Its URL, also for the commands of users."""

    def version(self) -> str:
        """Which OpenNebula is there: the cheapest question by which it is known that somebody answers."""

    def seen(self, from_s: int) -> SeenZone:
        """Hosts, and what ran since an instant."""

    def vms_with(self, tokens: Collection[str]) -> Mapping[str, Sequence[int]]:
        """The VMs that are not DONE and bear one of these tokens, by token; ids ascend."""


class GatewayLedger(Protocol):
    """The ledger on disk. Every method is one transaction; a process may die between any two of them."""

    def acquire_writer(self) -> None:
        """Become the one that writes, or keep being it; raises `AnotherDaemonWrites` where another one is."""

    def last_number(self) -> int:
        """The greatest number that a request has; 0 where there is none."""

    def record(self, request: GatewayRequest, charges: Mapping[str, float]) -> None:
        """Write a request over what was written of its number, and add to the balances of its type."""

    def request(self, number: int) -> GatewayRequest | None:
        """One request."""

    def requests(self, before: int | None = None, limit: int = 100, uid: int | None = None) -> Sequence[GatewayRequest]:
        """Requests, newest first: those with a number below `before`, of one user or of all."""

    def unsettled(self) -> Sequence[GatewayRequest]:
        """Requests of which it is not known what became of them, oldest first."""

    def placed(self) -> Sequence[GatewayRequest]:
        """Requests whose VMs are in a zone, oldest first."""

    def tokens(self) -> Mapping[str, int]:
        """The number of each request on record by its token."""

    def opened_since(self, from_s: int) -> Sequence[GatewayRequest]:
        """Requests that were opened after an instant, and the first of all; oldest first."""

    def balances(self, request_type: str) -> Mapping[str, float]:
        """How far each zone is ahead of its share of requests of a type."""

    def measures(self) -> Mapping[str, ZoneMeasure]:
        """The last measure of each zone."""

    def record_measure(self, zone: str, measure: ZoneMeasure) -> None:
        """In place of the zone's former one."""

    def allocation(self) -> Allocation | None:
        """The shares in force."""

    def record_allocation(self, allocation: Allocation) -> None:
        """From now on these shares are in force."""

    def prune(self, before_s: int) -> int:
        """Forget requests of which nothing was left before an instant, but for the newest of them; how many.

        Numbers are not used again.
        """

    def close(self) -> None:
        """Let go of the database."""
