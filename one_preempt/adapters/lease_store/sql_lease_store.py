"""The ledger in a database, SQLite by default. Every method is one transaction."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Table, bindparam, delete, insert, select, update
from sqlalchemy.engine import Connection

from one_preempt.adapters.lease_store import rows
from one_preempt.adapters.lease_store.database import (
    BUSY_TIMEOUT_S,
    failures_in_words,
    is_sqlite,
    name_of,
    open_engine,
    parsed_url,
    prepare_file,
    reading_engine,
)
from one_preempt.adapters.lease_store.intents import (
    RETRY_WINDOW_S,
    VICTIM_KINDS,
    VICTIM_WINDOW_S,
    distinct_actions,
    intended_again,
    unknown_action,
)
from one_preempt.adapters.lease_store.schema import require_current
from one_preempt.adapters.lease_store.tables import (
    actions,
    attempts,
    control,
    host_capacities,
    lease_members,
    leases,
    plans,
    preemptions,
    transitions,
    vm_states,
)
from one_preempt.adapters.lease_store.writer_lock import FileWriterLock, ServerWriterLock, WriterLock
from one_preempt.core.model.ledger import (
    ActionRecord,
    LeaseRecord,
    Ledger,
    LedgerChanges,
    OpenPreemption,
    Outcome,
    Transition,
)
from one_preempt.core.model.plan import Action, Plan, Preemption
from one_preempt.ports import CallResult

PAUSED = "paused"
# As many values in one IN (...) as every database takes.
CHUNK = 500


class SqlLeaseStore:
    """A `LeaseStore` in the database at `url`; an empty one gets its tables.

    Raises `LeaseStoreError`, with one message that a person can act on, from the constructor and every method.
    """

    def __init__(self, url: str, busy_timeout_s: float = BUSY_TIMEOUT_S) -> None:
        parsed = parsed_url(url)
        self._is_sqlite = is_sqlite(parsed)
        self._name = name_of(parsed)
        if self._is_sqlite:
            prepare_file(parsed)
        self._engine = open_engine(parsed, busy_timeout_s)
        self._reading_engine = reading_engine(self._engine)
        self._writer: WriterLock | None = None
        require_current(self._engine, self._name)

    def acquire_writer(self) -> None:
        """Become the one daemon that writes, until `release_writer`, `close` or death; raises where another one is.

        Every later write first checks that the lock still stands. `set_paused` by another process needs none.
        """
        if self._writer is not None:
            return
        with failures_in_words(self._name):
            self._writer = FileWriterLock(self._name) if self._is_sqlite else ServerWriterLock(self._engine, self._name)

    def release_writer(self) -> None:
        """Let another daemon write: this one's front-end does not lead any more."""
        if self._writer is not None:
            self._writer.release()
            self._writer = None

    def load(self, now_s: int) -> Ledger:
        """What the cycle needs to know; ended leases and what is older than the windows are not read."""
        with self._reading() as connection:
            return Ledger(
                leases={record.id: record for record in _lease_records(connection, include_ended=False)},
                preemptions=_open_preemptions(connection),
                open_actions={record.id: record for record in _open_actions(connection)},
                failed_actions=_failed_actions(connection, now_s - RETRY_WINDOW_S),
                vm_states=_states_of_members(connection),
                host_capacities={
                    row.host_id: rows.host_capacity(row)
                    for row in connection.execute(select(host_capacities).order_by(host_capacities.c.host_id))
                },
                victims_last_hour=_victims_out_since(connection, now_s - VICTIM_WINDOW_S),
                paused=_is_on(connection, PAUSED),
            )

    def apply(self, changes: LedgerChanges) -> None:
        """Write what reconciliation found out."""
        if changes.is_empty:
            return
        with self._writing() as connection:
            _write_leases(connection, {record.id: record for record in (*changes.admitted, *changes.updated)})
            _close_actions(connection, changes.closed_actions)
            _log_transitions(connection, changes.transitions)
            capacities = {capacity.host_id: capacity for capacity in changes.host_capacities}
            _replace(connection, host_capacities, [rows.host_capacity_row(value) for value in capacities.values()])

    def record_plan(self, plan: Plan) -> None:
        """Write the plan as intended, if anything in it is new."""
        if not (plan.actions or plan.preemptions or plan.ended_preemptions or plan.advised):
            return
        with self._writing() as connection:
            known = _known_actions(connection, plan)
            wanted = (
                intended_again(known.get(action.id), action, plan.made_at_s)
                for action in distinct_actions(plan).values()
            )
            new = [record for record in wanted if record is not None]
            if new:
                _write_intents(connection, plan, new, known)
            for preemption in plan.preemptions:
                _open_preemption(connection, preemption, plan.made_at_s)
            for preemption in plan.advised:
                _log_advice(connection, preemption, plan.made_at_s)
            _end_preemptions(connection, plan)

    def begin_attempt(self, action: Action, now_s: int) -> None:
        """Write that `action` is about to be issued; raises LookupError where no plan has recorded it."""
        with self._writing() as connection:
            begun = connection.execute(
                update(actions)
                .where(actions.c.id == action.id)
                .values(attempts=actions.c.attempts + 1, outcome=None, outcome_at_s=None, error_code="", error_text="")
            )
            if begun.rowcount != 1:
                raise unknown_action(action.id)
            connection.execute(
                insert(attempts).values(action_id=action.id, begun_at_s=now_s, error_code="", error_text="")
            )

    def record_result(self, action_id: str, result: CallResult, now_s: int) -> None:
        """Write what was answered; raises LookupError where no plan has recorded the action."""
        answer = {
            "outcome": result.outcome.value,
            "outcome_at_s": now_s,
            "error_code": result.error_code,
            "error_text": result.error_text,
        }
        with self._writing() as connection:
            if connection.execute(update(actions).where(actions.c.id == action_id).values(answer)).rowcount != 1:
                raise unknown_action(action_id)
            under_way = (
                select(attempts.c.number)
                .where(attempts.c.action_id == action_id, attempts.c.outcome.is_(None))
                .order_by(attempts.c.number.desc())
                .limit(1)
            )
            number = connection.execute(under_way).scalar()
            if number is None:
                connection.execute(insert(attempts).values(action_id=action_id, begun_at_s=now_s, **answer))
            else:
                connection.execute(update(attempts).where(attempts.c.number == number).values(answer))

    def is_paused(self) -> bool:
        """Whether preempting and power actions are stopped, asked afresh."""
        with self._reading() as connection:
            return _is_on(connection, PAUSED)

    def set_paused(self, paused: bool, now_s: int) -> None:
        """Stop or start preempting and power actions; the daemon sees it at its next `load`."""
        with self._writing() as connection:
            _replace(connection, control, [{"name": PAUSED, "switched_on": paused, "changed_at_s": now_s}])

    def leases(self, include_ended: bool = False) -> Sequence[LeaseRecord]:
        """Recorded leases, oldest first."""
        with self._reading() as connection:
            records = _lease_records(connection, include_ended)
        return tuple(sorted(records, key=lambda record: (record.arrived_at_s, record.id)))

    def actions(self, lease_id: int | None = None, limit: int = 200) -> Sequence[ActionRecord]:
        """The log of actions, newest first."""
        query = select(actions).order_by(actions.c.intended_at_s.desc(), actions.c.id.desc()).limit(limit)
        if lease_id is not None:
            query = query.where(actions.c.lease_id == lease_id)
        with self._reading() as connection:
            return tuple(rows.action_record(row) for row in connection.execute(query))

    def transitions(self, vm_id: int | None = None, limit: int = 200) -> Sequence[Transition]:
        """The log of observed transitions, newest first."""
        query = select(transitions).order_by(transitions.c.number.desc()).limit(limit)
        if vm_id is not None:
            query = query.where(transitions.c.vm_id == vm_id)
        with self._reading() as connection:
            return tuple(rows.transition(row) for row in connection.execute(query))

    def prune(self, before_s: int) -> int:
        """Forget what was over before `before_s`: the number of leases, actions and transitions forgotten.

        Live leases, open actions and open preemptions stay, however old they are.
        """
        with self._writing() as connection:
            forgotten = (
                connection.execute(delete(table).where(instant < before_s)).rowcount
                for table, instant in (
                    (leases, leases.c.ended_at_s),
                    (actions, actions.c.closed_at_s),
                    (transitions, transitions.c.observed_at_s),
                )
            )
            count = sum(forgotten)
            connection.execute(delete(attempts).where(attempts.c.outcome_at_s < before_s))
            connection.execute(delete(preemptions).where(preemptions.c.closed_at_s < before_s))
            connection.execute(delete(plans).where(plans.c.made_at_s < before_s))
            of_no_lease = vm_states.c.vm_id.not_in(select(lease_members.c.vm_id))
            connection.execute(delete(vm_states).where(vm_states.c.observed_at_s < before_s, of_no_lease))
        return count

    def close(self) -> None:
        """Let go of the database and of the writer's lock."""
        self.release_writer()
        self._engine.dispose()

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        with failures_in_words(self._name), self._reading_engine.begin() as connection:
            yield connection

    @contextmanager
    def _writing(self) -> Iterator[Connection]:
        if self._writer is not None:
            self._writer.check()
        with failures_in_words(self._name), self._engine.begin() as connection:
            yield connection


