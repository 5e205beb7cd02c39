"""Places that the rules of a VM group forbid at a time to come: against reading every rule at every second."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from one_preempt.core.decide import decide
from one_preempt.core.model.cluster_state import ClusterState
from one_preempt.core.model.infrastructure import VmGroup, VmGroupRole
from one_preempt.core.model.lease import Lease, LeaseTerms, LeaseType
from one_preempt.core.model.plan import Plan
from one_preempt.core.model.reservation import Booking, Verdict
from one_preempt.core.model.virtual_machine import VirtualMachine, VmState
from one_preempt.core.verify import verify
from tests.core import promised_places
from tests.core.availability.naive import CASES
from tests.core.recounted_cluster import (
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
)
from tests.core.test_beside_promised import crowd, tied
from tests.counted_work import lines_run

BROKEN, ROLES, HOSTS = "group-rule-broken", ("a", "b", "c"), 3


@dataclass(frozen=True)
class Stay:
    """A VM of a role on a host, from a second until another, None: for ever."""

    role: str
    host_id: int
    from_s: int
    until_s: int | None

    def meets(self, other: Stay) -> bool:
        return (self.until_s is None or other.from_s < self.until_s) and (
            other.until_s is None or self.from_s < other.until_s
        )


@dataclass(frozen=True)
class Case:
    """Who runs, was promised a start, is booked and is started by the plan, of one VM group."""

    policies: tuple[str, ...] = ("NONE", "NONE", "NONE")
    affined: tuple[tuple[str, ...], ...] = ()
    anti_affined: tuple[tuple[str, ...], ...] = ()
    runs: tuple[Stay, ...] = ()
    promised: tuple[Stay, ...] = ()
    booked: tuple[Stay, ...] = ()
    starts: tuple[Stay, ...] = ()


def told(case: Case) -> tuple[ClusterState, Plan]:
    """The case as a state and a plan. Ids: runs from 100 on, promised from 200, booked from 300, starts from 400."""
    of_role: dict[str, list[int]] = {name: [] for name in ROLES}
    vms: list[VirtualMachine] = []
    leases: list[Lease] = []
    for first, stays in ((100, case.runs), (200, case.promised), (300, case.booked), (400, case.starts)):
        for vm_id, one in enumerate(stays, first):
            vm = running(vm_id, one.host_id, cpus=0, gib=0) if first == 100 else waiting(vm_id, cpus=0, gib=0)
            vm = vm if first in (100, 400) else replace(vm, state=VmState.HOLD)
            vms.append(replace(vm, vm_group_id=7, vm_group_role=one.role))
            of_role[one.role].append(vm_id)
            leases.append((begun if first == 100 else accepted)(vm_id, one))
    hosts = [host(number, [vm for vm in vms if vm.host_id == number], cpus=64, gib=64) for number in range(HOSTS)]
    state = cluster(hosts, vms, leases)
    roles = tuple(
        VmGroupRole(number, name, policy, tuple(of_role[name]))
        for number, (name, policy) in enumerate(zip(ROLES, case.policies, strict=True))
    )
    groups = {7: VmGroup(7, "g", roles, case.affined, case.anti_affined)}
    state = replace(
        state,
        snapshot=replace(state.snapshot, vm_groups=groups),
        reservations={200 + n: (reservation(200 + n, one),) for n, one in enumerate(case.promised)},
    )
    bookings = tuple(Booking(300 + n, (reservation(300 + n, one),)) for n, one in enumerate(case.booked))
    return state, replace(plan(*[deploy(400 + n, one.host_id) for n, one in enumerate(case.starts)]), bookings=bookings)


def are_apart(case: Case, one: Stay, other: Stay) -> bool:
    policy = dict(zip(ROLES, case.policies, strict=True))
    if one.role == other.role:
        return policy[one.role] == "ANTI_AFFINED"
    return any({one.role, other.role} <= set(rule) for rule in case.anti_affined)


def is_kept_from(case: Case, one: Stay, there: Stay) -> bool:
    return one.host_id == there.host_id and are_apart(case, one, there)


def meet_apart(case: Case, stays: Sequence[Stay]) -> bool:
    """Two of these are on one host at some second whom a rule keeps apart."""
    pairs = permutations(stays, 2)
    return any(a.meets(b) and is_kept_from(case, a, b) for a, b in pairs)


pairs = st.sampled_from((("a", "b"), ("b", "c"), ("a", "c")))
rows = st.integers(0, HOSTS - 1)


@st.composite
def later(draw: st.DrawFn) -> Stay:
    from_s = draw(st.integers(1, 7))
    return Stay(draw(st.sampled_from(ROLES)), draw(rows), from_s, draw(st.none() | st.integers(from_s + 1, 9)))


now = st.builds(Stay, st.sampled_from(ROLES), rows, st.just(0), st.none() | st.integers(1, 9))
keeping_apart = st.builds(
    Case,
    st.tuples(*[st.sampled_from(("NONE", "ANTI_AFFINED"))] * 3),
    st.just(()),
    st.lists(pairs, max_size=2).map(tuple),
    st.lists(now, max_size=2).map(tuple),
    st.lists(later(), max_size=3).map(tuple),
    st.lists(later(), max_size=2).map(tuple),
    st.lists(now, max_size=1).map(tuple),
)


_FIRST, _THEN = Stay("a", 1, 0, 1), Stay("a", 1, 1, None)


@settings(derandomize=True, max_examples=CASES // 2, deadline=None)
@example(Case(("ANTI_AFFINED", "NONE", "NONE"), runs=(_FIRST,), promised=(_THEN,), booked=(_THEN,)))
@given(keeping_apart)
def test_who_is_kept_apart_is_judged_as_by_reading_every_rule_at_every_second(case: Case) -> None:
    standing = (*case.runs, *case.promised)
    if meet_apart(case, standing):
        # Who would have no place anyway is judged by tests of their own.
        return
    state, made = told(case)
    firm = bool(case.promised or case.booked)
    starts_apart = meet_apart(case, (*case.runs, *case.starts))
    broken = starts_apart or (firm and meet_apart(case, (*standing, *case.booked, *case.starts)))
    assert (BROKEN in codes(state, made)) == broken


def test_who_shares_a_host_is_promised_none_on_which_nobody_of_them_ever_is() -> None:
    tied_role = ("AFFINED", "NONE", "NONE")
    for host_id, from_s, expected in ((0, 5, []), (1, 5, [BROKEN]), (1, 20, [])):
        new = Stay("a", host_id, from_s, from_s + 5)
        state, made = told(Case(tied_role, promised=(Stay("a", 0, 2, 9),), booked=(new,)))
        assert codes(state, made) == expected
    # Beside one that runs, though others were promised another host.
    promised, runs = (Stay("a", 0, 2, 9),), (Stay("a", 1, 0, None),)
    state, made = told(Case(tied_role, runs=runs, promised=promised, booked=(Stay("a", 1, 5, 8),)))
    assert codes(state, made) == []


def test_a_gang_that_shares_a_host_is_not_promised_two() -> None:
    for second, expected in ((0, []), (1, [BROKEN, BROKEN])):
        first, other = Stay("a", 0, 5, 9), Stay("a", second, 5, 9)
        state, made = told(Case(("AFFINED", "NONE", "NONE"), booked=(first, other)))
        gang = replace(state.leases[300], vm_ids=(300, 301), terms=replace(state.leases[300].terms, size=2))
        leases = {lease_id: one for lease_id, one in state.leases.items() if lease_id != 301} | {300: gang}
        state = replace(state, leases=leases, lease_of_vm={**state.lease_of_vm, 301: 300})
        made = replace(made, bookings=(Booking(300, (reservation(300, first, other),)),))
        assert codes(state, made) == expected


APART = ("ANTI_AFFINED", "NONE", "NONE")


def test_whoever_meets_already_may_be_promised_the_same_again() -> None:
    """The owner changed the rules since. The plan moves a promise within the hours in which both met before."""
    promised = (Stay("a", 0, 2, 9), Stay("a", 0, 5, 9), Stay("a", 0, 9, 12))
    state, made = told(Case(APART, promised=promised))
    again: list[tuple[Stay, list[str]]] = [(Stay("a", 0, 6, 9), []), (Stay("a", 0, 6, 10), [BROKEN])]
    for stay, expected in again:
        moved = replace(made, bookings=(Booking(201, (reservation(201, stay),)),))
        late = accepted(201, stay)
        assert codes(with_lease(state, late), moved) == expected, stay


def test_who_would_have_no_place_anyway_keeps_nobody_from_his() -> None:
    """Nobody is sent out because of a VM group, though he may be for room: whoever he is in the way of waits."""
    promised, starts = (Stay("a", 0, 5, 9),), (Stay("b", 0, 0, 9),)
    for guest_on, expected in ((1, [BROKEN]), (0, [])):
        rules = (("a", "b"), ("a", "c"))
        runs = (Stay("c", guest_on, 0, None),)
        state, made = told(Case(anti_affined=rules, runs=runs, promised=promised, starts=starts))
        gives_way = replace(state.leases[100], terms=LeaseTerms(type=LeaseType.BE_SUSPENDABLE))
        assert codes(with_lease(state, gives_way), made) == expected


def test_what_is_sent_out_or_owed_its_return_is_planned_in_cpu_and_memory_alone() -> None:
    state, made = told(Case(APART, promised=(Stay("a", 0, 2, 9),), booked=(Stay("a", 0, 5, 8),)))
    assert codes(state, made) == [BROKEN]
    returns = replace(
        state.leases[300],
        terms=LeaseTerms(type=LeaseType.BE_SUSPENDABLE, duration_s=3, max_suspensions=1),
        preemptions=1,
        verdict=Verdict.NONE,
    )
    assert codes(with_lease(state, returns), made) == []


def lines_to_recount(reservations: int) -> int:
    promised = tuple(Stay("a", 0, 1 + 2 * number, 2 + 2 * number) for number in range(reservations))
    state, made = told(Case(APART, promised=promised, booked=(Stay("a", 0, 2 * reservations + 5, None),)))
    assert codes(state, made) == []
    return lines_run(lambda: codes(state, made))


def test_a_thousand_promised_members_are_twice_the_work_of_five_hundred() -> None:
    assert lines_to_recount(1000) < 2.1 * lines_to_recount(500)


# -- what the scheduler decides -------------------------------------------------------------------------------

kinds = st.sampled_from(("queue", "deadline", "start", "best effort"))
others = st.lists(
    st.tuples(kinds, promised_places.roles, st.sampled_from((50, 400, 5000)), st.sampled_from(("lea", "eva", "paul"))),
    max_size=4,
)


def with_others(document: dict[str, Any], more: Any, *, narrow: bool) -> dict[str, Any]:
    """More that wait, of the same VM group; `narrow`: where not all have room at once."""
    terms: dict[str, dict[str, Any]] = {
        "deadline": {"TYPE": "DC-MIGRATABLE", "DEADLINE_IN_S": 9000},
        "start": {"TYPE": "DC-NON-PREEMPTABLE", "START_IN_S": 300},
        "best effort": {"TYPE": "BE-SUSPENDABLE"},
    }
    for vm_id, (kind, role, lasts_s, user) in enumerate(more, 700):
        vm: dict[str, Any] = {"user": user, "cpu": 0.1, "memory": 10} | ({"group": [7, role]} if role else {})
        if kind in terms:
            vm |= {"state": "HOLD", "lease": terms[kind] | {"DURATION_S": lasts_s}}
        document["vms"][vm_id] = vm
    if narrow:
        document["hosts"] = {host_id: {**one, "cpu": 1} for host_id, one in document["hosts"].items()}
        document["vms"] = {vm_id: {**vm, "cpu": 0.5 if vm_id % 2 else 0.25} for vm_id, vm in document["vms"].items()}
    return document


@settings(derandomize=True, max_examples=200, deadline=None)
@given(
    promised_places.groups | tied,
    promised_places.guests,
    promised_places.promises | crowd,
    promised_places.wishes,
    others,
    st.booleans(),
)
def test_what_is_decided_beside_whatever_was_promised_is_not_refused(
    group: Any, there: Any, promised: Any, wish: Any, more: Any, narrow: bool
) -> None:
    document = promised_places.document(group, there, promised, wish)
    state, chosen = promised_places.cloud(with_others(document, more, narrow=narrow))
    assert verify(state, decide(state, chosen)) == ()
