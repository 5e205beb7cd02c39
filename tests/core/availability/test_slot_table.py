from __future__ import annotations

from random import Random

import numpy as np
import pytest

from one_preempt.core.availability.gang_demand import GangDemand
from one_preempt.core.availability.slot_reservation import SlotReservation
from one_preempt.core.availability.slot_table import PACKED_STARTS, GangSlot, SlotTable
from one_preempt.core.availability.steps import END_OF_TIME_S
from tests.core.availability.like_vms import like_vms
from tests.core.availability.naive import CASES, FOREVER, HORIZON, NaiveHosts


def stay(lease_id: int, start_s: int, end_s: int | None, rows: tuple[int, ...], *need: int) -> SlotReservation:
    return SlotReservation(lease_id, start_s, end_s, rows, (need,) * len(rows))


def table_of(*capacity: tuple[int, ...]) -> SlotTable:
    return SlotTable(np.array(capacity, dtype=np.int64), 0)


def anywhere(hosts: int) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    return np.ones(hosts, dtype=np.bool_)


def test_what_is_free_over_an_interval_is_the_least_on_each_host() -> None:
    table = table_of((400, 1000), (800, 500))
    table.reserve(stay(1, 10, 20, (0,), 300, 100))
    table.reserve(stay(2, 15, None, (0, 1), 100, 200))
    assert table.free_during(0, 10).tolist() == [[400, 1000], [800, 500]]
    assert table.free_during(0, 16).tolist() == [[0, 700], [700, 300]]
    assert table.free_during(20, None).tolist() == [[300, 800], [700, 300]]


def test_a_gang_starts_when_all_its_vms_fit_together() -> None:
    table = table_of((2, 2), (2, 2))
    table.reserve(stay(1, 0, 10, (0,), 2, 2))
    table.reserve(stay(2, 0, 30, (1,), 1, 1))
    assert table.earliest_fit(like_vms(3, (1, 1), anywhere(2)), 5, 0) == GangSlot(10, (0, 0, 1))
    assert table.earliest_fit(like_vms(4, (1, 1), anywhere(2)), 5, 0) == GangSlot(30, (0, 0, 1, 1))
    assert table.earliest_fit(like_vms(5, (1, 1), anywhere(2)), 5, 0) is None


def test_a_gang_does_not_start_before_a_reservation_that_would_cut_it_short() -> None:
    table = table_of((2,))
    table.reserve(stay(1, 10, 20, (0,), 1))
    demand = like_vms(2, (1,), anywhere(1))
    assert table.earliest_fit(demand, 10, 0) == GangSlot(0, (0, 0))
    assert table.earliest_fit(demand, 11, 0) == GangSlot(20, (0, 0))
    assert table.earliest_fit(demand, None, 0) == GangSlot(20, (0, 0))
    assert table.fit_at(demand, 0, 10) == (0, 0)
    assert table.fit_at(demand, 1, 11) is None


def test_vms_stay_where_they_may_go_and_apart_where_they_must() -> None:
    table = table_of((4,), (4,), (4,))
    needs = np.array([[1], [1]], dtype=np.int64)
    allowed = np.array([[False, True, True]] * 2)
    assert table.fit_at(GangDemand(needs, allowed), 0, 5) == (1, 1)
    assert table.fit_at(GangDemand(needs, allowed, separate=((0, 1),)), 0, 5) == (1, 2)
    assert table.fit_at(GangDemand(needs, allowed, host_order=np.array([2, 0, 1])), 0, 5) == (2, 2)


def test_the_preferred_hosts_are_taken_first_by_vms_that_differ_too() -> None:
    table = table_of((4,), (4,), (4,))
    demand = GangDemand(np.array([[3], [2]]), np.ones((2, 3), dtype=np.bool_), host_order=np.array([2, 1, 0]))
    assert table.fit_at(demand, 0, 5) == (2, 1)