def _lease_records(connection: Connection, include_ended: bool) -> list[LeaseRecord]:
    wanted = select(leases).order_by(leases.c.id)
    members = select(lease_members.c.lease_id, lease_members.c.vm_id).order_by(
        lease_members.c.lease_id, lease_members.c.position
    )
    if not include_ended:
        wanted = wanted.where(leases.c.ended_at_s.is_(None))
        members = members.join(leases).where(leases.c.ended_at_s.is_(None))
    vm_ids: dict[int, list[int]] = {}
    for lease_id, vm_id in connection.execute(members):
        vm_ids.setdefault(lease_id, []).append(vm_id)
    return [rows.lease_record(row, tuple(vm_ids.get(row.id, ()))) for row in connection.execute(wanted)]


def _open_preemptions(connection: Connection) -> tuple[OpenPreemption, ...]:
    query = (
        select(preemptions)
        .where(preemptions.c.closed_at_s.is_(None))
        .order_by(preemptions.c.opened_at_s, preemptions.c.id)
    )
    return tuple(rows.open_preemption(row) for row in connection.execute(query))


def _open_actions(connection: Connection) -> list[ActionRecord]:
    query = select(actions).where(actions.c.closed_at_s.is_(None)).order_by(actions.c.id)
    return [rows.action_record(row) for row in connection.execute(query)]


