"""Workload allocation: PAP's rates are the best there are, and the baselines are the paper's formulas."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from one_preempt.core.workload_allocation.bcf import POLICY as BCF
from one_preempt.core.workload_allocation.lrf import POLICY as LRF
from one_preempt.core.workload_allocation.pap import POLICY as PAP
from one_preempt.core.workload_allocation.problem import (
    AllocationProblem,
    ClusterLoad,
    mean_response_s,
    parallel_service_s,
    response_s,
    second_moment_s2,
)
from one_preempt.core.workload_allocation.rr import POLICY as RR
from one_preempt.errors import OnePreemptError


def cluster(
    theta: float = 1.0, tau: float = 1.0, rate: float = 0.5, elements: int = 64, speed: float = 2.0, **other: float
) -> ClusterLoad:
    """One with the paper's variations: 0.5 of external requests, 0.1 of local ones."""
    omega, mu = second_moment_s2(theta, other.get("alpha", 0.5)), second_moment_s2(tau, other.get("beta", 0.1))
    return ClusterLoad("c", elements, speed, theta, omega, tau, mu, rate)


@st.composite
def problems(draw: st.DrawFn) -> AllocationProblem:
    """Up to six clusters that are neither full nor asked for more than they have."""

    def between(low: float, high: float) -> float:
        return draw(st.floats(low, high))

    clusters = tuple(
        cluster(theta, tau, between(0, 0.95) / tau, alpha=between(0, 3), beta=between(0, 3))
        for theta, tau in [(between(0.1, 10), between(0.1, 10)) for _ in range(draw(st.integers(1, 6)))]
    )
    return AllocationProblem(clusters, between(1e-6, 0.999) * sum(one.room_per_s for one in clusters))


def marginal_s(one: ClusterLoad, rate: float) -> float:
    """d(x T(x)) / dx, by hand from T as it is printed, where PAP uses its inverse."""
    idle = 1 - one.local_utilization
    left = idle - one.external_service_s * rate
    residual = one.external_service_s2 * rate + one.local_rate_per_s * one.local_service_s2
    of_response = (one.external_service_s2 * left + residual * one.external_service_s) / (2 * left**2) / idle
    return response_s(one, rate) + rate * of_response


def spread_evenly(problem: AllocationProblem) -> list[float]:
    """A solver that knows only marginal costs: whoever is dearest gives to the cheapest until they are alike."""
    rates = [problem.external_rate_per_s * one.room_per_s / room(problem) for one in problem.clusters]
    for _ in range(4000):
        costs = [marginal_s(one, rate) for one, rate in zip(problem.clusters, rates, strict=True)]
        giver = max((place for place, rate in enumerate(rates) if rate > 0), key=costs.__getitem__)
        taker = min(range(len(rates)), key=costs.__getitem__)
        if costs[giver] - costs[taker] <= 1e-12 * costs[giver]:
            break
        amount = _levelled(problem.clusters[giver], problem.clusters[taker], rates[giver], rates[taker])
        rates[giver], rates[taker] = rates[giver] - amount, rates[taker] + amount
    return rates


def _levelled(giver: ClusterLoad, taker: ClusterLoad, of_giver: float, of_taker: float) -> float:
    """What one has to give to another so that both cost the same, or all that it has."""
    low, high = 0.0, min(of_giver, taker.room_per_s - of_taker)
    for _ in range(100):
        middle = (low + high) / 2
        if of_taker + middle < taker.room_per_s and marginal_s(giver, of_giver - middle) > marginal_s(
            taker, of_taker + middle
        ):
            low = middle
        else:
            high = middle
    # Of who gives everything nothing may remain.
    return of_giver if of_giver - low <= 1e-14 * of_giver else low


def room(problem: AllocationProblem) -> float:
    return math.fsum(one.room_per_s for one in problem.clusters)


@given(problems())
def test_rates_are_not_negative_and_add_up(problem: AllocationProblem) -> None:
    for policy in (PAP, RR, LRF, BCF):
        rates = policy.allocate(problem)
        assert len(rates) == len(problem.clusters)
        assert all(rate >= 0 for rate in rates)
        assert sum(rates) == pytest.approx(problem.external_rate_per_s, rel=1e-12)


