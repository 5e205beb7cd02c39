"""An own lease as a document and as tables: terms in words, its VMs, and the changes that OpenNebula still tells of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from one_preempt.core.lease_status import says_served, status_of
from one_preempt.core.model.lease import LeaseState, LeaseTerms
from one_preempt.core.model.virtual_machine import HistoryAction, HistoryRecord, LockLevel, VirtualMachine
from one_preempt.entrypoints.cli.lease.own_leases import OwnLease
from one_preempt.entrypoints.cli.lease.story import (
    duration_in_words,
    instant,
    start_in_words,
    terms_document,
    terms_in_words,
)
from one_preempt.explanation.explain import JsonObject, printable

LIST_COLUMNS = ("lease", "name", "type", "VMs", "state", "start", "duration", "deadline", "LEASE_STATUS")
VM_COLUMNS = ("VM", "name", "state", "host", "created", "")
CHANGE_COLUMNS = ("when", "VM", "what")
MESSAGE = "SCHED_MESSAGE"
LONGEST_NAME = 40
LONGEST_STATUS = 300

_LEFT_BY = {
    HistoryAction.MIGRATE: "to migrate",
    HistoryAction.LIVE_MIGRATE: "to migrate live",
    HistoryAction.STOP: "by stop",
    HistoryAction.SUSPEND: "by suspend",
    HistoryAction.UNDEPLOY: "by undeploy",
    HistoryAction.UNDEPLOY_HARD: "by undeploy-hard",
    HistoryAction.POWEROFF: "by poweroff",
    HistoryAction.POWEROFF_HARD: "by poweroff-hard",
    HistoryAction.TERMINATE: "by terminate",
    HistoryAction.TERMINATE_HARD: "by terminate-hard",
}


def own_document(lease: OwnLease) -> JsonObject:
    """One lease; instants are seconds since the epoch. Keys that the administrator's document has mean the same."""
    return {
        "id": lease.id,
        **terms_document(lease.terms),
        "uid": lease.vms[0].uid,
        "gid": lease.vms[0].gid,
        "user": lease.vms[0].uname,
        "group": lease.vms[0].gname,
        "vms": [_vm_document(vm) for vm in lease.vms],
        "state": lease.state.value,
        "status": list(lease.statuses),
        "problem": lease.problem,
        "running_since": lease.running_since_s,
    }


def change_document(change: tuple[int, int, str]) -> JsonObject:
    """One change of a VM."""
    at_s, vm_id, what = change
    return {"at": at_s, "vm_id": vm_id, "what": what}


def own_row(lease: OwnLease) -> tuple[str, ...]:
    """One line of the list, under `LIST_COLUMNS`."""
    terms = lease.terms or LeaseTerms()
    size = f"{len(lease.vms)} of {terms.size}" if len(lease.vms) != terms.size else str(terms.size)
    return (
        str(lease.id),
        printable(terms.name, LONGEST_NAME),
        terms.type.value if lease.terms is not None else "?",
        size,
        state_in_words(lease),
        start_in_words(terms),
        duration_in_words(terms.duration_s),
        instant(terms.deadline_at_s),
        status_in_words(lease),
    )


def state_in_words(lease: OwnLease) -> str:
    """The state by its name; `over` where it stands still for its DURATION is over, whoever stopped it."""
    is_served = lease.state is LeaseState.PAUSED_BY_OWNER and any(map(says_served, lease.vms))
    return "over" if is_served else lease.state.value


def status_in_words(lease: OwnLease) -> str:
    """What LEASE_STATUS says, else what is wrong, else why it says nothing yet."""
    told = [printable(text, LONGEST_STATUS) for text in lease.statuses[:3]]
    # Where VMs are missing the scheduler knows better whether they are waited for, once it has said anything.
    waits_for_vms = lease.terms is not None and lease.state in (LeaseState.REFUSED, LeaseState.INCOMPLETE)
    is_told = any(lease.problem in text for text in told) or (waits_for_vms and bool(told))
    if lease.problem and not is_told:
        told.append(printable(lease.problem, LONGEST_STATUS))
    return "; ".join(told) or "nothing yet"


def own_term_rows(lease: OwnLease) -> list[tuple[str, str]]:
    """The terms and how it stands, name by name; what is not set is left out."""
    told = terms_in_words(lease.terms) if lease.terms is not None else [("type", "unknown: LEASE cannot be read")]
    held = ", ".join(f"{count} {name}" for name, count in sorted(Counter(vm.state_name for vm in lease.vms).items()))
    first = lease.vms[0]
    shown = [
        *told,
        ("owner", f"{printable(first.uname, LONGEST_NAME)}, group {printable(first.gname, LONGEST_NAME)}"),
        ("state", f"{state_in_words(lease)} ({held})"),
        ("LEASE_STATUS", status_in_words(lease)),
        ("SCHED_MESSAGE", "; ".join(_messages(lease.vms))),
        ("runs since", instant(lease.running_since_s)),
    ]
    return [(name, text) for name, text in shown if text]


def own_vm_row(vm: VirtualMachine) -> tuple[str, ...]:
    """One VM of the lease, under `VM_COLUMNS`."""
    stay = vm.last_history
    return (
        str(vm.id),
        printable(vm.name, LONGEST_NAME),
        vm.state_name,
        printable(stay.hostname, LONGEST_NAME) if stay is not None and vm.holds_capacity else "",
        instant(vm.submitted_at_s),
        "locked" if vm.lock_level is not LockLevel.NONE else "",
    )


def changes(vms: Sequence[VirtualMachine]) -> list[tuple[int, int, str]]:
    """(instant, VM, what) in the order of time, from the stays on hosts that the VMs' documents have."""
    return sorted((change for vm in vms for change in _changes_of(vm)), key=lambda change: change[:2])


def change_row(change: tuple[int, int, str]) -> tuple[str, ...]:
    """One change, under `CHANGE_COLUMNS`."""
    at_s, vm_id, what = change
    return instant(at_s), str(vm_id), what


def _changes_of(vm: VirtualMachine) -> Iterator[tuple[int, int, str]]:
    yield vm.submitted_at_s, vm.id, "created"
    for stay in vm.history:
        host = printable(stay.hostname, LONGEST_NAME)
        if stay.start_at_s:
            yield stay.start_at_s, vm.id, f"sent to {host}"
        if stay.running_start_at_s:
            yield stay.running_start_at_s, vm.id, f"runs on {host}"
        if stay.running_end_at_s:
            yield stay.running_end_at_s, vm.id, f"no longer runs on {host}"
        if stay.end_at_s:
            yield stay.end_at_s, vm.id, f"left {host} {_why(stay)}".rstrip()
    if vm.ended_at_s:
        yield vm.ended_at_s, vm.id, "ended"


def _why(stay: HistoryRecord) -> str:
    return next((text for action, text in _LEFT_BY.items() if action == stay.action), "")


def _messages(vms: Sequence[VirtualMachine]) -> list[str]:
    values = (vm.user_template.get(MESSAGE, ("",))[0] for vm in vms)
    texts = dict.fromkeys(value for value in values if isinstance(value, str) and value)
    return [printable(text, LONGEST_STATUS) for text in list(texts)[:3]]


def _vm_document(vm: VirtualMachine) -> JsonObject:
    return {"id": vm.id, "name": vm.name, "last_state": vm.state_name, "status": status_of(vm)}
