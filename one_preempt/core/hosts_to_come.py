"""Hosts that are not on and will be, or could be: how the decision sees them.

A host on its way up is like one that somebody takes wholly until it is expected to be up: nothing goes there now, and
what waits can be promised its room. One that sleeps is like that too, up a boot from now; but the queue does not count
on it, for nobody has woken it, and nobody may ever.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from one_preempt.core.availability.gang_demand import BoolArray
from one_preempt.core.availability.timeline import ObservedRoom, Stay
from one_preempt.core.energy.power_rules import MINUTES_A_DAY, PowerRules
from one_preempt.core.model.cluster_state import ClusterState, HostTable, IntArray
from one_preempt.core.model.host import KIB_PER_MIB, Host, HostState
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
    """The rows of hosts that are not on. `up_at_s` is by row, and the same instants are in `expected`, shape (H,).

    `room`, shape (H, 2): what will be free there, with nobody on it but who is there now. `asleep`, shape (H,): those
    that nobody has woken yet; of the others in `up_at_s` the waking is under way.
    """

    up_at_s: dict[int, int]
    room: IntArray
    asleep: BoolArray

    @property
    def coming(self) -> BoolArray:
        """The rows of hosts of which the waking is under way."""
        mask = np.zeros_like(self.asleep)
        mask[list(self.up_at_s)] = True
        return mask & ~self.asleep


def hosts_to_come(state: ClusterState, rules: PowerRules) -> HostsToCome | None:
    """The hosts of `state` that come or could; None where there are none."""
    hosts, now_s = state.hosts, state.now_s
    may_be_woken = rules.enforced and not state.paused
    up_at_s: dict[int, int] = {}
    room, asleep = np.zeros_like(hosts.free), np.zeros_like(hosts.accepts_vms)
    for sequence in state.power.sequences.values():
        row, capacity = hosts.index_by_id.get(sequence.host_id), state.power.capacities.get(sequence.host_id)
        if row is None or capacity is None or hosts.accepts_vms[row]:
            continue
        host = hosts.hosts[row]
        if sequence.is_coming:
            up_at_s[row] = _up_at_s(sequence, rules, host, now_s)
        elif may_be_woken and sequence.phase in SLEEPING and rules.is_handed_over(host):
            up_at_s[row] = first_switching_s(rules, now_s) + rules.power_of(host).boot_s
            asleep[row] = True
        else:
            continue
        room[row] = _free_of(awake_host(host, capacity))
    return HostsToCome(up_at_s, room, asleep) if up_at_s else None


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
    table = state.hosts
    ordered, hosts = list(table.hosts), dict(state.snapshot.hosts)
    free, capacity, accepts_vms = table.free.copy(), table.capacity.copy(), table.accepts_vms.copy()
    for row in to_come.up_at_s:
        host = awake_host(ordered[row], state.power.capacities[ordered[row].id])
        full = replace(host, cpu_usage_centi=host.max_cpu_centi + 1, memory_usage_kib=host.max_memory_kib + KIB_PER_MIB)
        ordered[row] = hosts[host.id] = full
        free[row], accepts_vms[row] = -1, True
        capacity[row] = (host.capacity.cpu_centi, host.capacity.memory_mib)
    expected = HostTable(table.ids, free, capacity, accepts_vms, table.index_by_id, tuple(ordered))
    return replace(state, snapshot=replace(state.snapshot, hosts=hosts, changed_host_ids=None), hosts=expected)


def with_hosts_to_come(room: ObservedRoom, state: ClusterState, to_come: HostsToCome) -> ObservedRoom:
    """What the timeline is told of them: taken wholly until they are up.

    Of those asleep nothing where no lease asks for a time, for then nobody may count on them.
    """
    is_asked = any(lease.terms.asks_for_time for lease in state.leases.values())
    base, firm_base, stays = room.base.copy(), room.firm_base.copy(), dict(room.stays)
    for stay in _occupants(state, to_come, is_asked):
        row = stay.host_rows[0]
        for table in (base, firm_base):
            table[row] += stay.amounts[0]
        stays[stay.lease_id] = (stay,)
    return replace(room, base=base, firm_base=firm_base, stays=stays)


def _occupants(state: ClusterState, to_come: HostsToCome, is_asked: bool) -> Iterator[Stay]:
    for row, until_s in to_come.up_at_s.items():
        if is_asked or not to_come.asleep[row]:
            # One more than there is: that is what `expecting` takes, so that not even nothing fits.
            cpu_centi, memory_mib = (int(amount) + 1 for amount in to_come.room[row])
            host_id = int(state.hosts.ids[row])
            yield Stay(_NO_LEASE - host_id, 0, until_s, (row,), ((cpu_centi, memory_mib),), firm=True)


def _up_at_s(sequence: PowerSequence, rules: PowerRules, host: Host, now_s: int) -> int:
    """When it is expected; what is late is expected any second."""
    if not sequence.began_at_s:
        return now_s + 1
    takes_s = max(rules.power_of(host).boot_s, rules.enable_after_s or 0)
    return max(sequence.began_at_s + takes_s, now_s + 1)


def _free_of(host: Host) -> tuple[int, int]:
    return max(host.free.cpu_centi, 0), max(host.free.memory_mib, 0)
