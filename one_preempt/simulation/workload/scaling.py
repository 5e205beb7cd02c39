"""One workload made out of another: more or less load, larger or smaller leases, longer or shorter ones.

Starts and deadlines move with what they hang on. Where arrivals move, the time from a submission to its start and from
there to the deadline stays as it is; where durations are scaled, the latter is scaled with them.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import accumulate

from msgspec.structs import replace

from one_preempt.errors import OnePreemptError
from one_preempt.simulation.workload.workload import MachineSet, Workload, WorkloadRequest

_BISECTIONS = 200
_GREATEST_FACTOR = 1e9


def with_load_scaled(workload: Workload, factor: float) -> Workload:
    """The same requests in 1/`factor` of the time: gaps between arrivals shrink, and the load grows."""
    _check(factor, "a factor of the load")
    return workload.mapped(f"load scaled by {factor:g}", lambda request: _moved(request, 1 / factor))


def with_span(workload: Workload, span_s: int) -> Workload:
    """The same requests, the last of them submitted at `span_s`."""
    if not workload.span_s or span_s < 1:
        raise OnePreemptError(f"arrivals over {workload.span_s} s cannot be stretched to {span_s} s")
    # Exactly: as a floating-point number it may lose the last second.
    stretched = Fraction(span_s, workload.span_s)
    return workload.mapped(f"arrivals stretched to {span_s} s", lambda request: _moved(request, stretched))


def offered_load(workload: Workload, nodes: float, span_s: int | None = None) -> float:
    """Work over capacity: VM seconds over nodes x span, one VM a node; the span is up to the last submission."""
    capacity_node_s = nodes * (workload.span_s if span_s is None else span_s)
    if capacity_node_s < 1:
        raise OnePreemptError(f"{nodes} nodes over {workload.span_s} s have no capacity to compare a load with")
    return workload.work_vm_s / capacity_node_s


def with_offered_load(workload: Workload, nodes: float, load: float, span_s: int | None = None) -> Workload:
    """The same requests, so near to one another that `offered_load` is `load`; `span_s` shrinks or grows with them."""
    _check(load, "a load")
    present = offered_load(workload, nodes, span_s)
    _check(present, "the load of a workload to be scaled")
    return with_load_scaled(workload, load / present)


def with_sizes_scaled(workload: Workload, factor: float, most_vms: int | None = None) -> Workload:
    """Each request with `factor` times its VMs, rounded half up, at least 1 a set and at most `most_vms` in all."""
    _check(factor, "a factor of the sizes")
    return workload.mapped(
        f"sizes scaled by {factor:g}{'' if most_vms is None else f', at most {most_vms}'}",
        lambda request: _resized(request, _half_up(request.virtual_machines * factor), most_vms),
    )


def with_durations_scaled(workload: Workload, factor: float) -> Workload:
    """Each request with `factor` times its durations, rounded half up; those that took time still take a second."""
    _check(factor, "a factor of the durations")
    return workload.mapped(
        f"durations scaled by {factor:g}",
        lambda request: _lasting(request, _half_up(request.actual_duration_s * factor), factor),
    )


def with_overruns_cut(workload: Workload) -> Workload:
    """The same requests, ended at their requested duration, as Haizea has it, where they would run longer."""
    return workload.mapped(
        "over-runs cut",
        # The others stay the same values: a log may have millions.
        lambda request: (
            replace(request, actual_duration_s=request.planned_duration_s)
            if request.actual_duration_s > request.planned_duration_s
            else request
        ),
    )


def adjusted_to_means(workload: Workload, mean_vms: float, mean_duration_s: float, most_vms: int) -> Workload:
    """The same requests with these means of size and actual duration (CCPE13: 4 VMs, 2 h), sizes from 1 to `most_vms`.

    Sizes and durations are multiplied, each by the one factor that gives the mean, and held within their bounds. What
    rounding takes from one request is given to the next, so that the means are met to half a VM and half a second over
    the whole workload. Serial requests stay serial where sizes shrink; powers of two do not stay.

    Raises:
        OnePreemptError: No factor gives the mean.
    """
    if not len(workload):
        raise OnePreemptError("a workload without requests has no means to adjust")
    sizes, _ = _with_mean([r.virtual_machines for r in workload.requests], mean_vms, most_vms, "VMs")
    durations, factor = _with_mean([r.actual_duration_s for r in workload.requests], mean_duration_s, math.inf, "s")
    return workload.after(
        f"adjusted to means of {mean_vms:g} VMs and {mean_duration_s:g} s, at most {most_vms} VMs",
        (
            _lasting(_resized(request, size, most_vms), duration_s, factor)
            for request, size, duration_s in zip(workload.requests, sizes, durations, strict=True)
        ),
    )


def _with_mean(values: Sequence[int], mean: float, most: float, unit: str) -> tuple[list[int], float]:
    """The values times a factor, held in [1, most], rounded; and the factor."""
    ordered = sorted(values)
    sums = [0, *accumulate(ordered)]

    def total(factor: float) -> float:
        """The sum of all values, multiplied and held: what is at a bound counts as the bound."""
        above_least, beyond_most = bisect_left(ordered, 1 / factor), bisect_right(ordered, most / factor)
        at_most = most * (len(ordered) - beyond_most) if beyond_most < len(ordered) else 0.0
        return above_least + factor * (sums[beyond_most] - sums[above_least]) + at_most

    wanted = mean * len(values)
    if not len(values) <= wanted <= total(_GREATEST_FACTOR):
        raise OnePreemptError(f"no factor gives a mean of {mean:g} {unit}: it must lie between 1 and {most:g}")
    factor = _least(lambda factor: total(factor) >= wanted, _GREATEST_FACTOR)
    return _rounded([min(most, max(1.0, value * factor)) for value in values]), factor


def _least(holds: Callable[[float], bool], high: float) -> float:
    """The least factor up to `high` at which a monotone condition holds."""
    low = 0.0
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def _rounded(values: Sequence[float]) -> list[int]:
    """Whole numbers with the same sum: the error of each is carried to the next."""
    whole, error = [], 0.0
    for value in values:
        whole.append(math.floor(value + error + 0.5))
        error += value - whole[-1]
    return whole


def _moved(request: WorkloadRequest, stretch: float | Fraction) -> WorkloadRequest:
    submitted_at_s = int(request.submitted_at_s * stretch)
    shift_s = submitted_at_s - request.submitted_at_s
    return replace(
        request,
        submitted_at_s=submitted_at_s,
        start_at_s=None if request.start_at_s is None else request.start_at_s + shift_s,
        deadline_at_s=None if request.deadline_at_s is None else request.deadline_at_s + shift_s,
    )


def _resized(request: WorkloadRequest, vms: int, most_vms: int | None) -> WorkloadRequest:
    """With so many VMs in all, in the proportions of its sets, at least one a set."""
    wanted = vms if most_vms is None else min(vms, most_vms)
    total, given, seen = request.virtual_machines, 0, 0
    resized = []
    for vm_set in request.vm_sets:
        seen += vm_set.count
        count = max(1, wanted * seen // total - given)
        given += count
        resized.append(MachineSet(count, vm_set.cpu_centi, vm_set.memory_mib))
    return replace(request, vm_sets=tuple(resized))


def _lasting(request: WorkloadRequest, duration_s: int, factor: float) -> WorkloadRequest:
    """With this actual duration; the requested one and the time to the deadline by the same factor."""
    requested_s = request.requested_duration_s
    if requested_s is not None:
        exact = requested_s == request.actual_duration_s
        requested_s = max(1, duration_s if exact else _half_up(requested_s * factor))
    deadline_at_s = request.deadline_at_s
    if deadline_at_s is not None:
        deadline_at_s = request.ready_at_s + max(1, _half_up((deadline_at_s - request.ready_at_s) * factor))
    return replace(
        request,
        requested_duration_s=requested_s,
        actual_duration_s=max(min(1, request.actual_duration_s), duration_s),
        deadline_at_s=deadline_at_s,
    )


def _half_up(value: float) -> int:
    return math.floor(value + 0.5)


def _check(factor: float, what: str) -> None:
    if not 0 < factor < math.inf:
        raise OnePreemptError(f"{what} is more than 0, not {factor:g}")
