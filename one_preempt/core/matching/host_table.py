"""The hosts of a snapshot as columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

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
        changed = [row for row, host in enumerate(before.hosts) if hosts.get(host.id) is not host]
        if not changed:
            return before
        if len(changed) * _FEW <= len(hosts) and all(before.hosts[row].id in hosts for row in changed):
            return _with_rows(before, hosts, changed)
    ordered = tuple(hosts[host_id] for host_id in sorted(hosts))
    return HostTable(
        ids=np.array([host.id for host in ordered], dtype=np.int64),
        free=_free(ordered),
        capacity=_capacity(ordered),
        accepts_vms=np.array([host.accepts_vms for host in ordered], dtype=np.bool_),
        index_by_id={host.id: row for row, host in enumerate(ordered)},
        hosts=ordered,
    )


def _with_rows(before: HostTable, hosts: Mapping[int, Host], rows: list[int]) -> HostTable:
    ordered = list(before.hosts)
    for row in rows:
        ordered[row] = hosts[ordered[row].id]
    changed = [ordered[row] for row in rows]
    free, capacity, accepts_vms = before.free.copy(), before.capacity.copy(), before.accepts_vms.copy()
    free[rows], capacity[rows] = _free(changed), _capacity(changed)
    accepts_vms[rows] = [host.accepts_vms for host in changed]
    return replace(before, free=free, capacity=capacity, accepts_vms=accepts_vms, hosts=tuple(ordered))


def _free(hosts: Sequence[Host]) -> IntArray:
    return np.array([(host.free.cpu_centi, host.free.memory_mib) for host in hosts], np.int64).reshape(-1, 2)


def _capacity(hosts: Sequence[Host]) -> IntArray:
    return np.array([(host.capacity.cpu_centi, host.capacity.memory_mib) for host in hosts], np.int64).reshape(-1, 2)
