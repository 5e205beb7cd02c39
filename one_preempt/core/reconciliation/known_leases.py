"""What is known of all leases: as the last reconciliation left it, but for those that were looked at in this one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from msgspec import Struct

from one_preempt.core.model.lease import Lease
from one_preempt.core.model.ledger import LeaseRecord, Ledger
from one_preempt.core.reconciliation.concerned import NO_FOOTING, Concerned, Footing

_Value = TypeVar("_Value")


class KnownLeases(Struct, frozen=True):
    """All leases by ascending id, the lease of each VM, and all records.

    `changed_ids` are the leases that are not the objects of the footing, or whose reservations may not be; None where
    that is not known.
    """

    leases: Mapping[int, Lease]
    lease_of_vm: Mapping[int, int]
    records: Mapping[int, LeaseRecord]
    changed_ids: frozenset[int] | None


def known_leases(
    concerned: Concerned, ledger: Ledger, leases: Mapping[int, Lease], records: Mapping[int, LeaseRecord]
) -> KnownLeases:
    """The footing with those `leases` and `records` that were found of what is concerned."""
    footing = concerned.footing
    gone, renewed = _news(footing.leases, concerned, leases)
    return KnownLeases(
        leases=_merged(footing.leases, gone, renewed),
        lease_of_vm=_lease_of_vm(footing, gone, renewed),
        records=_merged(footing.records, *_news(footing.records, concerned, records)),
        changed_ids=_changed_ids(ledger, concerned, gone, renewed),
    )


def _news(
    before: Mapping[int, _Value], concerned: Concerned, now: Mapping[int, _Value]
) -> tuple[list[int], dict[int, _Value]]:
    """Of what is concerned the ids of what is gone, and what is new or another object."""
    gone = [lease_id for lease_id in concerned.lease_ids if lease_id in before and lease_id not in now]
    return gone, {lease_id: value for lease_id, value in now.items() if before.get(lease_id) is not value}


def _merged(before: Mapping[int, _Value], gone: Sequence[int], renewed: Mapping[int, _Value]) -> Mapping[int, _Value]:
    """What was known before as it is now, by ascending id; the very mapping if nothing is new.

    Else a copy: a state may be looked at after the next one was made.
    """
    if not gone and not renewed:
        return before
    merged = dict(before)
    for lease_id in gone:
        del merged[lease_id]
    last_id = next(reversed(merged), -1)
    merged.update(renewed)
    if not [lease_id for lease_id in renewed if lease_id < last_id and lease_id not in before]:
        return merged
    return dict(sorted(merged.items()))


def _lease_of_vm(footing: Footing, gone: Iterable[int], renewed: Mapping[int, Lease]) -> Mapping[int, int]:
    """The lease of each VM, as `_merged`."""
    known = footing.leases
    joined = [one for one in renewed.values() if one.id not in known or known[one.id].vm_ids != one.vm_ids]
    left = [known[lease_id] for lease_id in gone] + [known[one.id] for one in joined if one.id in known]
    if not left and not joined:
        return footing.lease_of_vm
    found = dict(footing.lease_of_vm)
    for lease in left:
        for vm_id in lease.vm_ids:
            found.pop(vm_id, None)
    for lease in joined:
        for vm_id in lease.vm_ids:
            found[vm_id] = lease.id
    return found


def _changed_ids(
    ledger: Ledger, concerned: Concerned, gone: Iterable[int], renewed: Iterable[int]
) -> frozenset[int] | None:
    if concerned.footing is NO_FOOTING or ledger.changed_lease_ids is None:
        return None
    return ledger.changed_lease_ids.union(gone, renewed)
