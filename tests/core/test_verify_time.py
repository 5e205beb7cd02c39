"""The rules about time: what is said, booked, started and ended when; each broken once, and nothing else is."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from one_preempt.core import verify as verify_package
from one_preempt.core.model.cluster_state import ClusterState
from one_preempt.core.model.host import HostState
from one_preempt.core.model.lease import Lease, LeaseState, LeaseTerms, LeaseType, PreemptionMethod
from one_preempt.core.model.ledger import OpenPreemption
from one_preempt.core.model.plan import Action, ActionKind, Placement, Plan, Preemption, Victim
from one_preempt.core.model.reservation import Booking, Reservation, Verdict, VerdictGiven
from one_preempt.core.model.virtual_machine import VmState
from tests.core.recounted_cluster import NOW_S, WHY, cluster, codes, deploy, host, plan, running, waiting, with_lease

RESERVATION: dict[str, Any] = {"start_at_s": NOW_S + 100, "duration_s": 50}
DEADLINE: dict[str, Any] = {"deadline_at_s": NOW_S + 500, "duration_s": 200}


def timed(lease_id: int, *vm_ids: int, kind: LeaseType = LeaseType.DC_NON_PREEMPTABLE, **more: Any) -> Lease:
    """A lease that waits, its terms and its other fields mixed."""
    members = vm_ids or (lease_id,)
    asked = {name: more.pop(name) for name in list(more) if name in LeaseTerms.__struct_fields__}
    plain = Lease(
        lease_id, LeaseTerms(type=kind, size=len(members), **asked), 5, 100, members, LeaseState.WAITING, NOW_S
    )
    return replace(plain, explicit=True, **more)


def slot(lease_id: int, from_s: int, until_s: int | None, *host_ids: int, firm: bool = True) -> Reservation:
    """A reservation; instants counted from now."""
    return Reservation(lease_id, NOW_S + from_s, None if until_s is None else NOW_S + until_s, host_ids, firm)


def booking(*slots: Reservation) -> Booking:
    return Booking(slots[0].lease_id, slots)


def said(lease_id: int, verdict: Verdict, *bookings: Booking) -> Plan:
    return replace(plan(), bookings=bookings, verdicts=(VerdictGiven(lease_id, verdict, "a sentence"),))


def promised(state: ClusterState, *slots: Reservation) -> ClusterState:
    """The state in which these were written down before."""
    return replace(state, reservations={slots[0].lease_id: slots})


def waits(*leases: Lease, cpus: int = 2, hosts: int = 2) -> ClusterState:
    """Leases of VMs that wait, and empty hosts."""
    vms = [waiting(vm_id, state=VmState.HOLD) for one in leases for vm_id in one.vm_ids]
    return cluster([host(number, cpus=cpus) for number in range(hosts)], vms, leases)


def test_an_accepted_reservation_is_booked_at_its_start_on_hosts_that_take_vms() -> None:
    state = waits(timed(1, 1, 2, **RESERVATION))
    sound = said(1, Verdict.ACCEPTED, booking(slot(1, 100, 150, 0, 1)))
    assert codes(state, sound) == []
    assert codes(state, replace(sound, bookings=())) == ["nothing-booked"]
    promise = booking(slot(1, 100, 150, 0, 1, firm=False))
    assert codes(state, replace(sound, bookings=(promise,))) == ["nothing-booked"]
    for wrong, expected in (
        (slot(1, 99, 150, 0, 1), ["not-at-start"]),
        (slot(1, 101, 151, 0, 1), ["not-at-start"]),
        (slot(1, 100, 149, 0, 1), ["too-short"]),
        (slot(1, 100, 100, 0, 1), ["malformed-booking", "too-short"]),
        (slot(1, 100, 150, 0), ["booked-hosts"]),
        (slot(1, 100, 150), ["booked-hosts"]),
        (slot(1, 100, 150, 0, 7), ["booked-hosts"]),
    ):
        assert codes(state, replace(sound, bookings=(booking(wrong),))) == expected
    assert codes(state, replace(sound, bookings=(Booking(1, (slot(2, 100, 150, 0, 1),)),))) == ["malformed-booking"]
    assert codes(state, replace(sound, bookings=sound.bookings * 2)) == ["booked-twice"]
    hosts = {**state.snapshot.hosts, 1: replace(host(1), state=HostState.DISABLED)}
    assert "booked-hosts" in codes(replace(state, snapshot=replace(state.snapshot, hosts=hosts)), sound)


def test_where_one_host_of_a_promise_is_lost_nobody_is_promised_the_others() -> None:
    """The host may be back in time: then both would have been promised the same."""
    pair = timed(1, 1, 2, **RESERVATION, verdict=Verdict.ACCEPTED)
    wish = timed(3, start_at_s=NOW_S + 120, duration_s=50)
    state = promised(waits(pair, wish, cpus=1), slot(1, 100, 150, 0, 1))
    accepted = said(3, Verdict.ACCEPTED, booking(slot(3, 120, 170, 1)))
    assert codes(state, accepted) == ["promise-broken"]
    for lost in ({0: replace(host(0, cpus=1), state=HostState.ERROR)}, {}):
        kept = {number: one for number, one in state.snapshot.hosts.items() if number != 0}
        left = replace(state, snapshot=replace(state.snapshot, hosts={**kept, **lost}))
        assert codes(left, accepted) == ["promise-broken"]
    later = timed(3, start_at_s=NOW_S + 150, duration_s=50)
    behind = promised(waits(pair, later, cpus=1), slot(1, 100, 150, 0, 1))
    assert codes(behind, said(3, Verdict.ACCEPTED, booking(slot(3, 150, 200, 1)))) == []


def test_what_is_late_already_starts_when_it_can_and_not_earlier_than_asked() -> None:
    late = timed(1, start_at_s=NOW_S - 10, duration_s=50, verdict=Verdict.ACCEPTED)
    assert codes(waits(late), replace(plan(), bookings=(booking(slot(1, 1, 51, 0)),))) == []
    assert codes(waits(late), replace(plan(), bookings=(booking(slot(1, -11, 51, 0)),))) == ["not-at-start"]
    for had_s, given_s, expected in ((51, 50, []), (51, 49, ["too-short"]), (30, 30, []), (30, 60, [])):
        before = promised(waits(late), slot(1, -10, had_s, 0))
        assert codes(before, replace(plan(), bookings=(booking(slot(1, 1, 1 + given_s, 0)),))) == expected


def test_only_what_was_promised_something_is_booked_firmly() -> None:
    lease = timed(1, kind=LeaseType.BE_SUSPENDABLE, duration_s=50, max_suspensions=1)
    made = replace(plan(), bookings=(booking(slot(1, 10, 60, 0)),))
    assert codes(waits(lease), made) == ["not-promised"]
    returns = replace(lease, preemptions=1, preempted_by=9)
    assert codes(waits(returns), made) == []
    assert codes(waits(replace(returns, verdict=Verdict.REFUSED, state=LeaseState.PREEMPTED)), made) == []
    for terms in ({"type": LeaseType.DC_MIGRATABLE}, {"max_suspensions": 2}, {"duration_s": None}):
        assert codes(waits(replace(returns, terms=replace(lease.terms, **terms))), made) == ["not-promised"]
    never_left = replace(lease, terms=replace(lease.terms, max_suspensions=0))
    assert codes(waits(never_left), made) == ["not-promised"]
    for host_ids in ((), (0,)):
        promise = replace(plan(), bookings=(booking(slot(1, 10, 60, *host_ids, firm=False)),))
        assert codes(waits(lease), promise) == []
    assert codes(waits(lease), replace(plan(), bookings=(booking(slot(8, 10, 60, 0)),))) == ["unknown-lease"]


def test_who_was_suspended_often_enough_keeps_room_for_all_that_is_left_of_it() -> None:
    asks: dict[str, Any] = {"duration_s": 50, "max_suspensions": 1, "preemptions": 1}
    returns = replace(timed(1, kind=LeaseType.BE_SUSPENDABLE, **asks), preempted_by=9)
    for until_s, expected in ((60, []), (59, ["too-short"])):
        made = replace(plan(), bookings=(booking(slot(1, 10, until_s, 0)),))
        assert codes(waits(returns), made) == expected
        expected_before = promised(waits(returns), slot(1, 10, 60, 0, firm=False))
        assert codes(expected_before, made) == expected
    before = promised(waits(returns), slot(1, 10, 60, 0))
    assert codes(before, replace(plan(), bookings=(Booking(1),))) == ["promise-dropped"]
    assert codes(before, replace(plan(), bookings=(booking(slot(1, 10, 40, 0)),))) == ["too-short"]
    served = with_lease(before, replace(returns, served_s=50))
    assert codes(served, replace(plan(), bookings=(Booking(1),))) == []


def test_a_refused_lease_has_nothing_booked_and_is_not_started() -> None:
    state = waits(timed(1, **RESERVATION))
    assert codes(state, said(1, Verdict.REFUSED)) == []
    assert codes(state, said(1, Verdict.REFUSED, booking(slot(1, 100, 150, 0)))) == ["refused-lease"]
    assert codes(state, replace(said(1, Verdict.REFUSED), actions=(deploy(1, 0),))) == ["refused-lease"]
    refused = timed(1, **RESERVATION, verdict=Verdict.REFUSED, state=LeaseState.REFUSED)
    assert codes(waits(refused), plan(deploy(1, 0))) == ["refused-lease"]


def test_nothing_starts_before_its_start() -> None:
    for terms in (RESERVATION, {**DEADLINE, "start_at_s": NOW_S + 1}):
        state = waits(timed(1, **terms, verdict=Verdict.ACCEPTED))
        assert codes(state, plan(deploy(1, 0))) == ["too-early"]
    due = {**RESERVATION, "start_at_s": NOW_S}
    assert codes(waits(timed(1, **due, verdict=Verdict.ACCEPTED)), plan(deploy(1, 0))) == []
    assert codes(waits(timed(1, **RESERVATION, verdict=Verdict.CONVERTED)), plan(deploy(1, 0))) == []


def test_the_slots_of_a_deadline_lease_are_long_enough_and_end_in_time() -> None:
    state = waits(timed(1, **DEADLINE))
    for slots, expected in (
        ([slot(1, 0, 200, 0)], []),
        ([slot(1, 10, 60, 0), slot(1, 350, 500, 1)], []),
        ([slot(1, 10, 60, 0), slot(1, 352, 501, 1)], ["past-deadline", "too-short"]),
        ([slot(1, 10, 60, 0), slot(1, 351, 500, 1)], ["too-short"]),
        ([slot(1, 310, 501, 0)], ["past-deadline", "too-short"]),
        ([slot(1, 10, None, 0)], ["past-deadline"]),
        ([slot(1, 10, 210, 0), slot(1, 209, 220, 0)], ["malformed-booking"]),
        ([slot(1, 210, 410, 0), slot(1, 10, 100, 0)], ["malformed-booking"]),
    ):
        assert codes(state, said(1, Verdict.ACCEPTED, booking(*slots))) == expected


def test_no_slot_of_a_deadline_lease_begins_before_its_start() -> None:
    state = waits(timed(1, **DEADLINE, start_at_s=NOW_S + 100))
    for from_s, expected in ((100, []), (99, ["before-start"]), (-10, ["before-start"])):
        assert codes(state, said(1, Verdict.ACCEPTED, booking(slot(1, from_s, 400, 0)))) == expected
    due = waits(timed(1, **DEADLINE, start_at_s=NOW_S))
    assert codes(due, said(1, Verdict.ACCEPTED, booking(slot(1, 0, 400, 0)))) == []


def test_what_was_accepted_before_may_be_late_and_still_starts_at_once() -> None:
    late = timed(1, deadline_at_s=NOW_S + 100, duration_s=200, verdict=Verdict.ACCEPTED)
    state = promised(waits(late), slot(1, -50, 100, 0))
    started = replace(plan(deploy(1, 0)), bookings=(booking(slot(1, 0, 200, 0)),))
    assert codes(state, started) == []
    assert codes(state, replace(started, bookings=(booking(slot(1, 0, 100, 0)),))) == []
    assert codes(state, replace(plan(), bookings=(booking(slot(1, 1, 200, 0)),))) == ["past-deadline"]
    assert codes(state, replace(plan(), bookings=(booking(slot(1, 1, 100, 0)),))) == ["too-short"]


def test_what_was_booked_for_a_wish_that_was_dropped_is_in_nobodys_way() -> None:
    wished = timed(1, **DEADLINE, verdict=Verdict.ACCEPTED)
    dropped = replace(wished, terms=replace(wished.terms, deadline_at_s=None), verdict=Verdict.NONE)
    for lease, expected in ((wished, ["promise-broken"]), (dropped, [])):
        state = promised(waits(lease, timed(2), cpus=1, hosts=1), slot(1, 100, 300, 0))
        assert codes(state, plan(deploy(2, 0))) == expected


def test_nobody_knows_which_hosts_are_for_whom_once_a_vm_of_a_gang_is_gone() -> None:
    gang = timed(1, 1, 2, start_at_s=NOW_S - 10, duration_s=300, verdict=Verdict.ACCEPTED)
    for host_ids, expected in (((0, 1), ["promise-broken"]), ((0, 1, 2), [])):
        state = promised(waits(gang, timed(3), cpus=1, hosts=3), slot(1, -10, 290, *host_ids))
        assert codes(state, plan(deploy(3, 0))) == expected


def test_a_promise_is_not_taken_back() -> None:
    state = promised(waits(timed(1, **RESERVATION, verdict=Verdict.ACCEPTED)), slot(1, 100, 150, 0))
    assert codes(state, replace(plan(), bookings=(Booking(1),))) == ["promise-dropped"]
    assert codes(state, said(1, Verdict.REFUSED)) == ["verdict-withdrawn"]
    assert codes(state, said(1, Verdict.NONE)) == ["verdict-withdrawn"]
    gave_way = with_lease(state, replace(state.leases[1], preempted_by=9))
    assert codes(gave_way, replace(plan(), bookings=(Booking(1),))) == []


def test_verdicts_answer_those_who_asked_once() -> None:
    state = waits(timed(1, **RESERVATION), timed(2, duration_s=50))
    sound = said(1, Verdict.CONVERTED)
    assert codes(state, sound) == []
    assert codes(state, replace(sound, verdicts=sound.verdicts * 2)) == ["contrary-verdicts"]
    assert codes(state, said(2, Verdict.CONVERTED)) == ["unasked-verdict"]
    assert codes(state, said(8, Verdict.REFUSED)) == ["unasked-verdict"]


def test_what_is_accepted_at_once_starts_or_has_room_made_for_it() -> None:
    state = waits(timed(1, at_once=True))
    assert codes(state, said(1, Verdict.ACCEPTED)) == ["nothing-done"]
    assert codes(state, replace(said(1, Verdict.ACCEPTED), actions=(deploy(1, 0),))) == []


def on_host(lease: Lease, *, began_s: int) -> ClusterState:
    """The lease runs on host 0 since an instant."""
    vms = [running(vm_id, 0) for vm_id in lease.vm_ids]
    runs = replace(lease, state=LeaseState.RUNNING, run_began_at_s=NOW_S + began_s)
    return cluster([host(0, vms)], vms, [runs])


def leave(kind: ActionKind) -> Plan:
    return plan(Action(f"{kind}/1", kind, 1, 1, WHY, host_id=0))


def test_without_a_preemption_only_what_has_had_its_time_leaves() -> None:
    for kind in (ActionKind.STOP, ActionKind.TERMINATE):
        for served_s, began_s, expected in (
            (0, -49, ["no-preemption"]),
            (0, -50, []),
            (30, -20, []),
            (30, -19, ["no-preemption"]),
        ):
            state = on_host(timed(1, duration_s=50, served_s=served_s), began_s=began_s)
            assert codes(state, leave(kind)) == expected
    assert codes(on_host(timed(1), began_s=-(10**6)), leave(ActionKind.STOP)) == ["no-preemption"]
    assert codes(on_host(timed(1, duration_s=50), began_s=-60), leave(ActionKind.UNDEPLOY)) == ["no-preemption"]


def test_a_split_lease_leaves_its_slot_only_where_a_later_one_was_promised() -> None:
    lease = timed(1, **DEADLINE, verdict=Verdict.ACCEPTED)
    state = on_host(lease, began_s=-50)
    both = promised(state, slot(1, -50, 0, 0), slot(1, 100, 300, 0))
    assert codes(both, leave(ActionKind.STOP)) == []
    assert codes(both, leave(ActionKind.TERMINATE)) == ["no-preemption"]
    assert codes(promised(state, slot(1, -50, 0, 0)), leave(ActionKind.STOP)) == ["no-preemption"]
    assert codes(promised(state, slot(1, 100, 300, 0)), leave(ActionKind.STOP)) == ["no-preemption"]
    refused = with_lease(both, replace(both.leases[1], verdict=Verdict.CONVERTED))
    assert codes(refused, leave(ActionKind.STOP)) == ["no-preemption"]


def test_a_gang_that_runs_as_a_whole_is_not_stopped() -> None:
    assert codes(on_host(timed(1, 1, 2), began_s=-50), leave(ActionKind.STOP)) == ["no-preemption"]


def test_nothing_is_made_to_leave_while_paused() -> None:
    state = replace(on_host(timed(1, duration_s=50), began_s=-60), paused=True)
    assert codes(state, leave(ActionKind.STOP)) == ["paused"]


def preempting(victim: Lease, *, began_s: int) -> tuple[ClusterState, Plan]:
    """A plan in which lease 1 is stopped for lease 9."""
    state = on_host(victim, began_s=began_s)
    vms = {**state.snapshot.vms, 9: waiting(9)}
    preemptor = timed(9, may_preempt=True)
    state = replace(
        with_lease(state, preemptor),
        snapshot=replace(state.snapshot, vms=vms),
        lease_of_vm={**state.lease_of_vm, 9: 9},
    )
    victims = (Victim(1, 1, 0, PreemptionMethod.STOP),)
    decided = Preemption("9@1", 9, victims, (Placement(9, 0),), "moml", 1, True, 1, NOW_S)
    stop = Action("stop/1", ActionKind.STOP, 1, 1, WHY, host_id=0, preemption_id="9@1")
    return state, plan(stop, preemptions=(decided,))


def test_a_victim_that_nobody_may_preempt_has_outlived_its_duration() -> None:
    assert codes(*preempting(timed(1, duration_s=50), began_s=-50)) == []
    assert codes(*preempting(timed(1, duration_s=50), began_s=-49)) == ["victim-not-preemptable"]
    assert codes(*preempting(timed(1), began_s=-50)) == ["victim-not-preemptable"]


def test_the_rest_of_a_gang_that_overran_may_follow_when_its_clock_has_stopped() -> None:
    state, made = preempting(timed(1, duration_s=50), began_s=-60)
    stopped = with_lease(state, replace(state.leases[1], run_began_at_s=None, served_s=60))
    opened = (OpenPreemption(made.preemptions[0], NOW_S),)
    assert codes(replace(stopped, preemptions=opened), replace(made, preemptions=())) == []


def test_nobody_is_suspended_more_often_than_max_suspensions() -> None:
    kind = LeaseType.BE_SUSPENDABLE
    for limit, preemptions, duration_s, expected in (
        (2, 1, 500, []),
        (2, 2, 500, ["suspended-too-often"]),
        (0, 0, 500, ["suspended-too-often"]),
        (2, 2, None, []),
        (2, 2, 50, []),
    ):
        victim = timed(1, kind=kind, duration_s=duration_s, max_suspensions=limit, preemptions=preemptions)
        assert codes(*preempting(victim, began_s=-100)) == expected


def test_who_is_sent_out_before_its_deadline_has_slots_for_the_rest_of_it_by_then() -> None:
    asks: dict[str, Any] = {"kind": LeaseType.DC_MIGRATABLE, "verdict": Verdict.ACCEPTED, **DEADLINE}
    state, made = preempting(timed(1, **asks), began_s=-50)
    state = promised(state, slot(1, -50, 150, 0))
    for bookings, expected in (
        ((), ["deadline-forsaken"]),
        ((Booking(1),), ["deadline-forsaken"]),
        ((booking(slot(1, 0, 150, 0)),), ["deadline-forsaken"]),
        ((booking(slot(1, 100, 249, 0)),), ["too-short"]),
        ((booking(slot(1, 360, 510, 0)),), ["past-deadline"]),
        ((booking(slot(1, 100, 250, 0)),), []),
    ):
        assert codes(state, replace(made, bookings=bookings)) == expected
    lease = state.leases[1]
    for other in (
        replace(lease, verdict=Verdict.CONVERTED),
        replace(lease, state=LeaseState.PAUSED_BY_OWNER),
        replace(lease, run_began_at_s=NOW_S - 200),
    ):
        assert codes(with_lease(state, other), made) == []


def test_nobody_is_sent_out_who_makes_room_on_none_of_the_hosts_of_the_preemptor() -> None:
    state, made = preempting(timed(1, kind=LeaseType.BE_SUSPENDABLE, duration_s=500), began_s=-100)
    state = replace(state, snapshot=replace(state.snapshot, hosts={**state.snapshot.hosts, 1: host(1)}))
    assert codes(state, made) == []
    elsewhere = replace(made.preemptions[0], placements=(Placement(9, 1),))
    assert codes(state, replace(made, preemptions=(elsewhere,))) == ["leaves-in-vain"]


def test_best_effort_that_leaves_for_a_slot_of_the_plan_is_not_in_the_way_of_what_is_promised_behind_it() -> None:
    """An owed return makes nobody leave: there is room for it beside a slot for which best effort leaves before."""
    asks: dict[str, Any] = {"kind": LeaseType.BE_SUSPENDABLE, "max_suspensions": 1, "preemptions": 1}
    returns = replace(timed(2, duration_s=200, **asks), preempted_by=9, state=LeaseState.PREEMPTED)
    stays = on_host(timed(1, kind=LeaseType.BE_SUSPENDABLE, duration_s=5000), began_s=-100).leases[1]
    wish = timed(3, deadline_at_s=NOW_S + 900, duration_s=200, may_preempt=True)
    guest = running(1, 0)
    waits_there = [replace(waiting(2), state=VmState.STOPPED), waiting(3, state=VmState.HOLD)]
    state = cluster([host(0, (guest,), cpus=2)], [guest, *waits_there], [stays, returns, wish])
    state = promised(state, slot(2, 150, 350, 0))
    made = said(3, Verdict.ACCEPTED, booking(slot(3, 100, 300, 0)))
    assert codes(state, made) == []
    assert codes(with_lease(state, replace(wish, may_preempt=False)), made) == ["nobody-leaves"]


def test_the_recount_shares_nothing_with_the_decision() -> None:
    for path in Path(verify_package.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("one_preempt"):
                assert str(node.module).startswith(("one_preempt.core.model", "one_preempt.core.verify")), path


def test_a_reservation_that_is_sent_out_or_was_is_best_effort_from_then_on() -> None:
    """An administrator had started it before its START: it may be taken as a victim, and may return before it."""
    early = timed(9, kind=LeaseType.BE_SUSPENDABLE, verdict=Verdict.ACCEPTED, **RESERVATION)
    state = cluster((host(0),), (waiting(9),), (early,))
    start = plan(deploy(9, 0))
    assert "too-early" in codes(state, start)
    back = replace(early, preempted_by=3)
    assert "too-early" not in codes(replace(state, leases={9: back}), start)


def test_a_slot_before_a_deadline_is_promised_while_others_leave_for_it() -> None:
    victim, guest = timed(1, kind=LeaseType.BE_SUSPENDABLE), running(1, 0, cpus=2)
    awaits = timed(9, duration_s=50, deadline_at_s=NOW_S + 300, verdict=Verdict.ACCEPTED, may_preempt=True)
    state = cluster((host(0, (guest,)),), (guest, waiting(9, cpus=2), waiting(10)), (victim, awaits))
    victims = (Victim(1, 1, 0, PreemptionMethod.STOP),)
    made = Preemption("9@1", 9, victims, (Placement(9, 0),), "moml", 1, True, 1, NOW_S)
    state = replace(state, reservations={9: (slot(9, 110, 160, 0),)}, preemptions=(OpenPreemption(made, NOW_S),))
    for start_s, expected in ((110, ["promise-broken"]), (160, [])):
        wants = timed(10, start_at_s=NOW_S + start_s, duration_s=50)
        booked = said(10, Verdict.ACCEPTED, booking(slot(10, start_s, start_s + 50, 0)))
        assert codes(with_lease(state, wants), booked) == expected


def test_whoever_is_sent_out_before_its_start_has_no_room_promised_any_more() -> None:
    early = timed(9, kind=LeaseType.BE_SUSPENDABLE, verdict=Verdict.ACCEPTED, **RESERVATION)
    early = replace(early, state=LeaseState.RUNNING, run_began_at_s=NOW_S - 40)
    wants = timed(10, duration_s=1000, may_preempt=True)
    guest = running(9, 0, cpus=2)
    state = cluster((host(0, (guest,)),), (guest, waiting(10, cpus=2)), (early, wants))
    state = replace(state, reservations={9: (slot(9, 100, 150, 0),)})
    victim = Victim(9, 9, 0, PreemptionMethod.STOP)
    made = Preemption("10@1", 10, (victim,), (Placement(10, 0),), "moml", 1, True, 1, NOW_S)
    assert "promise-broken" not in codes(state, plan(preemptions=(made,)))
