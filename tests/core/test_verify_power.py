"""The recount of host power: each rule broken once is caught, and nothing else is."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from one_preempt.core.model.cluster_state import ClusterState
from one_preempt.core.model.host import Host, HostCapacity, HostState
from one_preempt.core.model.lease import LeaseState, LeaseType
from one_preempt.core.model.ledger import OpenPreemption
from one_preempt.core.model.plan import Action, ActionKind, Placement, Plan, Preemption, PreemptionEnd
from one_preempt.core.model.power_sequence import (
    HostPowerStep,
    KnownPower,
    PowerBounds,
    PowerPhase,
    PowerSequence,
    PowerStepKind,
)
from one_preempt.core.model.reservation import Booking, Reservation, Verdict, VerdictGiven
from one_preempt.core.model.virtual_machine import LcmState, VirtualMachine
from tests.core.recounted_cluster import (
    NOW_S,
    WHY,
    cluster,
    codes,
    deploy,
    host,
    lease,
    plan,
    running,
    waiting,
    with_lease,
)

ON = (HostState.MONITORED,)
BOUNDS = PowerBounds(handed_over=frozenset({0, 1}), floor=1, most_booting=1, boots_s={0: 120, 1: 999})
BEGUN = PowerSequence(0, "host-0", PowerPhase.DISABLING, NOW_S, "idle", "nobody is on it")
DISABLE = HostPowerStep(0, "host-0", PowerStepKind.DISABLE, "idle", "nobody is on it", ON, must_be_empty=True)
BEGIN = replace(plan(), power_sequences=(BEGUN,), power_steps=(DISABLE,))


def state(
    *sequences: PowerSequence, hosts: tuple[Host, ...] = (), vms: tuple[VirtualMachine, ...] = (), paused: bool = False
) -> ClusterState:
    known = KnownPower({one.host_id: one for one in sequences}, bounds=BOUNDS)
    return replace(cluster(hosts or (host(0), host(1)), vms), power=known, paused=paused)


def in_phase(phase: PowerPhase, **more: object) -> PowerSequence:
    return replace(BEGUN, phase=phase, **more)


def step(kind: PowerStepKind, *states: HostState, must_be_empty: bool = True) -> Plan:
    made = replace(DISABLE, kind=kind, expected_states=states, must_be_empty=must_be_empty)
    return replace(plan(), power_steps=(made,))


def in_state(found: HostState, host_id: int = 0, used_by: tuple[VirtualMachine, ...] = ()) -> Host:
    return replace(host(host_id, used_by), state=found)


OFFLINE, DISABLED = in_state(HostState.OFFLINE), in_state(HostState.DISABLED)


@pytest.mark.parametrize(
    ("phase", "seen", "kind"),
    [
        (PowerPhase.GOING_OFFLINE, DISABLED, PowerStepKind.PUT_OFFLINE),
        (PowerPhase.SWITCHING_OFF, OFFLINE, PowerStepKind.SWITCH_OFF),
        (PowerPhase.ENABLING, OFFLINE, PowerStepKind.ENABLE),
    ],
)
def test_the_steps_of_a_sequence_are_sound(phase: PowerPhase, seen: Host, kind: PowerStepKind) -> None:
    assert codes(state(in_phase(phase), hosts=(seen, host(1))), step(kind, seen.state)) == []


def test_an_idle_host_may_begin_to_sleep() -> None:
    assert codes(state(), BEGIN) == []


def test_only_hosts_that_are_handed_over_are_switched() -> None:
    begun = replace(BEGUN, host_id=2, host_name="host-2")
    other = replace(plan(), power_sequences=(begun,), power_steps=(replace(DISABLE, host_id=2),))
    assert codes(state(hosts=(host(0), host(1), host(2))), other) == ["power-not-handed-over"]


@pytest.mark.parametrize("kind", [PowerStepKind.ENABLE, PowerStepKind.SWITCH_ON])
def test_what_an_administrator_did_is_not_undone(kind: PowerStepKind) -> None:
    theirs = state(in_phase(PowerPhase.AWAKE), hosts=(OFFLINE, host(1)))
    assert codes(theirs, step(kind, HostState.OFFLINE)) == ["power-not-ours"]


@pytest.mark.parametrize(("began_at_s", "found"), [(0, []), (NOW_S - 60, ["power-illegal-state"])])
def test_what_was_disabled_during_its_boot_stays_so(began_at_s: int, found: list[str]) -> None:
    comes = in_phase(PowerPhase.ENABLING, began_at_s=began_at_s)
    assert codes(state(comes, hosts=(DISABLED, host(1))), step(PowerStepKind.ENABLE, HostState.DISABLED)) == found


@pytest.mark.parametrize(
    ("phase", "seen", "kind"),
    [
        (PowerPhase.GOING_OFFLINE, host(0), PowerStepKind.PUT_OFFLINE),
        (PowerPhase.SWITCHING_OFF, DISABLED, PowerStepKind.SWITCH_OFF),
        (PowerPhase.ENABLING, host(0), PowerStepKind.ENABLE),
        (PowerPhase.DISABLING, DISABLED, PowerStepKind.DISABLE),
    ],
)
def test_no_step_is_taken_out_of_turn(phase: PowerPhase, seen: Host, kind: PowerStepKind) -> None:
    allowed = {
        PowerStepKind.PUT_OFFLINE: HostState.DISABLED,
        PowerStepKind.SWITCH_OFF: HostState.OFFLINE,
        PowerStepKind.ENABLE: HostState.OFFLINE,
        PowerStepKind.DISABLE: HostState.MONITORED,
    }[kind]
    assert codes(state(in_phase(phase), hosts=(seen, host(1))), step(kind, allowed)) == ["power-illegal-state"]


def test_power_is_cut_only_of_what_did_not_come_up_and_is_in_nobodys_use() -> None:
    cut = step(PowerStepKind.CUT_POWER, HostState.ERROR, HostState.OFFLINE)
    stuck, broken = in_phase(PowerPhase.CUTTING_POWER, failures=1), in_state(HostState.ERROR)
    there = running(5, 0)
    assert codes(state(stuck, hosts=(broken, host(1))), cut) == []
    assert codes(state(stuck, hosts=(OFFLINE, host(1))), cut) == []
    assert codes(state(replace(stuck, failures=0), hosts=(broken, host(1))), cut) == ["power-cut"]
    assert codes(state(stuck, hosts=(DISABLED, host(1))), cut) == ["power-illegal-state"]
    assert codes(state(stuck, hosts=(host(0), host(1))), cut) == ["power-illegal-state"]
    assert codes(state(stuck, hosts=(broken, host(1)), vms=(there,)), cut) == ["power-in-use"]
    assert codes(state(stuck, hosts=(broken, host(1)), paused=True), cut) == ["paused"]
    unchecked = step(PowerStepKind.CUT_POWER, must_be_empty=False)
    assert codes(state(stuck, hosts=(broken, host(1))), unchecked) == ["power-unchecked", "power-unchecked"]
    # The host was promised: all the more it is to come up.
    booked = replace(cut, bookings=(Booking(7, (Reservation(7, NOW_S, NOW_S + 60, (0,), firm=True),)),))
    assert "power-promised" not in codes(state(stuck, hosts=(broken, host(1))), booked)


def test_nobody_is_switched_off_whichever_book_he_stands_in() -> None:
    there = running(5, 0)
    by_host = state(hosts=(replace(host(0), vm_ids=(99,)), host(1)))
    by_vm = state(hosts=(host(0), host(1)), vms=(there,))
    assert codes(by_host, BEGIN) == ["power-in-use"]
    assert codes(by_vm, BEGIN) == ["power-in-use"]
    copied = replace(running(5, 1), lcm_state=LcmState.PROLOG_MIGRATE, source_host_id=0)
    for vm in (there, copied):
        switched = state(in_phase(PowerPhase.SWITCHING_OFF), hosts=(OFFLINE, host(1)), vms=(vm,))
        assert codes(switched, step(PowerStepKind.SWITCH_OFF, HostState.OFFLINE)) == ["power-in-use"]


def test_who_is_to_move_away_may_be_there_and_nobody_else() -> None:
    there = running(5, 0)
    emptied = replace(
        BEGIN,
        power_sequences=(replace(BEGUN, emptied_vm_ids=(5,)),),
        power_steps=(replace(DISABLE, must_be_empty=False),),
    )
    assert codes(state(hosts=(host(0, [there]), host(1)), vms=(there,)), emptied) == []
    more = (there, running(6, 0))
    assert codes(state(hosts=(host(0, more), host(1)), vms=more), emptied) == ["power-in-use"]


def test_no_step_relies_on_what_was_seen_alone() -> None:
    going = state(in_phase(PowerPhase.GOING_OFFLINE), hosts=(DISABLED, host(1)))
    assert codes(going, step(PowerStepKind.PUT_OFFLINE, HostState.DISABLED, must_be_empty=False)) == ["power-unchecked"]
    assert codes(going, step(PowerStepKind.PUT_OFFLINE)) == ["power-unchecked"]


def test_while_a_vm_cannot_be_read_no_host_is_taken_for_empty() -> None:
    going = state(in_phase(PowerPhase.GOING_OFFLINE), hosts=(DISABLED, host(1)))
    unread = replace(
        going, snapshot=replace(going.snapshot, unreadable_vm_ids=frozenset({9}), untraced_vm_ids=frozenset({9}))
    )
    assert codes(unread, step(PowerStepKind.PUT_OFFLINE, HostState.DISABLED)) == ["power-in-doubt"]


def test_nobody_is_sent_to_a_host_that_goes_to_sleep() -> None:
    made = replace(BEGIN, actions=(deploy(9, 0),))
    assert codes(state(vms=(waiting(9),)), made) == ["power-promised"]


def test_no_host_goes_to_sleep_on_which_room_is_being_made() -> None:
    making = Preemption("9@1", 9, (), (Placement(9, 0),), "moml", 0, optimal=True, bound_ms=0, decided_at_s=NOW_S)
    held = replace(state(vms=(waiting(9),)), preemptions=(OpenPreemption(making, NOW_S),))
    assert codes(held, BEGIN) == ["power-promised"]
    given_up = PreemptionEnd(making.id, fulfilled=False, reason=WHY)
    assert codes(held, replace(BEGIN, ended_preemptions=(given_up,))) == []


def test_only_who_is_to_leave_and_may_be_moved_is_moved_off_a_host_that_is_to_sleep() -> None:
    there, movable = running(5, 0), lease(5, lease_type=LeaseType.DC_MIGRATABLE)
    emptying = in_phase(PowerPhase.EMPTYING, emptied_vm_ids=(5,))
    move = plan(Action("power/0/move/5", ActionKind.LIVE_MIGRATE, 5, 5, WHY, host_id=1))
    hosts = (in_state(HostState.DISABLED, 0, (there,)), host(1))
    emptied = with_lease(state(emptying, hosts=hosts, vms=(there,)), movable)
    assert codes(emptied, move) == []
    other = replace(emptying, emptied_vm_ids=(6,))
    elsewhere = replace(emptying, phase=PowerPhase.DISABLING)
    for sequence in (other, elsewhere):
        known = replace(emptied.power, sequences={0: sequence})
        assert codes(replace(emptied, power=known), move) == ["not-rescheduled"]
    assert codes(with_lease(emptied, lease(5)), move) == ["not-rescheduled"]
    assert codes(replace(emptied, paused=True), move) == ["not-rescheduled"]


@pytest.mark.parametrize(("starts_in_s", "broken"), [(0, True), (119, True), (120, True), (121, False)])
def test_a_host_that_is_promised_within_a_boot_stays_on(starts_in_s: int, broken: bool) -> None:
    promised = Reservation(9, NOW_S + starts_in_s, NOW_S + 4000, (0,), firm=True)
    held = replace(state(vms=(waiting(9),)), reservations={9: (promised,)})
    assert ("power-promised" in codes(held, BEGIN)) is broken
    booked = replace(BEGIN, bookings=(Booking(9, (promised,)),))
    assert ("power-promised" in codes(state(vms=(waiting(9),)), booked)) is broken


def test_the_floor_is_kept() -> None:
    second = replace(BEGUN, host_id=1, host_name="host-1")
    both = replace(
        BEGIN, power_sequences=(BEGUN, second), power_steps=(DISABLE, replace(DISABLE, host_id=1, host_name="host-1"))
    )
    assert codes(state(), both) == ["power-floor"]
    asleep = in_phase(PowerPhase.ASLEEP, host_id=1)
    assert codes(state(asleep, hosts=(host(0), in_state(HostState.OFFLINE, 1))), BEGIN) == ["power-floor"]


def test_no_more_boot_at_once_than_may() -> None:
    hosts = (OFFLINE, in_state(HostState.OFFLINE, 1))
    waking = in_phase(PowerPhase.SWITCHING_ON, began_at_s=NOW_S)
    before = in_phase(PowerPhase.ASLEEP), in_phase(PowerPhase.ASLEEP, host_id=1)
    one = replace(plan(), power_sequences=(waking,))
    assert codes(state(*before, hosts=hosts), one) == []
    booting = in_phase(PowerPhase.ENABLING, host_id=1, began_at_s=NOW_S - 9)
    assert codes(state(before[0], booting, hosts=hosts), one) == ["power-boots"]


def test_no_more_are_told_to_start_while_as_many_boot_as_may() -> None:
    """Whoever began with them: hosts that somebody enabled while they slept are to be woken all at once."""
    hosts = (OFFLINE, in_state(HostState.OFFLINE, 1))
    waits = in_phase(PowerPhase.SWITCHING_ON, began_at_s=NOW_S - 9)
    told = replace(waits, host_id=1, host_name="host-1", attempts=1)
    order = step(PowerStepKind.SWITCH_ON, HostState.OFFLINE)
    assert codes(state(waits, hosts=hosts), order) == []
    assert codes(state(waits, replace(told, attempts=0), hosts=hosts), order) == []
    assert codes(state(waits, told, hosts=hosts), order) == ["power-boots"]
    assert codes(state(replace(waits, attempts=1), told, hosts=hosts), order) == []


@pytest.mark.parametrize(("first_in_s", "new_in_s", "broken"), [
    (120, 119, True), (120, 239, True), (120, 240, False), (240, 120, False), (239, 130, True),
    # What cannot be kept anyway is no fault of what is accepted.
    (100, 240, False),
])  # fmt: skip
def test_no_more_sleeping_hosts_are_promised_than_can_boot_until_then(
    first_in_s: int, new_in_s: int, broken: bool
) -> None:
    # What shuts down has to boot as well.
    sleepers = in_phase(PowerPhase.ASLEEP), in_phase(PowerPhase.SWITCHING_OFF, host_id=1)
    capacities = {one.host_id: HostCapacity(one.host_id, NOW_S, 200, 4 << 20, 200, 4 << 20) for one in sleepers}
    terms = replace(lease(7).terms, start_at_s=NOW_S + first_in_s, duration_s=60)
    first = replace(lease(7), terms=terms, verdict=Verdict.ACCEPTED)
    new = replace(lease(8), terms=replace(terms, start_at_s=NOW_S + new_in_s))
    promised = [
        (Reservation(one.id, NOW_S + in_s, NOW_S + in_s + 60, (host_id,), firm=True),)
        for one, in_s, host_id in ((first, first_in_s, 0), (new, new_in_s, 1))
    ]
    known = KnownPower({one.host_id: one for one in sleepers}, capacities=capacities, bounds=BOUNDS)
    asleep = replace(
        cluster((OFFLINE, in_state(HostState.OFFLINE, 1)), (waiting(7), waiting(8)), (first, new)),
        power=known,
        reservations={7: promised[0]},
    )
    accepts = replace(
        plan(), bookings=(Booking(8, promised[1]),), verdicts=(VerdictGiven(8, Verdict.ACCEPTED, "reserved"),)
    )
    assert ("power-turns" in codes(asleep, accepts)) is broken


def test_a_pause_begins_nothing() -> None:
    assert codes(state(paused=True), BEGIN) == ["paused"]


def test_a_sleeping_host_may_be_promised_as_large_as_it_was() -> None:
    capacity = HostCapacity(0, NOW_S, 200, 4 << 20, 200, 4 << 20)
    wiped = replace(OFFLINE, max_cpu_centi=0, max_memory_kib=0, total_cpu_centi=0, total_memory_kib=0)
    known = KnownPower({0: in_phase(PowerPhase.ASLEEP)}, capacities={0: capacity}, bounds=BOUNDS)
    asleep = replace(cluster((wiped, host(1)), (waiting(9),)), power=known)
    promised = Booking(9, (Reservation(9, NOW_S + 600, NOW_S + 4000, (0,), firm=True),))
    found = codes(asleep, replace(plan(), bookings=(promised,)))
    assert "booked-hosts" not in found
    theirs = replace(asleep, power=replace(known, sequences={}))
    assert "booked-hosts" in codes(theirs, replace(plan(), bookings=(promised,)))


def test_what_was_promised_to_a_lease_that_has_ended_keeps_no_host_on() -> None:
    promised = Reservation(9, NOW_S, NOW_S + 4000, (0,), firm=True)
    assert codes(replace(state(), reservations={9: (promised,)}), BEGIN) == []


def test_no_host_stays_on_for_what_its_owner_paused_beside_others_that_run() -> None:
    promised = Reservation(9, NOW_S - 60, NOW_S + 4000, (1, 0), firm=True)
    there, away = running(9, 1), waiting(10)
    hosts = (host(0), host(1, (there,)))
    held = replace(state(hosts=hosts, vms=(there, away)), reservations={9: (promised,)})
    paused = replace(held, leases={9: replace(lease(9, 9, 10), paused_vm_ids=(10,))})
    assert codes(paused, BEGIN) == []
    assert codes(replace(held, leases={9: lease(9, 9, 10)}), BEGIN) == ["power-promised"]


def test_a_host_goes_whose_promise_is_over() -> None:
    """Room is made elsewhere, or it gave way, or failed, or another of its hosts is lost: decide looks for it anew."""
    promised = Reservation(9, NOW_S + 60, NOW_S + 4000, (0, 2), firm=True)
    vms = (waiting(9), waiting(10))
    hosts = (host(0), host(1), host(2))
    held = replace(state(hosts=hosts, vms=vms), leases={9: lease(9, 9, 10)}, reservations={9: (promised,)})
    assert codes(held, BEGIN) == ["power-promised"]
    elsewhere = Preemption(
        "9@1", 9, (), (Placement(9, 1), Placement(10, 2)), "moml", 0, optimal=True, bound_ms=0, decided_at_s=NOW_S
    )
    assert codes(replace(held, preemptions=(OpenPreemption(elsewhere, NOW_S),)), BEGIN) == []
    for changed in (
        replace(held.leases[9], preempted_by=3),
        replace(held.leases[9], state=LeaseState.FAILED),
    ):
        assert codes(replace(held, leases={9: changed}), BEGIN) == []
    hosts_then = {**held.snapshot.hosts, 2: in_state(HostState.ERROR, 2)}
    lost = replace(held, snapshot=replace(held.snapshot, hosts=hosts_then))
    assert codes(lost, BEGIN) == []