def test_the_search_for_a_packing_is_bounded_and_ends_where_all_is_free() -> None:
    table = table_of((4,), (4,))
    for start_s in range(0, 4 * PACKED_STARTS, 2):
        table.reserve(stay(start_s, start_s, start_s + 1, (0,), 1))
    last_s = 8 * PACKED_STARTS
    table.reserve(stay(-1, 0, last_s, (1,), 4))
    demand = GangDemand(np.array([[3], [2]]), np.ones((2, 2), dtype=np.bool_))
    assert table.earliest_fit(demand, 1, 0) == GangSlot(last_s, (0, 1))


def test_undo_brings_back_rooms_and_reservations() -> None:
    table = table_of((4,))
    running = stay(1, 0, 50, (0,), 4)
    table.reserve(running)
    mark = table.checkpoint()
    table.release(running)
    table.reserve(stay(1, 0, 20, (0,), 4))
    assert table.free_over_time(0)[0].tolist() == [0, 20]
    table.rollback(mark)
    assert table.reservations_of(1) == (running,)
    assert table.free_over_time(0)[0].tolist() == [0, 50]


def test_of_overbooked_hosts_it_is_known_when_that_is_over() -> None:
    table = table_of((4,), (4,), (4,))
    for lease_id, start_s, end_s, row in (
        (1, 0, 30, 0),
        (2, 10, 20, 0),
        (3, 20, None, 2),
        (4, 40, 50, 2),
        (5, 5, 9, 1),
    ):
        table.reserve(stay(lease_id, start_s, end_s, (row,), 3))
    assert table.overbooked() == {0: 20, 2: 50}
    table.reserve(stay(60, 60, None, (2,), 2))
    assert table.overbooked()[2] == END_OF_TIME_S
    table.forget_before(25)
    assert table.overbooked().keys() == {2}


def test_what_is_reserved_twice_or_not_at_all_is_named() -> None:
    table = table_of((4,))
    table.reserve(stay(1, 0, 5, (0,), 1))
    with pytest.raises(ValueError, match="already"):
        table.reserve(stay(1, 0, 5, (0,), 1))
    with pytest.raises(ValueError, match="not in the slot table"):
        table.release(stay(1, 0, 6, (0,), 1))
    with pytest.raises(ValueError, match="ends before it starts"):
        stay(1, 5, 5, (0,), 1)


def test_reservations_that_have_ended_are_forgotten() -> None:
    table = table_of((4,))
    for start_s in range(0, 100, 10):
        table.reserve(stay(1, start_s, start_s + 10, (0,), 1 + start_s % 4))
    table.forget_before(55)
    assert [one.start_s for one in table.reservations_of(1)] == [50, 60, 70, 80, 90]
    assert table.free_over_time(0)[0].tolist() == [55, 60, 70, 80, 90, 100]


# -- against the list of reservations ---------------------------------------------------------------------------


