"""Until when a lease may stay on its hosts beside what others were firmly promised there, as far as can be counted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import inf

from msgspec import Struct

from one_preempt.core.model.host import KIB_PER_MIB, Host
from one_preempt.core.model.ledger import LeaseRecord, Ledger
from one_preempt.core.model.pool_snapshot import PoolSnapshot
from one_preempt.core.model.reservation import Reservation
from one_preempt.core.model.virtual_machine import VirtualMachine


class _Promised(Struct, frozen=True):
    """What a lease was promised of one host between two instants; `vms` None: nobody knows for which of its VMs."""

    start_s: int
    end_s: float
    vms: tuple[VirtualMachine, ...] | None


class PromisedRoom:
    """What is promised of hosts, held against those who are there now. Asked about few leases, and seldom."""

    def __init__(self, snapshot: PoolSnapshot, ledger: Ledger, now_s: int) -> None:
        self._snapshot = snapshot
        self._ledger = ledger
        self._now_s = now_s
        self._guests: dict[int, list[VirtualMachine]] = {}
        for vm in snapshot.vms.values():
            if vm.host_id is not None:
                self._guests.setdefault(vm.host_id, []).append(vm)
        self._record_of = {vm_id: record for record in ledger.leases.values() for vm_id in record.vm_ids}

    def taken_from_s(self, lease_id: int) -> float:
        """From when on one of its hosts has no room for it beside what others were promised; infinity: never."""
        members = set(self._ledger.leases[lease_id].vm_ids)
        host_ids = {self._snapshot.vms[one].host_id for one in members & self._snapshot.vms.keys()}
        return min((self._host_taken_from_s(one, lease_id) for one in host_ids if one is not None), default=inf)

    def _host_taken_from_s(self, host_id: int, lease_id: int) -> float:
        promised, host = list(self._promised(host_id, lease_id)), self._snapshot.hosts.get(host_id)
        own = [vm for vm in self._guests[host_id] if self._is_of(vm, lease_id)]
        for start_s in sorted({one.start_s for one in promised}):
            at_s = max(start_s, self._now_s)
            there = [one for one in promised if one.start_s <= at_s < one.end_s]
            coming = [vm for one in there for vm in one.vms or ()]
            is_unknown = host is None or any(one.vms is None for one in there)
            # What is more than numbers is not looked into.
            if is_unknown or any(vm.needs_matching for vm in (*own, *coming)):
                return start_s
            if host is not None and not self._fit(host, coming, at_s, lease_id):
                return start_s
        return inf

    def _promised(self, host_id: int, lease_id: int) -> Iterator[_Promised]:
        """Firmly, to others who are not there yet: for a time to come, or for now; and that room is being made for."""
        for other_id, reservations in self._ledger.reservations.items():
            record = self._ledger.leases.get(other_id)
            for one in reservations if other_id != lease_id else ():
                has_begun = one.start_at_s <= self._now_s and record is not None and record.run_began_at_s is not None
                if is_to_come(one, self._now_s) and host_id in one.host_ids and not has_begun:
                    end_s = inf if one.end_at_s is None else one.end_at_s
                    yield _Promised(one.start_at_s, end_s, self._vms_on(host_id, one, record))
        vms = self._snapshot.vms
        for opened in self._ledger.preemptions if self._ledger.reservations else ():
            places = [one.vm_id for one in opened.preemption.placements if one.host_id == host_id]
            arriving = tuple([vms[one] for one in places if one in vms and vms[one].host_id is None])
            if arriving and opened.preemption.preemptor_lease_id not in self._ledger.reservations:
                yield _Promised(self._now_s, inf, arriving)

    def _vms_on(self, host_id: int, one: Reservation, record: LeaseRecord | None) -> tuple[VirtualMachine, ...] | None:
        """The VMs that were promised a host; None where it is not known which."""
        vms = self._snapshot.vms
        if record is None or len(record.vm_ids) != len(one.host_ids):
            return None
        here = [vm_id for vm_id, where in zip(record.vm_ids, one.host_ids, strict=True) if where == host_id]
        return tuple([vms[vm_id] for vm_id in here if vm_id in vms])

    def _fit(self, host: Host, coming: Sequence[VirtualMachine], at_s: int, lease_id: int) -> bool:
        """Is there room for these at an instant beside all who are not known to have ended by then?"""
        gone = [vm for vm in self._guests[host.id] if not self._is_of(vm, lease_id) and self._ends_s(vm) <= at_s]
        cpu_centi = host.cpu_usage_centi + sum(vm.cpu_centi for vm in coming) - sum(vm.cpu_centi for vm in gone)
        memory_mib = sum(vm.memory_mib for vm in coming) - sum(vm.memory_mib for vm in gone)
        memory_kib = host.memory_usage_kib + memory_mib * KIB_PER_MIB
        return cpu_centi <= host.max_cpu_centi and memory_kib <= host.max_memory_kib

    def _is_of(self, vm: VirtualMachine, lease_id: int) -> bool:
        record = self._record_of.get(vm.id)
        return record is not None and record.id == lease_id

    def _ends_s(self, vm: VirtualMachine) -> float:
        """When its lease will have run for its DURATION; infinity where nobody knows, or that may become longer."""
        record = self._record_of.get(vm.id)
        if record is None or record.run_began_at_s is None or record.terms.duration_s is None:
            return inf
        ends_s = record.run_began_at_s + record.terms.duration_s - record.served_s
        return inf if record.terms.type.preemptable or ends_s <= self._now_s else ends_s


def is_to_come(one: Reservation, now_s: int) -> bool:
    """It is firm, and not over yet."""
    return one.firm and (one.end_at_s is None or one.end_at_s > now_s)
