"""What a plan claims of PCI devices over time, against trying every way to give them out in every second."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from one_preempt.core.model.cluster_state import ClusterState
from one_preempt.core.model.host import Host, HostState, PciDevice
from one_preempt.core.model.lease import LeaseType
from one_preempt.core.model.plan import Plan
from one_preempt.core.model.reservation import Booking
from one_preempt.core.model.virtual_machine import PciRequest, VirtualMachine, VmState
from one_preempt.core.verify.pci_devices import left_over
from tests.core.recounted_cluster import (
    NOW_S,
    accepted,
    begun,
    cluster,
    codes,
    deploy,
    host,
    plan,
    reservation,
    running,
    waiting,
    with_lease,
    with_vm,
)
from tests.counted_work import lines_run

HORIZON_S = 8
ANY = ""


@dataclass(frozen=True)
class Stay:
    """A VM on the one host from a second until another, None: for ever. It asks for devices, each of a kind or ANY."""

    asks: tuple[str, ...]
    from_s: int
    until_s: int | None
    host_id: int = 0

    def is_there(self, second: int) -> bool:
        return self.from_s <= second and (self.until_s is None or second < self.until_s)


@dataclass(frozen=True)
class Case:
    """The kinds of the host's devices, and who runs, was promised a start, is booked and is started by the plan."""

    kinds: tuple[str, ...]
    runs: tuple[Stay, ...] = ()
    promised: tuple[Stay, ...] = ()
    booked: tuple[Stay, ...] = ()
    starts: tuple[Stay, ...] = ()


def held_by(case: Case) -> list[int]:
    """For each device the number of the run that has it, -1: nobody. Runs take theirs in turn, or none."""
    held = [-1] * len(case.kinds)
    for number, run in enumerate(case.runs):
        free = [device for device, holder in enumerate(held) if holder == -1]
        taken = next(
            (some for some in permutations(free, len(run.asks)) if all(map(suits, run.asks, kinds_of(case, some)))), ()
        )
        for device in taken:
            held[device] = number
    return held


def suits(asked: str, kind: str) -> bool:
    return asked in (ANY, kind)


def kinds_of(case: Case, devices: Sequence[int]) -> list[str]:
    return [case.kinds[device] for device in devices]


def all_are_served(case: Case, second: int, stays: Sequence[Stay]) -> bool:
    """All who come get what they ask for, the best way: those that run keep what devices they have."""
    held = held_by(case)
    keep = {number for number, run in enumerate(case.runs) if number in held and run.is_there(second)}
    wanted = [asked for one in stays for asked in one.asks]
    free = [case.kinds[device] for device, holder in enumerate(held) if holder not in keep]
    return most_served(wanted, free) == len(wanted)


def most_served(wanted: Sequence[str], free: Sequence[str]) -> int:
    """The best of all ways: the first goes without, or has any of those that suit it."""
    if not wanted:
        return 0
    first, others = wanted[0], wanted[1:]
    ways = [most_served(others, free)]
    for device, kind in enumerate(free):
        if suits(first, kind):
            ways.append(1 + most_served(others, [*free[:device], *free[device + 1 :]]))
    return max(ways)


def is_worse(case: Case) -> bool:
    """When somebody's time comes, who would have his devices has none with the plan, or who comes by it has none."""
    return any(_is_worse_at(case, second) for second in {0, *(one.from_s for one in (*case.promised, *case.booked))})


def _is_worse_at(case: Case, second: int) -> bool:
    had: list[Stay] = []
    for one in sorted(case.promised, key=lambda one: one.from_s):
        if one.is_there(second) and all_are_served(case, second, [*had, one]):
            had.append(one)
    new = [one for one in (*case.booked, *case.starts) if one.is_there(second)]
    return bool(new) and not all_are_served(case, second, [*had, *new])


def requests(stay: Stay) -> tuple[PciRequest, ...]:
    return tuple(PciRequest(vendor="10de", device=kind) for kind in stay.asks)


def with_devices(vm: VirtualMachine, stay: Stay) -> VirtualMachine:
    return replace(vm, pci_requests=requests(stay))


def the_host(case: Case, vms: Sequence[VirtualMachine]) -> Host:
    devices = tuple(
        PciDevice(f"0000:0{n}:00:0", f"0{n}:00.0", "10de", kind, "0302", 100 + holder if holder >= 0 else -1)
        for n, (kind, holder) in enumerate(zip(case.kinds, held_by(case), strict=True))
    )
    return replace(host(0, vms, cpus=64), pci_devices=devices)


