"""Which room is promised while a preemption goes on, by the scenarios that play it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from one_preempt.core.held_rooms import held_rooms
from one_preempt.core.model.held_room import HeldRoom
from tests import scenario_reader
from tests.scenario_reader import NOW_S

SCENARIOS = Path(__file__).parent.parent / "scenarios"
HOLDS_S = 600
UNTIL_S = NOW_S + HOLDS_S


def promised(document: dict[str, Any]) -> tuple[HeldRoom, ...]:
    decided = scenario_reader.play(document)
    return held_rooms(decided.state, decided.plan, HOLDS_S)


@pytest.mark.parametrize(
    ("scenario", "rooms"),
    [
        ("a_local_request_takes_the_room_of_an_external_lease", {2: 0}),
        ("the_room_being_freed_is_kept_for_the_preemptor", {3: 0}),
        ("the_preemptor_starts_once_all_victims_have_left", {3: 0}),
        ("a_preempted_lease_returns_when_there_is_room", {1: 0}),
        ("a_preemptor_that_is_gone_ends_the_preemption", {1: 0}),
        ("a_preemption_is_over_when_the_preemptor_runs", {}),
        ("advice_is_given_and_nothing_is_done", {}),
        ("a_plain_vm_goes_where_there_is_room", {}),
        ("nothing_is_preempted_as_shipped", {}),
    ],
)
def test_preemptors_and_returning_leases_are_promised_their_hosts(scenario: str, rooms: dict[int, int]) -> None:
    document = scenario_reader.load(SCENARIOS / f"{scenario}.yaml")
    held = promised(document)
    assert {room.vm_id: room.host_id for room in held} == rooms
    assert all(room.expires_at_s == UNTIL_S for room in held)


def test_the_promise_has_the_size_of_the_vm() -> None:
    document = scenario_reader.load(SCENARIOS / "the_room_being_freed_is_kept_for_the_preemptor.yaml")
    assert promised(document) == (HeldRoom(0, 3, 200, 1024, UNTIL_S),)


def test_a_victim_that_moves_is_promised_the_host_it_moves_to() -> None:
    document = scenario_reader.load(SCENARIOS / "a_migratable_lease_moves_where_there_is_room.yaml")
    decided = scenario_reader.play(document)
    (preemption,) = decided.plan.preemptions
    targets = {victim.vm_id: victim.target_host_id for victim in preemption.victims}
    arrivals = {placement.vm_id: placement.host_id for placement in preemption.placements}
    held = held_rooms(decided.state, decided.plan, HOLDS_S)
    assert {room.vm_id: room.host_id for room in held} == {**targets, **arrivals}


@pytest.mark.parametrize(
    "scenario", ["reservation_on_free_room_is_accepted", "victims_leave_for_a_reservation_when_it_is_time"]
)
def test_what_is_reserved_is_promised_until_its_end(scenario: str) -> None:
    document = scenario_reader.load(SCENARIOS / f"{scenario}.yaml")
    decided = scenario_reader.play(document)
    booked = {one.lease_id: one.reservations for one in decided.plan.bookings}
    (reservation,) = booked.get(5) or decided.state.reservations[5]
    held = {room.vm_id: room for room in held_rooms(decided.state, decided.plan, HOLDS_S)}
    vm = decided.state.snapshot.vms[5]
    assert held[5] == HeldRoom(reservation.host_ids[0], 5, vm.cpu_centi, vm.memory_mib, reservation.end_at_s or 0)


def test_what_the_queue_is_promised_is_held_for_nobody() -> None:
    assert promised(scenario_reader.load(SCENARIOS / "backfilling_easy_does_not_delay_the_head.yaml")) == ()
