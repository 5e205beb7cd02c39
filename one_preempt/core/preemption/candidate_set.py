"""All candidate sets of a problem: sets of leases that make room, minimal by inclusion (CCPE13 Figure 2).

A subset of n leases is a number of n bits. Lease by lease the array of subsets doubles; host by host it is told, for
every subset at once, which packings the request has so far. Subsets with equal packings share one state, and there
are few states, so the work is a handful of passes over an array of 2^n numbers for each group of hosts that hold VMs
of the same leases.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from one_preempt.core.preemption.candidate_table import CandidateTable, table_of
from one_preempt.core.preemption.packing import Packing, number_distinct
from one_preempt.core.preemption.problem import BoolArray, IntArray, PreemptableLease, PreemptionProblem


def candidate_sets(problem: PreemptionProblem, packing: Packing, leases: Sequence[PreemptableLease]) -> CandidateTable:
    """Every minimal set among `leases`, which may be all that can help. Time and memory grow as 2^n.

    The rows are in the order of the sorted ids: the lease of the least id is the highest bit.
    """
    ordered = tuple(sorted(leases, key=lambda lease: lease.id))
    makes_room = _makes_room(problem, packing, ordered[::-1])
    subsets = np.flatnonzero(_minimal(makes_room, len(ordered)))[::-1]
    bits = np.arange(len(ordered) - 1, -1, -1)
    members = (subsets[:, None] >> bits & 1).astype(np.bool_)
    return table_of(ordered, members, problem.delta_ms, complete=packing.exact)


def _makes_room(problem: PreemptionProblem, packing: Packing, leases: Sequence[PreemptableLease]) -> BoolArray:
    """Shape (2^n,): the request fits once the leases of the subset have left; bit b of a subset is leases[b]."""
    bits_of_host = _bits_of_host(leases)
    reached = [_reached_elsewhere(problem, packing, bits_of_host)]
    states = np.zeros(1, dtype=np.int64)
    hosts_of_bits: dict[tuple[int, ...], list[int]] = {}
    for host, on_host in bits_of_host.items():
        hosts_of_bits.setdefault(on_host, []).append(host)
    for newest in range(len(leases)):
        states = np.concatenate([states, states])
        for bits in sorted(bits for bits in hosts_of_bits if bits[-1] == newest):
            fillings = np.stack([_fillings(problem, packing, leases, host, bits) for host in hosts_of_bits[bits]])
            states, reached = _combined(packing, states, reached, fillings, bits)
    whole = np.array([packing.is_whole(vectors) for vectors in reached], dtype=np.bool_)
    return whole[states]


def _bits_of_host(leases: Sequence[PreemptableLease]) -> dict[int, tuple[int, ...]]:
    """For each host with VMs of `leases`, ascending: the bits of these leases, ascending."""
    bits: dict[int, list[int]] = {}
    for bit, lease in enumerate(leases):
        for host in np.unique(lease.host_index):
            bits.setdefault(int(host), []).append(bit)
    return {host: tuple(bits[host]) for host in sorted(bits)}


def _reached_elsewhere(problem: PreemptionProblem, packing: Packing, bits_of_host: dict[int, tuple[int, ...]]) -> int:
    """The vectors reached on the hosts that no lease can change."""
    reached = packing.nothing
    fillings = packing.fillings_of_hosts(problem.free)
    for host in np.flatnonzero(fillings):
        if int(host) not in bits_of_host:
            reached = packing.advance(reached, int(fillings[host]))
    return reached


def _fillings(
    problem: PreemptionProblem, packing: Packing, leases: Sequence[PreemptableLease], host: int, bits: tuple[int, ...]
) -> IntArray:
    """Shape (2^len(bits),): the filling of `host` for every subset of the leases that hold VMs there."""
    rooms = problem.free[host : host + 1]
    for bit in bits:
        released = leases[bit].releases[leases[bit].host_index == host].sum(axis=0)
        rooms = np.concatenate([rooms, rooms + released])
    return packing.fillings(host, rooms)


def _combined(
    packing: Packing, states: IntArray, reached: list[int], fillings: IntArray, bits: tuple[int, ...]
) -> tuple[IntArray, list[int]]:
    """Add hosts that hold VMs of the leases `bits`; `fillings` has shape (hosts, 2^len(bits)).

    Returns the new state of every subset, and what is reached in each state.
    """
    kinds = np.zeros(fillings.shape[1], dtype=np.int64)
    kind_count = 1
    for of_host in fillings:
        values, kinds = number_distinct(kinds * (of_host.max() + 1) + of_host, kind_count * int(of_host.max() + 1))
        kind_count = len(values)
    example = np.zeros(kind_count, dtype=np.int64)
    example[kinds] = np.arange(len(kinds))

    dimensions = len(states).bit_length() - 1
    shape = [2 if bit in bits else 1 for bit in reversed(range(dimensions))]
    codes = (states.reshape((2,) * dimensions) * kind_count + kinds.reshape(shape)).reshape(-1)
    values, numbers = number_distinct(codes, len(reached) * kind_count)

    state_of: dict[int, int] = {}
    renumbered = np.zeros(len(values), dtype=np.int64)
    for number, value in enumerate(values):
        state, kind = divmod(int(value), kind_count)
        vectors = reached[state]
        for filling in fillings[:, example[kind]]:
            vectors = packing.advance(vectors, int(filling))
        renumbered[number] = state_of.setdefault(vectors, len(state_of))
    return renumbered[numbers], list(state_of)


def _minimal(makes_room: BoolArray, lease_count: int) -> BoolArray:
    """The subsets that make room, and that no longer do without any one of their leases."""
    minimal = makes_room.copy()
    for bit in range(lease_count):
        without_and_with = makes_room.reshape(-1, 2, 1 << bit)
        minimal.reshape(-1, 2, 1 << bit)[:, 1] &= ~without_and_with[:, 0]
    return minimal
