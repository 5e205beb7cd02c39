"""The leases that others count on to leave, or may: nothing may raise their protection now."""

from __future__ import annotations

from math import inf

from one_preempt.core.model.ledger import Ledger
from one_preempt.core.model.pool_snapshot import PoolSnapshot
from one_preempt.core.model.reservation import Reservation


class CountedOn:
    """Ids of leases that an open preemption sends out, or that a firm reservation of their hosts may.

    They are found once somebody asks, which is seldom.
    """

    def __init__(self, snapshot: PoolSnapshot, ledger: Ledger, now_s: int) -> None:
        self._snapshot = snapshot
        self._ledger = ledger
        self._now_s = now_s
        self._found: frozenset[int] | None = None

    def __contains__(self, lease_id: object) -> bool:
        """Does anybody count on its leaving?"""
        if self._found is None:
            self._found = self._victims() | self._on_reserved_hosts()
        return lease_id in self._found

    def promised_at_s(self, lease_id: int) -> float:
        """From when on a host that it has is firmly promised to a lease not there yet; infinity where none is."""
        snapshot, record = self._snapshot, self._ledger.leases[lease_id]
        host_ids = {snapshot.vms[vm_id].host_id for vm_id in record.vm_ids if vm_id in snapshot.vms}
        starts = (
            one.start_at_s
            for other_id, reservations in self._ledger.reservations.items()
            for one in reservations
            if other_id != lease_id and self._is_to_come(one) and not host_ids.isdisjoint(one.host_ids)
            if one.start_at_s > self._now_s or not self._has_begun(other_id)
        )
        return min(starts, default=inf)

    def _has_begun(self, lease_id: int) -> bool:
        """It runs, and has the room that it was promised for now; what is late does not."""
        record = self._ledger.leases.get(lease_id)
        return record is not None and record.run_began_at_s is not None

    def _is_to_come(self, one: Reservation) -> bool:
        return one.firm and (one.end_at_s is None or one.end_at_s > self._now_s)

    def _victims(self) -> frozenset[int]:
        return frozenset(victim.lease_id for one in self._ledger.preemptions for victim in one.preemption.victims)

    def _on_reserved_hosts(self) -> frozenset[int]:
        reserved = {
            host_id
            for reservations in self._ledger.reservations.values()
            for one in reservations
            if self._is_to_come(one)
            for host_id in one.host_ids
        }
        if not reserved:
            return frozenset()
        on_hosts = {vm.id for vm in self._snapshot.vms.values() if vm.host_id in reserved}
        return frozenset(one.id for one in self._ledger.leases.values() if not on_hosts.isdisjoint(one.vm_ids))