@given(problems())
def test_marginal_costs_are_equal_where_a_cluster_gets_any_and_not_less_elsewhere(problem: AllocationProblem) -> None:
    """The conditions of Karush, Kuhn and Tucker, which are sufficient: the cost is convex."""
    rates = PAP.allocate(problem)
    costs = [marginal_s(one, rate) for one, rate in zip(problem.clusters, rates, strict=True)]
    used = [cost for cost, rate in zip(costs, rates, strict=True) if rate > 0]
    assert max(used) <= min(used) * (1 + 1e-6)
    assert min(costs) >= min(used) * (1 - 1e-6)


@given(problems())
def test_no_other_solver_finds_less(problem: AllocationProblem) -> None:
    found, rates = spread_evenly(problem), PAP.allocate(problem)
    assert mean_response_s(problem, rates) <= mean_response_s(problem, found) * (1 + 1e-9)
    assert rates == pytest.approx(found, rel=1e-3, abs=1e-4 * problem.external_rate_per_s)


@given(problems(), st.integers(0, 2**32 - 1))
def test_no_drawn_rates_are_better(problem: AllocationProblem, seed: int) -> None:
    best = mean_response_s(problem, PAP.allocate(problem))
    drawn = np.random.default_rng(seed).dirichlet(np.ones(len(problem.clusters)), 200) * problem.external_rate_per_s
    assert best <= min(mean_response_s(problem, rates) for rates in drawn.tolist()) * (1 + 1e-9)


@given(problems(), st.data())
def test_the_order_of_the_clusters_does_not_matter(problem: AllocationProblem, data: st.DataObject) -> None:
    order = data.draw(st.permutations(range(len(problem.clusters))))
    shuffled = replace(problem, clusters=tuple(problem.clusters[place] for place in order))
    rates = PAP.allocate(problem)
    assert PAP.allocate(shuffled) == pytest.approx([rates[place] for place in order], rel=1e-9, abs=1e-12)


@given(problems(), st.floats(1e-3, 1e3))
def test_another_unit_of_time_gives_the_same_shares(problem: AllocationProblem, unit: float) -> None:
    def in_unit(one: ClusterLoad) -> ClusterLoad:
        return replace(
            one,
            external_service_s=one.external_service_s * unit, external_service_s2=one.external_service_s2 * unit**2,
            local_service_s=one.local_service_s * unit, local_service_s2=one.local_service_s2 * unit**2,
            local_rate_per_s=one.local_rate_per_s / unit,
        )  # fmt: skip

    there = AllocationProblem(tuple(map(in_unit, problem.clusters)), problem.external_rate_per_s / unit)
    assert shares(there, PAP.allocate(there)) == pytest.approx(shares(problem, PAP.allocate(problem)), abs=1e-6)


def shares(problem: AllocationProblem, rates: Sequence[float]) -> list[float]:
    return [rate / problem.external_rate_per_s for rate in rates]


def test_pap_is_the_formula_of_the_paper() -> None:
    """Two clusters, z by hand: with the rates that come of it put in, Equation 7 gives them back."""
    clusters = (cluster(theta=1.0, tau=0.5, rate=0.4), cluster(theta=1.5, tau=1.0, rate=0.3))
    rates = PAP.allocate(AllocationProblem(clusters, 0.9))
    z = marginal_s(clusters[0], rates[0])
    for one, rate in zip(clusters, rates, strict=True):
        theta, omega, mu, idle = (
            one.external_service_s, one.external_service_s2, one.local_service_s2, 1 - one.local_utilization
        )  # fmt: skip
        second = (
            idle * (omega * idle + theta * one.local_rate_per_s * mu) / (2 * theta * idle * z + omega - 2 * theta**2)
        )
        assert rate == pytest.approx(idle / theta - math.sqrt(second) / theta, rel=1e-9)


def test_one_cluster_gets_everything() -> None:
    problem = AllocationProblem((cluster(),), 0.3)
    assert {policy.allocate(problem) for policy in (PAP, RR, LRF, BCF)} == {(0.3,)}


def test_alike_clusters_get_alike() -> None:
    assert PAP.allocate(AllocationProblem((cluster(),) * 4, 1.0)) == pytest.approx([0.25] * 4)


