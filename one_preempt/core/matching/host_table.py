"""The hosts of a snapshot as columns."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from one_preempt.core.model.cluster_state import HostTable
from one_preempt.core.model.host import Host


def host_table(hosts: Mapping[int, Host]) -> HostTable:
    """Free and full capacity by oned's accounting, hosts in ascending id."""
    ordered = [hosts[host_id] for host_id in sorted(hosts)]
    return HostTable(
        ids=np.array([host.id for host in ordered], dtype=np.int64),
        free=np.array([(host.free.cpu_centi, host.free.memory_mib) for host in ordered], np.int64).reshape(-1, 2),
        capacity=np.array(
            [(host.capacity.cpu_centi, host.capacity.memory_mib) for host in ordered], dtype=np.int64
        ).reshape(-1, 2),
        accepts_vms=np.array([host.accepts_vms for host in ordered], dtype=np.bool_),
        index_by_id={host.id: row for row, host in enumerate(ordered)},
    )
