"""Hosts that are not on and will be, or could be: how the decision sees them.

A host on its way up is like one that somebody takes wholly until it is expected to be up: nothing goes there now, and
what waits can be promised its room. One that sleeps is like that too, up a boot from now; but the queue does not count
on it, for nobody has woken it, and nobody may ever.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import compress
from operator import is_, is_not

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from one_preempt.core.availability.gang_demand import BoolArray
from one_preempt.core.availability.timeline import ObservedRoom, Stay
from one_preempt.core.energy.power_rules import MINUTES_A_DAY, PowerRules
from one_preempt.core.model.cluster_state import ClusterState, HostTable, IntArray
from one_preempt.core.model.host import KIB_PER_MIB, Host, HostCapacity, HostState
from one_preempt.core.model.power_sequence import PowerPhase, PowerSequence

# Stays of no lease, one for each host that somebody seems to take.
_NO_LEASE = -(1 << 40)
# On the way to sleep, and from where it will be woken when it is needed.
SLEEPING = frozenset({
    PowerPhase.EMPTYING, PowerPhase.GOING_OFFLINE, PowerPhase.CHECKING, PowerPhase.SWITCHING_OFF, PowerPhase.ASLEEP,
})  # fmt: skip


class HostsToCome(Struct, frozen=True, eq=False):
    """The hosts that are not on and will be or could be, by row; nothing of it changes with time.

    `asleep`, shape (H,): those that nobody has woken yet; of the others the waking is under way: `coming`, shape (H,).
    `boot_s` by row of those asleep, `due_s` when those that come are expected; `takes_s`, shape (H,), both. `full` are
    the hosts as the decision sees them: on, with no room. `room`, shape (H, 2): what will be free there, with nobody on
    it but who is there now; `capacity`, shape (H, 2), what they have. `under`, the `sequences` and `capacities` by host
    id, and the hosts `seen` by row are what it was made from.
    """

    boot_s: dict[int, int]
    due_s: dict[int, int]
    takes_s: IntArray
    full: dict[int, Host]
    room: IntArray
    capacity: IntArray
    asleep: BoolArray
    coming: BoolArray
    under: tuple[object, ...]
    sequences: Mapping[int, PowerSequence]
    capacities: Mapping[int, HostCapacity]
    seen: dict[int, Host]

    def up_at_s(self, rules: PowerRules, now_s: int) -> IntArray:
        """When each of them can be up, shape (H,); of other hosts it says nothing."""
        woken_s = first_switching_s(rules, now_s) if self.boot_s else now_s
        return np.where(self.asleep, woken_s + self.takes_s, np.maximum(self.takes_s, now_s + 1))


def hosts_to_come(state: ClusterState, rules: PowerRules, known: HostsToCome | None = None) -> HostsToCome:
    """The hosts of a state that are not on; the very object that is `known` where no host has changed."""
    hosts, power = state.hosts, state.power
    under = (hosts.index_by_id, rules, state.paused)
    if known is None or known.under[0] is not under[0] or known.under != under:
        known = _none_to_come(hosts, under)
    changed = _changed(state, known)
    if not changed:
        return known
    found = replace(
        known,
        boot_s=known.boot_s.copy(),
        due_s=known.due_s.copy(),
        takes_s=known.takes_s.copy(),
        full=known.full.copy(),
        room=known.room.copy(),
        capacity=known.capacity.copy(),
        asleep=known.asleep.copy(),
        coming=known.coming.copy(),
        # The mappings as they are now: what they are part of may go on changing.
        sequences=dict(power.sequences),
        capacities=dict(power.capacities),
        seen=known.seen.copy(),
    )
    for host_id in changed:
        row = hosts.index_by_id.get(host_id)
        if row is not None:
            _look_at(found, row, state, rules)
    return found


def _none_to_come(hosts: HostTable, under: tuple[object, ...]) -> HostsToCome:
    """Every host is on, as far as is known."""
    times, amounts, nowhere = np.zeros_like(hosts.ids), np.zeros_like(hosts.free), np.zeros_like(hosts.accepts_vms)
    return HostsToCome({}, {}, times, {}, amounts, amounts, nowhere, nowhere, under, {}, {}, {})


def _changed(state: ClusterState, known: HostsToCome) -> list[int]:
    """The hosts of which the sequence, the last capacity, or, where one may be off, the host is another one now."""
    index, hosts = state.hosts.index_by_id, state.hosts.hosts
    changed: set[int] = set()
    before: Mapping[int, object]
    now: Mapping[int, object]
    for before, now in ((known.sequences, state.power.sequences), (known.capacities, state.power.capacities)):
        if _are_the_same(before, now):
            continue
        changed.update(compress(now, map(is_not, now.values(), map(before.get, now))))
        if len(before) != len(now) or changed:
            changed |= before.keys() - now.keys()
    changed.update(host.id for row, host in known.seen.items() if hosts[row] is not host)
    return [host_id for host_id in sorted(changed) if host_id in index]


def _are_the_same(before: Mapping[int, object], now: Mapping[int, object]) -> bool:
    """The very objects, and in the same order, as they mostly are; they may be the same where this says no."""
    return len(before) == len(now) and all(map(is_, before.values(), now.values())) and list(before) == list(now)


def _look_at(found: HostsToCome, row: int, state: ClusterState, rules: PowerRules) -> None:
    """Write down what is expected of one host."""
    host, known = state.hosts.hosts[row], found.full.pop(row, None)
    sequence, capacity = state.power.sequences.get(host.id), state.power.capacities.get(host.id)
    found.boot_s.pop(row, None)
    found.due_s.pop(row, None)
    found.seen.pop(row, None)
    found.asleep[row] = found.coming[row] = False
    found.takes_s[row] = 0
    if sequence is None or capacity is None or sequence.phase is PowerPhase.AWAKE:
        return
    found.seen[row] = host
    # What may lose its power any moment is not on, whatever OpenNebula shows.
    if host.accepts_vms and not sequence.is_losing_power:
        return
    if sequence.is_coming:
        takes_s = rules.up_after_s(host)
        # What never lost its power is expected any second.
        found.due_s[row] = found.takes_s[row] = sequence.began_at_s + takes_s if sequence.began_at_s else 0
        found.coming[row] = True
    elif rules.enforced and not state.paused and sequence.phase in SLEEPING and rules.is_handed_over(host):
        found.boot_s[row] = found.takes_s[row] = rules.up_after_s(host)
        found.asleep[row] = True
    else:
        return
    awake = awake_host(host, capacity)
    full = replace(awake, cpu_usage_centi=awake.max_cpu_centi + 1, memory_usage_kib=awake.max_memory_kib + KIB_PER_MIB)
    # The very host that it was where it is the same: whoever compares has less to look at.
    found.full[row] = known if known == full else full
    found.room[row] = _free_of(awake)
    found.capacity[row] = (awake.capacity.cpu_centi, awake.capacity.memory_mib)


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
    table, full = state.hosts, to_come.full
    if not full:
        return state
    ordered = list(table.hosts)
    for row, host in full.items():
        ordered[row] = host
    seen = to_come.asleep | to_come.coming
    free, capacity = table.free.copy(), table.capacity.copy()
    free[seen], capacity[seen] = -1, to_come.capacity[seen]
    expected = HostTable(table.ids, free, capacity, table.accepts_vms | seen, table.index_by_id, ordered)
    hosts = dict(zip(table.index_by_id, ordered, strict=True))
    return replace(state, snapshot=replace(state.snapshot, hosts=hosts, changed_host_ids=None), hosts=expected)


def with_hosts_to_come(
    room: ObservedRoom, host_ids: IntArray, to_come: HostsToCome, up_at_s: IntArray, *, any_time: bool
) -> ObservedRoom:
    """What the timeline is told of them: taken wholly until they are up, which is at `up_at_s`, shape (H,).

    Those asleep are seen only by leases that may count on them, and an exact start is one at which they can be up.
    Only where a lease may start at `any_time` the timeline says from when on they are free.
    """
    seen = to_come.asleep | to_come.coming
    shown = seen if any_time else to_come.coming
    # One more than there is: that is what `expecting` takes, so that not even nothing fits.
    more = np.where(seen[:, None], to_come.room + 1, 0)
    return replace(
        room,
        base=room.base + more,
        firm_base=room.firm_base + more,
        # Once one that slept is woken it is new room to the queue, which looks for earlier starts then.
        accepting=room.accepting & ~to_come.asleep,
        to_come={
            stay.lease_id: (stay,) for stay in _occupants(host_ids, to_come, up_at_s, np.flatnonzero(shown).tolist())
        },
    )


def _occupants(host_ids: IntArray, to_come: HostsToCome, up_at_s: IntArray, rows: Iterable[int]) -> Iterator[Stay]:
    for row in rows:
        cpu_centi, memory_mib = (int(amount) + 1 for amount in to_come.room[row])
        lease_id, until_s = _NO_LEASE - int(host_ids[row]), int(up_at_s[row])
        yield Stay(lease_id, 0, until_s, (row,), ((cpu_centi, memory_mib),), firm=True)


def _free_of(host: Host) -> tuple[int, int]:
    return max(host.free.cpu_centi, 0), max(host.free.memory_mib, 0)
