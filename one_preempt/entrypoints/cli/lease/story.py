"""A lease on record as a document and as tables: its terms, its VMs, and its story in the order of time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from one_preempt.core.model.access import Directory
from one_preempt.core.model.lease import LeaseTerms, LeaseType
from one_preempt.core.model.ledger import ActionRecord, LeaseRecord, Transition
from one_preempt.core.model.reservation import Reservation, Verdict
from one_preempt.core.model.written_time import duration_text
from one_preempt.entrypoints.cli.lease.owner_names import name_document, owner_in_words, user_in_words
from one_preempt.explanation.explain import JsonObject, printable
from one_preempt.scheduling_cycle import WITHDRAWN

LIST_COLUMNS = ("lease", "name", "type", "owner", "VMs", "last seen", "arrived", "preempted", "")
STORY_COLUMNS = ("when", "VM", "what", "why")
RESERVATION_COLUMNS = ("from", "until", "hosts", "")
_WHEN_ROOM_IS_SHORT = {
    LeaseType.BE_CANCELLABLE: "terminated when others need the room",
    LeaseType.BE_SUSPENDABLE: "stopped when others need the room, and back later",
    LeaseType.DC_MIGRATABLE: "moved when others need the room",
    LeaseType.DC_NON_PREEMPTABLE: "stays, even if others need the room",
}


def lease_document(record: LeaseRecord, states: Mapping[int, str], names: Directory) -> JsonObject:
    """One lease; instants are seconds since the epoch, `user` and `group` None where they are not known."""
    return {
        "id": record.id,
        **terms_document(record.terms),
        "uid": record.uid,
        "gid": record.gid,
        **name_document(record, names),
        "vms": [{"id": vm_id, "last_state": states.get(vm_id)} for vm_id in record.vm_ids],
        "explicit": record.explicit,
        "may_preempt": record.may_preempt,
        "rule": record.rule,
        "arrived_at": record.arrived_at_s,
        "admitted_at": record.admitted_at_s,
        "ended_at": record.ended_at_s,
        "preemptions": record.preemptions,
        "preempted_by": record.preempted_by,
        "last_preempted_at": record.last_preempted_at_s,
        "verdict": record.verdict.value,
        "verdict_text": record.verdict_text,
        "served_s": record.served_s,
        "run_began_at": record.run_began_at_s,
    }


def terms_document(terms: LeaseTerms | None) -> JsonObject:
    """The terms, every value None where they cannot be read; `start_offset_s` counts from the admission."""
    if terms is None:
        return dict.fromkeys(terms_document(LeaseTerms()))
    return {
        "name": terms.name,
        "type": terms.type.value,
        "size": terms.size,
        "duration_s": terms.duration_s,
        "start_at": terms.start_at_s,
        "start_offset_s": terms.start_offset_s,
        "at_once": terms.at_once,
        "deadline_at": terms.deadline_at_s,
        "max_suspensions": terms.max_suspensions,
        "shutdown_ok": terms.shutdown_ok,
    }


def action_document(action: ActionRecord) -> JsonObject:
    """One action of the log with its reason and what became of it."""
    return {
        "id": action.id,
        "kind": action.kind.value,
        "vm_id": action.vm_id,
        "host_id": action.host_id,
        "preemption": action.preemption_id,
        "reason": {"code": action.reason_code, "text": action.reason_text},
        "intended_at": action.intended_at_s,
        "attempts": action.attempts,
        "outcome": action.outcome.value if action.outcome else None,
        "outcome_at": action.outcome_at_s,
        "error_code": action.error_code,
        "error_text": action.error_text,
        "closed_at": action.closed_at_s,
        "succeeded": action.succeeded,
    }


def transition_document(transition: Transition) -> JsonObject:
    """One observed change of a VM's state."""
    return {
        "vm_id": transition.vm_id,
        "observed_at": transition.observed_at_s,
        "from": transition.from_state,
        "to": transition.to_state,
        "host_id": transition.host_id,
    }


def instant(at_s: int | None) -> str:
    """An instant for people, nothing for None."""
    from one_preempt.explanation.tables import instant as shown

    return "" if at_s is None else shown(at_s)


def duration_in_words(duration_s: int | None) -> str:
    """A duration as it is written in the attribute, nothing for None."""
    return "" if duration_s is None else duration_text(duration_s)


def start_in_words(terms: LeaseTerms) -> str:
    """START as an instant, or, before it was admitted, as it counts from then."""
    if terms.at_once:
        return "at once or not at all"
    if terms.start_at_s is None and terms.start_offset_s is not None:
        return f"+{duration_in_words(terms.start_offset_s)} from its admission"
    return instant(terms.start_at_s)


def _times(count: int) -> str:
    return {0: "", 1: "once"}.get(count, f"{count} times")


