"""Hold what was observed against what the ledger says: the cluster state, and what is to be written down.

Nothing is decided here. The result is the same whether the process has run for a month or died a second ago.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import zip_longest

from one_preempt.core.admission.admit import Admission, admit
from one_preempt.core.admission.rules import AdmissionRules
from one_preempt.core.in_place import in_place, was_in_place
from one_preempt.core.lease_status import preemptor_in_status
from one_preempt.core.matching.host_table import host_table
from one_preempt.core.model.cluster_state import ClusterState, Discrepancy, HostTable
from one_preempt.core.model.lease import Lease, LeaseState
from one_preempt.core.model.lease_lifecycle import VmPhase, lease_state, phase_of
from one_preempt.core.model.ledger import (
    ActionRecord,
    HostCapacity,
    LeaseRecord,
    Ledger,
    LedgerChanges,
    Transition,
)
from one_preempt.core.model.plan import ActionKind
from one_preempt.core.model.pool_snapshot import PoolSnapshot
from one_preempt.core.model.resources import NO_RESOURCES
from one_preempt.core.model.virtual_machine import LcmState, VirtualMachine, VmState
from one_preempt.core.observation import LEAVING_KINDS, Progress, observe_action
from one_preempt.core.overhead.observe import Watch, observe_overheads
from one_preempt.core.served_time import clocked

# After a longer pause than this, what happened in between is read off oned's own instants.
WATCHED_S = 60
NOTHING_HEARD: Mapping[tuple[int, str], int] = {}
# What is stopped because it outlived its DURATION has had its time: it is owed no return.
OVERRUN = "overrun"
MESSAGE_KINDS = frozenset({ActionKind.MESSAGE, ActionKind.HOLD, ActionKind.RELEASE})


@dataclass(frozen=True, slots=True)
class Reconciliation:
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
    came of it then: what is the same object now is not looked at again.
    """
    hosts = host_table(snapshot.hosts, last.hosts if last is not None else None)
    settled = _settle_actions(snapshot, ledger, now_s)
    standing = _standing(snapshot, ledger, settled, last)
    admission = admit(snapshot.vms, ledger.leases, rules, now_s, _counted_on(snapshot, ledger, now_s), standing)
    known = {**ledger.leases, **{record.id: _adopted(record, ledger, snapshot) for record in admission.records}}
    watched = _Watched(ledger.vm_states, last_at_s is not None and 0 <= now_s - last_at_s <= WATCHED_S)
    resting = in_place(snapshot, settled.open, known.values()).occasions
    moving = {lease_id: record for lease_id, record in known.items() if lease_id not in standing}
    updated = _update_records(snapshot, moving, settled, now_s, watched, resting)
    records = {**known, **updated}
    leases = _leases(snapshot, admission, records, resting, standing)
    admitted = tuple(records[record.id] for record in admission.records)
    new_ids = {record.id for record in admitted}
    changes = LedgerChanges(
        admitted=admitted,
        updated=tuple(record for lease_id, record in sorted(updated.items()) if lease_id not in new_ids),
        closed_actions=settled.closed,
        transitions=_transitions(snapshot, ledger, {**moving, **updated}, now_s),
        host_capacities=_host_capacities(hosts, ledger, now_s, last),
        observed_overheads=observe_overheads(snapshot, ledger, settled.closed, Watch(now_s, last_at_s, heard)),
    )
    failed = tuple(record for record in settled.closed if not record.succeeded)
    state = ClusterState(
        now_s=now_s,
        snapshot=snapshot,
        hosts=hosts,
        leases=leases,
        lease_of_vm=_lease_of_vm(leases, standing, last),
        half_seen_leases=_half_seen(snapshot, records),
        preemptions=ledger.preemptions,
        actions=settled.open,
        failed_actions=(*ledger.failed_actions, *failed),
        victims_last_hour=tuple(at_s for at_s in ledger.victims_last_hour if at_s <= now_s),
        paused=ledger.paused,
        reservations=ledger.reservations,
        observed_overheads=ledger.observed_overheads,
        discrepancies=_discrepancies(snapshot, settled, admission),
        records=records,
        noted_vm_ids=frozenset(note.vm_id for note in admission.notes),
    )
    return Reconciliation(state, changes)


