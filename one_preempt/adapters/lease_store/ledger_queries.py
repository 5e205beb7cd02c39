"""What is read from the tables of the lease store, each by one query or two."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from sqlalchemy import Column, ColumnElement, select
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
from one_preempt.core.model.ledger import ActionRecord, HostCapacity, LeaseRecord, OpenPreemption, Outcome
from one_preempt.core.model.observed_overhead import ObservedOverhead
from one_preempt.core.model.reservation import Reservation

Promised = dict[int, tuple[Reservation, ...]]


def by_characters(connection: Connection, column: Column[str]) -> ColumnElement[str]:
    """What to order by for ids to be in the order of their characters, whatever language the database was made for.

    SQLite does so by itself, and so do the databases that `schema` takes on MariaDB.
    """
    return column.collate("C") if connection.dialect.name == "postgresql" else column


def lease_records(connection: Connection, include_ended: bool) -> list[LeaseRecord]:
    """Recorded leases with their members, in the order of their ids."""
    wanted = select(*rows.LEASE_COLUMNS).order_by(leases.c.id)
    members = select(lease_members.c.lease_id, lease_members.c.vm_id).order_by(
        lease_members.c.lease_id, lease_members.c.position
    )
    if not include_ended:
        wanted = wanted.where(leases.c.ended_at_s.is_(None))
        members = members.join(leases).where(leases.c.ended_at_s.is_(None))
    vm_ids: dict[int, list[int]] = {}
    for lease_id, vm_id in connection.execute(members).all():
        vm_ids.setdefault(lease_id, []).append(vm_id)
    return [rows.lease_record(row, tuple(vm_ids.get(row.id, ()))) for row in connection.execute(wanted).all()]


def open_preemptions(connection: Connection) -> tuple[OpenPreemption, ...]:
    """Preemptions that are not over, oldest first."""
    query = (
        select(preemptions)
        .where(preemptions.c.closed_at_s.is_(None))
        .order_by(preemptions.c.opened_at_s, by_characters(connection, preemptions.c.id))
    )
    return tuple(rows.open_preemption(row) for row in connection.execute(query))


def open_actions(connection: Connection) -> list[ActionRecord]:
    """Actions that are not closed, in the order of their ids."""
    query = select(actions).where(actions.c.closed_at_s.is_(None)).order_by(by_characters(connection, actions.c.id))
    return [rows.action_record(row) for row in connection.execute(query)]


def failed_actions(connection: Connection, since_s: int) -> tuple[ActionRecord, ...]:
    """Actions closed as failed at `since_s` or later, oldest first."""
    query = (
        select(actions)
        .where(actions.c.closed_at_s >= since_s, actions.c.succeeded.is_(False))
        .order_by(actions.c.closed_at_s, by_characters(connection, actions.c.id))
    )
    return tuple(rows.action_record(row) for row in connection.execute(query))


def states_of_members(connection: Connection) -> dict[int, str]:
    """The last logged state of every VM of a lease that has not ended."""
    members = select(lease_members.c.vm_id).join(leases).where(leases.c.ended_at_s.is_(None))
    query = select(vm_states.c.vm_id, vm_states.c.state).where(vm_states.c.vm_id.in_(members))
    return {row[0]: row[1] for row in connection.execute(query.order_by(vm_states.c.vm_id)).all()}


def victims_out_since(connection: Connection, since_s: int) -> tuple[int, ...]:
    """When victims were sent out, from `since_s` on."""
    query = (
        select(attempts.c.outcome_at_s)
        .join(actions)
        .where(attempts.c.outcome == Outcome.ACCEPTED.value, attempts.c.outcome_at_s >= since_s)
        .where(actions.c.kind.in_(sorted(kind.value for kind in VICTIM_KINDS)), actions.c.preemption_id.is_not(None))
        .order_by(attempts.c.outcome_at_s)
    )
    return tuple(connection.execute(query).scalars())


def is_on(connection: Connection, switch: str) -> bool:
    """Whether the operator's `switch` is on."""
    return bool(connection.execute(select(control.c.switched_on).where(control.c.name == switch)).scalar())


def last_host_capacities(connection: Connection) -> dict[int, HostCapacity]:
    """The last known capacity of every host, in the order of their ids."""
    query = select(host_capacities).order_by(host_capacities.c.host_id)
    return {row.host_id: rows.host_capacity(row) for row in connection.execute(query)}


def reservations_of(connection: Connection, lease_ids: Sequence[int] | None = None) -> Promised:
    """The reservations of these leases, or of all, each lease's in the order of time; leases by their ids."""
    query = select(*rows.RESERVATION_COLUMNS).order_by(reservations.c.lease_id, reservations.c.position)
    if lease_ids is not None:
        query = query.where(reservations.c.lease_id.in_(lease_ids))
    promised = map(rows.reservation, connection.execute(query).all())
    return {lease_id: tuple(of_lease) for lease_id, of_lease in groupby(promised, key=lambda one: one.lease_id)}


def latest_overheads(connection: Connection) -> tuple[ObservedOverhead, ...]:
    """What is learned from, oldest first."""
    return tuple(
        map(rows.overhead, connection.execute(select(observed_overheads).order_by(observed_overheads.c.number)))
    )
