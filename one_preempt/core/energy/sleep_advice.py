"""Which hosts could sleep once a plan of migrations is carried out, and what that saves."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from msgspec import Struct

from one_preempt.core.energy.bridges import bridge_hosts
from one_preempt.core.energy.power_model import most_economical_first
from one_preempt.core.energy.power_rules import PowerRules
from one_preempt.core.model.host import Host
from one_preempt.core.model.plan import Placement
from one_preempt.core.model.pool_snapshot import PoolSnapshot


class SleepAdvice(Struct, frozen=True):
    """Hosts, by their ids in ascending order, and by how many milliwatts all hosts together draw less then.

    What the migrations alone change is in the sum; the energy of a boot that ends the sleep is not.
    """

    host_ids: tuple[int, ...]
    saved_mw: int


def sleep_advice(
    snapshot: PoolSnapshot, moves: Sequence[Placement], spared: Collection[int], rules: PowerRules
) -> SleepAdvice | None:
    """None where no host could sleep, or nothing would be saved.

    A host could where it is handed over and monitored, nobody is on it after `moves`, it is none of the hosts `spared`,
    and no datastore needs it. Of the hosts seen here `rules.floor` stay on, the most economical ones.
    """
    vms_after = {host.id: set(host.vm_ids) for host in snapshot.hosts.values()}
    used_after = {host.id: host.cpu_usage_centi for host in snapshot.hosts.values()}
    for vm_id, target in ((one.vm_id, one.host_id) for one in moves):
        vm = snapshot.vms[vm_id]
        for host_id, sign in ((vm.host_id, -1), (target, 1)):
            if host_id in used_after:
                used_after[host_id] += sign * vm.cpu_centi
                (vms_after[host_id].add if sign > 0 else vms_after[host_id].discard)(vm_id)
    needed = bridge_hosts(snapshot.datastores)
    on = [host for host in snapshot.hosts.values() if host.accepts_vms and rules.is_handed_over(host)]
    idle = [host for host in on if not vms_after[host.id] and host.id not in spared and host.name not in needed]
    dearest_first = most_economical_first((host.id, rules.power_of(host)) for host in idle)[::-1]
    asleep = frozenset(dearest_first[: max(len(on) - rules.floor, 0)])
    saved_mw = sum(_saved_mw(host, used_after, asleep, rules) for host in snapshot.hosts.values())
    return SleepAdvice(tuple(sorted(asleep)), saved_mw) if asleep and saved_mw > 0 else None


def _saved_mw(host: Host, used_after: Mapping[int, int], asleep: Collection[int], rules: PowerRules) -> int:
    power = rules.power_of(host)
    before_mw = power.curve.power_mw(host.cpu_usage_centi, host.total_cpu_centi)
    after_mw = power.off_mw if host.id in asleep else power.curve.power_mw(used_after[host.id], host.total_cpu_centi)
    return before_mw - after_mw