def _failed_actions(connection: Connection, since_s: int) -> tuple[ActionRecord, ...]:
    query = (
        select(actions)
        .where(actions.c.closed_at_s >= since_s, actions.c.succeeded.is_(False))
        .order_by(actions.c.closed_at_s, actions.c.id)
    )
    return tuple(rows.action_record(row) for row in connection.execute(query))


def _states_of_members(connection: Connection) -> dict[int, str]:
    members = select(lease_members.c.vm_id).join(leases).where(leases.c.ended_at_s.is_(None))
    query = select(vm_states.c.vm_id, vm_states.c.state).where(vm_states.c.vm_id.in_(members))
    return {row.vm_id: row.state for row in connection.execute(query.order_by(vm_states.c.vm_id))}


def _victims_out_since(connection: Connection, since_s: int) -> tuple[int, ...]:
    query = (
        select(attempts.c.outcome_at_s)
        .join(actions)
        .where(attempts.c.outcome == Outcome.ACCEPTED.value, attempts.c.outcome_at_s >= since_s)
        .where(actions.c.kind.in_(sorted(kind.value for kind in VICTIM_KINDS)), actions.c.preemption_id.is_not(None))
        .order_by(attempts.c.outcome_at_s)
    )
    return tuple(connection.execute(query).scalars())