class Case:
    """A few hosts, random changes of the table and of the list, random demands."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.resources = self.random.choice((1, 2))
        self.hosts = self.random.randint(1, 3)
        capacity = [self.amounts(4, 8) for _ in range(self.hosts)]
        self.naive = NaiveHosts(capacity)
        self.table = table_of(*capacity)
        self.lease_id = 0

    def amounts(self, least: int, most: int) -> tuple[int, ...]:
        return tuple(self.random.randint(least, most) for _ in range(self.resources))

    def change(self) -> None:
        mark, before = self.table.checkpoint(), list(self.naive.taken)
        for _ in range(self.random.randint(1, 3)):
            known = [one for of_lease in self.table.reservations().values() for one in of_lease]
            if known and self.random.random() < 0.3:
                self.release(self.random.choice(known))
            else:
                self.reserve()
        if self.random.random() < 0.2:
            self.table.rollback(mark)
            self.naive.taken = before

    def reserve(self) -> None:
        start = self.random.randrange(HORIZON - 1)
        end = None if self.random.random() < 0.1 else self.random.randint(start + 1, HORIZON)
        rows = tuple(self.random.randrange(self.hosts) for _ in range(self.random.randint(1, 2)))
        self.lease_id += 1
        reservation = SlotReservation(self.lease_id, start, end, rows, tuple(self.amounts(0, 3) for _ in rows))
        self.table.reserve(reservation)
        self.naive.taken += self.entries(reservation)

    def release(self, reservation: SlotReservation) -> None:
        self.table.release(reservation)
        for entry in self.entries(reservation):
            self.naive.taken.remove(entry)

    def entries(self, one: SlotReservation) -> list[tuple[int, int, int, tuple[int, ...]]]:
        end = FOREVER if one.end_s is None else one.end_s
        return [(one.start_s, end, row, needs) for row, needs in zip(one.host_rows, one.amounts, strict=True)]

    def demand(self) -> GangDemand:
        kinds = [(self.amounts(1, 4), [self.random.random() < 0.8 for _ in range(self.hosts)]) for _ in range(2)]
        vms = [self.random.choice(kinds[: self.random.randint(1, 2)]) for _ in range(self.random.randint(1, 4))]
        separate = (tuple(range(len(vms))),) if self.random.random() < 0.2 else ()
        order = np.array(self.random.sample(range(self.hosts), self.hosts)) if self.random.random() < 0.5 else None
        needs, allowed = np.array([need for need, _ in vms]), np.array([may for _, may in vms])
        on_one_host = not separate and self.random.random() < 0.5
        return GangDemand(needs, allowed, separate, order, on_one_host)

    def ways(self, demand: GangDemand, start: int, end: int) -> list[tuple[int, ...]]:
        needs = [tuple(need) for need in demand.needs.tolist()]
        ways = self.naive.places(needs, [np.flatnonzero(row).tolist() for row in demand.allowed], start, end)
        ways = [rows for rows in ways if not demand.on_one_host or len(set(rows)) == 1]
        return [rows for rows in ways if not demand.separate or len(set(rows)) == len(rows)]

    def compare(self, now: int) -> None:
        start = self.random.randint(now, HORIZON)
        end = self.random.choice((FOREVER, start + self.random.randint(1, 20)))
        lowest = [self.naive.lowest(host, start, end) for host in range(self.hosts)]
        free = self.table.free_during(start, None if end == FOREVER else end)
        assert [tuple(row) for row in free.tolist()] == lowest
        demand, duration = self.demand(), None if end == FOREVER else end - start
        fit = self.table.fit_at(demand, start, None if duration is None else end)
        ways = self.ways(demand, start, end)
        assert (fit in ways) if ways else fit is None
        slot = self.table.earliest_fit(demand, duration, start)
        candidates = ((t, self.ways(demand, t, t + end - start)) for t in range(start, HORIZON + 2))
        first, ways = next(((t, ways) for t, ways in candidates if ways), (None, []))
        assert slot is None if first is None else slot is not None and slot.start_s == first and slot.host_rows in ways

    def compare_with_scratch(self, now: int) -> None:
        scratch = SlotTable(np.array(self.naive.capacity, dtype=np.int64), now)
        for of_lease in self.table.reservations().values():
            for reservation in of_lease:
                scratch.reserve(reservation)
        assert scratch.reservations() == dict(self.table.reservations())
        assert scratch.overbooked() == self.table.overbooked()
        for row in range(self.hosts):
            for column, other in zip(scratch.free_over_time(row), self.table.free_over_time(row), strict=True):
                np.testing.assert_array_equal(column, other)


def test_the_slot_table_is_the_list_of_reservations_counted_minute_by_minute() -> None:
    for seed in range(CASES):
        case = Case(seed)
        for _ in range(case.random.randint(0, 6)):
            case.change()
        now = case.random.choice((0, case.random.randrange(HORIZON)))
        case.table.forget_before(now)
        case.compare_with_scratch(now)
        case.compare(now)
