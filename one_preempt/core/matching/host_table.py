"""The hosts of a snapshot as columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import compress, count
from operator import is_not

import numpy as np

from one_preempt.core.model.cluster_state import HostTable, IntArray
from one_preempt.core.model.host import Host

# When fewer than one host in so many changed, the others' rows are taken over.
_FEW = 4


def host_table(hosts: Mapping[int, Host], before: HostTable | None = None) -> HostTable:
    """Free and full capacity by oned's accounting, hosts in ascending id.

    `before` is a table of an earlier observation: a host that is the same object there keeps its row.
    """
    if before is not None and len(hosts) == len(before.hosts):
        # The rows are in the order of this index.
        now = [hosts.get(host_id) for host_id in before.index_by_id]
        changed = list(compress(count(), map(is_not, now, before.hosts)))
        if not changed:
            return before
        if len(changed) * _FEW <= len(hosts):
            renewed = [host for row in changed if (host := now[row]) is not None]
            if len(renewed) == len(changed):
                return _with_rows(before, changed, renewed)
    ordered = tuple(hosts[host_id] for host_id in sorted(hosts))
    return HostTable(
        ids=np.array([host.id for host in ordered], dtype=np.int64),
        free=_free(ordered),
        capacity=_capacity(ordered),
        accepts_vms=np.array([host.accepts_vms for host in ordered], dtype=np.bool_),
        index_by_id={host.id: row for row, host in enumerate(ordered)},
        hosts=ordered,
    )


def _with_rows(before: HostTable, rows: list[int], renewed: list[Host]) -> HostTable:
    """Columns that say the same are the same."""
    ordered = list(before.hosts)
    for row, host in zip(rows, renewed, strict=True):
        ordered[row] = host
    free, capacity, accepts_vms = before.free.copy(), before.capacity, before.accepts_vms
    free[rows] = _free(renewed)
    now_capacity, now_accept = _capacity(renewed), [host.accepts_vms for host in renewed]
    if now_capacity.tobytes() != capacity[rows].tobytes():
        capacity = capacity.copy()
        capacity[rows] = now_capacity
    if now_accept != accepts_vms[rows].tolist():
        accepts_vms = accepts_vms.copy()
        accepts_vms[rows] = now_accept
    return HostTable(before.ids, free, capacity, accepts_vms, before.index_by_id, tuple(ordered))


def _free(hosts: Sequence[Host]) -> IntArray:
    return np.array([(host.free.cpu_centi, host.free.memory_mib) for host in hosts], np.int64).reshape(-1, 2)


def _capacity(hosts: Sequence[Host]) -> IntArray:
    return np.array([(host.capacity.cpu_centi, host.capacity.memory_mib) for host in hosts], np.int64).reshape(-1, 2)
