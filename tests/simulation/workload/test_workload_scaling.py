from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from one_preempt.errors import OnePreemptError
from one_preempt.simulation.workload.lublin99 import TYPELESS, Lublin99
from one_preempt.simulation.workload.scaling import (
    adjusted_to_means,
    offered_load,
    with_durations_scaled,
    with_load_scaled,
    with_offered_load,
    with_overruns_cut,
    with_sizes_scaled,
    with_span,
)
from one_preempt.simulation.workload.swf import read_swf
from one_preempt.simulation.workload.swf_workload import workload_from_swf
from one_preempt.simulation.workload.workload import MachineSet, StartKind, Workload, WorkloadRequest

SLICE = Path(__file__).parents[2] / "traces" / "haizea-blue-30days.swf.gz"


def a_request(
    id: int = 1, at_s: int = 0, vms: int = 4, requested_s: int | None = 100, actual_s: int = 80
) -> WorkloadRequest:
    return WorkloadRequest(id, at_s, (MachineSet(vms, 100, 1024),), requested_s, actual_s)


RESERVED = WorkloadRequest(2, 100, (MachineSet(1, 100, 1024),), 60, 60, StartKind.EXACT, start_at_s=500)
CONSTRAINED = WorkloadRequest(3, 100, (MachineSet(1, 100, 1024),), 60, 60, StartKind.DEADLINE, 500, 620)


def test_more_load_brings_arrivals_nearer_and_keeps_lead_and_slack() -> None:
    reserved, constrained = with_load_scaled(Workload((RESERVED, CONSTRAINED)), 2).requests
    assert (reserved.submitted_at_s, reserved.start_at_s) == (50, 450)
    assert (constrained.submitted_at_s, constrained.start_at_s, constrained.deadline_at_s) == (50, 450, 570)


def test_arrivals_are_stretched_to_a_span() -> None:
    workload = with_span(Workload((a_request(1, 10), a_request(2, 70))), 140)
    assert [request.submitted_at_s for request in workload.requests] == [20, 140]
    # A quotient of floating-point numbers would lose the last second.
    assert with_span(Workload((a_request(1, 0), a_request(2, 2_194_161))), 1_209_600).span_s == 1_209_600
    with pytest.raises(OnePreemptError, match="cannot be stretched"):
        with_span(Workload((a_request(),)), 140)


@pytest.mark.parametrize(("requested_s", "actual_s", "cut_s"), [(120, 500, 120), (120, 60, 60), (None, 60, 60)])
def test_over_runs_are_cut_at_the_time_that_was_asked_for(requested_s: int | None, actual_s: int, cut_s: int) -> None:
    workload = with_overruns_cut(Workload((a_request(requested_s=requested_s, actual_s=actual_s),)))
    assert [request.actual_duration_s for request in workload.requests] == [cut_s]


def test_the_blue_slice_is_brought_to_the_load_that_the_paper_states() -> None:
    workload = workload_from_swf(read_swf(SLICE))
    span_s = 30 * 86_400
    assert offered_load(workload, 512, span_s) == pytest.approx(0.198, abs=0.0005)
    denser = with_offered_load(workload, 512, 0.348, span_s)
    assert denser.work_vm_s == workload.work_vm_s
    assert offered_load(denser, 512, round(span_s * denser.span_s / workload.span_s)) == pytest.approx(0.348, rel=1e-4)


@pytest.mark.parametrize(("factor", "most", "vms"), [(0.1, None, 1), (0.6, None, 2), (2.5, None, 10), (2.5, 8, 8)])
def test_sizes_are_rounded_and_held_within_their_bounds(factor: float, most: int | None, vms: int) -> None:
    assert with_sizes_scaled(Workload((a_request(),)), factor, most).requests[0].virtual_machines == vms


@settings(derandomize=True, max_examples=200, deadline=None)
@given(counts=st.lists(st.integers(1, 50), min_size=1, max_size=4), factor=st.floats(0.05, 9))
def test_unlike_vms_keep_their_proportions(counts: list[int], factor: float) -> None:
    vm_sets = tuple(MachineSet(count, 100 + index, 512) for index, count in enumerate(counts))
    request = WorkloadRequest(1, 0, vm_sets, 10, 10)
    scaled = with_sizes_scaled(Workload((request,)), factor).requests[0]
    assert [vm_set.cpu_centi for vm_set in scaled.vm_sets] == [vm_set.cpu_centi for vm_set in vm_sets]
    wanted = max(1, int(sum(counts) * factor + 0.5))
    assert scaled.virtual_machines >= len(counts)
    if all(vm_set.count > 1 for vm_set in scaled.vm_sets):
        assert scaled.virtual_machines == wanted
        assert all(
            abs(s.count - o.count * wanted / sum(counts)) < 1 for s, o in zip(scaled.vm_sets, vm_sets, strict=True)
        )