def told(case: Case) -> tuple[ClusterState, Plan]:
    """The case as a state and a plan. Ids: runs from 100 on, promised from 200, booked from 300, starts from 400."""
    run_vms = [with_devices(running(100 + n, 0, cpus=0, gib=0), one) for n, one in enumerate(case.runs)]
    run_leases = [begun(vm.id, one) for vm, one in zip(run_vms, case.runs, strict=True)]
    groups = ((200, case.promised), (300, case.booked), (400, case.starts))
    waits = {first + n: one for first, stays in groups for n, one in enumerate(stays)}
    wait_vms = [with_devices(waiting(vm_id, cpus=0, gib=0, state=VmState.HOLD), stay) for vm_id, stay in waits.items()]
    leases = [*run_leases, *(accepted(vm_id, stay) for vm_id, stay in waits.items())]
    state = cluster([the_host(case, run_vms)], [*run_vms, *wait_vms], leases)
    state = replace(state, reservations={200 + n: (reservation(200 + n, one),) for n, one in enumerate(case.promised)})
    bookings = tuple(Booking(300 + n, (reservation(300 + n, one),)) for n, one in enumerate(case.booked))
    return state, replace(plan(*[deploy(400 + n, 0) for n in range(len(case.starts))]), bookings=bookings)


kinds = st.sampled_from(("a", "b"))
asked = st.lists(st.sampled_from(("a", "b", ANY)), min_size=1, max_size=2).map(tuple)


@st.composite
def later(draw: st.DrawFn) -> Stay:
    from_s = draw(st.integers(1, HORIZON_S - 1))
    return Stay(draw(asked), from_s, draw(st.none() | st.integers(from_s + 1, HORIZON_S)))


now = st.builds(Stay, asked, st.just(0), st.none() | st.integers(1, HORIZON_S))
some_later = st.lists(later(), max_size=2).map(tuple)
cases = st.builds(
    Case,
    st.lists(kinds, min_size=1, max_size=3).map(tuple),
    st.lists(now, max_size=2).map(tuple),
    some_later,
    some_later,
    st.lists(now, max_size=1).map(tuple),
)


@settings(derandomize=True, max_examples=200, deadline=None)
@given(cases)
def test_devices_over_time_are_judged_as_by_trying_every_second(case: Case) -> None:
    state, made = told(case)
    found = codes(state, made)
    firm = bool(case.promised or case.booked)
    assert ("promise-broken" in found) == (firm and is_worse(case)), found
    assert set(found) <= {"promise-broken", "device-double-use"}


def test_what_may_be_made_to_leave_has_its_devices_for_nobody_s_start() -> None:
    state, made = told(Case(("a",), runs=(Stay(("a",), 0, None),), booked=(Stay(("a",), 5, 8),)))
    assert codes(state, made) == ["promise-broken"]
    gives_way = replace(state.leases[100], terms=replace(state.leases[100].terms, type=LeaseType.BE_SUSPENDABLE))
    assert codes(replace(state, leases={**state.leases, 100: gives_way}), made) == []


def test_a_device_of_a_vm_that_is_in_no_lease_never_comes_free() -> None:
    state, made = told(Case(("a",), runs=(Stay(("a",), 0, 3),), booked=(Stay(("a",), 5, 8),)))
    assert codes(state, made) == []
    leases = {lease_id: lease for lease_id, lease in state.leases.items() if lease_id != 100}
    of_vm = {vm_id: lease_id for vm_id, lease_id in state.lease_of_vm.items() if vm_id != 100}
    assert codes(replace(state, leases=leases, lease_of_vm=of_vm), made) == ["promise-broken"]


def test_what_lacks_a_device_already_may_be_promised_the_same_again() -> None:
    """The host lost one of two devices: the plan may move a promise within the same seconds, and not beyond them."""
    promised = (Stay(("a",), 5, 8), Stay(("a",), 4, 7), Stay(("a",), 8, 9))
    state, made = told(Case(("a",), promised=promised))
    again: list[tuple[Stay, list[str]]] = [
        (Stay(("a",), 4, 7), []),
        (Stay(("a",), 6, 8), []),
        (Stay(("a",), 4, 9), ["promise-broken"]),
    ]
    for stay, expected in again:
        moved = replace(made, bookings=(Booking(201, (reservation(201, stay),)),))
        asked = {"start_at_s": NOW_S + stay.from_s, "duration_s": (stay.until_s or 0) - stay.from_s}
        late = replace(state.leases[201], terms=replace(state.leases[201].terms, **asked))
        assert codes(replace(state, leases={**state.leases, 201: late}), moved) == expected, stay


