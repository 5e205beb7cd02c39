"""Values of the ledger to rows of the tables, and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, TypeVar

import msgspec
from sqlalchemy import Row, Table

from one_preempt.adapters.lease_store.tables import actions, leases, observed_overheads, preemptions, reservations
from one_preempt.core.model.host import HostCapacity
from one_preempt.core.model.lease import LeaseTerms, LeaseType
from one_preempt.core.model.ledger import ActionRecord, LeaseRecord, OpenPreemption, Transition
from one_preempt.core.model.observed_overhead import ObservedOverhead, OverheadKind
from one_preempt.core.model.outcome import Outcome
from one_preempt.core.model.plan import ActionKind, Preemption
from one_preempt.core.model.reservation import Reservation, Verdict

_TERMS = LeaseTerms.__struct_fields__
_LEASE = tuple(name for name in LeaseRecord.__struct_fields__ if name not in ("terms", "vm_ids"))
# Thousands of leases may live, so their rows are read by position.
LEASE_COLUMNS = tuple(leases.c[name] for name in _TERMS + _LEASE)
_VERDICT, _PAUSED = map(_LEASE[3:].index, ("verdict", "paused_vm_ids"))
RESERVATION_COLUMNS = tuple(reservations.c[name] for name in ("lease_id", "start_at_s", "end_at_s", "firm", "host_ids"))
_IDS = msgspec.json.Decoder(tuple[int, ...])
_ACTION = ActionRecord.__struct_fields__
_TRANSITION = Transition.__struct_fields__
_HOST_CAPACITY = HostCapacity.__struct_fields__
_OVERHEAD = ObservedOverhead.__struct_fields__

_Word = TypeVar("_Word", bound=StrEnum)


class UnreadableRow(ValueError):
    """A row holds what no version of this program wrote; the message names the table and the row."""

    def __init__(self, table: Table, of: str, column: str, value: object, expected: str) -> None:
        super().__init__(f"table {table.name}, {of}: {column} is {str(value)[:80]!r}, not {expected}")


def lease_row(record: LeaseRecord) -> dict[str, Any]:
    """The row of `leases`; the members go to their own table."""
    row = {name: getattr(record, name) for name in _LEASE}
    row |= {name: getattr(record.terms, name) for name in _TERMS}
    row["type"] = record.terms.type.value
    row["verdict"] = record.verdict.value
    row["paused_vm_ids"] = msgspec.json.encode(record.paused_vm_ids).decode() if record.paused_vm_ids else None
    return row


def lease_record(row: Sequence[Any], vm_ids: tuple[int, ...]) -> LeaseRecord:
    """A row of `LEASE_COLUMNS` with the lease's members, oldest first."""
    type_word, *terms = row[: len(_TERMS)]
    lease_id, uid, gid, *record = row[len(_TERMS) :]
    of = f"lease {lease_id}"
    lease_type = word(LeaseType, leases, of, "type", type_word)
    record[_VERDICT] = word(Verdict, leases, of, "verdict", record[_VERDICT])
    paused = record[_PAUSED]
    record[_PAUSED] = () if paused is None else ids_of(leases, of, "paused_vm_ids", paused, "VM")
    return LeaseRecord(lease_id, LeaseTerms(lease_type, *terms), uid, gid, vm_ids, *record)


def reservation_row(reservation: Reservation, position: int) -> dict[str, Any]:
    """The row of `reservations` for the one that is `position`th of its lease."""
    return {
        "lease_id": reservation.lease_id,
        "position": position,
        "start_at_s": reservation.start_at_s,
        "end_at_s": reservation.end_at_s,
        "firm": reservation.firm,
        "host_ids": msgspec.json.encode(reservation.host_ids).decode(),
    }


def reservation(row: Sequence[Any]) -> Reservation:
    """A row of `RESERVATION_COLUMNS`."""
    lease_id, start_at_s, end_at_s, firm, host_ids = row
    hosts = ids_of(reservations, f"lease {lease_id}", "host_ids", host_ids, "host")
    return Reservation(lease_id, start_at_s, end_at_s, hosts, firm)


def overhead_row(observed: ObservedOverhead) -> dict[str, Any]:
    """The row of `observed_overheads`; its number is the database's."""
    return {name: getattr(observed, name) for name in _OVERHEAD} | {"kind": observed.kind.value}


def overhead(row: Row[Any]) -> ObservedOverhead:
    """A row of `observed_overheads`."""
    values = row._mapping
    kind = word(OverheadKind, observed_overheads, f"VM {values['vm_id']}", "kind", values["kind"])
    return ObservedOverhead(**_picked(values, _OVERHEAD) | {"kind": kind})


def transition_row(transition: Transition) -> dict[str, Any]:
    """The row of `transitions`; its number is the database's."""
    return {name: getattr(transition, name) for name in _TRANSITION}


def transition(row: Row[Any]) -> Transition:
    """A row of `transitions`."""
    return Transition(**_picked(row._mapping, _TRANSITION))


def host_capacity_row(capacity: HostCapacity) -> dict[str, Any]:
    """The row of `host_capacities`."""
    return {name: getattr(capacity, name) for name in _HOST_CAPACITY}


def host_capacity(row: Row[Any]) -> HostCapacity:
    """A row of `host_capacities`."""
    return HostCapacity(**_picked(row._mapping, _HOST_CAPACITY))


def action_row(record: ActionRecord) -> dict[str, Any]:
    """The row of `actions`, without the number of the plan."""
    row = {name: getattr(record, name) for name in _ACTION}
    row["kind"] = record.kind.value
    row["outcome"] = record.outcome.value if record.outcome else None
    return row


def action_record(row: Row[Any]) -> ActionRecord:
    """A row of `actions`."""
    values = row._mapping
    of = f"action {values['id']} of lease {values['lease_id']}"
    outcome = values["outcome"]
    return ActionRecord(
        **_picked(values, _ACTION)
        | {
            "kind": word(ActionKind, actions, of, "kind", values["kind"]),
            "outcome": None if outcome is None else word(Outcome, actions, of, "outcome", outcome),
        }
    )


def preemption_document(preemption: Preemption) -> str:
    """The whole preemption as JSON."""
    return msgspec.json.encode(preemption).decode()


def open_preemption(row: Row[Any]) -> OpenPreemption:
    """A row of `preemptions`."""
    values = row._mapping
    try:
        decided = msgspec.json.decode(values["document"], type=Preemption)
    except (msgspec.DecodeError, UnicodeError) as error:
        of = f"preemption {values['id']} for lease {values['preemptor_lease_id']}"
        raise UnreadableRow(preemptions, of, "document", values["document"], f"a preemption ({error})") from None
    return OpenPreemption(decided, values["opened_at_s"])


def word(words: type[_Word], table: Table, of: str, column: str, value: str) -> _Word:
    """A word of an enumeration out of a row; raises `UnreadableRow`."""
    try:
        return words(value)
    except ValueError:
        raise UnreadableRow(table, of, column, value, "one of " + ", ".join(words)) from None


def ids_of(table: Table, of: str, column: str, value: str, kind: str) -> tuple[int, ...]:
    """A JSON list of ids out of a row; raises `UnreadableRow`."""
    try:
        return _IDS.decode(value)
    except (msgspec.DecodeError, UnicodeError, TypeError):
        raise UnreadableRow(table, of, column, value, f"a JSON list of {kind} ids") from None


def _picked(values: Mapping[Any, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: values[name] for name in names}
