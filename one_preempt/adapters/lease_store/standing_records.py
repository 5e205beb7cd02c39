"""What power control remembers of hosts that did not obey, in the database."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sqlalchemy import Row, delete, func, insert, select
from sqlalchemy.engine import Connection

from one_preempt.adapters.lease_store.rows import word
from one_preempt.adapters.lease_store.tables import power_standings
from one_preempt.core.model.power_standing import PowerAttempt, PowerStanding

_COLUMNS = PowerStanding.__struct_fields__


def standings(connection: Connection) -> tuple[PowerStanding, ...]:
    """All of them, in the order of their keys."""
    found = map(_standing, connection.execute(select(power_standings)))
    return tuple(sorted(found, key=lambda standing: standing.key))


def write(connection: Connection, changed: Iterable[PowerStanding]) -> None:
    """Over those of the same keys; what is clear is forgotten."""
    for standing in changed:
        same = (power_standings.c.host_name == standing.host_name, power_standings.c.attempt == standing.attempt.value)
        connection.execute(delete(power_standings).where(*same))
        if not standing.is_clear:
            row = {name: getattr(standing, name) for name in _COLUMNS} | {"attempt": standing.attempt.value}
            connection.execute(insert(power_standings).values(row))


def prune(connection: Connection, before_s: int) -> None:
    """Forget what has not mattered since before an instant: the host may be gone, or named otherwise."""
    ordered_at_s = func.coalesce(power_standings.c.ordered_at_s, 0)
    connection.execute(
        delete(power_standings).where(power_standings.c.not_before_s < before_s, ordered_at_s < before_s)
    )


def _standing(row: Row[Any]) -> PowerStanding:
    values = {name: row._mapping[name] for name in _COLUMNS}
    attempt = word(PowerAttempt, power_standings, f"host {row.host_name}", "attempt", values["attempt"])
    return PowerStanding(**values | {"attempt": attempt})
