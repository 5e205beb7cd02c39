"""Which leases give way to reservations, and on which hosts, remembered while neither they nor the hosts change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import is_

import numpy as np
from msgspec import Struct

from one_preempt.core.availability.steps import END_OF_TIME_S
from one_preempt.core.model.cluster_state import IntArray
from one_preempt.core.model.lease import Lease, PreemptionMethod
from one_preempt.core.model.virtual_machine import VirtualMachine


class GivingWay(Struct, frozen=True):
    """A lease on hosts that would be taken off them for a reservation; `ends_at_s` None: nobody knows."""

    lease: Lease
    vms: tuple[VirtualMachine, ...]
    methods: tuple[PreemptionMethod, ...]
    rows: tuple[int, ...]
    ends_at_s: int | None


class RememberedGivingWay:
    """What was last found of each lease. Only speed depends on it."""

    def __init__(self) -> None:
        self._row_of_host: Mapping[int, int] = {}
        self._there: dict[int, tuple[Lease, tuple[VirtualMachine, ...]]] = {}
        self._asked: dict[int, tuple[Lease, tuple[VirtualMachine, ...]]] = {}
        self._known: dict[int, GivingWay] = {}
        self._all: tuple[GivingWay, ...] = ()
        self._by_row: Mapping[int, Sequence[GivingWay]] | None = None
        self._last_ends_s: IntArray | None = None

    def look_at(self, row_of_host: Mapping[int, int]) -> None:
        """What is asked from now on is about these hosts, by their ids; what was found of others is forgotten."""
        if row_of_host is not self._row_of_host:
            self._row_of_host = row_of_host
            self._there.clear()
            self._known.clear()

    def of(self, lease: Lease) -> GivingWay | None:
        """What was found of a lease that has not changed since: it is on the same hosts."""
        known = self._known.get(lease.id)
        return known if known is not None and known.lease is lease else None

    def on_hosts(self, lease: Lease, vms: Mapping[int, VirtualMachine]) -> tuple[VirtualMachine, ...]:
        """The VMs of a lease that are on hosts; many that wait were sent out, and have none there."""
        known = self._there.get(lease.id)
        if known is None or known[0] is not lease:
            there = tuple([vm for vm_id in lease.vm_ids if (vm := vms[vm_id]).host_id in self._row_of_host])
            known = (lease, there)
        self._asked[lease.id] = known
        return known[1]

    def remember(self, found: tuple[GivingWay, ...]) -> None:
        """All that give way; they, and whom `on_hosts` was asked about since the last time, are remembered."""
        self._there, self._asked = self._asked, {}
        if len(found) != len(self._all) or not all(map(is_, found, self._all)):
            self._known = {one.lease.id: one for one in found}
            self._all, self._by_row, self._last_ends_s = found, None, None

    def by_row(self) -> Mapping[int, Sequence[GivingWay]]:
        """Who of all of them is on each host, once for each VM there."""
        if self._by_row is None:
            by_row: dict[int, list[GivingWay]] = {}
            for one in self._all:
                for row in one.rows:
                    by_row.setdefault(row, []).append(one)
            self._by_row = by_row
        return self._by_row

    def last_ends_s(self, hosts: int) -> IntArray:
        """When the last of them leaves each of so many hosts by itself, shape (H,); 0 where none of them is."""
        if self._last_ends_s is None or len(self._last_ends_s) != hosts:
            last_ends_s = [0] * hosts
            # In the order of their ends: of each host the last one stays.
            for ends_s, rows in sorted([(_ends_s(one), one.rows) for one in self._all]):
                for row in rows:
                    last_ends_s[row] = ends_s
            self._last_ends_s = np.array(last_ends_s, dtype=np.int64)
        return self._last_ends_s


def _ends_s(one: GivingWay) -> int:
    return END_OF_TIME_S if one.ends_at_s is None else one.ends_at_s
