"""Devices, VM groups and who is where at a time to come: counted, and tried host by host and instant by instant."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from one_preempt.core.availability.steps import END_OF_TIME_S
from one_preempt.core.availability.timeline import Stay
from one_preempt.core.decide import decide
from one_preempt.core.matching import reasons
from one_preempt.core.matching.placement import Matchmaker
from one_preempt.core.matching.reasons import Unplaced
from one_preempt.core.matching.room import Room
from one_preempt.core.memory.decision_memory import DecisionMemory
from one_preempt.core.model.lease import Lease
from one_preempt.core.model.plan import Placement, Plan
from one_preempt.core.model.reservation import Verdict
from one_preempt.core.model.virtual_machine import VirtualMachine
from one_preempt.core.phases import mend_reservations
from one_preempt.core.phases.devices_and_groups.matched_then import (
    _fits_throughout,
    _leaving,
    _promised_beside,
    _Then,
    leaves_what_is_matched,
)
from one_preempt.core.phases.draft import PlanDraft
from one_preempt.core.phases.preempting import room_in_time
from one_preempt.core.phases.reservations.known_ends import ends_s_of
from one_preempt.core.phases.reservations.stays import stay_at
from tests import scenario_reader
from tests.core.promised_places import HOSTS, WISH, cloud, document, groups, guests, promises, rows, wishes

LACKING = {reasons.DEVICES, reasons.NUMA, reasons.AFFINITY}


def fits_by_trial(draft: PlanDraft, lease: Lease, vms: Sequence[VirtualMachine], stay: Stay) -> bool:
    """Everybody who will be there is put into a room of its own for each instant at which another's time comes."""
    leaving = _leaving(draft, lease)
    ids = draft.state.hosts.ids

    def put(members: Sequence[VirtualMachine], one: Stay) -> list[Placement]:
        return [Placement(vm.id, int(ids[row])) for vm, row in zip(members, one.host_rows, strict=True)]

    beside = _promised_beside(draft, lease, stay.start_s, stay.end_s)
    for at_s in sorted({stay.start_s, *(one.start_s for _, one in beside if one.start_s > stay.start_s)}):
        room: Room = draft.matchmaker.new_room()
        for guest in draft.matched.guests.everywhere:
            ends_s = ends_s_of(draft, guest)
            is_sent_out = draft.state.lease_of_vm.get(guest.id) in leaving and leaves_what_is_matched(guest, vms)
            if is_sent_out or (ends_s is not None and ends_s <= at_s):
                room.leave(guest.id)
        for members, one in beside:
            if one.start_s <= at_s < (one.end_s or END_OF_TIME_S):
                for placement in put(members, one):
                    room.take(placement)
        with room.beside(np.full_like(room.free, 1 << 40)):
            placed = draft.matchmaker.place_at(vms, put(vms, stay), room)
        if isinstance(placed, Unplaced) and placed.reason.code in LACKING:
            return False
    return True


@settings(derandomize=True, max_examples=300, deadline=None)
@given(groups, guests, promises, wishes, st.lists(rows, min_size=2, max_size=2))
def test_what_is_counted_is_what_is_found_by_trying_every_instant(
    group: Any, there: Any, promised: Any, wish: Any, others: list[int]
) -> None:
    state, chosen = cloud(document(group, there, promised, wish))
    draft = PlanDraft.begin(state, chosen, DecisionMemory())
    lease = state.leases[WISH]
    vms = draft.members(lease)
    start_s = scenario_reader.NOW_S + 200
    then = None
    for first in range(HOSTS):
        host_rows = [first, *others][: len(vms)]
        stay = stay_at(lease, vms, host_rows, start_s, start_s + wish[2], firm=True)
        then = then or _Then(draft, lease, vms, _promised_beside(draft, lease, stay.start_s, stay.end_s))
        assert _fits_throughout(draft, vms, stay, then) == fits_by_trial(draft, lease, vms, stay)


def _wishes_beside(promised: int, wishes: int, *, gpus: int) -> dict[str, Any]:
    """VMs of one VM group, or for a device each: some are promised to start one after the other, more ask to."""
    asks: dict[str, Any] = {"gpus": 1} if gpus else {"group": [7, "a"]}
    vms: dict[int, dict[str, Any]] = {}
    ledger: dict[str, Any] = {"leases": {}, "reservations": {}}
    for number in range(promised + wishes):
        start_s = 5000 + number if number < promised else 600
        terms = {"TYPE": "DC-NON-PREEMPTABLE", "START_IN_S": start_s, "DURATION_S": 50000}
        vms[100 + number] = {"user": "lea", "state": "HOLD", "cpu": 0.1, "memory": 10, "lease": terms} | asks
        if number < promised:
            ledger["leases"][100 + number] = {"verdict": "accepted"}
            stay = {"start_in_s": start_s, "end_in_s": start_s + 50000, "hosts": [number % 20], "firm": True}
            ledger["reservations"][100 + number] = [stay]
    hosts = {host_id: {"cpu": 64, "gpus": [-1] * gpus} for host_id in range(20)}
    return {
        "story": "",
        "hosts": hosts,
        "vms": vms,
        "vm_groups": {7: {"roles": {"a": {"policy": "ANTI_AFFINED"}}}},
        "ledger": ledger,
    }