def test_a_cluster_with_much_of_its_own_gets_nothing_until_there_is_more() -> None:
    clusters = (cluster(rate=0.1), cluster(rate=0.9))
    assert PAP.allocate(AllocationProblem(clusters, 0.1)) == (0.1, 0.0)
    # Where the second begins to be worth its load, by hand: both cost psi of the second.
    assert marginal_s(clusters[1], 0) == pytest.approx(0.9 * 1.01 / (2 * 0.1**2) + 1 / 0.1)
    assert all(PAP.allocate(AllocationProblem(clusters, 0.95)))


def test_a_tiny_rate_goes_to_the_least_loaded_and_loses_no_digits() -> None:
    clusters = (cluster(rate=0.8), cluster(rate=0.2), cluster(rate=0.2))
    assert PAP.allocate(AllocationProblem(clusters, 1e-15)) == pytest.approx([0, 5e-16, 5e-16], rel=1e-9)


def test_near_capacity_every_cluster_is_filled() -> None:
    clusters = (cluster(rate=0.9), cluster(theta=2, rate=0.2), cluster(tau=0.1, rate=0.2))
    whole = sum(one.room_per_s for one in clusters)
    rates = PAP.allocate(AllocationProblem(clusters, whole * (1 - 1e-9)))
    assert rates == pytest.approx([one.room_per_s for one in clusters], rel=1e-6)
    assert all(rate < one.room_per_s for rate, one in zip(rates, clusters, strict=True))


def test_a_cluster_without_local_requests_is_served_at_once() -> None:
    clusters = (cluster(rate=0), cluster(rate=0.9, tau=1, theta=1))
    assert PAP.allocate(AllocationProblem(clusters, 0.2)) == (0.2, 0.0)


def test_what_pap_cannot_answer_is_told() -> None:
    full = replace(cluster(tau=2, rate=0.6), name="C256")
    with pytest.raises(OnePreemptError, match=r"cluster C256 alone take 1\.2 times .* leave the cluster out"):
        PAP.allocate(AllocationProblem((cluster(), full), 0.1))
    with pytest.raises(OnePreemptError, match=r"PAP: 0\.6 external requests .* room for less than 0\.5"):
        PAP.allocate(AllocationProblem((cluster(),), 0.6))
    # The baselines know nothing of room.
    assert RR.allocate(AllocationProblem((cluster(), full), 0.1)) == (0.05, 0.05)


def test_the_baselines_are_the_papers_equations() -> None:
    c64, c128, c256 = cluster(rate=0.1), cluster(elements=128, speed=3, rate=0.2), cluster(elements=256, rate=0.5)
    problem = AllocationProblem((c64, c128, c256), 0.8)
    assert RR.allocate(problem) == pytest.approx([0.8 / 3] * 3)
    assert LRF.allocate(problem) == pytest.approx([0.8 * 7 / 16, 0.8 * 6 / 16, 0.8 * 3 / 16])
    assert BCF.allocate(problem) == pytest.approx([0.8 * 128 / 1024, 0.8 * 384 / 1024, 0.8 * 512 / 1024])


def test_least_rate_first_without_any_local_request_is_the_same_to_all() -> None:
    assert LRF.allocate(AllocationProblem((cluster(rate=0), cluster(rate=0)), 1.0)) == (0.5, 0.5)


def test_moments_of_parallel_requests_are_the_papers() -> None:
    assert parallel_service_s(5, 420, 64 * 2) == pytest.approx(16.40625)
    assert second_moment_s2(4, 0.5) == 20


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"processing_elements": 0}, "at least one is needed"),
        ({"speed": 0.0}, "a speed above 0"),
        ({"external_service_s": 0.0}, "the first must be more than 0"),
        ({"local_rate_per_s": -1.0}, "the others not less"),
        ({"local_rate_per_s": math.nan}, "finite"),
        ({"external_service_s2": 0.5}, "cannot be less than the mean squared"),
    ],
)
def test_a_cluster_that_cannot_be_is_refused(change: dict[str, float], told: str) -> None:
    with pytest.raises(OnePreemptError, match=f"cluster c: .*{told}"):
        replace(cluster(), **change)


def test_a_problem_without_clusters_or_requests_is_refused() -> None:
    with pytest.raises(OnePreemptError, match="name at least one"):
        AllocationProblem((), 1.0)
    with pytest.raises(OnePreemptError, match="a rate above 0"):
        AllocationProblem((cluster(),), 0.0)


def test_where_a_cluster_is_full_nobody_is_served() -> None:
    assert response_s(cluster(rate=0.5), 0.5) == math.inf
