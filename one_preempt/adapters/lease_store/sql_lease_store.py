"""The ledger in a database, SQLite by default. Every method is one transaction."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from sqlalchemy import insert, select, update

from one_preempt.adapters.lease_store import (
    host_use_records,
    image_records,
    owner_use_records,
    power_records,
    pruning,
    rows,
    standing_records,
)
from one_preempt.adapters.lease_store import ledger_queries as queries
from one_preempt.adapters.lease_store import ledger_writes as writes
from one_preempt.adapters.lease_store.database import BUSY_TIMEOUT_S
from one_preempt.adapters.lease_store.intents import (
    RETRY_WINDOW_S,
    VICTIM_WINDOW_S,
    intents,
    newest_first,
    unknown_action,
)
from one_preempt.adapters.lease_store.kept_database import KeptDatabase
from one_preempt.adapters.lease_store.named_database import LEASES
from one_preempt.adapters.lease_store.tables import (
    actions,
    attempts,
    control,
    host_capacities,
    past_actions,
    transitions,
)
from one_preempt.core.model.image_transfer import HostImages, TransferRecord
from one_preempt.core.model.ledger import ActionRecord, LeaseRecord, Ledger, LedgerChanges, Transition
from one_preempt.core.model.plan import Action, Plan
from one_preempt.core.model.power_history import HostUseStay, HostUseTotal
from one_preempt.core.model.power_sequence import HostPowerStep, PowerOrder, PowerSequence
from one_preempt.core.model.power_standing import PowerStanding
from one_preempt.ports import CallResult

PAUSED = "paused"


class SqlLeaseStore:
    """A `LeaseStore` in the database at `url`.

    With `makes` it is made, or an empty one gets its tables; without, nothing is made by opening it, and where there is
    none yet `DatabaseNotMade` is raised.
    Raises `LeaseStoreError`, with one message that a person can act on, from the constructor and every method.
    """

    def __init__(self, url: str, busy_timeout_s: float = BUSY_TIMEOUT_S, *, makes: bool = True) -> None:
        self._database = KeptDatabase(url, LEASES, busy_timeout_s, makes=makes)
        self._orders_seen: dict[int, PowerOrder] = {}

    def acquire_writer(self) -> None:
        """Become the one daemon that writes, until `release_writer`, `close` or death; raises where another one is.

        See `KeptDatabase.acquire_writer`. `set_paused` by another process needs none.
        """
        self._database.acquire_writer()

    def release_writer(self) -> None:
        """Let another daemon write: this one's front-end does not lead any more."""
        self._database.release_writer()

    def load(self, now_s: int) -> Ledger:
        """What the cycle needs to know; ended leases and what is older than the windows are not read."""
        with self._database.reading() as connection:
            self._orders_seen = power_records.orders(connection)
            return Ledger(
                leases={record.id: record for record in queries.lease_records(connection, include_ended=False)},
                preemptions=queries.open_preemptions(connection),
                open_actions={record.id: record for record in queries.open_actions(connection)},
                failed_actions=queries.failed_actions(connection, now_s - RETRY_WINDOW_S),
                vm_states=queries.states_of_members(connection),
                host_capacities=queries.last_host_capacities(connection),
                victims_last_hour=queries.victims_out_since(connection, now_s - VICTIM_WINDOW_S),
                paused=queries.is_on(connection, PAUSED),
                reservations=queries.reservations_of(connection),
                observed_overheads=queries.latest_overheads(connection),
                power_sequences=power_records.power_sequences(connection),
                power_orders=self._orders_seen.copy(),
                power_asked_at_s=power_records.asked_at_s(connection),
                owner_use=owner_use_records.owner_use(connection),
                image_transfers=image_records.transfers(connection),
                held_images=image_records.held(connection),
            )

    def apply(self, changes: LedgerChanges) -> None:
        """Write what reconciliation found out."""
        if changes.is_empty:
            return
        with self._database.writing() as connection:
            writes.write_leases(connection, {record.id: record for record in changes.ended_before})
            writes.write_leases(connection, {record.id: record for record in (*changes.admitted, *changes.updated)})
            writes.close_actions(connection, changes.closed_actions)
            writes.log_transitions(connection, changes.transitions)
            capacities = {capacity.host_id: capacity for capacity in changes.host_capacities}
            writes.replace(
                connection, host_capacities, [rows.host_capacity_row(value) for value in capacities.values()]
            )
            writes.log_overheads(connection, changes.observed_overheads)
            power_records.write_sequences(connection, changes.power_sequences)
            standing_records.write(connection, changes.power_standings)
            if changes.owner_use is not None:
                owner_use_records.write(connection, changes.owner_use)
            image_records.write(connection, changes.image_transfers, changes.held_images)

    def record_plan(self, plan: Plan) -> None:
        """Write the plan as intended, if anything in it is new."""
        if not any(
            (plan.actions, plan.preemptions, plan.ended_preemptions, plan.advised, plan.bookings, plan.verdicts)
        ) and not power_records.is_written_down(plan):
            return
        with self._database.writing() as connection:
            known = writes.known_actions(connection, plan)
            new = list(intents(plan.actions, known.get, plan.made_at_s).values())
            if new:
                writes.write_intents(connection, plan, new, known)
            for preemption in plan.preemptions:
                writes.open_preemption(connection, preemption, plan.made_at_s)
            for preemption in plan.advised:
                writes.log_advice(connection, preemption, plan.made_at_s)
            writes.end_preemptions(connection, plan)
            writes.book(connection, plan.bookings)
            writes.give_verdicts(connection, plan.verdicts)
            power_records.record_plan(connection, plan, self._orders_seen)

    def begin_attempt(self, action: Action, now_s: int) -> None:
        """Write that `action` is about to be issued; raises LookupError where no plan has recorded it."""
        with self._database.writing() as connection:
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
        with self._database.writing() as connection:
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

    def begin_power_step(self, step: HostPowerStep) -> None:
        """Write that the call of the phase in which the host's sequence is, is about to be issued."""
        with self._database.writing() as connection:
            power_records.begin(connection, step.host_id)

    def record_power_result(self, host_id: int, result: CallResult, now_s: int) -> None:
        """Write what was answered to it."""
        with self._database.writing() as connection:
            power_records.answered(connection, host_id, result, now_s)

    def order_power(self, order: PowerOrder) -> None:
        """Leave an administrator's order for the daemon, which sees it at its next `load`."""
        with self._database.writing() as connection:
            power_records.write_order(connection, order)

    def power_sequences(self) -> Sequence[PowerSequence]:
        """What is known of the power of each host, by its id."""
        with self._database.reading() as connection:
            return tuple(power_records.power_sequences(connection).values())

    def power_standings(self) -> Sequence[PowerStanding]:
        """What power control remembers of hosts that did not obey, by their names."""
        with self._database.reading() as connection:
            return standing_records.standings(connection)

    def image_transfers(self) -> Mapping[str, TransferRecord]:
        """Orders for images that are under way or have failed, by their ids."""
        with self._database.reading() as connection:
            return image_records.transfers(connection)

    def held_images(self) -> Mapping[int, HostImages]:
        """The images on hosts, by host id."""
        with self._database.reading() as connection:
            return image_records.held(connection)

    def record_host_use(self, stays: Sequence[HostUseStay]) -> None:
        """Write what hosts do, over what was written of the same host from the same instant on."""
        with self._database.writing() as connection:
            host_use_records.write(connection, stays)

    def lasting_host_use(self) -> Sequence[HostUseStay]:
        """The stays that have not ended, by host id."""
        with self._database.reading() as connection:
            return host_use_records.lasting(connection)

    def host_use(self, from_s: int, until_s: int) -> Sequence[HostUseStay]:
        """The stays of which a part lies between two instants, by host id and beginning."""
        with self._database.reading() as connection:
            return host_use_records.between(connection, from_s, until_s)

    def host_use_totals(self) -> Sequence[HostUseTotal]:
        """What is left of stays that were pruned, by their keys."""
        with self._database.reading() as connection:
            return host_use_records.totals(connection)

    def is_paused(self) -> bool:
        """Whether preempting and power actions are stopped, asked afresh."""
        with self._database.reading() as connection:
            return queries.is_on(connection, PAUSED)

    def set_paused(self, paused: bool, now_s: int) -> None:
        """Stop or start preempting and power actions; the daemon sees it at its next `load`."""
        with self._database.writing() as connection:
            writes.replace(connection, control, [{"name": PAUSED, "switched_on": paused, "changed_at_s": now_s}])

    def leases(self, include_ended: bool = False) -> Sequence[LeaseRecord]:
        """Recorded leases, oldest first."""
        with self._database.reading() as connection:
            records = queries.lease_records(connection, include_ended)
        return tuple(sorted(records, key=lambda record: (record.arrived_at_s, record.id)))

    def find_lease(self, lease_or_vm_id: int) -> LeaseRecord | None:
        """The recorded lease of that id, or else the latest one with the VM of that id, ended or not."""
        with self._database.reading() as connection:
            return queries.find_lease(connection, lease_or_vm_id)

    def actions(self, lease_id: int | None = None, limit: int = 200) -> Sequence[ActionRecord]:
        """The log of actions, newest first: each time of a step that became necessary more than once."""
        with self._database.reading() as connection:
            latest = queries.actions_in(connection, actions, lease_id, limit)
            past = queries.actions_in(connection, past_actions, lease_id, limit)
        return newest_first(latest, past)[:limit]

    def transitions(self, vm_id: int | None = None, limit: int = 200) -> Sequence[Transition]:
        """The log of observed transitions, newest first."""
        query = select(transitions).order_by(transitions.c.number.desc()).limit(limit)
        if vm_id is not None:
            query = query.where(transitions.c.vm_id == vm_id)
        with self._database.reading() as connection:
            return tuple(rows.transition(row) for row in connection.execute(query))

    def prune(self, before_s: int, existing_host_ids: Collection[int] | None = None) -> bool:
        """Forget what was over before `before_s`, or where that is much the oldest part of it; whether it was all.

        Live leases, open actions and open preemptions stay, however old they are. Of hosts that are not among
        `existing_host_ids` the capacity goes, unless that is None.
        """
        with self._database.writing() as connection:
            if existing_host_ids is not None:
                pruning.forget_hosts(connection, existing_host_ids)
            return pruning.forget_oldest(connection, before_s, pruning.ROWS_AT_ONCE)

    def close(self) -> None:
        """Let go of the database and of the writer's lock."""
        self._database.close()