def test_who_runs_without_the_device_that_its_host_lost_takes_none_from_others() -> None:
    runs, starts = (Stay(("a",), 0, None), Stay(("a",), 0, None)), (Stay(("a",), 0, None),)
    state, made = told(Case(("a", "a"), runs=runs, starts=starts))
    lost = the_host(Case(("a",)), [state.snapshot.vms[100], state.snapshot.vms[101]])
    state = replace(state, snapshot=replace(state.snapshot, hosts={0: lost}))
    booked = replace(made, bookings=(Booking(400, (reservation(400, starts[0]),)),))
    assert codes(state, booked) == []


def test_who_could_not_have_both_his_devices_anyway_keeps_nobody_from_the_one_that_is_left() -> None:
    both, one = Stay(("a", "a"), 5, 9), Stay(("a",), 0, None)
    for kinds, expected in ((("a",), []), (("a", "a"), ["promise-broken"])):
        state, made = told(Case(kinds, promised=(both,), starts=(one,)))
        assert codes(state, made) == expected


def test_hundreds_of_alike_devices_are_counted() -> None:
    """Virtual functions: each against each other would take seconds, and a chain of them end in an error."""
    kinds, asks = ("a",) * 600, ("a",) * 300

    def lines_to_match(wishes: int) -> int:
        state, _ = told(Case(kinds, promised=tuple(Stay(asks, 5, 9) for _ in range(wishes))))
        (host,) = state.snapshot.hosts.values()
        wanted = [request for vm in state.snapshot.vms.values() for request in vm.pci_requests]
        assert left_over(wanted, host.pci_devices) == max(0, 300 * wishes - 600)
        return lines_run(lambda: left_over(wanted, host.pci_devices))

    assert lines_to_match(4) < 3 * lines_to_match(1)


def test_what_an_overrun_has_is_nobody_s_until_it_ends() -> None:
    """A promise of two devices behind it cannot be kept yet: who starts beside it takes nothing from that."""
    both, one = Stay(("a", "a"), 5, 9), Stay(("a",), 0, None)
    state, made = told(Case(("a", "a"), runs=(Stay(("a",), 0, 5),), promised=(both,), starts=(one,)))
    assert codes(state, made) == ["promise-broken"]
    overrun = replace(state.leases[100], run_began_at_s=NOW_S - 5)
    assert codes(replace(state, leases={**state.leases, 100: overrun}), made) == []


def test_a_promise_that_lost_one_of_its_hosts_keeps_the_devices_on_the_others() -> None:
    state, made = told(Case(("a",), promised=(Stay(("a",), 5, 9),), starts=(Stay(("a",), 0, None),)))
    assert codes(state, made) == ["promise-broken"]
    gone = replace(host(1), state=HostState.ERROR)
    state = replace(state, snapshot=replace(state.snapshot, hosts={**state.snapshot.hosts, 1: gone}))
    second = replace(state.snapshot.vms[200], id=201)
    pair = replace(state.leases[200], vm_ids=(200, 201), terms=replace(state.leases[200].terms, size=2))
    state = replace(
        with_lease(with_vm(state, second), pair),
        lease_of_vm={**state.lease_of_vm, 201: 200},
        reservations={200: (reservation(200, Stay(("a",), 5, 9), Stay(("a",), 5, 9, 1)),)},
    )
    assert codes(state, made) == ["promise-broken"]


def test_whose_time_has_come_takes_the_last_device_before_who_comes_later() -> None:
    """Another's VM has the device that it was promised; the recount refuses only who is not due yet."""
    state, made = told(Case(("a",), promised=(Stay(("a",), 5, 9),), starts=(Stay(("a",), 0, 9),)))
    assert codes(state, made) == ["promise-broken"]
    was_promised = {400: (reservation(400, Stay(("a",), -2, 7, 1)),)}
    assert codes(replace(state, reservations={**state.reservations, **was_promised}), made) == []


def lines_to_recount(reservations: int) -> int:
    promised = tuple(Stay(("a",), 1 + number, 2 + number) for number in range(reservations))
    state, made = told(Case(("a", "a"), promised=promised, booked=(Stay(("a",), 3, 9),)))
    assert codes(state, made) == []
    return lines_run(lambda: codes(state, made))


def test_a_thousand_promised_devices_are_twice_the_work_of_five_hundred() -> None:
    """Each against all others would be four times the work."""
    assert lines_to_recount(1000) < 2.1 * lines_to_recount(500)
