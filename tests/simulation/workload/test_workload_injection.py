from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from msgspec.structs import replace

from one_preempt.core.model.lease import LeaseType
from one_preempt.errors import OnePreemptError
from one_preempt.simulation.workload.inject import ReservationRecipe, draw_reservations, merged, with_reservations
from one_preempt.simulation.workload.workload import LeftOut, MachineSet, StartKind, Workload, WorkloadRequest

MONTH_S = 30 * 86_400
THETAS = ((1, 24), (25, 48), (49, 72))


def recipe(rho: float = 0.15, hours: int = 3, theta: tuple[int, int] = (25, 48)) -> ReservationRecipe:
    return ReservationRecipe(rho, 144, MONTH_S, hours * 3600, *theta)


@pytest.mark.parametrize("rho", [0.05, 0.30])
@pytest.mark.parametrize("hours", [1, 4])
@pytest.mark.parametrize("theta", THETAS)
def test_reservations_keep_to_the_ranges_of_the_recipe(rho: float, hours: int, theta: tuple[int, int]) -> None:
    requests = draw_reservations(recipe(rho, hours, theta), seed=1).requests
    durations_s = [request.actual_duration_s for request in requests]
    sizes = [request.virtual_machines for request in requests]
    assert sum(request.work_vm_s for request in requests) == pytest.approx(rho * 144 * MONTH_S, rel=0.01)
    assert hours * 3600 - 1800 <= min(durations_s) <= max(durations_s) <= hours * 3600 + 1800
    assert theta[0] <= min(sizes) <= max(sizes) <= theta[1]
    for request in requests:
        assert (request.start, request.lease_type) == (StartKind.EXACT, LeaseType.DC_NON_PREEMPTABLE)
        assert request.start_at_s is not None
        assert 0 <= request.start_at_s < MONTH_S
        assert request.submitted_at_s == max(0, request.start_at_s - 86_400)


@pytest.mark.parametrize(
    ("rho", "hours", "theta", "published"),
    # What Haizea's injected reservations for the SDSC Blue log have.
    [(0.05, 1, (1, 24), 422), (0.15, 3, (1, 24), 420), (0.30, 1, (1, 24), 2499), (0.05, 4, (25, 48), 36)],
)
def test_there_are_as_many_reservations_as_in_haizeas_files(
    rho: float, hours: int, theta: tuple[int, int], published: int
) -> None:
    assert len(draw_reservations(recipe(rho, hours, theta), seed=1)) == pytest.approx(published, rel=0.06)


def test_intervals_are_uniform_around_their_mean() -> None:
    drawn = draw_reservations(recipe(0.05, 1, (1, 24)), seed=1).requests
    starts = [request.ready_at_s for request in drawn]
    assert starts[0] == 0
    intervals_s = np.array([later - earlier for earlier, later in pairwise(starts)]) - 6250
    assert np.abs(intervals_s).max() <= 3601
    assert np.all(np.histogram(intervals_s, bins=4, range=(-3601, 3601))[0] > len(drawn) / 4 * 0.7)


def test_intervals_shorter_than_their_spread_give_reservations_in_the_order_of_their_starts() -> None:
    drawn = draw_reservations(recipe(0.30, 1, (1, 24)), seed=1).requests
    assert [request.ready_at_s for request in sorted(drawn, key=lambda request: request.id)] == sorted(
        request.ready_at_s for request in drawn
    )


def test_without_a_lead_a_reservation_is_submitted_at_its_start() -> None:
    drawn = draw_reservations(replace(recipe(), lead_s=0), seed=1).requests
    assert all(request.submitted_at_s == request.start_at_s for request in drawn)


def test_the_same_seed_gives_the_same_reservations() -> None:
    assert draw_reservations(recipe(), seed=1) == draw_reservations(recipe(), seed=1)
    assert draw_reservations(recipe(), seed=1).requests != draw_reservations(recipe(), seed=2).requests


def test_a_tolerance_that_cannot_be_met_is_told() -> None:
    one_reservation = ReservationRecipe(0.01, 144, 3600, 3600, 50, 50, duration_spread_s=0)
    with pytest.raises(OnePreemptError, match="use a wider tolerance"):
        draw_reservations(one_reservation, seed=1)
    assert len(draw_reservations(replace(one_reservation, tolerance=None), seed=1)) == 1


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"share": 0.0}, "a share of 0"),
        ({"nodes": 0}, "0 nodes"),
        ({"lead_s": -1}, "-1 s ahead"),
        ({"fewest_vms": 60}, "60 to 48 VMs"),
        ({"duration_spread_s": 20_000}, "spread is shorter"),
        ({"span_s": 10**12}, "too many reservations"),
        ({"interval_spread_s": -1}, "too many reservations"),
    ],
)
def test_a_recipe_that_makes_no_sense_is_refused(changes: dict[str, int], words: str) -> None:
    with pytest.raises(OnePreemptError, match=words):
        replace(recipe(), **changes)


def test_merged_workloads_keep_both_orders_and_no_two_have_an_id() -> None:
    vms = (MachineSet(1, 100, 1024),)
    first = Workload(
        tuple(WorkloadRequest(id, at_s, vms, 5, 5) for id, at_s in ((7, 0), (3, 20))),
        name="jobs",
        site=vms,
        recorded_from_s=99,
        provenance=("read",),
        left_out=(LeftOut("bad lines", 2),),
    )
    second = Workload(
        tuple(WorkloadRequest(id, at_s, vms, 9, 9) for id, at_s in ((2, 10), (1, 30))), "others", provenance=("drawn",)
    )
    both = merged(first, second)
    assert [(r.id, r.submitted_at_s, r.actual_duration_s) for r in both.requests] == [
        (7, 0, 5),
        (9, 10, 9),
        (3, 20, 5),
        (8, 30, 9),
    ]
    assert (both.name, both.site, both.recorded_from_s) == ("jobs + others", vms, 99)
    assert both.provenance == ("read", "merged with others", "drawn")
    assert both.left_out == first.left_out
    assert [r.id for r in merged(Workload(()), second).requests] == [2, 1]


def test_reservations_are_drawn_into_a_workload() -> None:
    jobs = Workload((WorkloadRequest(5000, 0, (MachineSet(1, 100, 1024),), 60, 60),), name="jobs")
    both = with_reservations(jobs, recipe(), seed=4)
    drawn = draw_reservations(recipe(), seed=4)
    assert len(both) == 1 + len(drawn)
    assert both.work_vm_s == 60 + drawn.work_vm_s
    assert both.provenance[-1].endswith("(seed 4)")
