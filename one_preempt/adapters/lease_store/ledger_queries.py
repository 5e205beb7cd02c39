"""What is read from the tables of the lease store, each by one query or two.

What every cycle asks is put into SQL once: to build a statement anew takes longer than to run it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import groupby
from typing import Any

from sqlalchemy import BindParameter, Column, ColumnElement, Select, Table, bindparam, select
from sqlalchemy.engine import Connection

from one_preempt.adapters.lease_store import rows
from one_preempt.adapters.lease_store.intents import VICTIM_KINDS
from one_preempt.adapters.lease_store.tables import (
    actions,
    attempts,
    control,
    host_capacities,
    lease_members,
    leases,
    observed_overheads,
    preemptions,
    reservations,
    vm_states,
)
from one_preempt.core.model.host import HostCapacity
from one_preempt.core.model.ledger import ActionRecord, LeaseRecord, OpenPreemption
from one_preempt.core.model.observed_overhead import ObservedOverhead
from one_preempt.core.model.outcome import Outcome
from one_preempt.core.model.reservation import Reservation

Promised = dict[int, tuple[Reservation, ...]]
_SINCE: BindParameter[int] = bindparam("since_s")
_SWITCH: BindParameter[str] = bindparam("switch")
_STATES_OF_MEMBERS = (
    select(vm_states.c.vm_id, vm_states.c.state)
    .where(vm_states.c.vm_id.in_(select(lease_members.c.vm_id).join(leases).where(leases.c.ended_at_s.is_(None))))
    .order_by(vm_states.c.vm_id)
)
_VICTIMS_OUT = (
    select(attempts.c.outcome_at_s)
    .join(actions)
    .where(attempts.c.outcome == Outcome.ACCEPTED.value, attempts.c.outcome_at_s >= _SINCE)
    .where(actions.c.kind.in_(sorted(kind.value for kind in VICTIM_KINDS)), actions.c.preemption_id.is_not(None))
    .order_by(attempts.c.outcome_at_s)
)
_SWITCHED_ON = select(control.c.switched_on).where(control.c.name == _SWITCH)
_HOST_CAPACITIES = select(host_capacities).order_by(host_capacities.c.host_id)
_RESERVATIONS = select(*rows.RESERVATION_COLUMNS).order_by(reservations.c.lease_id, reservations.c.position)
_OVERHEADS = select(observed_overheads).order_by(observed_overheads.c.number)


def by_characters(dialect_name: str, column: Column[str]) -> ColumnElement[str]:
    """What to order by for ids to be in the order of their characters, whatever language the database was made for.

    SQLite does so by itself, and so do the databases that `schema` takes on MariaDB.
    """
    return column.collate("C") if dialect_name == "postgresql" else column


def lease_records(connection: Connection, include_ended: bool) -> list[LeaseRecord]:
    """Recorded leases with their members, in the order of their ids."""
    vm_ids: dict[int, list[int]] = {}
    for lease_id, vm_id in connection.execute(_members(include_ended)).all():
        vm_ids.setdefault(lease_id, []).append(vm_id)
    records = connection.execute(_leases(include_ended)).all()
    return [rows.lease_record(row, tuple(vm_ids.get(row.id, ()))) for row in records]


def find_lease(connection: Connection, lease_or_vm_id: int) -> LeaseRecord | None:
    """The lease of that id, or else the latest one with the VM of that id, ended or not."""
    every = select(*rows.LEASE_COLUMNS)
    named = every.where(leases.c.id == lease_or_vm_id)
    with_vm = every.join(lease_members).where(lease_members.c.vm_id == lease_or_vm_id)
    latest = with_vm.order_by(leases.c.arrived_at_s.desc(), leases.c.id.desc()).limit(1)
    row = connection.execute(named).first() or connection.execute(latest).first()
    if row is None:
        return None
    members = select(lease_members.c.vm_id).where(lease_members.c.lease_id == row.id)
    return rows.lease_record(row, tuple(connection.execute(members.order_by(lease_members.c.position)).scalars()))


@cache
def _leases(include_ended: bool) -> Select[Any]:
    wanted = select(*rows.LEASE_COLUMNS).order_by(leases.c.id)
    return wanted if include_ended else wanted.where(leases.c.ended_at_s.is_(None))


@cache
def _members(include_ended: bool) -> Select[Any]:
    members = select(lease_members.c.lease_id, lease_members.c.vm_id)
    members = members.order_by(lease_members.c.lease_id, lease_members.c.position)
    return members if include_ended else members.join(leases).where(leases.c.ended_at_s.is_(None))


def open_preemptions(connection: Connection) -> tuple[OpenPreemption, ...]:
    """Preemptions that are not over, oldest first."""
    return tuple(rows.open_preemption(row) for row in connection.execute(_open_preemptions(connection.dialect.name)))


@cache
def _open_preemptions(dialect_name: str) -> Select[Any]:
    in_order = preemptions.c.opened_at_s, by_characters(dialect_name, preemptions.c.id)
    return select(preemptions).where(preemptions.c.closed_at_s.is_(None)).order_by(*in_order)


def open_actions(connection: Connection) -> list[ActionRecord]:
    """Actions that are not closed, in the order of their ids."""
    return [rows.action_record(row) for row in connection.execute(_open_actions(connection.dialect.name))]


@cache
def _open_actions(dialect_name: str) -> Select[Any]:
    return select(actions).where(actions.c.closed_at_s.is_(None)).order_by(by_characters(dialect_name, actions.c.id))


def actions_in(connection: Connection, table: Table, lease_id: int | None, limit: int) -> list[ActionRecord]:
    """The newest of `actions` or `past_actions`, of one lease or of all, newest first."""
    ids = by_characters(connection.dialect.name, table.c.id)
    of_one_id = [table.c.number.desc()] if "number" in table.c else []
    query = select(table).order_by(table.c.intended_at_s.desc(), ids.desc(), *of_one_id).limit(limit)
    if lease_id is not None:
        query = query.where(table.c.lease_id == lease_id)
    return [rows.action_record(row) for row in connection.execute(query)]


def failed_actions(connection: Connection, since_s: int) -> tuple[ActionRecord, ...]:
    """Actions closed as failed at `since_s` or later, oldest first."""
    found = connection.execute(_failed_actions(connection.dialect.name), {"since_s": since_s})
    return tuple(rows.action_record(row) for row in found)


@cache
def _failed_actions(dialect_name: str) -> Select[Any]:
    failed = actions.c.closed_at_s >= _SINCE, actions.c.succeeded.is_(False)
    return select(actions).where(*failed).order_by(actions.c.closed_at_s, by_characters(dialect_name, actions.c.id))


def states_of_members(connection: Connection) -> dict[int, str]:
    """The last logged state of every VM of a lease that has not ended."""
    return {row[0]: row[1] for row in connection.execute(_STATES_OF_MEMBERS).all()}


def victims_out_since(connection: Connection, since_s: int) -> tuple[int, ...]:
    """When victims were sent out, from `since_s` on."""
    return tuple(connection.execute(_VICTIMS_OUT, {"since_s": since_s}).scalars())


def is_on(connection: Connection, switch: str) -> bool:
    """Whether the operator's `switch` is on."""
    return bool(connection.execute(_SWITCHED_ON, {"switch": switch}).scalar())


def last_host_capacities(connection: Connection) -> dict[int, HostCapacity]:
    """The last known capacity of every host, in the order of their ids."""
    return {row.host_id: rows.host_capacity(row) for row in connection.execute(_HOST_CAPACITIES)}


def reservations_of(connection: Connection, lease_ids: Sequence[int] | None = None) -> Promised:
    """The reservations of these leases, or of all, each lease's in the order of time; leases by their ids."""
    query = _RESERVATIONS if lease_ids is None else _RESERVATIONS.where(reservations.c.lease_id.in_(lease_ids))
    promised = map(rows.reservation, connection.execute(query).all())
    return {lease_id: tuple(of_lease) for lease_id, of_lease in groupby(promised, key=lambda one: one.lease_id)}


def latest_overheads(connection: Connection) -> tuple[ObservedOverhead, ...]:
    """What is learned from, oldest first."""
    return tuple(map(rows.overhead, connection.execute(_OVERHEADS)))