@pytest.mark.parametrize("gpus", [0, 8])
def test_one_room_serves_all_hosts_instants_and_wishes_of_a_decision(gpus: int) -> None:
    state, chosen = cloud(_wishes_beside(40, 5, gpus=gpus))
    rooms: list[object] = []
    tried: list[object] = []
    with (
        patch.object(Matchmaker, "new_room", autospec=True, side_effect=_counted(rooms, Matchmaker.new_room)),
        patch.object(Matchmaker, "place_at", autospec=True, side_effect=_counted(tried, Matchmaker.place_at)),
    ):
        plan = decide(state, chosen)
    assert len(plan.verdicts) == 5
    assert len(rooms) <= 2, "that of the decision, and that of the time to come"
    # With devices: at its start, and when each of those comes who are promised the host.
    assert len(tried) <= (5 * 3 if gpus else 0)


def _counted(calls: list[object], function: Any) -> Any:
    def counts(*given: Any, **named: Any) -> Any:
        calls.append(given)
        return function(*given, **named)

    return counts


def test_hosts_without_the_devices_are_not_tried() -> None:
    given = _wishes_beside(0, 3, gpus=1)
    for host_id in range(1, 20):
        given["hosts"][host_id]["gpus"] = []
    state, chosen = cloud(given)
    tried: list[object] = []
    with patch.object(Matchmaker, "place_at", autospec=True, side_effect=_counted(tried, Matchmaker.place_at)):
        plan = decide(state, chosen)
    assert sorted(one.verdict for one in plan.verdicts) == [Verdict.ACCEPTED, Verdict.REFUSED, Verdict.REFUSED]
    # For each wish in up to three tables: on the hosts that have room there, and on the one with a device.
    assert len(tried) <= 3 * 3 * 2


def _promised_for_devices(full_hosts: int, idle_hosts: int, lost_hosts: int = 0) -> dict[str, Any]:
    """On each full host one that asks for a device is promised an hour to come; all hosts have a device."""
    hosts: dict[int, dict[str, Any]] = {row: {"cpu": 2, "gpus": [-1]} for row in range(full_hosts + idle_hosts)}
    vms: dict[int, dict[str, Any]] = {}
    ledger: dict[str, Any] = {"leases": {}, "reservations": {}}
    terms = {"TYPE": "DC-NON-PREEMPTABLE", "START_IN_S": 36000, "DURATION_S": 3600}
    for row in range(full_hosts):
        if row < lost_hosts:
            hosts[row]["state"] = "DISABLED"
        else:
            vms[10 + row] = {"user": "eva", "host": row, "cpu": 2, "memory": 1024}
        vms[100 + row] = {"user": "lea", "state": "HOLD", "cpu": 1, "gpus": 1, "lease": terms}
        ledger["leases"][100 + row] = {"verdict": "accepted"}
        stay = {"start_in_s": 36000, "end_in_s": 39700, "hosts": [row], "firm": True}
        ledger["reservations"][100 + row] = [stay]
    return {"story": "", "hosts": hosts, "vms": vms, "ledger": ledger}


def _matched(plan: Plan) -> set[int]:
    """Those who were promised another host."""
    return {booking.lease_id for booking in plan.bookings}


def test_long_before_others_must_leave_only_the_first_move_aside(monkeypatch: pytest.MonkeyPatch) -> None:
    state, chosen = cloud(_promised_for_devices(4, 4))
    assert _matched(decide(state, chosen)) == {100, 101, 102, 103}
    monkeypatch.setattr(room_in_time, "MATCHED_EARLY", 2)
    assert len(_matched(decide(state, chosen))) == 2
    soon = replace(state, now_s=scenario_reader.NOW_S + 36000 - 60)
    assert _matched(decide(soon, chosen)) >= {100, 101, 102, 103}


def test_of_those_that_lost_their_hosts_everybody_is_matched_sooner_or_later(monkeypatch: pytest.MonkeyPatch) -> None:
    state, chosen = cloud(_promised_for_devices(6, 6, lost_hosts=6))
    monkeypatch.setattr(mend_reservations, "MENDED_A_CYCLE", 2)
    found: set[int] = set()
    for cycle in range(40):
        mended = _matched(decide(replace(state, now_s=scenario_reader.NOW_S + cycle), chosen))
        assert 100 in mended
        assert len(mended) == 2
        found |= mended
    assert found == set(range(100, 106))
