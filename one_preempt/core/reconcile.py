"""Hold what was observed against what the ledger says: the cluster state, and what is to be written down.

Nothing is decided here. The result is the same whether the process has run for a month or died a second ago: what the
last reconciliation found only saves looking again at what has not changed since.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from one_preempt.core.admission.admit import Admission, admit
from one_preempt.core.admission.rules import AdmissionRules
from one_preempt.core.matching.host_table import changed_rows, host_table
from one_preempt.core.model.cluster_state import ClusterState, Discrepancy, HostTable
from one_preempt.core.model.host import HostCapacity
from one_preempt.core.model.image_transfer import NO_IMAGES_KNOWN, KnownImages
from one_preempt.core.model.lease import Lease
from one_preempt.core.model.ledger import ActionRecord, LeaseRecord, Ledger, LedgerChanges, Transition
from one_preempt.core.model.plan import ActionKind
from one_preempt.core.model.pool_snapshot import PoolSnapshot
from one_preempt.core.overhead.observe import observe_overheads
from one_preempt.core.reconciliation.concerned import NO_FOOTING, Concerned, Footing, concerned_by
from one_preempt.core.reconciliation.counted_on import CountedOn
from one_preempt.core.reconciliation.forgiven_starts import forgiven_starts
from one_preempt.core.reconciliation.in_place import in_place
from one_preempt.core.reconciliation.lease_records import RecordUpdate, adopted
from one_preempt.core.reconciliation.reconciled_leases import reconciled_leases, unsettled
from one_preempt.core.reconciliation.reused_vm_ids import (
    actions_on_other_vms,
    leases_of_other_vms,
    said_of,
    without,
)
from one_preempt.core.reconciliation.settled_actions import NOTHING_HEARD, SettledActions, settle_actions
from one_preempt.core.reconciliation.watch import Watch

MESSAGE_KINDS = frozenset({ActionKind.MESSAGE, ActionKind.HOLD})

_DONE = "DONE"

_Value = TypeVar("_Value")


class Reconciliation(Struct, frozen=True):
    """The state to decide upon, and the changes to write before."""

    state: ClusterState
    changes: LedgerChanges


def reconcile(
    snapshot: PoolSnapshot,
    ledger: Ledger,
    rules: AdmissionRules,
    now_s: int,
    last_at_s: int | None = None,
    heard: Mapping[tuple[int, str], int] = NOTHING_HEARD,
    last: ClusterState | None = None,
) -> Reconciliation:
    """Interpret `snapshot` with `ledger` at the instant `now_s`; `last_at_s` is when that was done last, if known.

    `heard` are instants at which VMs were said to reach states since, by VM id and name of the state. `last` is what
    came of it last time. Where snapshot and ledger say what changed, that was since the ones which `last` was made of.
    """
    # Where the clock was set back, every lease is looked at: its run may have begun in what is the future now.
    concerned = concerned_by(snapshot, ledger, last if last is None or last.now_s <= now_s else None)
    mistaken = leases_of_other_vms(snapshot.vms, ledger, concerned)
    if mistaken:
        found = reconcile(snapshot, without(ledger, mistaken), rules, now_s, last_at_s, heard)
        return _with_ended(found, mistaken, actions_on_other_vms(ledger, mistaken, now_s), now_s)
    rows = changed_rows(snapshot.hosts, last.hosts if last is not None else None, snapshot.changed_host_ids)
    hosts = host_table(snapshot.hosts, last.hosts if last is not None else None, rows)
    settled = settle_actions(snapshot, ledger, now_s, heard)
    counted_on, unreadable = CountedOn(snapshot, ledger, now_s), snapshot.unreadable_vm_ids
    promised_at_s = counted_on.promised_at_s
    admission = admit(snapshot.vms, ledger.leases, rules, now_s, counted_on, concerned, unreadable, promised_at_s)
    records = _records(ledger, concerned, admission, snapshot)
    resting = in_place(snapshot, settled.open, records.values()).occasions
    watch = Watch(now_s, last_at_s, heard, ledger.vm_states)
    victims = frozenset([one for opened in ledger.preemptions for one in opened.preemption.victim_lease_ids])
    update = RecordUpdate(snapshot, watch, settled.sent_out, resting, victims)
    updated = update.of(records)
    records.update(updated)
    forgiven = forgiven_starts(snapshot, ledger, records) if ledger.failed_actions else {}
    leases = reconciled_leases(snapshot.vms, admission, records, resting, concerned)
    admitted = {record.id: records[record.id] for record in admission.records}
    changes = LedgerChanges(
        admitted=tuple(admitted.values()),
        updated=tuple([record for lease_id, record in updated.items() if lease_id not in admitted]),
        closed_actions=settled.closed,
        transitions=_transitions(snapshot, ledger, records, watch),
        host_capacities=_host_capacities(hosts, rows, ledger, now_s),
        observed_overheads=observe_overheads(snapshot, ledger, settled, watch),
    )
    footing = concerned.footing
    gone, renewed = _news(footing.leases, concerned, leases)
    state = ClusterState(
        now_s=now_s,
        snapshot=snapshot,
        hosts=hosts,
        leases=_merged(footing.leases, gone, renewed),
        lease_of_vm=_lease_of_vm(footing, gone, renewed),
        half_seen_leases=_half_seen(snapshot, records),
        preemptions=ledger.preemptions,
        actions=settled.open,
        failed_actions=(*(forgiven.get(one.id, one) for one in ledger.failed_actions), *settled.failed),
        victims_last_hour=tuple(at_s for at_s in ledger.victims_last_hour if at_s <= now_s),
        paused=ledger.paused,
        reservations=ledger.reservations,
        observed_overheads=ledger.observed_overheads,
        discrepancies=_discrepancies(snapshot, settled, admission),
        records=_merged(footing.records, *_news(footing.records, concerned, records)),
        unsettled_lease_ids=unsettled(leases, records, admission),
        images=_images(ledger, now_s),
        changed_lease_ids=_changed_lease_ids(ledger, concerned, gone, renewed),
    )
    return Reconciliation(state, changes)


def _images(ledger: Ledger, now_s: int) -> KnownImages:
    if not (ledger.held_images or ledger.image_transfers):
        return NO_IMAGES_KNOWN
    transfers = {name: record.no_later_than(now_s) for name, record in ledger.image_transfers.items()}
    return KnownImages(ledger.held_images, transfers)


def _with_ended(
    found: Reconciliation, mistaken: Sequence[LeaseRecord], closed: tuple[ActionRecord, ...], now_s: int
) -> Reconciliation:
    """The same with the end of leases whose VMs are others by now, and of the actions on these."""
    ended = tuple([replace(record, ended_at_s=now_s) for record in mistaken])
    discrepancies = (*said_of(mistaken), *found.state.discrepancies)
    changes = replace(found.changes, ended_before=ended, closed_actions=(*closed, *found.changes.closed_actions))
    mistaken_ids = frozenset([record.id for record in mistaken])
    state = replace(found.state, discrepancies=discrepancies, mistaken_lease_ids=mistaken_ids)
    return Reconciliation(state, changes)


def _records(
    ledger: Ledger, concerned: Concerned, admission: Admission, snapshot: PoolSnapshot
) -> dict[int, LeaseRecord]:
    """What is recorded of the leases that are concerned, and what was just admitted, by ascending id."""
    records = {one: ledger.leases[one] for one in concerned.lease_ids if one in ledger.leases}
    if not admission.records:
        return records
    records.update({record.id: adopted(record, ledger, snapshot) for record in admission.records})
    return dict(sorted(records.items()))


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


def _changed_lease_ids(
    ledger: Ledger, concerned: Concerned, gone: Iterable[int], renewed: Iterable[int]
) -> frozenset[int] | None:
    """Leases that are not the objects of the footing, or whose reservations may not be."""
    if concerned.footing is NO_FOOTING or ledger.changed_lease_ids is None:
        return None
    return ledger.changed_lease_ids.union(gone, renewed)


def _transitions(
    snapshot: PoolSnapshot, ledger: Ledger, records: Mapping[int, LeaseRecord], watch: Watch
) -> tuple[Transition, ...]:
    """State changes of VMs of recorded leases since they were last logged; a VM that is gone counts as DONE."""
    found = []
    vms, states_before, unreadable = snapshot.vms, ledger.vm_states, snapshot.unreadable_vm_ids
    now_s, reached_s = watch.now_s, watch.between_looks
    for lease_id, record in records.items():
        for vm_id in record.vm_ids:
            before, vm = states_before.get(vm_id, ""), vms.get(vm_id)
            after = _DONE if vm is None else vm.state_name
            if after == before:
                continue
            at_s = reached_s.get((vm_id, after), now_s) if reached_s else now_s
            if vm is not None:
                found.append(Transition(vm_id, lease_id, at_s, before, after, vm.host_id, vm.memory_mib))
            elif before and vm_id not in unreadable:
                found.append(Transition(vm_id, lease_id, at_s, before, after, None, 0))
    return tuple(found)


def _host_capacities(
    hosts: HostTable, rows: Iterable[int] | None, ledger: Ledger, now_s: int
) -> tuple[HostCapacity, ...]:
    """Capacities that are new or changed in these rows, None: in any; an OFFLINE host shows none and keeps what is
    known.
    """
    found, table, capacities = [], hosts.hosts, ledger.host_capacities
    for row in range(len(table)) if rows is None else rows:
        host = table[row]
        known = capacities.get(host.id)
        if (
            known is not None
            and host.max_cpu_centi == known.max_cpu_centi
            and host.max_memory_kib == known.max_memory_kib
            and host.total_cpu_centi == known.total_cpu_centi
            and host.total_memory_kib == known.total_memory_kib
        ):
            continue
        if host.total_cpu_centi > 0:
            sizes = (host.max_cpu_centi, host.max_memory_kib, host.total_cpu_centi, host.total_memory_kib)
            found.append(HostCapacity(host.id, now_s, *sizes))
    return tuple(found)


def _discrepancies(snapshot: PoolSnapshot, settled: SettledActions, admission: Admission) -> tuple[Discrepancy, ...]:
    if not (snapshot.problems or settled.failed or admission.notes):
        return ()
    found = [Discrepancy("unreadable", problem) for problem in snapshot.problems]
    found.extend(_failures(settled.failed, snapshot))
    found.extend(Discrepancy(note.code, note.text, note.vm_id) for note in admission.notes)
    return tuple(found)


def _half_seen(snapshot: PoolSnapshot, records: Mapping[int, LeaseRecord]) -> frozenset[int]:
    """Leases of which a member could not be read."""
    if not snapshot.unreadable_vm_ids:
        return frozenset()
    return frozenset(
        lease_id for lease_id, record in records.items() if not snapshot.unreadable_vm_ids.isdisjoint(record.vm_ids)
    )


def _failures(failed: Iterable[ActionRecord], snapshot: PoolSnapshot) -> Iterable[Discrepancy]:
    """What failed; where oned took the call and the VM was ended by somebody then, nothing has gone wrong."""
    for record in failed:
        was_ended = record.vm_id not in snapshot.vms and not record.error_code
        if not (was_ended or record.kind in MESSAGE_KINDS):
            yield Discrepancy("action-failed", f"{record.kind} of VM {record.vm_id}: {record.error_text}", record.vm_id)