_AT_REST = frozenset({LeaseState.RUNNING, LeaseState.WAITING})
_IN_PLACE_KINDS = frozenset({ActionKind.SUSPEND, ActionKind.LOCK})


def _standing(
    snapshot: PoolSnapshot, ledger: Ledger, settled: _SettledActions, last: ClusterState | None
) -> dict[int, Lease]:
    """Leases of which record and VMs are the very objects of last time, and about which there was nothing to say."""
    if last is None or snapshot.unreadable_vm_ids or last.half_seen_leases:
        return {}
    if any(record.kind in _IN_PLACE_KINDS for record in (*settled.open.values(), *last.actions.values())):
        return {}
    vms, before, known, noted = snapshot.vms, last.snapshot.vms, last.records, last.noted_vm_ids
    standing = {}
    for lease_id, record in ledger.leases.items():
        lease = last.leases.get(lease_id)
        if lease is None or lease.state not in _AT_REST or known.get(lease_id) is not record:
            continue
        if record.ended_at_s is not None or lease_id in settled.sent_out:
            continue
        vm_ids = record.vm_ids
        if all(vm_id in vms and vms[vm_id] is before.get(vm_id) and vm_id not in noted for vm_id in vm_ids):
            standing[lease_id] = lease
    return standing


def _lease_of_vm(
    leases: Mapping[int, Lease], standing: Mapping[int, Lease], last: ClusterState | None
) -> dict[int, int]:
    if last is None or not standing:
        return {vm_id: lease.id for lease in leases.values() for vm_id in lease.vm_ids}
    found = dict(last.lease_of_vm)
    for lease_id, lease in last.leases.items():
        if lease_id not in standing:
            for vm_id in lease.vm_ids:
                found.pop(vm_id, None)
    for lease_id, lease in leases.items():
        if lease_id not in standing:
            found.update((vm_id, lease_id) for vm_id in lease.vm_ids)
    return found


def _adopted(record: LeaseRecord, ledger: Ledger, snapshot: PoolSnapshot) -> LeaseRecord:
    """A lease that is new to the ledger and yet was sent out, as its LEASE_STATUS says: the ledger was lost.

    Its owner could have written that too; all it brings is that the owner's own stopped VM is started again. Of a lock
    it may not bring more than that: it counts as ours only where the ledger knows of no lease at all.
    """
    if record.id in ledger.leases or not record.terms.type.returns:
        return record
    vms = [snapshot.vms[vm_id] for vm_id in record.vm_ids if vm_id in snapshot.vms]
    preemptors = [
        preemptor_in_status(vm)
        for vm in vms
        if phase_of(vm) is VmPhase.OUT or (not ledger.leases and was_in_place(vm, snapshot.own_uid))
    ]
    preemptor = next((lease_id for lease_id in preemptors if lease_id is not None), None)
    return record if preemptor is None else replace(record, preempted_by=preemptor, preemptions=1)


def _counted_on(snapshot: PoolSnapshot, ledger: Ledger, now_s: int) -> frozenset[int]:
    """Leases that an open preemption sends out, or that a reservation may: nothing may raise their protection now."""
    victims = {victim.lease_id for opened in ledger.preemptions for victim in opened.preemption.victims}
    reserved = {
        host_id
        for reservations in ledger.reservations.values()
        for one in reservations
        if one.firm and (one.end_at_s is None or one.end_at_s > now_s)
        for host_id in one.host_ids
    }
    if not reserved:
        return frozenset(victims)
    on_hosts = {vm.id for vm in snapshot.vms.values() if vm.host_id in reserved}
    there = {record.id for record in ledger.leases.values() if not on_hosts.isdisjoint(record.vm_ids)}
    return frozenset(victims | there)


@dataclass(frozen=True, slots=True)
class _SettledActions:
    """The open actions after observation: still open, just closed, and the VMs that are leaving by our hand."""

    open: Mapping[str, ActionRecord]
    closed: tuple[ActionRecord, ...]
    sent_out: Mapping[int, ActionRecord]


