"""What owners have used, in the database: all of it is written whenever it was measured."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import delete, insert, select
from sqlalchemy.engine import Connection

from one_preempt.adapters.lease_store.tables import ID_LENGTH
from one_preempt.adapters.lease_store.tables import owner_use as table
from one_preempt.core.model.owner_use import OwnerUse

_COLUMNS = OwnerUse.__struct_fields__
# What every cycle asks is put into SQL once.
_ALL = select(*(table.c[name] for name in _COLUMNS)).order_by(table.c.gid, table.c.uid)


def owner_use(connection: Connection) -> tuple[OwnerUse, ...]:
    """That of all owners, by ascending ids of groups and users."""
    return tuple(OwnerUse(*row) for row in connection.execute(_ALL).all())


def write(connection: Connection, measured: Iterable[OwnerUse]) -> None:
    """In place of all that was written before."""
    connection.execute(delete(table))
    rows = [{name: getattr(one, name) for name in _COLUMNS} for one in measured]
    for row in rows:
        row["group_name"], row["user_name"] = row["group_name"][:ID_LENGTH], row["user_name"][:ID_LENGTH]
    if rows:
        connection.execute(insert(table), rows)


def prune(connection: Connection, before_s: int) -> None:
    """Forget what was not measured since before an instant: nobody goes by it."""
    connection.execute(delete(table).where(table.c.measured_at_s < before_s))