def list_row(
    record: LeaseRecord, states: Mapping[int, str], names: Directory, *, with_arrival: bool
) -> tuple[str, ...]:
    """One line of the list, under `LIST_COLUMNS`."""
    seen = Counter(states.get(vm_id, "not seen") for vm_id in record.vm_ids)
    now = "" if record.preempted_by is None else f"now for {record.preempted_by}"
    preempted = ", ".join(filter(None, (_times(record.preemptions), now)))
    return (
        str(record.id),
        printable(record.terms.name, 40),
        record.terms.type.value,
        user_in_words(record, names),
        str(len(record.vm_ids)),
        ", ".join(f"{count} {state}" for state, count in sorted(seen.items())),
        instant(record.arrived_at_s) if with_arrival else "",
        preempted,
        f"ended {instant(record.ended_at_s)}" if record.ended_at_s is not None else "",
    )


def term_rows(record: LeaseRecord, names: Directory) -> list[tuple[str, str]]:
    """What the lease was promised and how it stands, name by name; what is not set is left out."""
    shown = [
        *terms_in_words(record.terms),
        ("owner", owner_in_words(record, names)),
        ("asked for", "by its LEASE attribute" if record.explicit else f"by rule {printable(record.rule)}"),
        ("may preempt others", "yes" if record.may_preempt else ""),
        ("arrived", instant(record.arrived_at_s)),
        ("admitted", instant(record.admitted_at_s)),
        ("ended", instant(record.ended_at_s)),
        ("asked for time", _verdict_in_words(record)),
        ("ran before", duration_in_words(record.served_s or None)),
        ("runs since", instant(record.run_began_at_s)),
        ("preempted", _times(record.preemptions)),
        ("preempted now by lease", "" if record.preempted_by is None else str(record.preempted_by)),
    ]
    return [(name, value) for name, value in shown if value]


def terms_in_words(terms: LeaseTerms) -> list[tuple[str, str]]:
    """The terms name by name; what is not set is empty."""
    return [
        ("name", printable(terms.name)),
        ("type", f"{terms.type.value}: {_WHEN_ROOM_IS_SHORT[terms.type]}"),
        ("size", str(terms.size)),
        ("duration", duration_in_words(terms.duration_s)),
        ("start" if terms.deadline_at_s is None else "not before", start_in_words(terms)),
        ("deadline", instant(terms.deadline_at_s)),
        ("suspensions at most", "" if terms.max_suspensions is None else str(terms.max_suspensions)),
        ("may be shut down", "yes" if terms.shutdown_ok else ""),
    ]


def reservation_document(reservation: Reservation) -> JsonObject:
    """One stay that is promised."""
    return {
        "start_at": reservation.start_at_s,
        "end_at": reservation.end_at_s,
        "host_ids": list(reservation.host_ids),
        "firm": reservation.firm,
    }


def reservation_row(reservation: Reservation) -> tuple[str, ...]:
    """One line of what is promised, under `RESERVATION_COLUMNS`."""
    hosts = ", ".join(map(str, reservation.host_ids))
    how = "firm" if reservation.firm else "may change"
    return instant(reservation.start_at_s), instant(reservation.end_at_s), hosts, how


def story_rows(actions: Iterable[ActionRecord], transitions: Sequence[Transition]) -> list[tuple[str, ...]]:
    """Actions and observed transitions in the order of time, an action before what follows from it.

    An action stands at the instant of the last answer, since it may have been decided long before it was called; one
    without an answer at that of its decision.
    """
    told = [
        (_when(action), 0, (str(action.vm_id), _what_was_done(action), printable(action.reason_text)))
        for action in actions
    ]
    told += [(seen.observed_at_s, 1, (str(seen.vm_id), _what_was_seen(seen), "")) for seen in transitions]
    return [(instant(at_s), *texts) for at_s, _order, texts in sorted(told, key=lambda item: item[:2])]


def _verdict_in_words(record: LeaseRecord) -> str:
    if record.verdict is Verdict.NONE:
        return ""
    return f"{record.verdict.value}: {printable(record.verdict_text)}".removesuffix(": ")


def _when(action: ActionRecord) -> int:
    return action.intended_at_s if action.outcome_at_s is None else action.outcome_at_s


def _what_was_done(action: ActionRecord) -> str:
    where = "" if action.host_id is None else f" {action.kind.host_word} host {action.host_id}"
    if action.error_code == WITHDRAWN:
        return f"{action.kind.value}{where}: never sent, and not wanted any more"
    what = f"{action.kind.value}{where}: {action.outcome.value if action.outcome else 'intended'}"
    if action.error_code:
        what += f" ({action.error_code}: {printable(action.error_text)})"
    if action.succeeded is not None:
        what += ", done" if action.succeeded else ", failed"
    return what


def _what_was_seen(transition: Transition) -> str:
    return f"{transition.from_state or '?'} -> {transition.to_state}"
