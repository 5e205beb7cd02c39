"""No plan makes a promise that cannot be kept: what is claimed of each host is added up at every instant to come.

What outlives its DURATION is taken to end any second. But what starts is judged a second time, as if none of that ever
did: it may not take what is left beside it for a promise that stands. And who may not preempt was promised hosts on
which there is room beside all that runs there until then.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Set
from operator import itemgetter

from msgspec import Struct

from one_preempt.core.model.host import KIB_PER_MIB, Host
from one_preempt.core.model.time_rules import Overrun
from one_preempt.core.model.virtual_machine import VirtualMachine
from one_preempt.core.verify.claims_over_time import (
    JudgedClaim,
    claims_on_hosts,
    guests_of_hosts,
    hosts_claimed_by_the_plan,
    hosts_of_arrivals,
    hosts_that_get_more,
)
from one_preempt.core.verify.lease_over_time import (
    ENDLESS_S,
    gives_way_by_type,
    has_deadline_promised,
    has_return_promised,
    may_overstay,
    slots,
)
from one_preempt.core.verify.recount import Recount, Rule, Violation


class _Changes(Struct):
    """What is claimed of one host by nobody who is known, for ever; and the instants at which more or less is.

    An instant, what is taken then of CPU and KiB, negative where it is given back, and the claim that begins or ends.
    """

    cpu_centi: int
    memory_kib: int
    at: list[tuple[int, int, int, JudgedClaim]]


def _no_promise_is_broken(recount: Recount) -> Iterator[Violation]:
    host_ids = hosts_claimed_by_the_plan(recount)
    if host_ids:
        changes = _changes_by_host(recount, host_ids)
        for host_id in sorted(host_ids):
            host = recount.host_then(host_id)
            assert host is not None, "only hosts that there are get more"
            yield from _overpromised(host, changes[host_id])


def _no_start_counts_on_an_overrun(recount: Recount) -> Iterator[Violation]:
    if recount.chosen.time.overrun is Overrun.PREEMPT:
        return
    arriving = hosts_of_arrivals(recount) & recount.hosts.keys()
    held = frozenset([host_id for host_id in arriving if _somebody_overstays(recount, host_id)])
    if held:
        changes = _changes_by_host(recount, held, overruns_stay=True)
        for host_id in sorted(held):
            yield from _overpromised(recount.hosts[host_id], changes[host_id])


def _somebody_overstays(recount: Recount, host_id: int) -> bool:
    leases = [recount.lease_of(vm_id) for vm_id in recount.books.guests(recount.state, host_id)]
    return any(lease is not None and may_overstay(recount, lease) for lease in leases)


def _nobody_is_expected_to_leave_for_who_may_not_preempt(recount: Recount) -> Iterator[Violation]:
    """Best effort stays until it ends, or until somebody begins there who may have it leave."""
    slots_by_host = _slots_beside_others(recount)
    host_ids = _with_best_effort(recount, slots_by_host.keys() & hosts_that_get_more(recount)) if slots_by_host else ()
    if host_ids:
        changes = _changes_by_host(recount, host_ids, best_effort_stays=True)
        for host_id in sorted(host_ids):
            host = recount.host_then(host_id)
            assert host is not None, "only hosts that there are get more"
            for broken in _overpromised(host, changes[host_id], within=slots_by_host[host_id]):
                yield Violation("nobody-leaves", f"{broken.text}, and nobody there leaves for who may not preempt")


def _with_best_effort(recount: Recount, host_ids: Set[int]) -> frozenset[int]:
    """Those of the hosts on which somebody is or will be by the plan who gives way to those who may preempt."""
    arriving = {host.id for _, vm, host in recount.arrivals if host.id in host_ids and _gives_way(recount, vm.id)}
    there = [one for one in host_ids if any(_gives_way(recount, vm_id) for vm_id in _guests(recount, one))]
    return frozenset([*arriving, *there])


def _gives_way(recount: Recount, vm_id: int) -> bool:
    lease = recount.lease_of(vm_id)
    if lease is None or lease.id in recount.victim_lease_ids:
        return False
    return gives_way_by_type(recount, lease)


def _has_endless(recount: Recount, host_id: int) -> bool:
    """Somebody is there who gives way to those who may preempt, and of whom nobody knows when he ends."""
    leases = [recount.lease_of(vm_id) for vm_id in _guests(recount, host_id) if _gives_way(recount, vm_id)]
    return any(lease is not None and lease.terms.duration_s is None for lease in leases)


def _guests(recount: Recount, host_id: int) -> Set[int]:
    return recount.books.guests(recount.state, host_id)


def _slots_beside_others(recount: Recount) -> dict[int, list[tuple[int, int]]]:
    """By host, from when until when somebody is promised room there for later who makes nobody leave.

    Who is owed a return, and has nowhere to be but beside best effort without an end, is kept what he could have then.
    """
    found: dict[int, list[tuple[int, int]]] = {}
    lease_ids = recount.books.firm_lease_ids | recount.booking_by_lease.keys()
    for lease in [recount.leases[one] for one in lease_ids & recount.leases.keys()]:
        if lease.preempts:
            continue
        is_return = has_return_promised(lease) and not has_deadline_promised(recount, lease)
        for slot in slots(recount, lease, planned=True):
            if is_return and any(_has_endless(recount, host_id) for host_id in slot.host_ids):
                continue
            end_s = ENDLESS_S if slot.end_at_s is None else slot.end_at_s
            for host_id in slot.host_ids if slot.start_at_s > recount.state.now_s else ():
                found.setdefault(host_id, []).append((slot.start_at_s, end_s))
    return found


def _changes_by_host(
    recount: Recount, host_ids: frozenset[int], *, overruns_stay: bool = False, best_effort_stays: bool = False
) -> dict[int, _Changes]:
    """What is claimed of each host while anything is claimed there that was not before: only then can it be more."""
    now_s, found = recount.state.now_s, dict[int, _Changes]()
    for host_id, guests in guests_of_hosts(recount, host_ids).items():
        found[host_id] = _others(recount.hosts[host_id], guests)
    claims = claims_on_hosts(recount, host_ids, overruns_stay=overruns_stay, best_effort_stays=best_effort_stays)
    spans = _spans_of_what_is_new(claims)
    for judged in claims:
        claim = judged.claim
        from_s, until_s = spans.get(claim.host_id, (ENDLESS_S, 0))
        if claim.start_s >= until_s or (claim.end_s is not None and claim.end_s <= from_s):
            continue
        changes = found[claim.host_id].at
        cpu_centi, memory_kib = claim.vm.cpu_centi, claim.vm.memory_mib * KIB_PER_MIB
        changes.append((max(claim.start_s, now_s), cpu_centi, memory_kib, judged))
        if claim.end_s is not None:
            changes.append((claim.end_s, -cpu_centi, -memory_kib, judged))
    return found


def _spans_of_what_is_new(claims: Iterable[JudgedClaim]) -> dict[int, tuple[int, int]]:
    """By host, from when until when there are claims by the plan that there are not without it."""
    found: dict[int, tuple[int, int]] = {}
    for one in claims:
        if one.after and not one.before:
            claim = one.claim
            from_s, until_s = found.get(claim.host_id, (ENDLESS_S, 0))
            end_s = ENDLESS_S if claim.end_s is None else claim.end_s
            found[claim.host_id] = min(from_s, claim.start_s), max(until_s, end_s)
    return found


def _others(host: Host, guests: Iterable[VirtualMachine]) -> _Changes:
    """What the host is charged for beyond the VMs that are known: it stays for ever."""
    cpu_centi, memory_kib = host.cpu_usage_centi, host.memory_usage_kib
    for vm in guests:
        cpu_centi -= vm.cpu_centi
        memory_kib -= vm.memory_mib * KIB_PER_MIB
    return _Changes(cpu_centi, memory_kib, [])


def _overpromised(
    host: Host, changes: _Changes, within: Sequence[tuple[int, int]] = ((0, ENDLESS_S),)
) -> Iterator[Violation]:
    """The first instant `within` these spans at which the plan claims more than the host has, and than was claimed
    before."""
    cpu_before = cpu_after = changes.cpu_centi
    kib_before = kib_after = changes.memory_kib
    in_turn = sorted(changes.at, key=itemgetter(0))
    for number, (instant_s, cpu_centi, memory_kib, judged) in enumerate(in_turn, start=1):
        if judged.before:
            cpu_before, kib_before = cpu_before + cpu_centi, kib_before + memory_kib
        if judged.after:
            cpu_after, kib_after = cpu_after + cpu_centi, kib_after + memory_kib
        if number < len(in_turn) and in_turn[number][0] == instant_s:
            # More changes at this instant.
            continue
        if not any(from_s <= instant_s < until_s for from_s, until_s in within):
            continue
        if cpu_after > host.max_cpu_centi and cpu_after > cpu_before:
            what = f"{cpu_after} of {host.max_cpu_centi} hundredths of a CPU"
        elif kib_after > host.max_memory_kib and kib_after > kib_before:
            what = f"{kib_after} of {host.max_memory_kib} KiB"
        else:
            continue
        yield Violation("promise-broken", f"{what} of host {host.id} would be claimed at {instant_s}")
        return


RULES: tuple[Rule, ...] = (
    _no_promise_is_broken,
    _no_start_counts_on_an_overrun,
    _nobody_is_expected_to_leave_for_who_may_not_preempt,
)
