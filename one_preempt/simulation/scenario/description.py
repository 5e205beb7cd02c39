"""A scenario file: YAML, unknown keys refused by name."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from one_preempt.configuration.section import NotNegative, Positive, Section, TypeName
from one_preempt.configuration.strict_yaml import load_strict_yaml
from one_preempt.errors import OnePreemptError
from one_preempt.simulation.described_file import read_described
from one_preempt.simulation.scenario.faults import FaultEntry, mistakes_in
from one_preempt.simulation.simulated_cloud.durations import Durations
from one_preempt.simulation.workload.annotate import SHARES_ADD_UP_WITHIN
from one_preempt.simulation.workload.workload import MOST_NODES, MOST_SUSPENSIONS

Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
Number = Annotated[float, msgspec.Meta(gt=0, le=1e9)]
Cpus = Annotated[float, msgspec.Meta(ge=0.01, le=1e9)]


class HostsEntry(Section, frozen=True):
    """`count` equal machines of `cpu` CPUs."""

    count: Annotated[int, msgspec.Meta(ge=1, le=MOST_NODES)]
    cpu: Cpus = 1.0
    memory_mib: Positive = 1024


class ImageLinkEntry(Section, frozen=True):
    """The one link over which images come to hosts; `keeps_copies`: what was copied for a VM stays on its host."""

    link_megabit_per_s: Positive
    keeps_copies: bool = False


class SiteEntry(Section, frozen=True):
    """The machines, and how long the drivers work: the names of `Durations`; see `overheads` for what is not named.

    Without `images` storage is shared, and images take no time.
    """

    hosts: list[HostsEntry]
    durations: dict[str, Annotated[float, msgspec.Meta(ge=0, le=1e9)]] = {}
    images: ImageLinkEntry | None = None


class TraceEntry(Section, frozen=True):
    """A trace and a file of annotations (LWFA) for its leases, beside the scenario or by their whole paths.

    How it is read is as in `TraceReading` and `SwfReading`.
    """

    file: str
    annotations: str | None = None
    processors_per_vm: Positive = 1
    queues: Annotated[tuple[NotNegative, ...], msgspec.Meta(min_length=1)] | None = None
    submitted_from_s: NotNegative = 0
    submitted_before_s: Positive | None = None
    cut_overruns: bool = False
    load_factor: Number = 1.0
    size_factor: Number = 1.0
    duration_factor: Number = 1.0


class ModelEntry(Section, frozen=True):
    """The model of Lublin and Feitelson: so many requests, on as many nodes as the site has."""

    requests: Positive
    classes: tuple[Literal["interactive", "batch", "typeless"], ...] = ("typeless",)
    process: Literal["authors", "gridsim"] = "authors"


class WorkloadEntry(Section, frozen=True):
    """A log or a model, and what is done to it: arrivals stretched, means adjusted, in this order."""

    trace: TraceEntry | None = None
    lublin99: ModelEntry | None = None
    span_s: Positive | None = None
    offered_load: Number | None = None
    mean_vms: Number | None = None
    mean_duration_s: Number | None = None


class ImageEntry(Section, frozen=True):
    """An image, and the share of the requests that are made from it."""

    name: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
    size_mib: Positive
    share: Share


class LeasesEntry(Section, frozen=True):
    """What logs do not say: how many requests are local, lease types with their shares, deadlines, a limit, images."""

    local: NotNegative | None = None
    types: dict[TypeName, Share] = {}
    deadline_factor: Annotated[float, msgspec.Meta(ge=1, le=1e6)] | None = None
    max_suspensions: Annotated[int, msgspec.Meta(ge=0, le=MOST_SUSPENSIONS)] | None = None
    images: list[ImageEntry] = []


class ReservationsEntry(Section, frozen=True):
    """Advance reservations drawn into the workload; see `inject.ReservationRecipe`."""

    share: Annotated[float, msgspec.Meta(gt=0, le=1)]
    mean_duration_s: Positive
    fewest_vms: Positive
    most_vms: Positive
    lead_s: NotNegative = 86_400
    tolerance: Annotated[float, msgspec.Meta(gt=0, le=1)] | None = 0.01


class ImageStagingEntry(Section, frozen=True):
    """Images are brought to hosts before reservations start there; the keys are those of the configuration."""

    policy: str = "EDF/JIT"
    quantum_s: Positive = 1
    pool_mib: Positive | None = None
    margin_s: NotNegative = 30
    kept_after_start_s: NotNegative = 300
    ahead_s: Positive | None = None


class Scenario(Section, frozen=True):
    """The whole file. Every policy is run with every backfilling policy and every seed.

    With `image_staging` that is done, whatever the configuration says; the rate is always that of the site's link.
    """

    site: SiteEntry
    workload: WorkloadEntry
    name: str = ""
    leases: LeasesEntry = LeasesEntry()
    reservations: ReservationsEntry | None = None
    policies: list[str] = []
    backfilling: list[str] = []
    queue: str | None = None
    suspension: Literal["none", "serial-only", "all"] | None = None
    image_staging: ImageStagingEntry | None = None
    faults: list[FaultEntry] = []
    until_s: Positive | None = None
    seeds: Annotated[tuple[NotNegative, ...], msgspec.Meta(min_length=1)] = (0,)


def read_scenario(path: Path) -> Scenario:
    """The scenario in a file. Raises `OnePreemptError`, which names the file, the key and the mend."""
    scenario = read_described(path, Scenario, "a scenario", load_strict_yaml)
    if mistake := next(_mistakes(scenario), None):
        raise OnePreemptError(f"{path}: {mistake}")
    return scenario


def _mistakes(scenario: Scenario) -> Iterator[str]:
    """What cannot be meant, each with its mend."""
    workload = scenario.workload
    if (workload.trace is None) == (workload.lublin99 is None):
        yield "workload needs either a trace or lublin99"
    if (workload.mean_vms is None) != (workload.mean_duration_s is None):
        yield "workload.mean_vms and workload.mean_duration_s go together: write both or none"
    if workload.span_s is not None and workload.offered_load is not None:
        yield "workload.span_s and workload.offered_load both say how dense the requests are: write one of them"
    if not scenario.site.hosts:
        yield "site.hosts names no machines"
    if (machines := sum(entry.count for entry in scenario.site.hosts)) > MOST_NODES:
        yield f"site.hosts names {machines} machines together: {MOST_NODES} are the most"
    yield from mistakes_in(scenario.faults, machines)
    known = Durations.__struct_fields__
    for name in scenario.site.durations:
        if name not in known:
            yield f"site.durations has no '{name}'; there are: {', '.join(known)}"
    if scenario.site.images is None:
        for key, is_given in (("image_staging", scenario.image_staging), ("leases.images", scenario.leases.images)):
            if is_given:
                yield f"{key} needs a link: write site.images.link_megabit_per_s"
    yield from _drawn_mistakes(scenario)
    names = [policy.casefold() for policy in scenario.policies]
    if len(set(names)) < len(names) or len(set(scenario.seeds)) < len(scenario.seeds):
        yield "a policy or a seed is written twice: keep one"


def _drawn_mistakes(scenario: Scenario) -> Iterator[str]:
    """What is drawn must be possible to draw."""
    leases, model, reservations = scenario.leases, scenario.workload.lublin99, scenario.reservations
    total = sum(leases.types.values())
    if leases.types and abs(total - 1) > SHARES_ADD_UP_WITHIN:
        yield f"the shares of leases.types add up to {total:g}: let it be 1"
    shares = sum(image.share for image in leases.images)
    if leases.images and abs(shares - 1) > SHARES_ADD_UP_WITHIN:
        yield f"the shares of leases.images add up to {shares:g}: let it be 1"
    if model is not None and leases.local is not None and leases.local > model.requests:
        yield f"leases.local is {leases.local}, of only {model.requests} requests"
    if reservations is not None and reservations.fewest_vms > reservations.most_vms:
        yield "reservations.fewest_vms is more than reservations.most_vms: exchange them"
