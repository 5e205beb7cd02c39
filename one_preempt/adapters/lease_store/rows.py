"""Values of the ledger to rows of the tables, and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import msgspec
from sqlalchemy import Row

from one_preempt.core.model.lease import LeaseTerms, LeaseType
from one_preempt.core.model.ledger import ActionRecord, HostCapacity, LeaseRecord, OpenPreemption, Outcome, Transition
from one_preempt.core.model.plan import ActionKind, Preemption

_TERMS = tuple(field.name for field in fields(LeaseTerms))
_LEASE = tuple(field.name for field in fields(LeaseRecord) if field.name not in ("terms", "vm_ids"))
_ACTION = tuple(field.name for field in fields(ActionRecord))
_TRANSITION = tuple(field.name for field in fields(Transition))
_HOST_CAPACITY = tuple(field.name for field in fields(HostCapacity))


def lease_row(record: LeaseRecord) -> dict[str, Any]:
    """The row of `leases`; the members go to their own table."""
    row = {name: getattr(record, name) for name in _LEASE}
    row |= {name: getattr(record.terms, name) for name in _TERMS}
    row["type"] = record.terms.type.value
    return row


def lease_record(row: Row[Any], vm_ids: tuple[int, ...]) -> LeaseRecord:
    """A row of `leases` with its members, oldest first."""
    values = row._mapping
    terms = LeaseTerms(**_picked(values, _TERMS) | {"type": LeaseType(values["type"])})
    return LeaseRecord(terms=terms, vm_ids=vm_ids, **_picked(values, _LEASE))


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
    outcome = values["outcome"]
    enums = {"kind": ActionKind(values["kind"]), "outcome": Outcome(outcome) if outcome else None}
    return ActionRecord(**_picked(values, _ACTION) | enums)


def preemption_document(preemption: Preemption) -> str:
    """The whole preemption as JSON."""
    return msgspec.json.encode(preemption).decode()


def open_preemption(row: Row[Any]) -> OpenPreemption:
    """A row of `preemptions`."""
    values = row._mapping
    return OpenPreemption(msgspec.json.decode(values["document"], type=Preemption), values["opened_at_s"])


def _picked(values: Mapping[Any, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: values[name] for name in names}
