"""The leases that are concerned, as they are found now: admitted, with their records, in the state of their VMs."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from one_preempt.core.admission.admit import Admission, admit
from one_preempt.core.admission.rules import AdmissionRules
from one_preempt.core.model.lease import Lease
from one_preempt.core.model.ledger import LeaseRecord, Ledger
from one_preempt.core.model.pool_snapshot import PoolSnapshot
from one_preempt.core.reconciliation.concerned import Concerned
from one_preempt.core.reconciliation.counted_on import CountedOn
from one_preempt.core.reconciliation.in_place import in_place
from one_preempt.core.reconciliation.lease_records import RecordUpdate, adopted
from one_preempt.core.reconciliation.reconciled_leases import reconciled_leases
from one_preempt.core.reconciliation.settled_actions import SettledActions
from one_preempt.core.reconciliation.watch import Watch


class FoundLeases(Struct, frozen=True):
    """Leases and records by ascending id, as they are now; of the records those that were `admitted` or `updated`."""

    leases: Mapping[int, Lease]
    records: Mapping[int, LeaseRecord]
    admitted: tuple[LeaseRecord, ...]
    updated: tuple[LeaseRecord, ...]
    admission: Admission


def find_leases(
    snapshot: PoolSnapshot,
    ledger: Ledger,
    rules: AdmissionRules,
    watch: Watch,
    concerned: Concerned,
    settled: SettledActions,
) -> FoundLeases:
    """Admit what is new, and hold what is recorded against the VMs that are `concerned` and the actions on them."""
    counted_on = CountedOn(snapshot, ledger, watch.now_s)
    admission = admit(snapshot, ledger.leases, rules, watch.now_s, concerned, counted_on)
    records = _records(ledger, concerned, admission, snapshot)
    resting = in_place(snapshot, settled.open, records.values()).occasions
    victims = frozenset([one for opened in ledger.preemptions for one in opened.preemption.victim_lease_ids])
    updated = RecordUpdate(snapshot, watch, settled.sent_out, settled.failed, resting, victims).of(records)
    records.update(updated)
    admitted_ids = {record.id for record in admission.records}
    return FoundLeases(
        leases=reconciled_leases(snapshot.vms, admission, records, resting, concerned),
        records=records,
        admitted=tuple([records[record.id] for record in admission.records]),
        updated=tuple([record for lease_id, record in updated.items() if lease_id not in admitted_ids]),
        admission=admission,
    )


def _records(
    ledger: Ledger, concerned: Concerned, admission: Admission, snapshot: PoolSnapshot
) -> dict[int, LeaseRecord]:
    """What is recorded of the leases that are concerned, and what was just admitted, by ascending id."""
    records = {one: ledger.leases[one] for one in concerned.lease_ids if one in ledger.leases}
    if not admission.records:
        return records
    records.update({record.id: adopted(record, ledger, snapshot) for record in admission.records})
    return dict(sorted(records.items()))
