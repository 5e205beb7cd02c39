"""What is asked of a few hosts, or by number, is what all hosts and the whole timeline say."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

from one_preempt.configuration.chosen_policies import admission_rules, policies
from one_preempt.core.availability.slot_reservation import SlotReservation
from one_preempt.core.availability.slot_table import SlotTable
from one_preempt.core.availability.timeline import ObservedRoom, Stay, Timeline
from one_preempt.core.matching.host_table import host_table
from one_preempt.core.matching.placement import Matchmaker
from one_preempt.core.memory.decision_memory import DecisionMemory
from one_preempt.core.memory.remembered_giving_way import GivingWay
from one_preempt.core.model.lease import PreemptionMethod
from one_preempt.core.phases.draft import PlanDraft
from one_preempt.core.phases.reservations.giving_way import there_at
from one_preempt.core.phases.reservations.leaving_in_time import who_must_leave
from one_preempt.core.phases.reservations.room_ahead import firm_ceiling, firm_room_left, free_but_for, is_short
from one_preempt.core.reconcile import reconcile
from tests import scenario_reader
from tests.core.availability.naive import CASES
from tests.scenario_reader import NOW_S

ONE_VM = (100, 1024)
ROUNDS = CASES // 4


def _stay(lease_id: int, start_s: int, end_s: int | None, *rows: int, firm: bool = True) -> Stay:
    return Stay(lease_id, start_s, end_s, rows, (ONE_VM,) * len(rows), firm=firm)


def _drawn_stays(chance: Random, lease_id: int, hosts: int) -> tuple[Stay, ...]:
    """One to three stays one after the other on one to three hosts."""
    stays, at_s = [], chance.randint(0, 20)
    for _ in range(chance.randint(1, 3)):
        end_s = at_s + chance.randint(1, 15)
        rows = chance.sample(range(hosts), chance.randint(1, 3))
        stays.append(_stay(lease_id, at_s, end_s, *rows, firm=chance.random() < 0.8))
        at_s = end_s + chance.randint(0, 5)
    return tuple(stays)


def _drawn_timeline(chance: Random, hosts: int, *, counted: bool) -> Timeline:
    base = np.tile(np.array(ONE_VM, dtype=np.int64), (hosts, 1))
    stays = {lease_id: _drawn_stays(chance, lease_id, hosts) for lease_id in range(1, chance.randint(2, 5))}
    room = ObservedRoom(tuple(range(hosts)), base, base, stays, np.ones(hosts, dtype=np.bool_))
    return Timeline(room, 0, hosts if counted else None)


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_room_by_number_is_what_is_left_without_the_lease(seed: int) -> None:
    chance = Random(seed)
    timeline = _drawn_timeline(chance, 6, counted=True)
    lease_id, vms = chance.randint(1, 5), chance.randint(1, 6)
    duration_s, start_s = chance.choice((None, 1, 5, 30)), chance.randint(0, 25)
    assert timeline.alike is not None
    before = [part.tolist() for part in timeline.alike.profile.as_steps()]
    answer = timeline.has_counted_room(lease_id, vms, duration_s, start_s)
    assert [part.tolist() for part in timeline.alike.profile.as_steps()] == before
    timeline.withdraw(lease_id)
    beside_s = timeline.beside_counted(vms, duration_s, start_s)
    assert answer is (timeline.is_empty or beside_s == start_s)


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_what_is_free_but_for_a_lease_is_what_is_free_once_it_is_withdrawn(seed: int) -> None:
    chance = Random(seed)
    timeline = _drawn_timeline(chance, 5, counted=chance.random() < 0.5)
    lease_id, start_s = chance.randint(1, 4), chance.randint(0, 30)
    own = timeline.stays.get(lease_id, ())
    spans = [(start_s, None), (start_s, start_s + 5), *((stay.start_s, stay.end_s) for stay in own)]
    rows = tuple(chance.sample(range(5), 3))
    told = [
        (
            free_but_for(timeline, lease_id, *span, firmly=firmly),
            free_but_for(timeline, lease_id, *span, rows, firmly=firmly),
        )
        for span in spans
        for firmly in (False, True)
    ]
    assert timeline.stays.get(lease_id, ()) == own
    timeline.withdraw(lease_id)
    tables = (timeline.all_stays.table, timeline.firm_stays)
    found = [table.free_during(*span) for span in spans for table in tables]
    for (everywhere, there), expected in zip(told, found, strict=True):
        assert everywhere.tolist() == expected.tolist()
        assert there.tolist() == expected[list(rows)].tolist()


def test_by_number_there_is_always_room_where_hosts_are_named() -> None:
    timeline = _drawn_timeline(Random(1), 4, counted=False)
    assert timeline.has_counted_room(1, 9, None, 0)


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_a_few_hosts_are_asked_as_all_are(seed: int) -> None:
    chance = Random(seed)
    table = SlotTable(np.tile(np.array(ONE_VM, dtype=np.int64), (7, 1)), 0)
    reserved: list[SlotReservation] = []
    for number in range(12):
        start_s, rows = chance.randint(0, 30), chance.sample(range(7), chance.randint(1, 3))
        end_s = chance.choice((None, start_s + chance.randint(1, 10)))
        one = SlotReservation(number, start_s, end_s, tuple(rows), ((1, 2),) * len(rows))
        table.reserve(one)
        reserved.append(one)
        if chance.random() < 0.4:
            table.forget_before(table.since_s + chance.randint(0, 2))
        rows = chance.sample(range(7), chance.randint(1, 4))
        start_s = table.since_s + chance.randint(0, 20)
        span = (start_s, chance.choice((None, start_s + chance.randint(1, 20))))
        assert table.free_on(rows, *span).tolist() == table.free_during(*span)[rows].tolist()


def test_what_is_taken_back_for_a_moment_is_there_as_before() -> None:
    table = SlotTable(np.tile(np.array(ONE_VM, dtype=np.int64), (3, 1)), 0)
    one = SlotReservation(1, 5, 9, (0, 2), (ONE_VM,) * 2)
    table.reserve(one)
    before = table.free_during(0, None).tolist()
    table.release(one)
    table.reserve(SlotReservation(1, 5, 9, (0, 2), (ONE_VM,) * 2))
    assert table.free_during(0, None).tolist() == before
    table.release(one)
    assert table.free_during(0, None).tolist() == [list(ONE_VM)] * 3


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_hosts_of_which_nothing_changed_have_free_what_they_had(seed: int) -> None:
    chance = Random(seed)
    table = SlotTable(np.tile(np.array(ONE_VM, dtype=np.int64), (5, 1)), 0)
    reserved: list[SlotReservation] = []
    kept = 0
    for number in range(15):
        rows = tuple(chance.sample(range(5), chance.randint(1, 3)))
        before = [table.free_over_time(row) for row in rows], table.number
        if reserved and chance.random() < 0.4:
            table.release(reserved.pop(chance.randrange(len(reserved))))
        elif chance.random() < 0.2:
            table.change_capacity(np.array([chance.choice(((0, 0), (5, 5))) for _ in range(5)], dtype=np.int64))
        else:
            start_s, taken = chance.randint(20, 30), tuple(chance.sample(range(5), chance.randint(1, 2)))
            reserved.append(SlotReservation(number, start_s, start_s + 9, taken, ((1, 2),) * len(taken)))
            table.reserve(reserved[-1])
        table.forget_before(number)
        if table.is_unchanged(before[1], rows):
            kept += 1
            for row, (_, free) in zip(rows, before[0], strict=True):
                assert table.free_over_time(row)[1].tolist() == free.tolist()
        else:
            assert table.number > before[1]
    assert kept


def test_what_is_taken_back_unseen_is_no_change() -> None:
    table = SlotTable(np.tile(np.array(ONE_VM, dtype=np.int64), (3, 1)), 0)
    one = SlotReservation(1, 5, 9, (0, 2), (ONE_VM,) * 2)
    table.reserve(one)
    number = table.number
    table.release(one)
    table.reserve(one)
    table.forget_before(3)
    assert table.number == number
    table.release(one)
    assert table.is_unchanged(number, (1,))
    assert not table.is_unchanged(number, (1, 2))


# -- a draft -------------------------------------------------------------------------------------------------

# VMs 1 and 2 give way; 3 does not. VM 7 is to have hosts 0 and 1, where one of them still is, VM 8 host 2 in pieces.
DOCUMENT: dict[str, Any] = {
    "hosts": {0: {"cpu": 2}, 1: {"cpu": 2}, 2: {"cpu": 2}},
    "vms": {
        1: {"user": "eva", "host": 0, "lease": {"TYPE": "BE-SUSPENDABLE", "DURATION_S": 9000}},
        2: {"user": "eva", "host": 1},
        3: {"user": "paul", "host": 1, "lease": {"TYPE": "DC-NON-PREEMPTABLE", "DURATION_S": 7200}},
        7: {
            "user": "lea", "state": "HOLD", "cpu": 2,
            "lease": {"TYPE": "DC-NON-PREEMPTABLE", "START_IN_S": 600, "DURATION_S": 3600},
        },
        8: {
            "user": "lea", "state": "HOLD",
            "lease": {"TYPE": "DC-MIGRATABLE", "DURATION_S": 3600, "DEADLINE_IN_S": 40_000},
        },
    },
    "ledger": {
        "leases": {7: {"verdict": "accepted"}, 8: {"verdict": "accepted"}},
        "reservations": {
            7: [{"start_in_s": 600, "end_in_s": 4240, "hosts": [0], "firm": True}],
            8: [
                {"start_in_s": 900, "end_in_s": 2700, "hosts": [1], "firm": True},
                {"start_in_s": 5000, "end_in_s": 6800, "hosts": [2], "firm": True},
            ],
        },
    },
}  # fmt: skip


def _draft() -> PlanDraft:
    settings = scenario_reader.settings_of(DOCUMENT)
    snapshot = scenario_reader.snapshot_of(DOCUMENT)
    ledger = scenario_reader.ledger_of(DOCUMENT, snapshot)
    state = reconcile(snapshot, ledger, admission_rules(settings), NOW_S).state
    return PlanDraft.begin(state, policies(settings), DecisionMemory())


def test_what_a_stay_leaves_of_its_hosts_is_what_all_hosts_have() -> None:
    draft = _draft()
    asked = 0
    for lease_id in (7, 8):
        lease = draft.state.leases[lease_id]
        for own in draft.timeline.stays[lease_id]:
            for rows in ((0,), (1,), (2,), (0, 2), (1, 1)):
                for start_s, end_s in ((own.start_s, own.end_s), (own.start_s + 60, own.end_s), (own.start_s, None)):
                    stay = _stay(lease_id, start_s, end_s, *rows)
                    expected = firm_ceiling(draft, lease, start_s, end_s)
                    assert expected is not None
                    for row, amounts in zip(stay.host_rows, stay.amounts, strict=True):
                        expected[row] -= amounts
                    left = firm_room_left(draft, lease, stay, there_at(draft, lease, stay))
                    least = {row: np.min(list(parts.values()), axis=0).tolist() for row, parts in left.items()}
                    assert least == {row: expected[row].tolist() for row in rows}
                    asked += 1
    assert asked == 45


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_those_who_are_there_count_until_they_end(seed: int) -> None:
    """Second by second it is the same."""
    chance, draft = Random(seed), _draft()
    lease, ends_s = draft.state.leases[7], {1: 0, 2: 0}
    draft.timeline.withdraw(7)
    for lease_id in (20, 21, 22):
        start_s = NOW_S + chance.randint(0, 20)
        draft.timeline.replace(lease_id, (_stay(lease_id, start_s, start_s + 8, chance.randrange(3)),))
    there: list[GivingWay] = []
    for lease_id, row in ((1, 0), (2, chance.randrange(2))):
        ends_s[lease_id] = NOW_S + chance.randint(1, 30)
        _stands_there(draft, lease_id, row, ends_s[lease_id])
        there += draft.giving_way.leases or ()
    _give_way(draft, *there)
    start_s, end_s = NOW_S + chance.randint(0, 5), NOW_S + chance.randint(10, 35)
    seconds = []
    for second_s in range(start_s, end_s):
        free = free_but_for(draft.timeline, 7, second_s, second_s + 1, firmly=True)
        for one in there:
            if ends_s[one.lease.id] > max(start_s, second_s):
                free[one.rows[0]] -= ONE_VM
        seconds.append(free)
    expected = np.min(seconds, axis=0)
    ceiling = firm_ceiling(draft, lease, start_s, end_s)
    assert ceiling is not None
    assert ceiling.tolist() == expected.tolist()
    stay = _stay(7, start_s, end_s, 0, 1)
    left = firm_room_left(draft, lease, stay, there_at(draft, lease, stay))
    assert is_short(left) is bool((expected[:2] < ONE_VM).any())


def _next_to(draft: PlanDraft, chance: Random) -> None:
    """Something happens to what decides who must leave for leases 7 and 8."""
    happens = chance.randrange(5)
    lease_id, row, start_s = chance.choice((7, 8, 9, 10)), chance.randrange(3), NOW_S + chance.choice((300, 600, 3000))
    if happens < 3:
        draft.timeline.replace(lease_id, (_stay(lease_id, start_s, start_s + 4000, row, firm=chance.random() < 0.7),))
    elif happens == 3:
        draft.timeline.withdraw(chance.choice((9, 10)))
    else:
        _stands_there(draft, chance.choice((1, 2)), row, chance.choice((None, NOW_S + 500, NOW_S + 5000)))


def _stands_there(draft: PlanDraft, lease_id: int, row: int, ends_at_s: int | None) -> None:
    lease = draft.state.leases[lease_id]
    one = GivingWay(lease, tuple(draft.members(lease)), (PreemptionMethod.STOP,), (row,), ends_at_s)
    _give_way(draft, one)


def _give_way(draft: PlanDraft, *found: GivingWay) -> None:
    draft.giving_way.leases = found
    draft.memory.giving_way.remember(found)


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_who_must_leave_is_remembered_as_it_would_be_found(seed: int) -> None:
    chance, draft, someone = Random(seed), _draft(), 0
    _stands_there(draft, 1, 0, None)
    for _ in range(25):
        for lease_id in (7, 8):
            lease = draft.state.leases[lease_id]
            for stay in draft.timeline.stays.get(lease_id, ()):
                remembered = who_must_leave(draft, lease, stay)
                memory, draft.memory = draft.memory, DecisionMemory()
                assert tuple(remembered) == tuple(who_must_leave(draft, lease, stay))
                draft.memory = memory
                someone += bool(remembered)
        _next_to(draft, chance)
    assert someone


# -- where nothing is free -----------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_where_all_is_full_the_same_is_said_at_once(seed: int) -> None:
    """With a mask of all hosts the search is made; it has to say the same."""
    chance = Random(seed)
    document: dict[str, Any] = {
        "hosts": {number: {"cpu": chance.choice((1, 2)), "memory": 2048} for number in range(4)},
        "vms": {
            **{
                number: {"host": number % 4, "cpu": 1, "memory": chance.choice((512, 2048))}
                for number in range(chance.randint(3, 8))
            },
            **{
                20 + number: {"state": "PENDING", "cpu": chance.choice((1, 1, 2)), "memory": 1024}
                for number in range(chance.randint(2, 4))
            },
        },
    }
    snapshot = scenario_reader.snapshot_of(document)
    options = policies(scenario_reader.settings_of(document)).match
    matchmaker = Matchmaker(snapshot, host_table(snapshot.hosts), options)
    waiting = [vm for vm in snapshot.vms.values() if vm.id >= 20]
    everywhere = np.ones(4, dtype=np.bool_)
    at_once = matchmaker.place_together(waiting, matchmaker.new_room())
    assert at_once == matchmaker.place_together(waiting, matchmaker.new_room(), everywhere)
