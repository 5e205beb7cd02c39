"""Forgetting what was over before an instant, the oldest first: a bounded part of it in one transaction.

A transaction that drops a year takes minutes, in which nothing is scheduled and on SQLite nobody else writes, and as
much of the disk as it drops. Each part is what pruning up to an earlier instant would have dropped, so that any part
may be the last for a while.
"""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import Column, delete, exists, select
from sqlalchemy.engine import Connection

from one_preempt.adapters.lease_store import (
    host_use_records,
    image_records,
    owner_use_records,
    power_records,
    standing_records,
)
from one_preempt.adapters.lease_store.ledger_writes import delete_rows
from one_preempt.adapters.lease_store.tables import (
    actions,
    attempts,
    host_capacities,
    host_use,
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
from one_preempt.core.model.outcome import Outcome

# Of each log that grows so many rows go at once, and those of the same second as the last of them.
ROWS_AT_ONCE = 50_000
# When what is in them was over; each has an index.
_LOGS = (
    leases.c.ended_at_s,
    actions.c.closed_at_s,
    past_actions.c.closed_at_s,
    transitions.c.observed_at_s,
    preemptions.c.closed_at_s,
    plans.c.made_at_s,
)
_HOST_USE = host_use.c.until_s


def forget_oldest(connection: Connection, before_s: int, rows_at_once: int) -> bool:
    """Forget the oldest part of what was over before `before_s`; whether that was all of it."""
    until_s = min(_end_of_part(connection, over_at_s, before_s, rows_at_once) for over_at_s in (*_LOGS, _HOST_USE))
    for over_at_s in _LOGS:
        connection.execute(delete(over_at_s.table).where(over_at_s < until_s))
    # Their index begins with the outcome.
    answered = attempts.c.outcome.in_([outcome.value for outcome in Outcome])
    connection.execute(delete(attempts).where(answered, attempts.c.outcome_at_s < until_s))
    host_use_records.prune(connection, until_s)
    if until_s < before_s:
        return False
    _forget_the_rest(connection, before_s)
    return True


def _end_of_part(connection: Connection, over_at_s: Column[int], before_s: int, rows_at_once: int) -> int:
    """Up to which instant a log may be forgotten at once."""
    beyond = select(over_at_s).where(over_at_s < before_s).order_by(over_at_s).offset(rows_at_once - 1).limit(1)
    last_s = connection.execute(beyond).scalar()
    return before_s if last_s is None else min(before_s, last_s + 1)


def _forget_the_rest(connection: Connection, before_s: int) -> None:
    """What does not grow with every VM, and what only goes once the leases have gone that it belongs to."""
    connection.execute(delete(observed_overheads).where(observed_overheads.c.observed_at_s < before_s))
    # Not by NOT IN: PostgreSQL compares each row with each where a list is too long for its working memory.
    is_live = exists().where(leases.c.id == reservations.c.lease_id, leases.c.ended_at_s.is_(None))
    connection.execute(delete(reservations).where(reservations.c.end_at_s < before_s, ~is_live))
    of_no_lease = ~exists().where(lease_members.c.vm_id == vm_states.c.vm_id)
    connection.execute(delete(vm_states).where(vm_states.c.observed_at_s < before_s, of_no_lease))
    standing_records.prune(connection, before_s)
    power_records.prune(connection, before_s)
    owner_use_records.prune(connection, before_s)
    image_records.prune(connection, before_s)


def forget_hosts(connection: Connection, existing_host_ids: Collection[int]) -> None:
    """Forget the capacities of all hosts but these."""
    known = connection.execute(select(host_capacities.c.host_id)).scalars().all()
    delete_rows(connection, host_capacities.c.host_id, sorted(set(known) - set(existing_host_ids)))
