"""Hosts that are not on and will be, or could be: how the decision sees them.

A host on its way up is like one that somebody takes wholly until it is expected to be up: nothing goes there now, and
what waits can be promised its room. One that sleeps is like that too, up a boot from now; but the queue does not count
on it, for nobody has woken it, and nobody may ever.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from one_preempt.core.availability.gang_demand import BoolArray
from one_preempt.core.availability.timeline import ObservedRoom, Stay
from one_preempt.core.energy.power_rules import MINUTES_A_DAY, PowerRules
from one_preempt.core.model.cluster_state import ClusterState, HostTable, IntArray
from one_preempt.core.model.host import KIB_PER_MIB, Host, HostState
from one_preempt.core.model.lease import Lease
from one_preempt.core.model.ledger import HostCapacity
from one_preempt.core.model.power_sequence import PowerPhase, PowerSequence

# Stays of no lease, one for each host that somebody seems to take.
_NO_LEASE = -(1 << 40)
# On the way to sleep, and from where it will be woken when it is needed.
SLEEPING = frozenset({
    PowerPhase.EMPTYING, PowerPhase.GOING_OFFLINE, PowerPhase.CHECKING, PowerPhase.SWITCHING_OFF, PowerPhase.ASLEEP,
})  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class HostsToCome:
    """The rows of hosts that are not on. `up_at_s` is by row.

    `room`, shape (H, 2): what will be free there, with nobody on it but who is there now. `asleep`, shape (H,): those
    that nobody has woken yet; of the others in `up_at_s` the waking is under way: `coming`, shape (H,).
    """

    up_at_s: dict[int, int]
    room: IntArray
    asleep: BoolArray
    coming: BoolArray
    expected: ExpectedHosts


@dataclass(frozen=True, slots=True, eq=False)
class ExpectedHosts:
    """All of it that time does not change. `full` are the hosts by row as the decision sees them: on, with no room.

    `boot_s` by row of those asleep, `due_s` when those that come are expected. `free` and `capacity`, shape (H, 2), of
    these rows. `of`, and the hosts `seen` by row, are what it was made from.
    """

    boot_s: dict[int, int]
    due_s: dict[int, int]
    full: dict[int, Host]
    free: IntArray
    capacity: IntArray
    asleep: BoolArray
    coming: BoolArray
    of: tuple[object, ...]
    sequences: dict[int, PowerSequence]
    seen: dict[int, Host]

    def holds_for(self, of: tuple[object, ...], hosts: HostTable) -> bool:
        """Would the same be found again?"""
        return of == self.of and {row: hosts.hosts[row] for row in self.seen} == self.seen


def hosts_to_come(state: ClusterState, rules: PowerRules) -> HostsToCome | None:
    """The hosts of `state` that come or could; None where there are none."""
    of = (state.hosts.index_by_id, state.power.sequences, state.power.capacities, state.paused, rules)
    memory = state.memory
    known = None if memory is None else memory.expected_hosts
    expected = known if known is not None and known.holds_for(of, state.hosts) else _expected(state, rules, of, known)
    if memory is not None:
        memory.expected_hosts = expected
    if not expected.full:
        return None
    now_s = state.now_s
    first_s = first_switching_s(rules, now_s)
    up_at_s = {row: first_s + boot_s for row, boot_s in expected.boot_s.items()}
    up_at_s |= {row: max(due_s, now_s + 1) for row, due_s in expected.due_s.items()}
    return HostsToCome(up_at_s, expected.free, expected.asleep, expected.coming, expected)


def _expected(
    state: ClusterState, rules: PowerRules, of: tuple[object, ...], known: ExpectedHosts | None
) -> ExpectedHosts:
    """What is `known` of hosts that have not changed since is taken over."""
    hosts, may_be_woken = state.hosts, rules.enforced and not state.paused
    sequences = dict(state.power.sequences)
    same = known if known is not None and known.of[0] == of[0] and known.of[2] == of[2] else None
    found = ExpectedHosts(
        {}, {}, {}, np.zeros_like(hosts.free), np.zeros_like(hosts.free), _mask(hosts, ()), _mask(hosts, ()),
        # The mappings as they are now: what they are part of may go on changing.
        (of[0], sequences, dict(state.power.capacities), *of[3:]), sequences, {},
    )  # fmt: skip
    if same is not None:
        found.free[:], found.capacity[:] = same.free, same.capacity
    for sequence in _unlike(found, state, same if same is not None and same.of[3:] == of[3:] else None):
        row, capacity = hosts.index_by_id.get(sequence.host_id), state.power.capacities.get(sequence.host_id)
        if row is None or capacity is None or sequence.phase is PowerPhase.AWAKE:
            continue
        host = found.seen[row] = hosts.hosts[row]
        if host.accepts_vms:
            continue
        if sequence.is_coming:
            takes_s = max(rules.power_of(host).boot_s, rules.enable_after_s or 0)
            # What never lost its power is expected any second.
            found.due_s[row] = sequence.began_at_s + takes_s if sequence.began_at_s else 0
        elif may_be_woken and sequence.phase in SLEEPING and rules.is_handed_over(host):
            found.boot_s[row] = rules.power_of(host).boot_s
        else:
            continue
        if same is not None and row in same.full and same.seen[row] is host:
            found.full[row] = same.full[row]
        else:
            awake = awake_host(host, capacity)
            found.free[row] = _free_of(awake)
            found.capacity[row] = (awake.capacity.cpu_centi, awake.capacity.memory_mib)
            found.full[row] = replace(
                awake, cpu_usage_centi=awake.max_cpu_centi + 1, memory_usage_kib=awake.max_memory_kib + KIB_PER_MIB
            )
    found.asleep[list(found.boot_s)] = True
    found.coming[list(found.due_s)] = True
    return found


def _unlike(found: ExpectedHosts, state: ClusterState, same: ExpectedHosts | None) -> Iterator[PowerSequence]:
    """The sequences of which something is new; of all others what was found before is taken over."""
    if same is None:
        yield from state.power.sequences.values()
        return
    index, hosts, known = state.hosts.index_by_id, state.hosts.hosts, same.sequences
    for host_id, sequence in state.power.sequences.items():
        row = index.get(host_id)
        if row is None or known.get(host_id) is not sequence or same.seen.get(row) is not hosts[row]:
            yield sequence
            continue
        found.seen[row] = hosts[row]
        for before, after in ((same.boot_s, found.boot_s), (same.due_s, found.due_s)):
            if row in before:
                after[row] = before[row]
                found.full[row] = same.full[row]


def _mask(hosts: HostTable, rows: Iterable[int]) -> BoolArray:
    mask = np.zeros_like(hosts.accepts_vms)
    mask[list(rows)] = True
    return mask


def first_switching_s(rules: PowerRules, from_s: int) -> int:
    """The first instant from which hosts may be switched."""
    for minute in range(MINUTES_A_DAY):
        at_s = from_s if minute == 0 else (from_s // 60 + minute) * 60
        if not rules.is_quiet(at_s):
            return at_s
    return from_s + MINUTES_A_DAY * 60


def last_switching_s(rules: PowerRules, before_s: int, from_s: int) -> int:
    """The last instant up to `before_s`, to the minute, at which hosts may be switched; not before `from_s`."""
    for minute in range(MINUTES_A_DAY):
        at_s = before_s - 60 * minute
        if at_s <= from_s or not rules.is_quiet(at_s):
            return max(at_s, from_s)
    return from_s


def awake_host(host: Host, capacity: HostCapacity) -> Host:
    """The host as it will be once it is on."""
    shows_none = host.max_cpu_centi <= 0
    return replace(
        host,
        state=HostState.MONITORED,
        max_cpu_centi=capacity.max_cpu_centi if shows_none else host.max_cpu_centi,
        max_memory_kib=capacity.max_memory_kib if shows_none else host.max_memory_kib,
        total_cpu_centi=capacity.total_cpu_centi if shows_none else host.total_cpu_centi,
        total_memory_kib=capacity.total_memory_kib if shows_none else host.total_memory_kib,
    )


def expecting(state: ClusterState, to_come: HostsToCome) -> ClusterState:
    """The state as the decision sees it: these hosts take VMs, and have no room for any now."""
    table, full = state.hosts, to_come.expected.full
    ordered = list(table.hosts)
    free, capacity, accepts_vms = table.free.copy(), table.capacity.copy(), table.accepts_vms.copy()
    for row, host in full.items():
        ordered[row] = host
    rows = list(full)
    free[rows], accepts_vms[rows] = -1, True
    capacity[rows] = to_come.expected.capacity[rows]
    hosts = {**state.snapshot.hosts, **{host.id: host for host in full.values()}}
    expected = HostTable(table.ids, free, capacity, accepts_vms, table.index_by_id, tuple(ordered))
    return replace(state, snapshot=replace(state.snapshot, hosts=hosts, changed_host_ids=None), hosts=expected)


def with_hosts_to_come(room: ObservedRoom, state: ClusterState, to_come: HostsToCome) -> ObservedRoom:
    """What the timeline is told of them: taken wholly until they are up.

    Those asleep are seen only by leases that may count on them, and an exact start is one at which they can be up.
    Only where a lease may start at any time the timeline says from when on they are free.
    """
    is_asked = any(_may_start_any_time(lease) for lease in state.leases.values())
    shown = {row: at_s for row, at_s in to_come.up_at_s.items() if is_asked or to_come.coming[row]}
    # One more than there is: that is what `expecting` takes, so that not even nothing fits.
    more = np.where((to_come.asleep | to_come.coming)[:, None], to_come.room + 1, 0)
    return replace(
        room,
        base=room.base + more,
        firm_base=room.firm_base + more,
        # Once one that slept is woken it is new room to the queue, which looks for earlier starts then.
        accepting=room.accepting & ~to_come.asleep,
        to_come={stay.lease_id: (stay,) for stay in _occupants(state, to_come, shown)},
    )


def _may_start_any_time(lease: Lease) -> bool:
    """It has a deadline, or must not be suspended again: then its start is promised and not exact."""
    return lease.terms.deadline_at_s is not None or lease.terms.max_suspensions is not None


def _occupants(state: ClusterState, to_come: HostsToCome, until_s_by_row: dict[int, int]) -> Iterator[Stay]:
    for row, until_s in until_s_by_row.items():
        cpu_centi, memory_mib = (int(amount) + 1 for amount in to_come.room[row])
        host_id = int(state.hosts.ids[row])
        yield Stay(_NO_LEASE - host_id, 0, until_s, (row,), ((cpu_centi, memory_mib),), firm=True)


def _free_of(host: Host) -> tuple[int, int]:
    return max(host.free.cpu_centi, 0), max(host.free.memory_mib, 0)
