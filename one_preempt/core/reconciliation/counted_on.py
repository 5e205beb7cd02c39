"""The leases that others count on to leave, or may: nothing may raise their protection now."""

from __future__ import annotations

from one_preempt.core.model.ledger import Ledger
from one_preempt.core.model.pool_snapshot import PoolSnapshot
from one_preempt.core.reconciliation.promised_room import PromisedRoom, is_to_come


class CountedOn:
    """Ids of leases that an open preemption sends out, or that a firm reservation of their hosts may.

    They are found once somebody asks, which is seldom.
    """

    def __init__(self, snapshot: PoolSnapshot, ledger: Ledger, now_s: int) -> None:
        self._snapshot = snapshot
        self._ledger = ledger
        self._now_s = now_s
        self._found: frozenset[int] | None = None
        self._later: PromisedRoom | None = None

    def __contains__(self, lease_id: object) -> bool:
        """Does anybody count on its leaving?"""
        if self._found is None:
            self._found = self._victims() | self._on_reserved_hosts()
        return lease_id in self._found

    def promised_at_s(self, lease_id: int) -> float:
        """From when on others are promised so much of its hosts that it has no room beside them; infinity: never."""
        if self._later is None:
            self._later = PromisedRoom(self._snapshot, self._ledger, self._now_s)
        return self._later.taken_from_s(lease_id)

    def _victims(self) -> frozenset[int]:
        return frozenset(victim.lease_id for one in self._ledger.preemptions for victim in one.preemption.victims)

    def _on_reserved_hosts(self) -> frozenset[int]:
        reserved = {
            host_id
            for reservations in self._ledger.reservations.values()
            for one in reservations
            if is_to_come(one, self._now_s)
            for host_id in one.host_ids
        }
        if not reserved:
            return frozenset()
        on_hosts = {vm.id for vm in self._snapshot.vms.values() if vm.host_id in reserved}
        return frozenset(one.id for one in self._ledger.leases.values() if not on_hosts.isdisjoint(one.vm_ids))
