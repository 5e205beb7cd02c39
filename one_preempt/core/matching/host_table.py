"""The hosts of a snapshot as columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from itertools import chain, compress, count
from operator import is_not
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from one_preempt.core.model.cluster_state import HostTable, IntArray
from one_preempt.core.model.host import Host, lasting_of

Column = TypeVar("Column", IntArray, npt.NDArray[np.bool_])


def changed_rows(hosts: Mapping[int, Host], before: HostTable | None, told: Set[int] | None) -> list[int] | None:
    """The rows of `before` whose hosts are other objects now; None where hosts came or went, or there is no table.

    `told` are the ids of hosts that may have changed, None: any may.
    """
    if before is None or len(hosts) != len(before.hosts):
        return None
    index = before.index_by_id
    if told is not None:
        if not (told <= index.keys() and told <= hosts.keys()):
            return None
        was = before.hosts
        return sorted([row for host_id in told if hosts[host_id] is not was[row := index[host_id]]])
    # The rows are in the order of this index.
    now = [hosts.get(host_id) for host_id in index]
    rows = list(compress(count(), map(is_not, now, before.hosts)))
    return None if any(now[row] is None for row in rows) else rows


def host_table(
    hosts: Mapping[int, Host], before: HostTable | None = None, rows: Sequence[int] | None = None
) -> HostTable:
    """Free and full capacity by oned's accounting, hosts in ascending id.

    With `before`, a table of the same hosts as they were, only its `rows` are made anew.
    """
    if before is not None and rows is not None:
        return _with_rows(before, hosts, rows) if rows else before
    ordered = [hosts[host_id] for host_id in sorted(hosts)]
    return HostTable(
        ids=np.array([host.id for host in ordered], dtype=np.int64),
        free=_free(ordered),
        capacity=_capacity(ordered),
        accepts_vms=np.array([host.accepts_vms for host in ordered], dtype=np.bool_),
        index_by_id={host.id: row for row, host in enumerate(ordered)},
        hosts=ordered,
    )


def _with_rows(before: HostTable, hosts: Mapping[int, Host], rows: Sequence[int]) -> HostTable:
    """Columns that say the same are the same."""
    ordered, free = list(before.hosts), before.free.copy()
    turned: list[int] = []
    # A number at a time takes less time here than finding the places of many for numpy.
    cells = free.data
    for row in rows:
        was = ordered[row]
        ordered[row] = host = hosts[was.id]
        cells[row, 0], cells[row, 1] = host.free_amounts
        if lasting_of(host) != lasting_of(was):
            turned.append(row)
    capacity, accepts_vms = before.capacity, before.accepts_vms
    if turned:
        capacity = _with(capacity, turned, _capacity([ordered[row] for row in turned]))
        accepts_vms = _with(accepts_vms, turned, np.array([ordered[row].accepts_vms for row in turned], np.bool_))
    columns = (before.ids, free, capacity, accepts_vms)
    return HostTable(*columns, before.index_by_id, ordered, made_from=before.mark, renewed=rows, turned=turned)


def _with(column: Column, rows: Sequence[int], values: Column) -> Column:
    """The column with other values in some rows: itself where they are no others."""
    if (column[rows] == values).all():
        return column
    column = column.copy()
    column[rows] = values
    return column


def _free(hosts: Sequence[Host]) -> IntArray:
    amounts = chain.from_iterable([host.free_amounts for host in hosts])
    return np.fromiter(amounts, np.int64, 2 * len(hosts)).reshape(-1, 2)


def _capacity(hosts: Sequence[Host]) -> IntArray:
    return np.array([(host.capacity.cpu_centi, host.capacity.memory_mib) for host in hosts], np.int64).reshape(-1, 2)
