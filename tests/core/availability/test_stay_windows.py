from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from random import Random

import numpy as np

from one_preempt.core.availability.gang_demand import GangDemand
from one_preempt.core.availability.profile import AvailabilityProfile
from one_preempt.core.availability.slot_reservation import SlotReservation
from one_preempt.core.availability.slot_table import PACKED_STARTS, SlotTable
from one_preempt.core.availability.stay_windows import StayWindow
from tests.core.availability.like_vms import like_vms
from tests.core.availability.naive import CASES, FOREVER, HORIZON, NaiveHosts


def test_on_other_hosts_one_may_stay_longer_but_not_come_as_early() -> None:
    table = SlotTable(np.array([[2], [1]]), 0)
    table.reserve(SlotReservation(1, 20, 50, (0,), ((2,),)))
    table.reserve(SlotReservation(2, 0, 10, (1,), ((1,),)))
    table.reserve(SlotReservation(3, 40, None, (1,), ((1,),)))
    one, two = (like_vms(count, (1,), np.ones(2, dtype=np.bool_)) for count in (1, 2))
    assert list(table.stay_windows(one, 1, 5, 100)) == [StayWindow(5, 20), StayWindow(10, 40), StayWindow(50, 100)]
    assert list(table.stay_windows(one, 20, 5, 100)) == [StayWindow(10, 40), StayWindow(50, 100)]
    assert list(table.stay_windows(two, 1, 5, 100)) == [StayWindow(5, 20), StayWindow(50, 100)]
    assert list(table.stay_windows(two, 1, 5, 60)) == [StayWindow(5, 20), StayWindow(50, 60)]


def test_after_many_packings_only_the_last_start_is_looked_at() -> None:
    """One of two VMs of 2 and 3 units fits at a time, until the last reservation is over."""
    table = SlotTable(np.array([[4], [4]]), 0)
    last_s = 10 * PACKED_STARTS
    table.reserve(SlotReservation(0, 0, last_s, (1,), ((4,),)))
    for start_s in range(2, last_s, 2):
        table.reserve(SlotReservation(start_s, start_s, start_s + 1, (0,), ((1,),)))
    demand = GangDemand(np.array([[3], [2]]), np.ones((2, 2), dtype=np.bool_))
    assert list(table.stay_windows(demand, 1, 0, 2 * last_s)) == [StayWindow(last_s, 2 * last_s)]


def widest(fits: Callable[[int, int], bool], shortest: int, not_before: int, before: int) -> list[StayWindow]:
    """By trying all intervals: those of at least that length that fit and cannot be widened either way."""
    fitting = {
        StayWindow(start, end)
        for start in range(not_before, before)
        for end in range(start + shortest, before + 1)
        if fits(start, end)
    }
    return sorted(
        window
        for window in fitting
        if window._replace(start_s=window.start_s - 1) not in fitting
        and window._replace(end_s=window.end_s + 1) not in fitting
    )


def test_windows_are_all_that_cannot_be_widened() -> None:
    for case in range(CASES // 10):
        random = Random(case)
        hosts, resources = random.randint(1, 3), random.choice((1, 2))
        capacity = [tuple(random.randint(1, 4) for _ in range(resources)) for _ in range(hosts)]
        naive, table = NaiveHosts(capacity), SlotTable(np.array(capacity, dtype=np.int64), 0)
        profile = AvailabilityProfile(capacity[0][0])
        for lease_id in range(random.randint(0, 4 * hosts)):
            start, row = random.randrange(HORIZON), random.randrange(hosts)
            end = None if random.random() < 0.05 else start + random.randint(1, 6)
            amounts = tuple(random.randint(0, 3) for _ in range(resources))
            naive.taken.append((start, FOREVER if end is None else end, row, amounts))
            table.reserve(SlotReservation(lease_id, start, end, (row,), (amounts,)))
            if row == 0:
                profile.reserve(start, end, amounts[0])
        limits = random.randint(1, 6), random.randint(0, 8), random.randint(12, HORIZON)
        compare_gang(random, naive, table, limits)
        amount = random.randint(1, 4)
        of_first = [(start, end, 0, taken[:1]) for start, end, row, taken in naive.taken if row == 0]
        alone = NaiveHosts([capacity[0][:1]], of_first)
        assert profile.stay_windows(amount, *limits) == widest(fits_on(alone, [(amount,)], [[0]]), *limits)


def compare_gang(random: Random, naive: NaiveHosts, table: SlotTable, limits: tuple[int, int, int]) -> None:
    hosts, resources = len(naive.capacity), len(naive.capacity[0])
    kinds = [
        (tuple(random.randint(0, 3) for _ in range(resources)), [random.random() < 0.8 for _ in range(hosts)])
        for _ in range(random.choice((1, 1, 2)))
    ]
    members = [random.choice(kinds) for _ in range(random.randint(1, 3))]
    allowed = [[row for row, may in enumerate(of_vm) if may] for _, of_vm in members]
    demand = GangDemand(np.array([need for need, _ in members]), np.array([may for _, may in members]))
    expected = widest(fits_on(naive, [need for need, _ in members], allowed), *limits)
    assert list(table.stay_windows(demand, *limits)) == expected


def fits_on(
    naive: NaiveHosts, needs: list[tuple[int, ...]], allowed: Sequence[Iterable[int]]
) -> Callable[[int, int], bool]:
    return lambda start, end: bool(naive.places(needs, allowed, start, end))
