"""How full the hosts of a cluster are, as whole numbers that every migration changes."""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from one_preempt.core.model.cluster_state import HostTable, IntArray
from one_preempt.core.model.resources import Resources

FULL = 100_000
"""The load of a host whose capacity is all given out."""

_LARGEST_AMOUNT = 1 << 40


class Weights(Struct, frozen=True):
    """How much CPU and memory count in the load of a host; whole numbers, not both 0."""

    cpu: int = 1
    memory: int = 1


class ClusterLoad:
    """What is used on each host, rows as in `hosts`; `load` is the weighted share of the capacity, FULL = all."""

    def __init__(self, hosts: HostTable, weights: Weights) -> None:
        self._weights = np.array((weights.cpu, weights.memory), dtype=np.int64)
        self._capacity: IntArray = np.clip(hosts.capacity, 1, _LARGEST_AMOUNT)
        self._used: IntArray = np.clip(hosts.capacity - hosts.free, 0, _LARGEST_AMOUNT)
        self.load: IntArray = self._load_of(self._used)

    @property
    def spread(self) -> int:
        """The sum of squared loads: for the same total, smallest where all hosts are equally full."""
        return int((self.load * self.load).sum())

    def spread_gains(self, resources: Resources, source: int) -> IntArray:
        """By how much `spread` shrinks when a VM leaves row `source` for each row; negative where it grows."""
        amounts = _amounts(resources)
        arrived = self._load_of(self._used + amounts)
        left = self._load_of(self._used - amounts)[source]
        gains: IntArray = self.load**2 - arrived**2 + (self.load[source] ** 2 - left**2)
        gains[source] = 0
        return gains

    def arrived(self, resources: Resources) -> IntArray:
        """The load of each row once a VM has come to it."""
        return self._load_of(self._used + _amounts(resources))

    def move(self, resources: Resources, source: int, target: int) -> None:
        """Count a VM at another host."""
        amounts = _amounts(resources)
        self._used[source] -= amounts
        self._used[target] += amounts
        self.load = self._load_of(self._used)

    def _load_of(self, used: IntArray) -> IntArray:
        shares = np.maximum(used, 0) * FULL // self._capacity
        load: IntArray = np.minimum(shares, 100 * FULL) @ self._weights // int(self._weights.sum())
        return load


def _amounts(resources: Resources) -> IntArray:
    return np.array((resources.cpu_centi, resources.memory_mib), dtype=np.int64)
