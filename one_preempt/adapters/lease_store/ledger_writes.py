"""What is written to the tables of the lease store, inside the transaction of the caller."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

from sqlalchemy import BindParameter, Column, Table, bindparam, delete, insert, or_, select, update
from sqlalchemy.engine import Connection

from one_preempt.adapters.lease_store import rows
from one_preempt.adapters.lease_store.intents import OVERHEADS_KEPT, is_told_later
from one_preempt.adapters.lease_store.ledger_queries import Promised, reservations_of
from one_preempt.adapters.lease_store.tables import (
    actions,
    lease_members,
    leases,
    observed_overheads,
    past_actions,
    plans,
    preemptions,
    reservations,
    transitions,
    vm_states,
)
from one_preempt.core.model.ledger import ActionRecord, LeaseRecord, Transition
from one_preempt.core.model.observed_overhead import ObservedOverhead
from one_preempt.core.model.plan import Plan, Preemption
from one_preempt.core.model.reservation import Booking, VerdictGiven

# As many values in one IN (...) as every database takes.
CHUNK = 500
T = TypeVar("T")


def replace(connection: Connection, table: Table, new_rows: list[dict[str, Any]]) -> None:
    """Write rows over those with the same primary key, in words that every database understands."""
    if not new_rows:
        return
    (key,) = table.primary_key.columns
    for chunk in _chunks(new_rows):
        delete_rows(connection, key, [row[key.name] for row in chunk])
        connection.execute(insert(table), chunk)


def delete_rows(connection: Connection, key: Column[Any], values: Sequence[int | str]) -> None:
    """Delete the rows in which `key` has one of the values."""
    for chunk in _chunks(values):
        connection.execute(delete(key.table).where(key.in_(chunk)))


def _chunks(values: Sequence[T]) -> Iterator[Sequence[T]]:
    return (values[start : start + CHUNK] for start in range(0, len(values), CHUNK))


def write_leases(connection: Connection, records: dict[int, LeaseRecord]) -> None:
    """Write records over those with the same id; with the end of a lease its reservations go."""
    # The members of a lease that is written over go with its row (ON DELETE CASCADE).
    replace(connection, leases, [rows.lease_row(record) for record in records.values()])
    members = [
        {"lease_id": record.id, "position": position, "vm_id": vm_id}
        for record in records.values()
        for position, vm_id in enumerate(record.vm_ids)
    ]
    if members:
        connection.execute(insert(lease_members), members)
    delete_rows(connection, reservations.c.lease_id, [r.id for r in records.values() if r.ended_at_s is not None])


def close_actions(connection: Connection, closed: tuple[ActionRecord, ...]) -> None:
    """Write what became of recorded actions; an action that nobody recorded is passed over."""
    columns = ("outcome", "outcome_at_s", "error_code", "error_text", "closed_at_s", "succeeded")
    if closed:
        values = [{"key": record.id} | {c: rows.action_row(record)[c] for c in columns} for record in closed]
        # SET takes the columns that the rows name.
        connection.execute(update(actions).where(actions.c.id == bindparam("key")), values)


def log_transitions(connection: Connection, observed: tuple[Transition, ...]) -> None:
    """Append transitions, and remember the last state of each VM."""
    if observed:
        connection.execute(insert(transitions), [rows.transition_row(transition) for transition in observed])
    states = {transition.vm_id: transition for transition in observed}
    latest = [
        {"vm_id": vm_id, "state": transition.to_state, "observed_at_s": transition.observed_at_s}
        for vm_id, transition in states.items()
    ]
    replace(connection, vm_states, latest)


def known_actions(connection: Connection, plan: Plan) -> dict[str, ActionRecord]:
    """The recorded actions that `plan` names, by id."""
    ids = sorted({action.id for action in plan.actions})
    known: dict[str, ActionRecord] = {}
    for chunk in _chunks(ids):
        query = select(actions).where(actions.c.id.in_(chunk))
        known |= {row.id: rows.action_record(row) for row in connection.execute(query)}
    return known


def write_intents(connection: Connection, plan: Plan, new: list[ActionRecord], known: dict[str, ActionRecord]) -> None:
    """Write actions as intended by `plan`, new ones or over those in `known`, which are past then."""
    made = insert(plans).values(made_at_s=plan.made_at_s, policy=plan.policy, wake_at_s=plan.wake_at_s)
    (plan_number,) = connection.execute(made).inserted_primary_key or (None,)
    written = [rows.action_row(record) | {"plan_number": plan_number} for record in new]
    over = [known[record.id] for record in new if record.id in known and is_told_later(known[record.id])]
    if over:
        connection.execute(insert(past_actions), [rows.action_row(record) for record in over])
    first_time = [row for row in written if row["id"] not in known]
    if first_time:
        connection.execute(insert(actions), first_time)
    for row in written:
        if row["id"] in known:
            connection.execute(update(actions).where(actions.c.id == row["id"]).values(row))


def open_preemption(connection: Connection, preemption: Preemption, now_s: int) -> None:
    """Open it; one that is open already keeps its instant but may have changed, for a victim was replaced."""
    known = select(preemptions.c.opened_at_s).where(
        preemptions.c.id == preemption.id, preemptions.c.closed_at_s.is_(None)
    )
    opened_at_s = connection.execute(known).scalar()
    row = _preemption_row(preemption, now_s if opened_at_s is None else opened_at_s)
    replace(connection, preemptions, [row | {"advised_only": False, "closed_at_s": None}])


def log_advice(connection: Connection, preemption: Preemption, now_s: int) -> None:
    """Log once what the scheduler would have done; it is over as soon as it is written."""
    if connection.execute(select(preemptions.c.id).where(preemptions.c.id == preemption.id)).first() is None:
        row = _preemption_row(preemption, now_s) | {"advised_only": True, "closed_at_s": now_s}
        connection.execute(insert(preemptions).values(row))


def _preemption_row(preemption: Preemption, opened_at_s: int) -> dict[str, Any]:
    return {
        "id": preemption.id,
        "preemptor_lease_id": preemption.preemptor_lease_id,
        "policy": preemption.policy,
        "opened_at_s": opened_at_s,
        "reason_code": "",
        "reason_text": "",
        "document": rows.preemption_document(preemption),
    }


def end_preemptions(connection: Connection, plan: Plan) -> None:
    """Close the preemptions that are over."""
    for end in plan.ended_preemptions:
        connection.execute(
            update(preemptions)
            .where(preemptions.c.id == end.preemption_id, preemptions.c.closed_at_s.is_(None))
            .values(
                closed_at_s=plan.made_at_s,
                fulfilled=end.fulfilled,
                reason_code=end.reason.code,
                reason_text=end.reason.text,
            )
        )


def book(connection: Connection, bookings: Sequence[Booking]) -> None:
    """Write the reservations of each lease over those it had, where they are others."""
    wanted = {booking.lease_id: booking.reservations for booking in bookings}
    known: Promised = {}
    for chunk in _chunks(sorted(wanted)):
        known |= reservations_of(connection, chunk)
    changed = {lease_id: new for lease_id, new in wanted.items() if new != known.get(lease_id, ())}
    delete_rows(connection, reservations.c.lease_id, sorted(changed.keys() & known.keys()))
    new_rows = [rows.reservation_row(one, position) for new in changed.values() for position, one in enumerate(new)]
    if new_rows:
        connection.execute(insert(reservations), new_rows)


def give_verdicts(connection: Connection, verdicts: Sequence[VerdictGiven]) -> None:
    """Write what was said to wishes; a lease without a record is passed over."""
    told: BindParameter[str] = bindparam("told")
    text: BindParameter[str] = bindparam("text")
    write = (
        update(leases)
        .where(leases.c.id == bindparam("lease"), or_(leases.c.verdict != told, leases.c.verdict_text != text))
        .values(verdict=told, verdict_text=text)
    )
    if verdicts:
        connection.execute(write, [{"lease": v.lease_id, "told": v.verdict.value, "text": v.text} for v in verdicts])


def log_overheads(connection: Connection, observed: Sequence[ObservedOverhead]) -> None:
    """Append them; of each kind and datastore only the latest stay."""
    if not observed:
        return
    connection.execute(insert(observed_overheads), [rows.overhead_row(one) for one in observed])
    number, kind, datastore_id = (observed_overheads.c[name] for name in ("number", "kind", "datastore_id"))
    for one in sorted({(one.kind.value, one.datastore_id) for one in observed}):
        of_one = (kind == one[0], datastore_id == one[1])
        newest_to_go = select(number).where(*of_one).order_by(number.desc()).offset(OVERHEADS_KEPT).limit(1)
        last = connection.execute(newest_to_go).scalar()
        if last is not None:
            connection.execute(delete(observed_overheads).where(*of_one, number <= last))