def test_durations_are_scaled_with_estimates_and_slack() -> None:
    workload = Workload((a_request(), CONSTRAINED, a_request(4, requested_s=None, actual_s=0)))
    job, empty, constrained = with_durations_scaled(workload, 1.5).requests
    assert (job.requested_duration_s, job.actual_duration_s) == (150, 120)
    assert (empty.requested_duration_s, empty.actual_duration_s) == (None, 0)
    assert (constrained.requested_duration_s, constrained.deadline_at_s) == (90, 500 + 180)


def test_what_took_time_still_takes_a_second() -> None:
    request = with_durations_scaled(Workload((a_request(),)), 0.001).requests[0]
    assert (request.requested_duration_s, request.actual_duration_s) == (1, 1)


def test_the_model_is_adjusted_to_the_means_of_ccpe13() -> None:
    drawn = Lublin99((TYPELESS,)).for_nodes(32).draw(1, requests=3000)
    adjusted = adjusted_to_means(with_span(drawn, 14 * 86_400), 4, 7200, 32)
    sizes = [request.virtual_machines for request in adjusted.requests]
    assert sum(sizes) == 12_000
    assert (min(sizes), max(sizes)) == (1, 32)
    assert sum(request.actual_duration_s for request in adjusted.requests) == 3000 * 7200
    assert all(request.requested_duration_s == request.actual_duration_s for request in adjusted.requests)
    assert adjusted.provenance[-1] == "adjusted to means of 4 VMs and 7200 s, at most 32 VMs"


@settings(derandomize=True, max_examples=150, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 64), min_size=1, max_size=30),
    mean=st.floats(1, 32),
    mean_s=st.floats(1, 10_000),
)
def test_any_reachable_means_are_met_within_bounds(sizes: list[int], mean: float, mean_s: float) -> None:
    workload = Workload(tuple(a_request(id, vms=vms, actual_s=7 * vms) for id, vms in enumerate(sizes)))
    adjusted = adjusted_to_means(workload, mean, mean_s, 32).requests
    assert all(1 <= request.virtual_machines <= 32 for request in adjusted)
    assert abs(sum(request.virtual_machines for request in adjusted) - mean * len(sizes)) <= 0.51
    assert abs(sum(request.actual_duration_s for request in adjusted) - mean_s * len(sizes)) <= 0.51


@pytest.mark.parametrize(("mean_vms", "mean_s"), [(0.9, 100), (33, 100), (4, 0.5)])
def test_means_out_of_reach_are_refused(mean_vms: float, mean_s: float) -> None:
    with pytest.raises(OnePreemptError, match="no factor gives a mean"):
        adjusted_to_means(Workload((a_request(),)), mean_vms, mean_s, 32)


def test_factors_that_make_no_sense_are_refused() -> None:
    workload = Workload((a_request(1, 0), a_request(2, 9)))
    for factor in (0.0, -1.0, float("inf"), float("nan")):
        for scale in (with_load_scaled, with_sizes_scaled, with_durations_scaled):
            with pytest.raises(OnePreemptError, match="is more than 0"):
                scale(workload, factor)
    with pytest.raises(OnePreemptError, match="no capacity"):
        offered_load(workload, 0)
    with pytest.raises(OnePreemptError, match="no means"):
        adjusted_to_means(Workload(()), 4, 7200, 32)


@settings(derandomize=True, max_examples=100, deadline=None)
@given(times=st.lists(st.integers(0, 10**7), min_size=1, max_size=20), factor=st.floats(0.01, 100))
def test_scaling_the_load_keeps_the_order_of_arrivals(times: list[int], factor: float) -> None:
    assume(len(set(times)) == len(times))
    workload = Workload(tuple(a_request(id, at_s) for id, at_s in enumerate(sorted(times))))
    ids = [request.id for request in with_load_scaled(workload, factor).requests]
    assert ids == sorted(ids)
