"""Hold what was observed against what the ledger says: the cluster state, and what is to be written down.

Nothing is decided here. The result is the same whether the process has run for a month or died a second ago: what the
last reconciliation found only saves looking again at what has not changed since.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from one_preempt.core.admission.admit import Admission
from one_preempt.core.admission.rules import AdmissionRules
from one_preempt.core.matching.host_table import changed_rows, host_table
from one_preempt.core.model.cluster_state import ClusterState, Discrepancy, HostTable
from one_preempt.core.model.host import HostCapacity
from one_preempt.core.model.image_transfer import NO_IMAGES_KNOWN, KnownImages
from one_preempt.core.model.ledger import ActionRecord, LeaseRecord, Ledger, LedgerChanges, Transition
from one_preempt.core.model.plan import ActionKind
from one_preempt.core.model.pool_snapshot import PoolSnapshot
from one_preempt.core.overhead.observe import observe_overheads
from one_preempt.core.reconciliation.concerned import concerned_by
from one_preempt.core.reconciliation.forgiven_starts import forgiven_starts
from one_preempt.core.reconciliation.found_leases import find_leases
from one_preempt.core.reconciliation.known_leases import known_leases
from one_preempt.core.reconciliation.reconciled_leases import unsettled
from one_preempt.core.reconciliation.reused_vm_ids import (
    actions_on_other_vms,
    leases_of_other_vms,
    said_of,
    without,
)
from one_preempt.core.reconciliation.settled_actions import SettledActions, settle_actions
from one_preempt.core.reconciliation.watch import NOTHING_HEARD, Watch

MESSAGE_KINDS = frozenset({ActionKind.MESSAGE, ActionKind.HOLD})

_DONE = "DONE"


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
        others = reconcile(snapshot, without(ledger, mistaken), rules, now_s, last_at_s, heard)
        return _with_ended(others, mistaken, actions_on_other_vms(ledger, mistaken, now_s), now_s)
    watch = Watch(now_s, last_at_s, heard, ledger.vm_states)
    settled = settle_actions(snapshot, ledger.open_actions, watch)
    found = find_leases(snapshot, ledger, rules, watch, concerned, settled)
    known = known_leases(concerned, ledger, found.leases, found.records)
    rows = changed_rows(snapshot.hosts, last.hosts if last is not None else None, snapshot.changed_host_ids)
    hosts = host_table(snapshot.hosts, last.hosts if last is not None else None, rows)
    changes = LedgerChanges(
        admitted=found.admitted,
        updated=found.updated,
        closed_actions=settled.closed,
        transitions=_transitions(snapshot, found.records, watch),
        host_capacities=_host_capacities(hosts, rows, ledger, now_s),
        observed_overheads=observe_overheads(snapshot, ledger, settled, watch),
    )
    state = ClusterState(
        now_s=now_s,
        snapshot=snapshot,
        hosts=hosts,
        leases=known.leases,
        lease_of_vm=known.lease_of_vm,
        half_seen_leases=_half_seen(snapshot, found.records),
        preemptions=ledger.preemptions,
        actions=settled.open,
        failed_actions=_failed_actions(snapshot, ledger, found.records, settled),
        victims_last_hour=tuple(at_s for at_s in ledger.victims_last_hour if at_s <= now_s),
        paused=ledger.paused,
        reservations=ledger.reservations,
        observed_overheads=ledger.observed_overheads,
        discrepancies=_discrepancies(snapshot, settled, found.admission),
        records=known.records,
        unsettled_lease_ids=unsettled(found.leases, found.records, found.admission),
        images=_images(ledger, now_s),
        changed_lease_ids=known.changed_ids,
    )
    return Reconciliation(state, changes)


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


def _transitions(snapshot: PoolSnapshot, records: Mapping[int, LeaseRecord], watch: Watch) -> tuple[Transition, ...]:
    """State changes of VMs of recorded leases since they were last logged; a VM that is gone counts as DONE."""
    found = []
    vms, states_before, unreadable = snapshot.vms, watch.states_before, snapshot.unreadable_vm_ids
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


def _half_seen(snapshot: PoolSnapshot, records: Mapping[int, LeaseRecord]) -> frozenset[int]:
    """Leases of which a member could not be read."""
    if not snapshot.unreadable_vm_ids:
        return frozenset()
    return frozenset(
        lease_id for lease_id, record in records.items() if not snapshot.unreadable_vm_ids.isdisjoint(record.vm_ids)
    )


def _failed_actions(
    snapshot: PoolSnapshot, ledger: Ledger, records: Mapping[int, LeaseRecord], settled: SettledActions
) -> tuple[ActionRecord, ...]:
    """Those that count as failed now, newest last."""
    if not ledger.failed_actions:
        return settled.failed
    forgiven = forgiven_starts(snapshot, ledger, records)
    return (*(forgiven.get(one.id, one) for one in ledger.failed_actions), *settled.failed)


def _discrepancies(snapshot: PoolSnapshot, settled: SettledActions, admission: Admission) -> tuple[Discrepancy, ...]:
    if not (snapshot.problems or settled.failed or admission.notes):
        return ()
    found = [Discrepancy("unreadable", problem) for problem in snapshot.problems]
    found.extend(_failures(settled.failed, snapshot))
    found.extend(Discrepancy(note.code, note.text, note.vm_id) for note in admission.notes)
    return tuple(found)


def _failures(failed: Iterable[ActionRecord], snapshot: PoolSnapshot) -> Iterable[Discrepancy]:
    """What failed; where oned took the call and the VM was ended by somebody then, nothing has gone wrong."""
    for record in failed:
        was_ended = record.vm_id not in snapshot.vms and not record.error_code
        if not (was_ended or record.kind in MESSAGE_KINDS):
            yield Discrepancy("action-failed", f"{record.kind} of VM {record.vm_id}: {record.error_text}", record.vm_id)


def _images(ledger: Ledger, now_s: int) -> KnownImages:
    if not (ledger.held_images or ledger.image_transfers):
        return NO_IMAGES_KNOWN
    transfers = {name: record.no_later_than(now_s) for name, record in ledger.image_transfers.items()}
    return KnownImages(ledger.held_images, transfers)