def _settle_actions(snapshot: PoolSnapshot, ledger: Ledger, now_s: int) -> _SettledActions:
    still_open: dict[str, ActionRecord] = {}
    closed: list[ActionRecord] = []
    sent_out: dict[int, ActionRecord] = {}
    for action_id, record in sorted(ledger.open_actions.items()):
        if record.vm_id in snapshot.unreadable_vm_ids:
            still_open[action_id] = record
            continue
        vm = snapshot.vms.get(record.vm_id)
        progress = observe_action(record, vm, now_s, ledger.vm_states.get(record.vm_id, ""))
        if progress is Progress.DONE:
            closed.append(replace(record, closed_at_s=now_s, succeeded=True))
        elif progress is Progress.FAILED:
            error_text = record.error_text or _what_was_seen(vm)
            closed.append(replace(record, closed_at_s=now_s, succeeded=False, error_text=error_text))
        else:
            still_open[action_id] = record
        if _is_sent_out(record, vm, progress):
            sent_out[record.lease_id] = record
    return _SettledActions(still_open, tuple(closed), sent_out)


def _is_sent_out(record: ActionRecord, vm: VirtualMachine | None, progress: Progress) -> bool:
    """It leaves its host or has left it, or rests there, by our hand."""
    if record.kind is ActionKind.SUSPEND:
        resting = vm is not None and vm.state == VmState.SUSPENDED
        return progress is Progress.UNDER_WAY or (progress is Progress.LASTING and resting)
    owed = record.reason_code != OVERRUN
    return owed and record.kind in LEAVING_KINDS and progress in (Progress.UNDER_WAY, Progress.DONE)


@dataclass(frozen=True, slots=True)
class _Watched:
    """The states in which VMs were seen last, and whether that was a moment ago."""

    states: Mapping[int, str]
    lately: bool

    def not_running(self, record: LeaseRecord) -> bool:
        """Were they all seen a moment ago, one of them not running?"""
        states = [self.states.get(vm_id, "") for vm_id in record.vm_ids]
        return self.lately and all(states) and any(state != LcmState.RUNNING.name for state in states)


def _update_records(
    snapshot: PoolSnapshot,
    records: Mapping[int, LeaseRecord],
    settled: _SettledActions,
    now_s: int,
    watched: _Watched,
    resting: Container[int],
) -> dict[int, LeaseRecord]:
    """Records that changed: ended, sent out by us, or back again. Where a VM cannot be read, nothing is concluded."""
    updated: dict[int, LeaseRecord] = {}
    for lease_id, record in records.items():
        if record.ended_at_s is not None or not snapshot.unreadable_vm_ids.isdisjoint(record.vm_ids):
            continue
        present = [snapshot.vms[vm_id] for vm_id in record.vm_ids if vm_id in snapshot.vms]
        sent_out = settled.sent_out.get(lease_id)
        stopped = watched.not_running(record)
        changed = _changed_record(record, present, sent_out, now_s, not_running_before=stopped, resting=resting)
        if changed is not record:
            updated[lease_id] = changed
    return updated


def _changed_record(
    record: LeaseRecord,
    present: list[VirtualMachine],
    sent_out: ActionRecord | None,
    now_s: int,
    *,
    not_running_before: bool,
    resting: Container[int],
) -> LeaseRecord:
    if not present:
        return replace(record, ended_at_s=now_s)
    sent_out_at_s = sent_out.outcome_at_s if sent_out is not None else None
    record = clocked(record, present, now_s, watched=not_running_before, sent_out_at_s=sent_out_at_s)
    if sent_out is not None:
        return _mark_preempted(record, sent_out, now_s)
    if record.preempted_by is None:
        return record
    back = lease_state(present, preempted=True, in_place=resting) is LeaseState.RUNNING
    return replace(record, preempted_by=None) if back else record


def _mark_preempted(record: LeaseRecord, sent_out: ActionRecord, now_s: int) -> LeaseRecord:
    """Count a preemption once, however many VMs and cycles it takes."""
    if record.preempted_by is not None:
        return record
    return replace(
        record,
        preempted_by=preemptor_of(sent_out),
        preemptions=record.preemptions + (sent_out.preemption_id is not None),
        last_preempted_at_s=sent_out.outcome_at_s or now_s,
    )


def preemptor_of(record: ActionRecord) -> int:
    """The lease that an action made room for, written at the head of the preemption's id; else the lease itself."""
    head = (record.preemption_id or "").partition("@")[0]
    return int(head) if head.isdigit() else record.lease_id


