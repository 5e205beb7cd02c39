"""What hosts do over time, in the database: stays, and the totals of those that were pruned."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Row, delete, insert, or_, select
from sqlalchemy.engine import Connection

from one_preempt.adapters.lease_store.rows import word
from one_preempt.adapters.lease_store.tables import host_use, host_use_totals
from one_preempt.core.model.power_history import HostUse, HostUseStay, HostUseTotal, with_stay

_STAY = HostUseStay.__struct_fields__
_TOTAL = HostUseTotal.__struct_fields__
_BY_KEY = (
    host_use_totals.c.host_id, host_use_totals.c.use, host_use_totals.c.policy, host_use_totals.c.load_percent,
)  # fmt: skip


def write(connection: Connection, stays: Sequence[HostUseStay]) -> None:
    """Over those of the same host that begin at the same instant."""
    for stay in stays:
        same = (host_use.c.host_id == stay.host_id, host_use.c.since_s == stay.since_s)
        connection.execute(delete(host_use).where(*same))
    if stays:
        rows = [{name: getattr(stay, name) for name in _STAY} | {"use": stay.use.value} for stay in stays]
        connection.execute(insert(host_use), rows)


def lasting(connection: Connection) -> tuple[HostUseStay, ...]:
    """Those that have not ended, by host id."""
    query = select(host_use).where(host_use.c.until_s.is_(None)).order_by(host_use.c.host_id, host_use.c.since_s)
    return tuple(map(_stay, connection.execute(query)))


def between(connection: Connection, from_s: int, until_s: int) -> tuple[HostUseStay, ...]:
    """Those of which a part lies between two instants, by host id and beginning."""
    ends_later = or_(host_use.c.until_s.is_(None), host_use.c.until_s > from_s)
    query = select(host_use).where(ends_later, host_use.c.since_s < until_s)
    return tuple(map(_stay, connection.execute(query.order_by(host_use.c.host_id, host_use.c.since_s))))


def totals(connection: Connection) -> tuple[HostUseTotal, ...]:
    """What is left of those that were pruned, by their keys."""
    found = map(_total, connection.execute(select(host_use_totals)))
    return tuple(sorted(found, key=lambda total: total.key))


def prune(connection: Connection, before_s: int) -> None:
    """Add up those that ended before an instant, and forget them."""
    over = host_use.c.until_s < before_s
    known = {total.key: total for total in totals(connection)}
    changed: dict[tuple[int, str, str, int], HostUseTotal] = {}
    for row in connection.execute(select(host_use).where(over)):
        stay = _stay(row)
        changed[stay.key] = with_stay(changed.get(stay.key) or known.get(stay.key), stay)
    if not changed:
        return
    for key in changed.keys() & known.keys():
        same = (column == value for column, value in zip(_BY_KEY, key, strict=True))
        connection.execute(delete(host_use_totals).where(*same))
    rows = [{name: getattr(one, name) for name in _TOTAL} | {"use": one.use.value} for one in changed.values()]
    connection.execute(insert(host_use_totals), rows)
    connection.execute(delete(host_use).where(over))


def _stay(row: Row[Any]) -> HostUseStay:
    values = {name: row._mapping[name] for name in _STAY}
    of = f"host {row.host_id}"
    return HostUseStay(**values | {"use": word(HostUse, host_use, of, "use", values["use"])})


def _total(row: Row[Any]) -> HostUseTotal:
    values = {name: row._mapping[name] for name in _TOTAL}
    of = f"host {row.host_id}"
    return HostUseTotal(**values | {"use": word(HostUse, host_use_totals, of, "use", values["use"])})
