"""The hosts that an OpenNebula's accounting tells of: how large they are it does not say, but what ran on them at once.

They are made as small as they can be, so that what ran together fits together again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from msgspec import Struct

from one_preempt.simulation.workload.workload import MachineSet


class Stay(Struct, frozen=True):
    """A VM ran on a host. Seconds since the epoch; `machine` is the VM."""

    host_id: int
    from_s: int
    until_s: int
    machine: MachineSet


def smallest_hosts(stays: Iterable[Stay]) -> tuple[MachineSet, ...]:
    """Each host with the most CPU, and the most memory, that ran on it at any instant; the largest first."""
    changes: dict[int, list[tuple[int, int, int]]] = {}
    for stay in stays:
        cpu_centi, memory_mib = stay.machine.cpu_centi, stay.machine.memory_mib
        # What ran for less than a second had its room for a while, too.
        changes.setdefault(stay.host_id, []).extend(
            [
                (stay.from_s, cpu_centi, memory_mib),
                (max(stay.until_s, stay.from_s + 1), -cpu_centi, -memory_mib),
            ]
        )
    sizes = Counter(map(_most, changes.values()))
    return tuple(MachineSet(sizes[size], *size) for size in sorted(sizes, reverse=True))


def _most(changes: list[tuple[int, int, int]]) -> tuple[int, int]:
    """The highest CPU and memory that the changes add up to. Who leaves at an instant makes room for who comes then."""
    cpu_centi = memory_mib = most_cpu_centi = most_memory_mib = 0
    for _, cpu_change, memory_change in sorted(changes):
        cpu_centi += cpu_change
        memory_mib += memory_change
        most_cpu_centi, most_memory_mib = max(most_cpu_centi, cpu_centi), max(most_memory_mib, memory_mib)
    return most_cpu_centi, most_memory_mib
