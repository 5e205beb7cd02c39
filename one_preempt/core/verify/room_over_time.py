"""No plan makes a promise that cannot be kept: what is claimed of each host is added up at every instant to come.

What outlives its DURATION is taken to end any second. But what starts is judged a second time, as if none of that ever
did: it may not take what is left beside it for a promise that stands.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct

from one_preempt.core.model.host import KIB_PER_MIB, Host
from one_preempt.core.model.virtual_machine import VirtualMachine
from one_preempt.core.verify.claims_over_time import (
    JudgedClaim,
    anything_is_firm,
    claims_on_hosts,
    guests_of_hosts,
    hosts_of_arrivals,
    hosts_that_get_more,
)
from one_preempt.core.verify.lease_over_time import may_overstay
from one_preempt.core.verify.recount import Recount, Rule, Violation


class _Totals(Struct):
    """What is claimed of one host without the plan and with it; or by how much that changes at an instant."""

    cpu_before: int = 0
    cpu_after: int = 0
    kib_before: int = 0
    kib_after: int = 0

    def add(self, judged: JudgedClaim, sign: int) -> None:
        vm = judged.claim.vm
        cpu_centi, memory_kib = sign * vm.cpu_centi, sign * vm.memory_mib * KIB_PER_MIB
        self.cpu_before += cpu_centi * judged.before
        self.kib_before += memory_kib * judged.before
        self.cpu_after += cpu_centi * judged.after
        self.kib_after += memory_kib * judged.after

    def plus(self, other: _Totals) -> _Totals:
        return _Totals(
            self.cpu_before + other.cpu_before,
            self.cpu_after + other.cpu_after,
            self.kib_before + other.kib_before,
            self.kib_after + other.kib_after,
        )


def _no_promise_is_broken(recount: Recount) -> Iterator[Violation]:
    if not anything_is_firm(recount):
        return
    host_ids = hosts_that_get_more(recount)
    if host_ids:
        changes = _changes_by_host(recount, host_ids)
        for host_id in sorted(host_ids):
            host = recount.host_then(host_id)
            assert host is not None, "only hosts that there are get more"
            yield from _overpromised(host, changes[host_id])


def _no_start_counts_on_an_overrun(recount: Recount) -> Iterator[Violation]:
    if recount.overruns_give_way or not anything_is_firm(recount):
        return
    arriving = frozenset(hosts_of_arrivals(recount)) & recount.hosts.keys()
    guests = guests_of_hosts(recount, arriving)
    held = frozenset(host_id for host_id, vms in guests.items() if _somebody_overstays(recount, vms))
    if held:
        changes = _changes_by_host(recount, held, overruns_stay=True)
        for host_id in sorted(held):
            yield from _overpromised(recount.hosts[host_id], changes[host_id])


def _somebody_overstays(recount: Recount, guests: Iterable[VirtualMachine]) -> bool:
    return any(may_overstay(recount, recount.leases[recount.lease_of_vm[vm.id]]) for vm in guests)


def _changes_by_host(
    recount: Recount, host_ids: frozenset[int], *, overruns_stay: bool = False
) -> dict[int, dict[int, _Totals]]:
    """For each host by how much its totals change at each instant; the first one is now."""
    now_s, found = recount.state.now_s, dict[int, dict[int, _Totals]]()
    for host_id, guests in guests_of_hosts(recount, host_ids).items():
        found[host_id] = {now_s: _others(recount.hosts[host_id], guests)}
    for judged in claims_on_hosts(recount, host_ids, overruns_stay=overruns_stay):
        claim, steps = judged.claim, found[judged.claim.host_id]
        steps.setdefault(max(claim.start_s, now_s), _Totals()).add(judged, 1)
        if claim.end_s is not None:
            steps.setdefault(claim.end_s, _Totals()).add(judged, -1)
    return found


def _others(host: Host, guests: Iterable[VirtualMachine]) -> _Totals:
    """What the host is charged for beyond the VMs that are known: it stays for ever."""
    cpu_centi, memory_kib = host.cpu_usage_centi, host.memory_usage_kib
    for vm in guests:
        cpu_centi -= vm.cpu_centi
        memory_kib -= vm.memory_mib * KIB_PER_MIB
    return _Totals(cpu_centi, cpu_centi, memory_kib, memory_kib)


def _overpromised(host: Host, changes: dict[int, _Totals]) -> Iterator[Violation]:
    """The first instant at which the plan claims more than the host has, and more than was claimed before."""
    total = _Totals()
    for instant_s, change in sorted(changes.items(), key=lambda entry: entry[0]):
        total = total.plus(change)
        if total.cpu_after > max(host.max_cpu_centi, total.cpu_before):
            what = f"{total.cpu_after} of {host.max_cpu_centi} hundredths of a CPU"
        elif total.kib_after > max(host.max_memory_kib, total.kib_before):
            what = f"{total.kib_after} of {host.max_memory_kib} KiB"
        else:
            continue
        yield Violation("promise-broken", f"{what} of host {host.id} would be claimed at {instant_s}")
        return


RULES: tuple[Rule, ...] = (_no_promise_is_broken, _no_start_counts_on_an_overrun)
