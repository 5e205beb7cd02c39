"""A sound plan passes; each rule broken once is caught, and nothing else is."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from one_preempt.core.matching.devices import serves
from one_preempt.core.model.host import HostState, PciDevice
from one_preempt.core.model.lease import LeaseState, LeaseType, PreemptionMethod
from one_preempt.core.model.ledger import ActionRecord, OpenPreemption
from one_preempt.core.model.outcome import Outcome
from one_preempt.core.model.plan import Action, ActionKind, Placement, Plan, Preemption, Reason, Victim
from one_preempt.core.model.reservation import Verdict, VerdictGiven
from one_preempt.core.model.virtual_machine import LcmState, LockLevel, PciRequest, VmState
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
    with_vm,
)

PCI = PciRequest(vendor="10de")

# One preemption: VM 1 fills host 0 and is stopped so that VM 9 can start there.
VICTIM, PREEMPTOR = running(1, 0, cpus=2), waiting(9, cpus=2)
SUSPENDABLE = lease(1, 1, lease_type=LeaseType.BE_SUSPENDABLE)
STATE = cluster([host(0, [VICTIM])], [VICTIM, PREEMPTOR], [SUSPENDABLE, lease(9, 9, may_preempt=True)])
DECIDED = Preemption("9@1", 9, (Victim(1, 1, 0, PreemptionMethod.STOP),), (Placement(9, 0),), "moml", 1, True, 1, NOW_S)
STOP = Action("stop/1", ActionKind.STOP, 1, 1, Reason("preempted", "makes room"), host_id=0, preemption_id="9@1")
START = replace(deploy(9, 0, STOP.id), preemption_id="9@1")
PREEMPTING = plan(STOP, START, preemptions=(DECIDED,))


def test_a_plan_that_fits_is_sound() -> None:
    state = cluster([host(0), host(1)], [waiting(1, cpus=2), waiting(2)])
    assert codes(state, plan(deploy(1, 0), deploy(2, 1))) == []
    assert codes(state, plan()) == []


def test_a_preemption_that_waits_for_its_victims_is_sound() -> None:
    assert codes(STATE, PREEMPTING) == []


def test_a_preemption_carried_on_from_an_earlier_plan_is_sound() -> None:
    leaving = replace(VICTIM, lcm_state=LcmState.SAVE_STOP)
    issued = ActionRecord(
        STOP.id, ActionKind.STOP, 1, 1, "9@1", 0, None, "preempted", "makes room", NOW_S, 1, Outcome.ACCEPTED, NOW_S
    )
    state = replace(with_vm(STATE, leaving), preemptions=(OpenPreemption(DECIDED, NOW_S),), actions={STOP.id: issued})
    assert codes(state, plan(STOP, START)) == []
    assert codes(replace(state, paused=True), plan(STOP, START)) == []
    assert codes(replace(state, actions={}), plan(STOP, START)) == ["illegal-state"]
    # What was sent once is not judged again: by a clock that differs from oned's it has not outlived its DURATION now.
    assert codes(with_lease(state, lease(1, 1)), plan(STOP, START)) == []
    # It leaves, and not by a call of ours: that was never sent.
    meant = replace(issued, attempts=0, outcome=None, outcome_at_s=None)
    assert codes(replace(state, actions={STOP.id: meant}), plan(STOP, START)) == ["illegal-state"]


def test_a_host_is_not_given_more_cpu_than_it_has() -> None:
    state = cluster([host(0, cpus=2)], [waiting(1), waiting(2), waiting(3)])
    assert codes(state, plan(deploy(1, 0), deploy(2, 0))) == []
    assert codes(state, plan(deploy(1, 0), deploy(2, 0), deploy(3, 0))) == ["over-capacity"]


def test_a_host_is_not_given_more_memory_than_it_has() -> None:
    state = cluster([host(0, gib=4)], [waiting(1, gib=2), waiting(2, gib=3)])
    assert codes(state, plan(deploy(1, 0), deploy(2, 0))) == ["over-capacity"]


def test_a_host_is_not_given_a_kibibyte_too_much() -> None:
    full = replace(host(0, gib=4), memory_usage_kib=(2 << 20) + 1)
    assert codes(cluster([full], [waiting(1, gib=2)]), plan(deploy(1, 0))) == ["over-capacity"]


def test_room_of_a_victim_counts_only_for_what_waits_for_it() -> None:
    hasty = replace(START, after=())
    assert codes(STATE, plan(STOP, hasty, preemptions=(DECIDED,))) == ["over-capacity"]


def test_room_of_a_victim_counts_on_its_own_host_only() -> None:
    state = replace(STATE, snapshot=replace(STATE.snapshot, hosts={**STATE.snapshot.hosts, 1: host(1, cpus=1)}))
    assert codes(state, plan(STOP, replace(START, host_id=1), preemptions=(DECIDED,))) == ["over-capacity"]


def test_room_waited_for_by_way_of_another_action_counts() -> None:
    between = Action("message/9", ActionKind.MESSAGE, 9, 9, WHY, after=(STOP.id,))
    assert codes(STATE, plan(STOP, between, replace(START, after=(between.id,)), preemptions=(DECIDED,))) == []


def test_one_free_place_is_not_promised_to_two_that_wait_for_different_victims() -> None:
    """Each would fit alone, with its own victim gone and the free CPU: both together do not."""
    victims = [running(1, 0), running(2, 0)]
    waits = [waiting(8, cpus=2), waiting(9, cpus=2)]
    state = cluster(
        [host(0, victims, cpus=3)],
        [*victims, *waits],
        [lease(n, n, lease_type=LeaseType.BE_SUSPENDABLE) for n in (1, 2)]
        + [lease(n, may_preempt=True) for n in (8, 9)],
    )
    decided = tuple(
        replace(DECIDED, id=f"{n + 7}@1", preemptor_lease_id=n + 7, victims=(Victim(n, n, 0, PreemptionMethod.STOP),))
        for n in (1, 2)
    )
    stops = [replace(STOP, id=f"stop/{n}", vm_id=n, lease_id=n, preemption_id=f"{n + 7}@1") for n in (1, 2)]
    starts = [replace(deploy(n + 7, 0, f"stop/{n}"), preemption_id=f"{n + 7}@1") for n in (1, 2)]
    assert codes(state, plan(stops[0], starts[0], preemptions=decided[:1])) == []
    assert codes(state, plan(*stops, *starts, preemptions=decided)) == ["over-capacity"]


def test_a_victim_that_migrates_needs_room_where_it_goes() -> None:
    migrates = (Victim(1, 1, 0, PreemptionMethod.MIGRATE, 1),)
    move = replace(STOP, kind=ActionKind.MIGRATE, host_id=1)
    decided = (replace(DECIDED, victims=migrates),)
    for cpus, expected in ((2, []), (1, ["over-capacity"])):
        hosts = {**STATE.snapshot.hosts, 1: host(1, cpus=cpus)}
        state = replace(STATE, snapshot=replace(STATE.snapshot, hosts=hosts))
        assert codes(state, plan(move, START, preemptions=decided)) == expected


def test_a_victim_that_moves_makes_room_once() -> None:
    """Both hosts are charged for it on its way. Once it has arrived, what fills the one it left is somebody else."""
    decided = replace(DECIDED, victims=(Victim(1, 1, 0, PreemptionMethod.MIGRATE, 1),))
    move = replace(STOP, id="move/1", kind=ActionKind.MIGRATE, host_id=1)
    begun = ActionRecord(
        move.id, ActionKind.MIGRATE, 1, 1, "9@1", 1, None, "preempted", "makes room", NOW_S, 1, Outcome.ACCEPTED, NOW_S
    )
    arrived, other = running(1, 1, cpus=2), running(3, 0, cpus=2)
    moves = replace(arrived, lcm_state=LcmState.SAVE_MIGRATE)
    for victim, on_first_host, expected in ((moves, moves, []), (arrived, other, ["over-capacity"])):
        state = cluster(
            [host(0, [on_first_host]), host(1, [victim])], [victim, other, PREEMPTOR], list(STATE.leases.values())
        )
        state = replace(state, preemptions=(OpenPreemption(decided, NOW_S),), actions={move.id: begun})
        assert codes(state, plan(move, replace(START, after=(move.id,)))) == expected


def test_only_what_was_marked_for_rescheduling_moves_without_a_preemption_and_only_where_it_fits() -> None:
    vm = running(1, 0)
    marked = replace(vm, resched=True)
    move = Action("reschedule/1/1", ActionKind.MIGRATE, 1, 1, WHY, host_id=1)
    disabled = replace(host(1), state=HostState.DISABLED)
    for moved, target, expected in (
        (marked, host(1), []),
        (vm, host(1), ["not-rescheduled"]),
        (marked, host(1, cpus=0), ["over-capacity"]),
        (marked, disabled, ["host-refuses"]),
        (replace(marked, lock_level=LockLevel.ADMIN), host(1), ["locked-vm"]),
    ):
        assert codes(cluster([host(0, [moved]), target], [moved]), plan(move)) == expected
    assert codes(cluster([host(0, [marked])], [marked]), plan(replace(move, host_id=0))) == ["not-elsewhere"]


def test_a_move_that_has_begun_may_be_repeated_although_nothing_is_marked_any_more() -> None:
    move = Action("reschedule/1/1", ActionKind.MIGRATE, 1, 1, WHY, host_id=1)
    begun = ActionRecord(
        move.id,
        ActionKind.MIGRATE,
        1,
        1,
        None,
        1,
        None,
        "reschedule",
        "it was marked",
        NOW_S,
        1,
        Outcome.ACCEPTED,
        NOW_S,
    )
    vm = replace(running(1, 1), lcm_state=LcmState.SAVE_MIGRATE)
    state = replace(cluster([host(0), host(1, [vm])], [vm]), actions={move.id: begun})
    assert codes(state, plan(move)) == []
    assert codes(replace(state, actions={}), plan(move)) != []


def test_a_move_of_a_vm_that_is_gone_is_refused() -> None:
    move = Action("reschedule/1/1", ActionKind.MIGRATE, 1, 1, WHY, host_id=1)
    assert codes(cluster([host(0), host(1)], []), plan(move)) != []


def test_a_device_is_not_given_twice() -> None:
    both = [replace(waiting(n), pci_requests=(PCI,)) for n in (1, 2)]
    for gpus, expected in ((2, []), (1, ["device-double-use"])):
        assert codes(cluster([host(0, gpus=gpus)], both), plan(deploy(1, 0), deploy(2, 0))) == expected


def test_a_device_asked_for_by_address_is_kept_from_a_request_that_takes_any() -> None:
    choosy = replace(waiting(2), pci_requests=(PciRequest(short_address="00:00.0"),))
    easy = replace(waiting(1), pci_requests=(PCI,))
    moves = plan(deploy(1, 0), deploy(2, 0))
    assert codes(cluster([host(0, gpus=2)], [easy, choosy]), moves) == []
    same = replace(easy, pci_requests=choosy.pci_requests)
    assert codes(cluster([host(0, gpus=2)], [same, choosy]), moves) == ["device-double-use"]


@pytest.mark.parametrize(
    ("asked", "suits"),
    [
        (PciRequest(vendor="0x10DE"), True),
        (PciRequest(vendor="10de", device="863"), True),
        (PciRequest(vendor="10de", device="0864"), False),
        (PciRequest(vendor="10dg"), False),
        (PciRequest(vendor="10de", short_address="09:00.0"), True),
        (PciRequest(short_address="09:00.0"), False),
        (PciRequest(), False),
    ],
)
def test_ids_of_devices_are_numbers_and_an_address_beside_them_is_of_the_past(asked: PciRequest, suits: bool) -> None:
    there = replace(host(0, gpus=1).pci_devices[0], vendor="10de", device="0863", device_class="0302")
    state = cluster([replace(host(0), pci_devices=(there,))], [replace(waiting(1), pci_requests=(asked,))])
    assert codes(state, plan(deploy(1, 0))) == ([] if suits else ["device-double-use"])
    assert serves(there, asked) is suits


KIND = st.text("0x1aAfFz", max_size=6)
NUMBER = st.text("01aAfF", min_size=1, max_size=4)


@example(PciRequest("0x", "000", "1"), "0", "0", "01")
@example(PciRequest("0x00", "", "1"), "0", "0", "01")
@given(st.builds(PciRequest, KIND, KIND, KIND, st.sampled_from(["", "09:00.0"])), NUMBER, NUMBER, NUMBER)
def test_whatever_an_owner_writes_a_device_that_is_found_for_it_is_not_refused(
    asked: PciRequest, vendor: str, device: str, device_class: str
) -> None:
    there = PciDevice("0000:09:00:0", "09:00.0", vendor, device, device_class, vm_id=-1)
    state = cluster([replace(host(0), pci_devices=(there,))], [replace(waiting(1), pci_requests=(asked,))])
    assert (codes(state, plan(deploy(1, 0))) == []) is serves(there, asked)


def test_a_device_of_a_victim_is_free_once_it_left() -> None:
    taken = host(0, [VICTIM], gpus=1)
    taken = replace(taken, pci_devices=(replace(taken.pci_devices[0], vm_id=1),))
    state = replace(STATE, snapshot=replace(STATE.snapshot, hosts={0: taken}))
    state = with_vm(state, replace(PREEMPTOR, pci_requests=(PCI,)))
    assert codes(state, PREEMPTING) == []


def test_nobody_preempts_what_is_not_preemptable() -> None:
    state = with_lease(STATE, lease(1, 1))
    assert codes(state, PREEMPTING) == ["victim-not-preemptable"]


def test_a_vm_is_not_taken_off_its_host_for_no_preemption() -> None:
    assert codes(STATE, plan(replace(STOP, preemption_id=None))) == ["no-preemption"]


def test_a_gang_that_cannot_start_whole_may_be_stopped() -> None:
    member = running(1, 0)
    state = cluster([host(0, [member])], [member, waiting(2)], [lease(1, 1, 2)])
    assert codes(state, plan(replace(STOP, preemption_id=None))) == []


def test_a_victim_belongs_to_its_preemption() -> None:
    assert codes(STATE, plan(STOP)) == ["foreign-victim"]
    other = replace(DECIDED, victims=(Victim(1, 1, 0, PreemptionMethod.UNDEPLOY),))
    assert codes(STATE, plan(STOP, START, preemptions=(other,))) == ["foreign-method"]


@pytest.mark.parametrize("lease_type", [one for one in LeaseType if one.preemptable])
def test_what_may_be_preempted_preempts_nobody(lease_type: LeaseType) -> None:
    state = with_lease(STATE, replace(lease(9, 9, lease_type=lease_type), may_preempt=True))
    assert codes(state, PREEMPTING) == ["preemptor-preemptable"]


def test_what_was_turned_down_preempts_nobody() -> None:
    before = with_lease(STATE, replace(lease(9, 9), may_preempt=True, verdict=Verdict.CONVERTED))
    assert codes(before, PREEMPTING) == ["preemptor-turned-down"]
    just_now = replace(PREEMPTING, verdicts=(VerdictGiven(9, Verdict.CONVERTED, ""),))
    assert "preemptor-turned-down" in codes(STATE, just_now)


def test_what_returns_preempts_nobody() -> None:
    state = with_lease(STATE, replace(lease(9, 9), may_preempt=True, state=LeaseState.PREEMPTED, preempted_by=4))
    assert codes(state, PREEMPTING) == ["preemptor-returns"]


def test_only_a_lease_that_may_preempts_and_never_itself() -> None:
    state = with_lease(STATE, lease(9, 9))
    assert codes(state, PREEMPTING) == ["no-right-to-preempt"]
    itself = replace(DECIDED, preemptor_lease_id=1)
    state = with_lease(STATE, replace(SUSPENDABLE, may_preempt=True))
    assert codes(state, plan(STOP, START, preemptions=(itself,))) == ["preempts-itself"]


def test_a_victim_lease_leaves_as_a_whole() -> None:
    other = running(2, 1)
    pair = lease(1, 1, 2, lease_type=LeaseType.BE_SUSPENDABLE)
    state = cluster(
        [host(0, [VICTIM]), host(1, [other])], [VICTIM, other, PREEMPTOR], [pair, lease(9, 9, may_preempt=True)]
    )
    assert codes(state, PREEMPTING) == ["victim-torn"]


def test_a_victim_lease_moves_as_a_whole_or_not_at_all() -> None:
    other = running(2, 1)
    pair = lease(1, 1, 2, lease_type=LeaseType.DC_MIGRATABLE)
    state = cluster(
        [host(0, [VICTIM]), host(1, [other]), host(2)],
        [VICTIM, other, PREEMPTOR],
        [pair, lease(9, 9, may_preempt=True)],
    )
    moved = Victim(2, 1, 1, PreemptionMethod.LIVE_MIGRATE, 2)
    move = replace(STOP, id="move/2", kind=ActionKind.LIVE_MIGRATE, vm_id=2, host_id=2)
    split = replace(DECIDED, victims=(*DECIDED.victims, moved))
    assert codes(state, plan(STOP, move, START, preemptions=(split,))) == ["gang-split"]


def test_a_gang_starts_as_a_whole() -> None:
    state = cluster([host(0)], [waiting(1), waiting(2)], [lease(1, 1, 2)])
    assert codes(state, plan(deploy(1, 0))) == ["gang-torn"]
    assert codes(state, plan(deploy(1, 0), deploy(2, 0, lease_id=1))) == []


def test_a_member_that_was_refused_lately_may_lag_behind_its_gang() -> None:
    refused = ActionRecord("x", ActionKind.DEPLOY, 2, 1, None, 0, None, "fits", "", NOW_S, 1, Outcome.REFUSED, NOW_S)
    state = cluster([host(0)], [waiting(1), waiting(2)], [lease(1, 1, 2)])
    assert codes(replace(state, failed_actions=(refused,)), plan(deploy(1, 0))) == []


def test_what_its_owner_paused_is_not_started_and_its_gang_starts_without_it() -> None:
    out = waiting(2, state=VmState.UNDEPLOYED)
    gang = replace(lease(1, 1, 2, lease_type=LeaseType.BE_SUSPENDABLE), preempted_by=9, paused_vm_ids=(2,))
    state = cluster([host(0)], [waiting(1, state=VmState.STOPPED), out], [gang])
    assert codes(state, plan(deploy(1, 0))) == []
    assert codes(state, plan(deploy(1, 0), deploy(2, 0, lease_id=1))) == ["paused-by-owner"]
    assert codes(with_vm(state, waiting(2)), plan(deploy(1, 0))) == ["gang-torn"]


def test_a_guest_is_shut_down_only_where_its_lease_allows_it_or_while_it_is_powered_off() -> None:
    decided = replace(DECIDED, victims=(Victim(1, 1, 0, PreemptionMethod.UNDEPLOY),))
    off = replace(VICTIM, state=VmState.POWEROFF, lcm_state=0)

    def undeployed(*expected_states: str) -> Plan:
        leaves = replace(STOP, kind=ActionKind.UNDEPLOY, expected_states=expected_states)
        return plan(leaves, START, preemptions=(decided,))

    assert codes(with_vm(STATE, off), undeployed("POWEROFF")) == []
    for state in (STATE, with_vm(STATE, off)):
        assert codes(state, undeployed("RUNNING")) == ["shut-down"]
        assert codes(state, undeployed("POWEROFF", "RUNNING")) == ["shut-down"]
        assert codes(state, undeployed()) == ["shut-down"]
        willing = replace(SUSPENDABLE, terms=replace(SUSPENDABLE.terms, shutdown_ok=True))
        assert codes(with_lease(state, willing), undeployed("RUNNING")) == []


def test_locked_vms_are_left_alone() -> None:
    for level in (LockLevel.USE, LockLevel.MANAGE, LockLevel.ADMIN, LockLevel.ALL):
        state = with_vm(STATE, replace(VICTIM, lock_level=level))
        assert codes(state, PREEMPTING) == ["locked-vm"]
        state = cluster([host(0)], [replace(waiting(1), lock_level=level)])
        assert codes(state, plan(deploy(1, 0))) == ["locked-vm"]


def test_an_admin_lock_shields_no_victim_where_the_administrator_says_so() -> None:
    state = with_lease(STATE, replace(SUSPENDABLE, shielded_by_lock=False))
    assert codes(with_vm(state, replace(VICTIM, lock_level=LockLevel.ADMIN)), PREEMPTING) == []
    assert codes(with_vm(state, replace(VICTIM, lock_level=LockLevel.MANAGE)), PREEMPTING) == ["locked-vm"]


def test_calls_are_made_only_in_states_in_which_oned_takes_them() -> None:
    assert codes(with_vm(STATE, replace(VICTIM, lcm_state=LcmState.BACKUP)), PREEMPTING) == ["illegal-state"]
    state = cluster([host(0), host(1)], [running(1, 0), waiting(2, state=VmState.HOLD)])
    assert codes(state, plan(deploy(1, 1))) == ["illegal-state"]
    hold = Action("hold/2", ActionKind.HOLD, 2, 2, WHY)
    assert codes(state, plan(hold)) == ["illegal-state"]


def test_a_hold_without_lease_is_left_alone() -> None:
    held = waiting(1, state=VmState.HOLD)
    assert codes(cluster([host(0)], [held]), plan(deploy(1, 0))) == ["held-by-owner"]
    assert codes(cluster([host(0)], [held], [lease(1, 1, explicit=True)]), plan(deploy(1, 0))) == []


def test_vms_go_only_to_hosts_that_take_them() -> None:
    for state_of_host in set(HostState) - {HostState.MONITORED, HostState.MONITORING_MONITORED}:
        state = cluster([replace(host(0), state=state_of_host)], [waiting(1)])
        assert codes(state, plan(deploy(1, 0))) == ["host-refuses"]
    assert codes(cluster([host(0)], [waiting(1)]), plan(deploy(1, 7))) == ["unknown-host"]


def test_oned_is_never_asked_to_skip_its_own_check() -> None:
    lax = replace(deploy(1, 0), enforce_capacity=False)
    assert codes(cluster([host(0)], [waiting(1)]), plan(lax)) == ["not-enforced"]


def test_ids_name_one_action_each() -> None:
    state = cluster([host(0)], [waiting(1), waiting(2)])
    assert codes(state, plan(deploy(1, 0), replace(deploy(2, 0), id="deploy/1"))) == ["duplicate-id"]


def test_a_vm_is_not_sent_two_ways() -> None:
    state = cluster([host(0), host(1)], [waiting(1)])
    assert codes(state, plan(deploy(1, 0), replace(deploy(1, 1), id="again"))) == ["contrary-actions"]


def test_predecessors_exist_and_nothing_waits_for_itself() -> None:
    state = cluster([host(0)], [waiting(1), waiting(2)])
    assert codes(state, plan(deploy(1, 0, "nothing"))) == ["unknown-predecessor"]
    assert codes(state, plan(deploy(1, 0, "deploy/2"), deploy(2, 0, "deploy/1"))) == ["cycle", "cycle"]


def test_every_action_has_its_reason() -> None:
    state = cluster([host(0)], [waiting(1)])
    for reason in (Reason("", "text"), Reason("code", " ")):
        assert codes(state, plan(replace(deploy(1, 0), reason=reason))) == ["no-reason"]


def test_an_action_is_about_a_vm_of_its_lease_and_owner() -> None:
    state = cluster([host(0)], [waiting(1)])
    assert codes(state, plan(deploy(2, 0))) == ["unknown-vm"]
    assert codes(state, plan(deploy(1, 0, lease_id=3))) == ["wrong-lease"]
    assert codes(state, plan(replace(deploy(1, 0), expected_uid=6))) == ["changed-hands"]


def test_nothing_is_preempted_while_paused_and_everything_else_goes_on() -> None:
    paused = replace(STATE, paused=True)
    assert codes(paused, PREEMPTING) == ["paused", "paused"]
    assert codes(replace(cluster([host(0)], [waiting(1)]), paused=True), plan(deploy(1, 0))) == []


def test_messages_write_our_own_attributes_only() -> None:
    state = cluster([], [waiting(1)])
    message = Action("message/1", ActionKind.MESSAGE, 1, 1, WHY)
    ours = replace(message, attributes=(("LEASE_STATUS", "waits"), ("SCHED_MESSAGE", "")))
    assert codes(state, plan(ours)) == []
    assert codes(state, plan(replace(message, attributes=(("USER_PRIORITY", "9"),)))) == ["foreign-attribute"]


@given(
    free=st.integers(0, 4),
    victims=st.lists(st.integers(1, 3), max_size=3),
    arrivals=st.lists(st.tuples(st.integers(1, 3), st.sets(st.integers(0, 2))), min_size=1, max_size=4),
)
def test_capacity_is_judged_as_by_trying_every_order(
    free: int, victims: list[int], arrivals: list[tuple[int, set[int]]]
) -> None:
    """Brute force: any set of victims may have left, and then everything that waited only for them may have come."""
    sizes = dict(enumerate(victims))
    leaving = [running(number, 0, cpus=cpus) for number, cpus in sizes.items()]
    coming = [waiting(100 + number, cpus=cpus, gib=0) for number, (cpus, _) in enumerate(arrivals)]
    only_host = host(0, leaving, cpus=free + sum(victims), gib=64)
    stops = [replace(STOP, id=f"stop/{vm.id}", vm_id=vm.id, lease_id=vm.id) for vm in leaving]
    waits = [frozenset(after) & sizes.keys() for _, after in arrivals]
    starts = [
        deploy(vm.id, 0, *(f"stop/{number}" for number in sorted(after)))
        for vm, after in zip(coming, waits, strict=True)
    ]
    fits = all(
        sum(cpus for (cpus, _), after in zip(arrivals, waits, strict=True) if after <= set(left))
        <= free + sum(sizes[number] for number in left)
        for count in range(len(sizes) + 1)
        for left in combinations(sizes, count)
    )
    found = codes(cluster([only_host], [*leaving, *coming]), plan(*stops, *starts))
    assert ("over-capacity" not in found) == fits