def _is_on(connection: Connection, switch: str) -> bool:
    return bool(connection.execute(select(control.c.switched_on).where(control.c.name == switch)).scalar())


def _replace(connection: Connection, table: Table, new_rows: list[dict[str, Any]]) -> None:
    """Write rows over those with the same primary key, in words that every database understands."""
    if not new_rows:
        return
    (key,) = table.primary_key.columns
    for start in range(0, len(new_rows), CHUNK):
        chunk = new_rows[start : start + CHUNK]
        connection.execute(delete(table).where(key.in_([row[key.name] for row in chunk])))
        connection.execute(insert(table), chunk)


def _write_leases(connection: Connection, records: dict[int, LeaseRecord]) -> None:
    # The members of a lease that is written over go with its row (ON DELETE CASCADE).
    _replace(connection, leases, [rows.lease_row(record) for record in records.values()])
    members = [
        {"lease_id": record.id, "position": position, "vm_id": vm_id}
        for record in records.values()
        for position, vm_id in enumerate(record.vm_ids)
    ]
    if members:
        connection.execute(insert(lease_members), members)


def _close_actions(connection: Connection, closed: tuple[ActionRecord, ...]) -> None:
    columns = ("outcome", "outcome_at_s", "error_code", "error_text", "closed_at_s", "succeeded")
    if closed:
        values = [{"key": record.id} | {c: rows.action_row(record)[c] for c in columns} for record in closed]
        # SET takes the columns that the rows name.
        connection.execute(update(actions).where(actions.c.id == bindparam("key")), values)


def _log_transitions(connection: Connection, observed: tuple[Transition, ...]) -> None:
    if observed:
        connection.execute(insert(transitions), [rows.transition_row(transition) for transition in observed])
    states = {transition.vm_id: transition for transition in observed}
    latest = [
        {"vm_id": vm_id, "state": transition.to_state, "observed_at_s": transition.observed_at_s}
        for vm_id, transition in states.items()
    ]
    _replace(connection, vm_states, latest)


def _known_actions(connection: Connection, plan: Plan) -> dict[str, ActionRecord]:
    ids = sorted(distinct_actions(plan))
    known: dict[str, ActionRecord] = {}
    for start in range(0, len(ids), CHUNK):
        query = select(actions).where(actions.c.id.in_(ids[start : start + CHUNK]))
        known |= {row.id: rows.action_record(row) for row in connection.execute(query)}
    return known


def _write_intents(connection: Connection, plan: Plan, new: list[ActionRecord], known: dict[str, ActionRecord]) -> None:
    made = insert(plans).values(made_at_s=plan.made_at_s, policy=plan.policy, wake_at_s=plan.wake_at_s)
    (plan_number,) = connection.execute(made).inserted_primary_key or (None,)
    written = [rows.action_row(record) | {"plan_number": plan_number} for record in new]
    first_time = [row for row in written if row["id"] not in known]
    if first_time:
        connection.execute(insert(actions), first_time)
    for row in written:
        if row["id"] in known:
            connection.execute(update(actions).where(actions.c.id == row["id"]).values(row))


def _open_preemption(connection: Connection, preemption: Preemption, now_s: int) -> None:
    """Open it; one that is open already keeps its instant but may have changed, for a victim was replaced."""
    known = select(preemptions.c.opened_at_s).where(
        preemptions.c.id == preemption.id, preemptions.c.closed_at_s.is_(None)
    )
    opened_at_s = connection.execute(known).scalar()
    row = _preemption_row(preemption, now_s if opened_at_s is None else opened_at_s)
    _replace(connection, preemptions, [row | {"advised_only": False, "closed_at_s": None}])


def _log_advice(connection: Connection, preemption: Preemption, now_s: int) -> None:
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


def _end_preemptions(connection: Connection, plan: Plan) -> None:
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