def _leases(
    snapshot: PoolSnapshot,
    admission: Admission,
    records: Mapping[int, LeaseRecord],
    resting: Container[int],
    standing: Mapping[int, Lease],
) -> dict[int, Lease]:
    leases: dict[int, Lease] = {}
    for admitted in admission.leases:
        if admitted.id in standing:
            leases[admitted.id] = admitted
            continue
        record = records.get(admitted.id)
        vms = [snapshot.vms[vm_id] for vm_id in admitted.vm_ids]
        total = NO_RESOURCES
        for vm in vms:
            total = total + vm.resources
        state = admitted.state
        if state is LeaseState.WAITING:
            preempted = record is not None and record.preempted_by is not None
            state = lease_state(vms, preempted=preempted, in_place=resting)
        leases[admitted.id] = replace(
            admitted,
            state=state,
            total=total,
            preemptions=record.preemptions if record else 0,
            preempted_by=record.preempted_by if record else None,
            last_preempted_at_s=record.last_preempted_at_s if record else None,
            served_s=record.served_s if record else 0,
            run_began_at_s=record.run_began_at_s if record else None,
        )
    return leases


def _transitions(
    snapshot: PoolSnapshot, ledger: Ledger, records: Mapping[int, LeaseRecord], now_s: int
) -> tuple[Transition, ...]:
    """State changes of VMs of recorded leases since they were last logged; a VM that is gone counts as DONE."""
    found = []
    for lease_id in sorted(records):
        for vm_id in records[lease_id].vm_ids:
            vm = snapshot.vms.get(vm_id)
            before = ledger.vm_states.get(vm_id, "")
            after = vm.state_name if vm is not None else "DONE"
            if before == after or (vm is None and not before) or vm_id in snapshot.unreadable_vm_ids:
                continue
            found.append(
                Transition(
                    vm_id=vm_id,
                    lease_id=lease_id,
                    observed_at_s=now_s,
                    from_state=before,
                    to_state=after,
                    host_id=vm.host_id if vm is not None else None,
                    memory_mib=vm.memory_mib if vm is not None else 0,
                )
            )
    return tuple(found)


def _host_capacities(
    hosts: HostTable, ledger: Ledger, now_s: int, last: ClusterState | None
) -> tuple[HostCapacity, ...]:
    """Capacities that are new or changed; an OFFLINE host shows none and keeps what is known."""
    before = last.hosts.hosts if last is not None and len(last.hosts.hosts) == len(hosts.hosts) else ()
    found = []
    for host, seen_before in zip_longest(hosts.hosts, before):
        if host is seen_before or host.total_cpu_centi <= 0:
            continue
        known = ledger.host_capacities.get(host.id)
        seen = HostCapacity(
            host_id=host.id,
            observed_at_s=known.observed_at_s if known is not None else now_s,
            max_cpu_centi=host.max_cpu_centi,
            max_memory_kib=host.max_memory_kib,
            total_cpu_centi=host.total_cpu_centi,
            total_memory_kib=host.total_memory_kib,
        )
        if seen != known:
            found.append(replace(seen, observed_at_s=now_s))
    return tuple(found)


def _discrepancies(snapshot: PoolSnapshot, settled: _SettledActions, admission: Admission) -> tuple[Discrepancy, ...]:
    found = [Discrepancy("unreadable", problem) for problem in snapshot.problems]
    found.extend(_failures(settled.closed))
    found.extend(Discrepancy(note.code, note.text, note.vm_id) for note in admission.notes)
    return tuple(found)


def _half_seen(snapshot: PoolSnapshot, records: Mapping[int, LeaseRecord]) -> frozenset[int]:
    """Leases of which a member could not be read."""
    if not snapshot.unreadable_vm_ids:
        return frozenset()
    return frozenset(
        lease_id for lease_id, record in records.items() if not snapshot.unreadable_vm_ids.isdisjoint(record.vm_ids)
    )


def _failures(closed: Iterable[ActionRecord]) -> Iterable[Discrepancy]:
    for record in closed:
        if not record.succeeded and record.kind not in MESSAGE_KINDS:
            yield Discrepancy("action-failed", f"{record.kind} of VM {record.vm_id}: {record.error_text}", record.vm_id)


def _what_was_seen(vm: VirtualMachine | None) -> str:
    """Why an accepted call counts as failed, as far as the VM tells."""
    if vm is None:
        return "the VM was ended meanwhile"
    return f"the VM is {vm.state_name}" if phase_of(vm) is VmPhase.FAILED else "the VM fell back to where it was"
