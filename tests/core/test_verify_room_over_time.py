"""What a plan claims of hosts over time, against counting every second; what the world did is not held against it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from one_preempt.core.model.cluster_state import ClusterState
from one_preempt.core.model.lease import LeaseState, LeaseType, PreemptionMethod
from one_preempt.core.model.ledger import OpenPreemption
from one_preempt.core.model.plan import Action, ActionKind, Placement, Plan, Preemption, PreemptionEnd, Victim
from one_preempt.core.model.recount_rules import RecountRules
from one_preempt.core.model.reservation import Booking, Reservation, Verdict
from one_preempt.core.model.time_rules import Overrun, TimeRules
from one_preempt.core.model.virtual_machine import VmState
from one_preempt.core.verify import verify
from tests.core.recounted_cluster import (
    NOW_S,
    WHY,
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
)
from tests.counted_work import lines_run

HORIZON_S = 14


@dataclass(frozen=True)
class Piece:
    """Part of a host that a lease has or wants: CPUs from a second until another one, None: for ever."""

    host_id: int
    cpus: int
    from_s: int
    until_s: int | None

    def takes(self, host_id: int, second: int) -> int:
        here = self.host_id == host_id and self.from_s <= second
        return self.cpus if here and (self.until_s is None or second < self.until_s) else 0


@dataclass(frozen=True)
class Case:
    """Leases of one VM: those that run, those promised room before, those that the plan books or starts."""

    cpus: int
    runs: list[Piece]
    promised: list[Piece]
    booked: list[Piece]
    starts: list[Piece]


def told(case: Case) -> tuple[ClusterState, Plan]:
    """The case as a state and a plan. Ids: runs from 100 on, promised from 200, booked from 300, starts from 400."""
    run_vms = [running(100 + n, one.host_id, cpus=one.cpus, gib=0) for n, one in enumerate(case.runs)]
    run_leases = [begun(vm.id, one) for vm, one in zip(run_vms, case.runs, strict=True)]
    waits = {first + n: one for first, pieces in ((200, case.promised), (300, case.booked), (400, case.starts))
             for n, one in enumerate(pieces)}  # fmt: skip
    wait_vms = [waiting(vm_id, cpus=one.cpus, gib=0, state=VmState.HOLD) for vm_id, one in waits.items()]
    wait_leases = [accepted(vm_id, one) for vm_id, one in waits.items()]
    hosts = [host(number, [vm for vm in run_vms if vm.host_id == number], cpus=case.cpus) for number in range(2)]
    state = cluster(hosts, [*run_vms, *wait_vms], [*run_leases, *wait_leases])
    state = replace(state, reservations={200 + n: (reservation(200 + n, one),) for n, one in enumerate(case.promised)})
    bookings = [Booking(300 + n, (reservation(300 + n, one),)) for n, one in enumerate(case.booked)]
    deploys = [deploy(400 + n, one.host_id) for n, one in enumerate(case.starts)]
    return state, replace(plan(*deploys), bookings=tuple(bookings))


def is_worse(case: Case) -> bool:
    """Second by second, on every host that gets something."""

    def total(pieces: Iterable[Piece], host_id: int, second: int) -> int:
        return sum(one.takes(host_id, second) for one in pieces)

    new = [*case.booked, *case.starts]
    for host_id in {one.host_id for one in new}:
        for second in range(HORIZON_S + 2):
            before = total([*case.runs, *case.promised], host_id, second)
            if before + total(new, host_id, second) > max(case.cpus, before):
                return True
    return False


hosts = st.integers(0, 1)
cpus = st.integers(1, 3)
ends = st.none() | st.integers(1, HORIZON_S)


@st.composite
def later(draw: st.DrawFn) -> Piece:
    from_s = draw(st.integers(1, HORIZON_S - 1))
    until_s = draw(st.none() | st.integers(from_s + 1, HORIZON_S))
    return Piece(draw(hosts), draw(cpus), from_s, until_s)


now = st.builds(lambda host_id, size, until_s: Piece(host_id, size, 0, until_s), hosts, cpus, ends)
cases = st.builds(
    Case, st.integers(1, 6), st.lists(now, max_size=3), st.lists(later(), max_size=3), st.lists(later(), max_size=3),
    st.lists(now, max_size=2),
)  # fmt: skip


@settings(derandomize=True, max_examples=200)
@given(cases)
def test_claims_over_time_are_judged_as_by_counting_every_second(case: Case) -> None:
    """Running leases are counted as they are also where the world has put more on a host than it has."""
    state, made = told(case)
    found = codes(state, made)
    firm = bool(case.promised or case.booked)
    assert ("promise-broken" in found) == (firm and is_worse(case)), found
    assert set(found) <= {"promise-broken", "over-capacity"}


def test_what_may_be_made_to_leave_is_in_nobody_s_way_who_may_preempt() -> None:
    case = Case(2, runs=[Piece(0, 2, 0, None)], promised=[], booked=[Piece(0, 2, 5, 9)], starts=[])
    state, made = told(case)
    state = replace(state, leases={**state.leases, 300: replace(state.leases[300], may_preempt=True)})
    assert codes(state, made) == ["promise-broken"]
    for change, expected in (
        ({"type": LeaseType.BE_SUSPENDABLE}, []),
        ({"type": LeaseType.BE_SUSPENDABLE, "duration_s": 50, "max_suspensions": 0}, ["promise-broken"]),
        ({"duration_s": 5}, []),
        ({"duration_s": 6}, ["promise-broken"]),
    ):
        lease = state.leases[100]
        changed = replace(lease, terms=replace(lease.terms, **change))
        assert codes(replace(state, leases={**state.leases, 100: changed}), made) == expected


def making_room(duration_s: int | None) -> tuple[ClusterState, Preemption]:
    """Lease 100 would leave host 0 for lease 400, which takes all of it for so long."""
    state, _ = told(Case(2, runs=[Piece(0, 2, 0, None)], promised=[], booked=[], starts=[Piece(0, 2, 0, None)]))
    victim, wants = state.leases[100], state.leases[400]
    wants = replace(wants, may_preempt=True, verdict=Verdict.NONE)
    wants = replace(wants, terms=replace(wants.terms, start_at_s=None, duration_s=duration_s))
    leaves = replace(victim, terms=replace(victim.terms, type=LeaseType.BE_SUSPENDABLE))
    victims, places = (Victim(100, 100, 0, PreemptionMethod.STOP),), (Placement(400, 0),)
    preemption = Preemption("400@1", 400, victims, places, "moml", 1, optimal=True, bound_ms=1, decided_at_s=NOW_S)
    return replace(state, leases={**state.leases, 100: leaves, 400: wants}), preemption


def test_room_is_made_for_nobody_who_stays_longer_than_until_it_was_promised_to_another() -> None:
    soon = Piece(0, 2, 5, 9)
    for duration_s, expected in ((5, []), (6, ["promise-broken"]), (None, ["promise-broken"])):
        state, preemption = making_room(duration_s)
        vms = {**state.snapshot.vms, 200: waiting(200, cpus=2, gib=0, state=VmState.HOLD)}
        state = replace(
            state,
            snapshot=replace(state.snapshot, vms=vms),
            leases={**state.leases, 200: accepted(200, soon)},
            lease_of_vm={**state.lease_of_vm, 200: 200},
            reservations={200: (reservation(200, soon),)},
        )
        assert codes(state, plan(preemptions=(preemption,))) == expected, duration_s


def test_room_that_is_being_made_is_promised_to_nobody_else_before_that_is_given_up() -> None:
    state, preemption = making_room(None)
    vms = {**state.snapshot.vms, 300: waiting(300, cpus=2, gib=0, state=VmState.HOLD)}
    later = Piece(0, 2, 5, 9)
    state = replace(
        state,
        snapshot=replace(state.snapshot, vms=vms),
        leases={**state.leases, 300: accepted(300, later)},
        lease_of_vm={**state.lease_of_vm, 300: 300},
        preemptions=(OpenPreemption(preemption, NOW_S),),
    )
    books = replace(plan(), bookings=(Booking(300, (reservation(300, later),)),))
    assert codes(state, books) == ["promise-broken"]
    given_up = PreemptionEnd(preemption.id, fulfilled=False, reason=WHY)
    assert codes(state, replace(books, ended_preemptions=(given_up,))) == []


def test_room_that_is_being_made_on_two_hosts_is_kept_on_each() -> None:
    state, preemption = making_room(None)
    later = Piece(0, 2, 5, 9)
    more = {300: waiting(300, cpus=2, gib=0, state=VmState.HOLD), 401: waiting(401, cpus=0, gib=0)}
    pair = replace(state.leases[400], vm_ids=(400, 401))
    on_two = replace(preemption, placements=(*preemption.placements, Placement(401, 1)))
    state = replace(
        state,
        snapshot=replace(
            state.snapshot, vms={**state.snapshot.vms, **more}, hosts={**state.snapshot.hosts, 1: host(1)}
        ),
        leases={**state.leases, 300: accepted(300, later), 400: pair},
        lease_of_vm={**state.lease_of_vm, 300: 300, 401: 400},
        preemptions=(OpenPreemption(on_two, NOW_S),),
    )
    books = replace(plan(), bookings=(Booking(300, (reservation(300, later),)),))
    assert codes(state, books) == ["promise-broken"]


def test_what_was_promised_to_the_rest_of_a_gang_that_has_begun_is_nobody_else_s() -> None:
    piece = Piece(0, 2, -1, 9)
    pair = replace(accepted(1, piece), vm_ids=(1, 2), state=LeaseState.STARTING)
    pair = replace(pair, terms=replace(pair.terms, size=2))
    there = running(1, 0, cpus=2)
    state = cluster([host(0, [there]), host(1)], [there, waiting(2, cpus=2), waiting(9)], [pair])
    state = replace(state, reservations={1: (Reservation(1, NOW_S - 1, NOW_S + 9, (0, 1), firm=True),)})
    assert codes(state, plan(deploy(9, 1))) == ["promise-broken"]
    assert codes(state, plan(deploy(2, 1, lease_id=1))) == []
    paused = replace(state, leases={**state.leases, 1: replace(pair, state=LeaseState.PAUSED_BY_OWNER)})
    assert codes(paused, plan(deploy(9, 1))) == []


def test_what_leaves_in_the_plan_makes_room_for_what_it_books() -> None:
    state, made = told(Case(2, runs=[Piece(0, 2, 0, 5)], promised=[], booked=[Piece(0, 2, 1, 9)], starts=[]))
    assert codes(state, made) == ["promise-broken"]
    overrun = replace(state.leases[100], run_began_at_s=NOW_S - 5)
    stop = Action("overrun/100", ActionKind.STOP, 100, 100, WHY, host_id=0)
    assert codes(replace(state, leases={**state.leases, 100: overrun}), replace(made, actions=(stop,))) == []


def test_what_outstays_its_slot_leaves_before_the_next_but_after_the_last_only_when_it_is_done() -> None:
    runs = Piece(0, 2, 0, HORIZON_S)
    state, made = told(Case(2, runs=[runs], promised=[], booked=[Piece(0, 2, 5, 9)], starts=[]))
    promised = replace(accepted(100, runs, deadline_s=HORIZON_S), state=LeaseState.RUNNING, run_began_at_s=NOW_S)
    over = Piece(0, 2, -5, 0)
    for pieces, expected in (
        ((over, Piece(1, 2, 5, HORIZON_S)), []),
        ((over, Piece(1, 2, 6, HORIZON_S)), ["promise-broken"]),
        ((over, Piece(1, 2, 0, HORIZON_S)), ["promise-broken"]),
        ((Piece(0, 2, -5, 5), Piece(1, 2, 9, HORIZON_S)), []),
        ((over, Piece(1, 2, 0, 5), Piece(1, 2, 9, 10)), []),
        ((over, Piece(1, 2, 0, 6), Piece(1, 2, 9, 10)), ["promise-broken"]),
        ((Piece(1, 2, 5, HORIZON_S),), ["promise-broken"]),
    ):
        slots = {100: tuple(reservation(100, piece) for piece in pieces)}
        split = replace(state, leases={**state.leases, 100: promised}, reservations=slots)
        assert codes(split, made) == expected, pieces


def test_a_reservation_that_moves_takes_its_claim_with_it() -> None:
    case = Case(2, runs=[], promised=[Piece(0, 2, 5, 9), Piece(1, 2, 9, 12)], booked=[], starts=[])
    state, made = told(case)
    for piece, expected in (
        (Piece(1, 2, 5, 9), []),
        (Piece(1, 2, 5, 10), ["promise-broken"]),
        (Piece(0, 2, 5, 12), []),
    ):
        moved = replace(made, bookings=(Booking(200, (reservation(200, piece),)),))
        assert codes(state, moved) == expected


def test_an_overbooked_host_may_keep_what_it_has_and_gets_no_more() -> None:
    """The world took a CPU away: the plan may move a promise within the same seconds, and not beyond them."""
    case = Case(1, runs=[], promised=[Piece(0, 1, 5, 9), Piece(0, 1, 6, 8)], booked=[], starts=[])
    state, made = told(case)
    for piece, expected in ((Piece(0, 1, 6, 8), []), (Piece(0, 1, 6, 9), ["promise-broken"])):
        late = replace(state.leases[201], terms=replace(state.leases[201].terms, start_at_s=NOW_S + piece.from_s))
        changed = replace(state, leases={**state.leases, 201: late})
        assert codes(changed, replace(made, bookings=(Booking(201, (reservation(201, piece),)),))) == expected


def lines_to_recount(reservations: int) -> int:
    promised = [Piece(number % 2, 1, 1 + number // 2, 2 + number // 2) for number in range(reservations)]
    booked = [Piece(0, 1, 3, reservations // 5)]
    state, made = told(Case(2, runs=[], promised=promised, booked=booked, starts=[]))
    assert codes(state, made) == []
    return lines_run(lambda: codes(state, made))


def test_a_thousand_reservations_are_twice_the_work_of_five_hundred_where_few_change() -> None:
    """Each against all others would be four times the work."""
    assert lines_to_recount(1000) < 2.1 * lines_to_recount(500)


def test_nothing_starts_in_what_an_overrun_leaves_of_a_promise() -> None:
    """Of four CPUs an overrun has two, and two are promised: whoever starts beside them counts on the overrun's end."""
    beside = Piece(0, 1, 0, None)
    state, made = told(Case(4, runs=[Piece(0, 2, 0, 5)], promised=[Piece(0, 2, 5, 9)], booked=[], starts=[beside]))
    overrun = replace(state.leases[100], run_began_at_s=NOW_S - 5)
    plain = replace(state.leases[400], terms=replace(state.leases[400].terms, start_at_s=None), verdict=Verdict.NONE)
    keep, preempt, terminate = (TimeRules(overrun=rule) for rule in (Overrun.KEEP, Overrun.PREEMPT, Overrun.TERMINATE))
    for changes, rules, expected in (
        ({}, keep, ["promise-broken"]),
        ({}, preempt, []),
        ({}, terminate, []),
        # It should have been terminated by then.
        ({"run_began_at_s": NOW_S - 400}, terminate, ["promise-broken"]),
        ({"run_began_at_s": NOW_S - 4}, keep, []),
        ({"terms": replace(overrun.terms, type=LeaseType.BE_SUSPENDABLE)}, keep, []),
    ):
        leases = {**state.leases, 100: replace(overrun, **changes), 400: plain}
        found = verify(replace(state, leases=leases), made, rules=RecountRules(rules))
        assert [one.code for one in found] == expected, changes


