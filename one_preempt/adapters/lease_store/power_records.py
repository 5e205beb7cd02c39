"""The power of hosts in the database: sequences, orders, and when the energy policy was asked its periodic question."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from sqlalchemy import Row, delete, select, update
from sqlalchemy.engine import Connection

from one_preempt.adapters.lease_store.intents import unknown_host
from one_preempt.adapters.lease_store.ledger_writes import replace
from one_preempt.adapters.lease_store.rows import ids_of, word
from one_preempt.adapters.lease_store.tables import control, host_power, power_orders
from one_preempt.core.model.outcome import Outcome
from one_preempt.core.model.plan import Plan
from one_preempt.core.model.power_sequence import (
    DELETED,
    DELETED_UNPOWERED,
    PowerGoal,
    PowerOrder,
    PowerPhase,
    PowerSequence,
)
from one_preempt.ports import CallResult

POWER_ASKED = "power-asked"
_COLUMNS = PowerSequence.__struct_fields__
# What every cycle asks is put into SQL once.
_SEQUENCES = select(host_power).order_by(host_power.c.host_id)
_ORDERS = select(power_orders).order_by(power_orders.c.host_id)
_ASKED = select(control.c.changed_at_s).where(control.c.name == POWER_ASKED)


def power_sequences(connection: Connection) -> dict[int, PowerSequence]:
    """What is known of the power of each host, in the order of their ids."""
    return {row.host_id: _sequence(row) for row in connection.execute(_SEQUENCES)}


def orders(connection: Connection) -> dict[int, PowerOrder]:
    """Orders that no plan has settled yet, in the order of the hosts' ids."""
    return {row.host_id: _order(row) for row in connection.execute(_ORDERS)}


def asked_at_s(connection: Connection) -> int | None:
    """When the energy policy was asked its periodic question last."""
    return connection.execute(_ASKED).scalar()


def write_sequences(connection: Connection, sequences: Iterable[PowerSequence]) -> None:
    """Over those of the same hosts."""
    replace(connection, host_power, [_row(sequence) for sequence in sequences])


def is_written_down(plan: Plan) -> bool:
    """Whether there is anything of power in the plan that is to be kept."""
    return bool(plan.power_sequences or plan.settled_power_orders) or plan.power_asked_at_s is not None


def record_plan(connection: Connection, plan: Plan, seen: Mapping[int, PowerOrder]) -> None:
    """What the plan begins, which of the orders `seen` by it are settled, and that the policy was asked.

    An order that came in the place of a seen one meanwhile stays: no plan knows of it yet.
    """
    write_sequences(connection, plan.power_sequences)
    for host_id in plan.settled_power_orders:
        settled = delete(power_orders).where(power_orders.c.host_id == host_id)
        if host_id in seen:
            goal, ordered_at_s = seen[host_id].goal.value, seen[host_id].ordered_at_s
            settled = settled.where(power_orders.c.goal == goal, power_orders.c.ordered_at_s == ordered_at_s)
        connection.execute(settled)
    if plan.power_asked_at_s is not None:
        asked = {"name": POWER_ASKED, "switched_on": True, "changed_at_s": plan.power_asked_at_s}
        replace(connection, control, [asked])


def write_order(connection: Connection, order: PowerOrder) -> None:
    """In place of an earlier order for the host."""
    row = {"host_id": order.host_id, "goal": order.goal.value, "ordered_at_s": order.ordered_at_s}
    replace(connection, power_orders, [row])


def begin(connection: Connection, host_id: int) -> None:
    """The call of the host's phase is about to be issued; raises LookupError where nothing is recorded of it."""
    begun = connection.execute(
        update(host_power)
        .where(host_power.c.host_id == host_id)
        .values(attempts=host_power.c.attempts + 1, outcome=None, outcome_at_s=None, answer_text="")
    )
    if begun.rowcount != 1:
        raise unknown_host(host_id)


def answered(connection: Connection, host_id: int, result: CallResult, now_s: int) -> None:
    """The call of the host's phase was answered."""
    answer: dict[str, Any] = {"outcome": result.outcome.value, "outcome_at_s": now_s, "answer_text": result.error_text}
    if result.retry_at_s is not None:
        answer["not_before_s"] = result.retry_at_s
    connection.execute(update(host_power).where(host_power.c.host_id == host_id).values(answer))


def prune(connection: Connection, before_s: int) -> None:
    """Forget the hosts that OpenNebula has had no more since before an instant; all others are kept, however old."""
    deleted = host_power.c.reason_code.in_((DELETED, DELETED_UNPOWERED))
    connection.execute(delete(host_power).where(deleted, host_power.c.since_s < before_s))


def _row(sequence: PowerSequence) -> dict[str, Any]:
    row = {name: getattr(sequence, name) for name in _COLUMNS}
    row["phase"] = sequence.phase.value
    row["outcome"] = sequence.outcome.value if sequence.outcome else None
    row["emptied_vm_ids"] = msgspec.json.encode(sequence.emptied_vm_ids).decode()
    return row


def _sequence(row: Row[Any]) -> PowerSequence:
    values = {name: row._mapping[name] for name in _COLUMNS}
    of, outcome = f"host {row.host_id}", values["outcome"]
    return PowerSequence(
        **values
        | {
            "phase": word(PowerPhase, host_power, of, "phase", values["phase"]),
            "outcome": None if outcome is None else word(Outcome, host_power, of, "outcome", outcome),
            "emptied_vm_ids": ids_of(host_power, of, "emptied_vm_ids", values["emptied_vm_ids"], "VM"),
        }
    )


def _order(row: Row[Any]) -> PowerOrder:
    goal = word(PowerGoal, power_orders, f"host {row.host_id}", "goal", row.goal)
    return PowerOrder(row.host_id, goal, row.ordered_at_s)
