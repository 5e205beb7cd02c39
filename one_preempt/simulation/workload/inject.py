"""Advance reservations drawn into a workload (PEMP12's recipe), and two workloads merged into one.

Haizea's injected reservations for the SDSC Blue log follow the recipe: the first starts at once, each further one an
interval later, drawn around the mean that gives the share; submitted a day ahead; within 1 % of the share.
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from one_preempt.core.model.lease import LeaseType
from one_preempt.errors import OnePreemptError
from one_preempt.simulation.workload.workload import (
    SECONDS_PER_DAY,
    SECONDS_PER_HOUR,
    MachineSet,
    StartKind,
    Workload,
    WorkloadRequest,
)

_ATTEMPTS = 20_000
_MOST_RESERVATIONS = 1_000_000


class ReservationRecipe(Struct, frozen=True):
    """How reservations are drawn; all draws are uniform.

    Attributes:
        share: Their part of the node time of `nodes` nodes over `span_s` (rho).
        nodes, span_s: What the share is of, and for how long reservations start.
        mean_duration_s: Durations are drawn `duration_spread_s` around it (delta).
        fewest_vms, most_vms: Sizes are drawn between them (theta).
        interval_spread_s: Intervals between starts are drawn so far around their mean (lambda), which follows from the
            share. Where the mean is shorter, intervals may be negative: reservations then do not start in their order.
        lead_s: A reservation is submitted so long before its start, but not before instant 0. 0 = at its start.
        tolerance: Draws are repeated until the work is so near to the share, relatively; None = the first draw.
        cpu_centi, memory_mib, image, image_mib: Of each VM.
    """

    share: float
    nodes: int
    span_s: int
    mean_duration_s: int
    fewest_vms: int
    most_vms: int
    duration_spread_s: int = SECONDS_PER_HOUR // 2
    interval_spread_s: int = SECONDS_PER_HOUR
    lead_s: int = SECONDS_PER_DAY
    tolerance: float | None = 0.01
    cpu_centi: int = 100
    memory_mib: int = 1024
    image: str = ""
    image_mib: int = 0

    def __post_init__(self) -> None:
        if not self.share > 0 or self.nodes < 1 or self.span_s < 1 or self.lead_s < 0:
            raise OnePreemptError(
                f"a share of {self.share:g} of {self.nodes} nodes over {self.span_s} s, {self.lead_s} s ahead: all are "
                "more than 0, and the lead is at least 0"
            )
        if not 1 <= self.fewest_vms <= self.most_vms or not 0 <= self.duration_spread_s < self.mean_duration_s:
            raise OnePreemptError(
                f"{self.fewest_vms} to {self.most_vms} VMs for {self.mean_duration_s} s +- {self.duration_spread_s} s: "
                "sizes ascend from at least 1, and the spread is shorter than the mean"
            )
        if self.span_s > _MOST_RESERVATIONS * self.mean_interval_s or self.interval_spread_s < 0:
            raise OnePreemptError(
                f"an interval of {self.mean_interval_s:g} s +- {self.interval_spread_s} s gives too many reservations"
            )

    @property
    def mean_interval_s(self) -> float:
        """Lambda: the mean work of a reservation over the node time that reservations get a second."""
        mean_work_vm_s = (self.fewest_vms + self.most_vms) / 2 * self.mean_duration_s
        return mean_work_vm_s / (self.share * self.nodes)

    @property
    def target_vm_s(self) -> float:
        """The work of all reservations together."""
        return self.share * self.nodes * self.span_s


def draw_reservations(recipe: ReservationRecipe, seed: int) -> Workload:
    """Reservations that cannot be preempted, numbered from 1 in the order of their starts.

    Raises:
        OnePreemptError: No draw came as near to the share as the tolerance asks.
    """
    generator = np.random.Generator(np.random.PCG64(seed))
    for _ in range(_ATTEMPTS):
        requests = _one_draw(recipe, generator)
        work_vm_s = sum(request.work_vm_s for request in requests)
        if recipe.tolerance is None or abs(work_vm_s / recipe.target_vm_s - 1) <= recipe.tolerance:
            return Workload(
                requests, "reservations", provenance=(f"{len(requests)} reservations: {_told(recipe, seed)}",)
            )
    raise OnePreemptError(
        f"no draw came within {recipe.tolerance} of the share {recipe.share:g}: use a wider tolerance, or a longer span"
    )


def _told(recipe: ReservationRecipe, seed: int) -> str:
    return (
        f"{recipe.share:g} of {recipe.nodes} nodes over {recipe.span_s} s, {recipe.fewest_vms} to {recipe.most_vms} "
        f"VMs for {recipe.mean_duration_s} s, {recipe.lead_s} s ahead (seed {seed})"
    )


def _one_draw(recipe: ReservationRecipe, generator: np.random.Generator) -> tuple[WorkloadRequest, ...]:
    starts_s = sorted(_starts_s(recipe, generator))
    spread_s = recipe.duration_spread_s
    durations_s = generator.integers(-spread_s, spread_s, len(starts_s), endpoint=True) + recipe.mean_duration_s
    sizes = generator.integers(recipe.fewest_vms, recipe.most_vms, len(starts_s), endpoint=True)
    return tuple(
        WorkloadRequest(
            id=id,
            submitted_at_s=max(0, start_s - recipe.lead_s),
            vm_sets=(MachineSet(size, recipe.cpu_centi, recipe.memory_mib),),
            requested_duration_s=duration_s,
            actual_duration_s=duration_s,
            start=StartKind.EXACT,
            start_at_s=start_s,
            lease_type=LeaseType.DC_NON_PREEMPTABLE,
            image=recipe.image,
            image_mib=recipe.image_mib,
        )
        for id, (start_s, size, duration_s) in enumerate(
            zip(starts_s, sizes.tolist(), durations_s.tolist(), strict=True), 1
        )
    )


def _starts_s(recipe: ReservationRecipe, generator: np.random.Generator) -> list[int]:
    """Starts before the end of the span; the first at instant 0, none before it."""
    low_s = recipe.mean_interval_s - recipe.interval_spread_s
    starts_s, now_s = [], 0.0
    while now_s < recipe.span_s:
        starts_s.append(max(0, int(now_s)))
        now_s += low_s + 2 * recipe.interval_spread_s * generator.random()
    return starts_s


def merged(first: Workload, second: Workload) -> Workload:
    """Both workloads in one; requests of the second are numbered on after the first's greatest id."""
    offset = max((request.id for request in first.requests), default=0)
    moved = sorted(second.requests, key=lambda request: request.id)
    renumbered = (replace(request, id=offset + number) for number, request in enumerate(moved, 1))
    return replace(
        first,
        requests=(*first.requests, *renumbered),
        name=f"{first.name} + {second.name}",
        provenance=(*first.provenance, f"merged with {second.name}", *second.provenance),
        left_out=(*first.left_out, *second.left_out),
    )


def with_reservations(workload: Workload, recipe: ReservationRecipe, seed: int) -> Workload:
    """The workload with reservations drawn into it."""
    return merged(workload, draw_reservations(recipe, seed))
