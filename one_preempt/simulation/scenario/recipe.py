"""From a scenario and a seed to hosts and a workload. The same seed gives the same requests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import floor
from pathlib import Path

from msgspec.structs import replace

from one_preempt.core.model.lease import LeaseType
from one_preempt.errors import OnePreemptError
from one_preempt.simulation.scenario.description import (
    ModelEntry,
    ReservationsEntry,
    Scenario,
    TraceEntry,
    WorkloadEntry,
)
from one_preempt.simulation.scenario.trace import TraceReading, read_trace
from one_preempt.simulation.simulator.site import ImageSite
from one_preempt.simulation.workload.annotate import (
    Concerned,
    Image,
    deadline_constraint_only,
    everything,
    external_only,
    with_deadlines,
    with_images,
    with_origins,
    with_suspension_limit,
    with_types,
)
from one_preempt.simulation.workload.inject import ReservationRecipe, with_reservations
from one_preempt.simulation.workload.lublin99 import BATCH, INTERACTIVE, TYPELESS, Lublin99
from one_preempt.simulation.workload.lublin99_arrivals import ArrivalProcess
from one_preempt.simulation.workload.places import places_for
from one_preempt.simulation.workload.scaling import adjusted_to_means, with_offered_load, with_span
from one_preempt.simulation.workload.swf_workload import SwfReading
from one_preempt.simulation.workload.workload import MOST_MACHINES, MachineSet, StartKind, Workload, WorkloadRequest

_CLASSES = {job_class.name: job_class for job_class in (INTERACTIVE, BATCH, TYPELESS)}


def hosts_of(scenario: Scenario) -> tuple[MachineSet, ...]:
    """The machines of the site."""
    return tuple(MachineSet(entry.count, round(100 * entry.cpu), entry.memory_mib) for entry in scenario.site.hosts)


def images_of(scenario: Scenario) -> ImageSite | None:
    """Where images come from; None: storage is shared."""
    link = scenario.site.images
    return None if link is None else ImageSite(link.link_megabit_per_s, link.keeps_copies)


def workload_of(scenario: Scenario, folder: Path, seed: int, skip_bad_lines: bool = False) -> Workload:
    """The requests; `folder` is where the scenario lies."""
    entry, hosts = scenario.workload, hosts_of(scenario)
    workload = _source(entry, folder, hosts, seed, skip_bad_lines)
    if entry.span_s is not None:
        with _named("workload.span_s"):
            workload = with_span(workload, entry.span_s)
    if entry.mean_vms is not None and entry.mean_duration_s is not None:
        with _named("workload.mean_vms and workload.mean_duration_s"):
            most_vms = min(floor(_places_of_mix(hosts, workload.requests)), MOST_MACHINES)
            workload = adjusted_to_means(workload, entry.mean_vms, entry.mean_duration_s, most_vms)
    if entry.offered_load is not None:
        with _named("workload.offered_load"):
            workload = with_offered_load(workload, _places_of_mix(hosts, workload.requests), entry.offered_load)
    with _named("leases"):
        workload = _annotated(scenario, workload, seed)
    if scenario.reservations is None:
        return workload
    with _named("reservations"):
        return _with_reservations(scenario.reservations, workload, _places_of_drawn(hosts), seed)


def _places_of_drawn(hosts: Sequence[MachineSet]) -> int:
    """How many VMs have room together as models draw them."""
    model = Lublin99()
    return _any_place(places_for(MachineSet(1, model.cpu_centi, model.memory_mib), hosts))


def _places_of_mix(hosts: Sequence[MachineSet], requests: Sequence[WorkloadRequest]) -> float:
    """How many VMs of these requests are at work together where each shape is in its turn; what fits nowhere is not."""
    work_vm_s: Counter[MachineSet] = Counter()
    for request in requests:
        for vm_set in request.vm_sets:
            work_vm_s[replace(vm_set, count=1)] += vm_set.count * request.actual_duration_s
    fitting = [(work, places) for shape, work in work_vm_s.items() if (places := places_for(shape, hosts))]
    takes_s = sum(work / places for work, places in fitting)
    if not takes_s:
        return _any_place(max((places for _, places in fitting), default=0))
    return sum(work for work, _ in fitting) / takes_s


def _any_place(places: int) -> int:
    if not places:
        raise OnePreemptError("on no host of the site there is room for any VM of the workload")
    return places


@contextmanager
def _named(key: str) -> Iterator[None]:
    """What cannot be done to these requests is told with the key of the scenario that asks for it."""
    try:
        yield
    except (OnePreemptError, ValueError) as error:
        raise OnePreemptError(f"{key} of the scenario: {error}") from error


def _with_reservations(given: ReservationsEntry, workload: Workload, nodes: int, seed: int) -> Workload:
    recipe = ReservationRecipe(
        share=given.share, nodes=nodes, span_s=max(1, workload.span_s), mean_duration_s=given.mean_duration_s,
        fewest_vms=given.fewest_vms, most_vms=given.most_vms, lead_s=given.lead_s, tolerance=given.tolerance,
        duration_spread_s=min(1800, given.mean_duration_s // 2),
    )  # fmt: skip
    return with_reservations(workload, recipe, seed)


def _source(
    entry: WorkloadEntry, folder: Path, hosts: Sequence[MachineSet], seed: int, skip_bad_lines: bool
) -> Workload:
    if entry.trace is not None:
        with _named("workload.trace"):
            reading = _reading(entry.trace, folder, skip_bad_lines)
        return read_trace(folder / entry.trace.file, reading)
    assert entry.lublin99 is not None
    with _named("workload.lublin99"):
        # No lease may be larger.
        return _drawn(entry.lublin99, min(_places_of_drawn(hosts), MOST_MACHINES), seed)


def _reading(entry: TraceEntry, folder: Path, skip_bad_lines: bool) -> TraceReading:
    return TraceReading(
        SwfReading(
            entry.processors_per_vm,
            queues=None if entry.queues is None else frozenset(entry.queues),
            submitted_from_s=entry.submitted_from_s,
            submitted_before_s=entry.submitted_before_s,
        ),
        skip_bad_lines,
        entry.cut_overruns,
        None if entry.annotations is None else folder / entry.annotations,
        entry.load_factor,
        entry.size_factor,
        entry.duration_factor,
    )


def _drawn(entry: ModelEntry, nodes: int, seed: int) -> Workload:
    classes = tuple(_CLASSES[name] for name in entry.classes)
    return Lublin99(classes, ArrivalProcess(entry.process)).for_nodes(nodes).draw(seed, entry.requests)


def _annotated(scenario: Scenario, workload: Workload, seed: int) -> Workload:
    leases = scenario.leases
    if leases.types:
        shares = [(LeaseType(name), share) for name, share in sorted(leases.types.items())]
        workload = with_types(workload, shares, seed)
    concerned: Concerned = everything
    if leases.images:
        images = [Image(image.name, image.size_mib, image.share) for image in leases.images]
        workload = with_images(workload, images, seed)
    if leases.local is not None:
        workload, concerned = with_origins(workload, leases.local, seed), external_only
    if leases.deadline_factor is not None:
        # Without other sites, all leases of a deadline-constraint type have one. Times of their own they keep.
        only = deadline_constraint_only if leases.local is not None else _deadline_constraint
        workload = with_deadlines(
            workload, leases.deadline_factor, lambda one: one.start is StartKind.BEST_EFFORT and only(one)
        )
    if leases.max_suspensions is not None:
        workload = with_suspension_limit(workload, leases.max_suspensions, concerned)
    return workload


def _deadline_constraint(request: WorkloadRequest) -> bool:
    return not request.lease_type.best_effort