def test_what_is_booked_anew_may_hope_for_the_end_of_an_overrun() -> None:
    """It is what was promised before, and its owner is warned; only what starts does not count on it."""
    state, made = told(
        Case(4, runs=[Piece(0, 2, 0, 5)], promised=[], booked=[Piece(0, 4, 5, 9)], starts=[Piece(0, 2, 0, 5)])
    )
    overrun = replace(state.leases[100], run_began_at_s=NOW_S - 5)
    assert codes(replace(state, leases={**state.leases, 100: overrun}), made) == []


def test_what_was_promised_is_claimed_as_before_where_room_is_made_for_it_no_more() -> None:
    """It has a second more than it runs, to boot in. Somebody outlives his DURATION there, and another one starts."""
    state, made = told(
        Case(2, runs=[Piece(0, 1, 0, 5)], promised=[Piece(0, 2, 5, 9)], booked=[], starts=[Piece(0, 1, 0, 2)])
    )
    overrun = replace(state.leases[100], run_began_at_s=NOW_S - 5)
    runs_for_3_s = replace(state.leases[200], terms=replace(state.leases[200].terms, duration_s=3))
    preemption = Preemption("200@1", 200, (), (Placement(200, 0),), "moml", 1, optimal=True, bound_ms=1, decided_at_s=0)
    state = replace(
        state,
        leases={**state.leases, 100: overrun, 200: runs_for_3_s},
        preemptions=(OpenPreemption(preemption, NOW_S - 9),),
    )
    given_up = PreemptionEnd(preemption.id, fulfilled=False, reason=WHY)
    assert codes(state, replace(made, ended_preemptions=(given_up,))) == []


