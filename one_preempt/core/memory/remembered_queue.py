"""The queue, remembered from one decision to the next.

What a lease asks for, and its place by the order of the policy, are found once: they hold as long as the lease is the
same object, and the rates are the same by which it is known how long its start takes. Where the order goes by what
owners have used, the places are found anew whenever that was measured anew, and nothing else of them is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import attrgetter

from msgspec import Struct
from msgspec.structs import replace

from one_preempt.core.availability.timed_request import TimedRequest
from one_preempt.core.model.lease import Lease
from one_preempt.core.model.owner_use import NOTHING_MEASURED, MeasuredUse
from one_preempt.core.model.virtual_machine import LockLevel, VirtualMachine
from one_preempt.core.observed_room import needed_s
from one_preempt.core.overhead.rates import RatesByStorage
from one_preempt.core.policies import Policies
from one_preempt.core.queue_turn import Turn, startable
from one_preempt.core.quotas import owners_counted_anew

_UNLOCKED = LockLevel.NONE


class QueuePlace(Struct, frozen=True):
    """Where a lease, or a VM that moves, stands in the queue: that of the lowest `key` is served first.

    `is_locked`: a lock stands against its start. `counted_anew` are the user and group ids whose running quotas do not
    count it now, and will once it has started.
    """

    key: tuple[float, ...]
    request: TimedRequest[Turn]
    is_locked: bool
    counted_anew: frozenset[tuple[int, int]]

    @property
    def lease(self) -> Lease:
        """The lease that has this place in the queue."""
        return self.request.demand.lease


class RememberedQueue:
    """The places of all leases that wait."""

    def __init__(self) -> None:
        self._under: tuple[object, ...] = ()
        self._use = NOTHING_MEASURED
        self._places: dict[int, QueuePlace] = {}
        self._in_order: Sequence[QueuePlace] = ()
        self._number: int | None = None

    def in_order(
        self,
        waiting: Mapping[int, Lease],
        vms: Mapping[int, VirtualMachine],
        policies: Policies,
        rates: RatesByStorage,
        number: int | None = None,
        use: MeasuredUse = NOTHING_MEASURED,
    ) -> Sequence[QueuePlace]:
        """The places of these leases in the order of the queue: what may preempt first, then as the policy has it.

        So room that was freed for a request is not handed to a lease that would be sent out again at once. With the
        `number` of the last time these are the very leases of then. `use` is what owners have used, as measured last.
        """
        under = (policies.queue_order, policies.time.exclusion, rates)
        if under != self._under:
            self._under, self._places, self._in_order, self._number = under, {}, (), None
        changed = use is not self._use and self._go_by(use, waiting, vms, policies)
        if number is not None and number == self._number and not changed:
            return self._in_order
        places = self._places
        for lease_id, lease in waiting.items():
            known = places.get(lease_id)
            if known is not None and known.request.demand.lease is lease:
                continue
            changed = True
            members = [vms[vm_id] for vm_id in lease.vm_ids]
            turn = Turn(lease, tuple(startable(lease, members)))
            places[lease_id] = QueuePlace(
                queue_key(policies, lease, members, use),
                turn.lasting(needed_s(policies, rates, lease, turn.vms)),
                is_locked=bool([vm for vm in turn.vms if vm.lock_level is not _UNLOCKED]),
                counted_anew=owners_counted_anew(turn.vms),
            )
        gone = places.keys() - waiting.keys() if len(places) > len(waiting) else ()
        for lease_id in gone:
            del places[lease_id]
        if changed or gone:
            self._in_order = sorted(places.values(), key=attrgetter("key"))
        self._number = number
        return self._in_order

    def _go_by(
        self, use: MeasuredUse, waiting: Mapping[int, Lease], vms: Mapping[int, VirtualMachine], policies: Policies
    ) -> bool:
        """Find the keys anew where use was measured anew, and the order goes by it; was it?"""
        if policies.queue_order.measures is None or use == self._use:
            return False
        self._use, places = use, self._places
        for lease_id, place in places.items():
            lease = place.request.demand.lease
            if waiting.get(lease_id) is lease:
                key = queue_key(policies, lease, [vms[vm_id] for vm_id in lease.vm_ids], use)
                places[lease_id] = replace(place, key=key)
        return True

    def startable_of(self, lease: Lease) -> Sequence[VirtualMachine] | None:
        """The VMs of a lease that are to be started, where its place is known and nothing of it has changed."""
        known = self._places.get(lease.id)
        return known.request.demand.vms if known is not None and known.request.demand.lease is lease else None

    def is_locked(self, lease: Lease) -> bool | None:
        """A lock stands against the start of a lease; None where its place is not known, or something has changed."""
        known = self._places.get(lease.id)
        return known.is_locked if known is not None and known.request.demand.lease is lease else None

    def request_of(
        self, lease: Lease, vms: Sequence[VirtualMachine], policies: Policies, rates: RatesByStorage
    ) -> TimedRequest[Turn] | None:
        """What a lease asks for if it is for these VMs; None where that is not known, or may have changed since."""
        known = self._places.get(lease.id)
        if known is None or known.request.demand.lease is not lease:
            return None
        _, exclusion, of_rates = self._under
        holds = exclusion is policies.time.exclusion and (of_rates is rates or of_rates == rates)
        return known.request if holds and known.request.demand.vms == tuple(vms) else None


def queue_key(policies: Policies, lease: Lease, vms: Sequence[VirtualMachine], use: MeasuredUse) -> tuple[float, ...]:
    """When `vms` of a lease are served: lowest first."""
    return (not lease.preempts, *policies.queue_order.key(lease, vms, use))