@settings(derandomize=True, max_examples=50)
@given(cases, st.booleans(), st.sets(st.sampled_from([*range(200, 203), *range(300, 303)])))
def test_beside_best_effort_only_who_may_preempt_is_promised_room(case: Case, gives_way: bool, may: set[int]) -> None:
    """Nobody leaves for the others: in their time there is room for all that runs on, second by second."""
    state, made = told(case)
    kind = LeaseType.BE_SUSPENDABLE if gives_way else LeaseType.DC_NON_PREEMPTABLE
    leases = {
        lease.id: replace(
            lease,
            may_preempt=lease.id in may,
            terms=lease.terms if 200 <= lease.id < 400 else replace(lease.terms, type=kind, start_at_s=None),
        )
        for lease in state.leases.values()
    }
    found = codes(replace(state, leases=leases), made)
    assert ("nobody-leaves" in found) == (gives_way and counts_on_best_effort(case, may)), found


def counts_on_best_effort(case: Case, may: set[int]) -> bool:
    """On some host in some second in the time of somebody who makes nobody leave more is claimed than there is."""
    waits = {**dict(enumerate(case.promised, 200)), **dict(enumerate(case.booked, 300))}
    for host_id in {one.host_id for one in (*case.booked, *case.starts)}:
        begin_s = [one.from_s for number, one in waits.items() if number in may and one.host_id == host_id]
        before_s = [one.from_s for n, one in waits.items() if n in may and n < 300 and one.host_id == host_id]
        if all(one.host_id != host_id for one in (*case.runs, *case.starts)):
            continue
        for second in range(1, HORIZON_S + 2):
            spared = [one for n, one in waits.items() if n not in may and one.takes(host_id, second)]
            kept, new = [*case.promised], [*case.booked]
            before = kept + (case.runs if second < min(before_s, default=second + 1) else [])
            after = kept + new + ([*case.runs, *case.starts] if second < min(begin_s, default=second + 1) else [])
            total = sum(one.takes(host_id, second) for one in after)
            if spared and total > max(case.cpus, sum(one.takes(host_id, second) for one in before)):
                return True
    return False
