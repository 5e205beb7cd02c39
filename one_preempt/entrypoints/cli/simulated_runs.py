"""What `simulate` plays: a trace or a scenario under each policy, backfilling policy and seed that was asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import product
from pathlib import Path

import click
from msgspec import Struct, field
from msgspec.structs import asdict, replace

from one_preempt.configuration.choices import policy_faults
from one_preempt.configuration.settings import Settings
from one_preempt.core.model.modes_and_limits import Verification
from one_preempt.errors import OnePreemptError
from one_preempt.policy_registry import (
    BACKFILLING_POLICIES,
    ENERGY_POLICIES,
    PREEMPTION_POLICIES,
    QUEUE_ORDERS,
)
from one_preempt.simulation.experiments.trial import Played, Trial, play
from one_preempt.simulation.scenario.description import Scenario, SiteEntry, WorkloadEntry, read_scenario
from one_preempt.simulation.scenario.faults import timed_fault
from one_preempt.simulation.scenario.overheads import planned_overhead, simulated_durations
from one_preempt.simulation.scenario.recipe import hosts_of, images_of, workload_of
from one_preempt.simulation.scenario.trace import SourceKind, TraceReading, kind_of, read_trace
from one_preempt.simulation.simulated_cloud.durations import Durations
from one_preempt.simulation.simulator.site import Site, simulation_settings
from one_preempt.simulation.simulator.timed_fault import TimedFault
from one_preempt.simulation.workload.trace_files import BadLine
from one_preempt.simulation.workload.workload import MachineSet, Workload

# What is said beside a trace that is played by itself.
_NOTHING_SAID = Scenario(site=SiteEntry(hosts=[]), workload=WorkloadEntry())


class Asked(Struct, frozen=True):
    """The options of the command line; those not given are as the scenario or the configuration has them."""

    source: Path
    settings: Settings
    nodes: int | None = None
    policies: tuple[str, ...] = ()
    backfilling: tuple[str, ...] = ()
    energy_policies: tuple[str, ...] = ()
    queues: tuple[str, ...] = ()
    suspension: str | None = None
    seed: int | None = None
    until_s: int | None = None
    reading: TraceReading = field(default_factory=TraceReading)
    verification: Verification = Verification.FULL
    keeps_stays: bool = False


class Variant(Struct, frozen=True):
    """One scheduler to compare. `energy_policy` is None where no host sleeps, `queue` where it is that of all."""

    policy: str
    backfilling: str
    energy_policy: str | None
    queue: str | None
    label: str

    @property
    def names(self) -> dict[str, str]:
        """Its policies by what they decide, for results."""
        energy = {} if self.energy_policy is None else {"energy_policy": self.energy_policy}
        queue = {} if self.queue is None else {"queue": self.queue}
        return {"policy": self.policy, "backfilling": self.backfilling} | energy | queue


class Study(Struct, frozen=True):
    """All that is to be played. `workload_of` gives that of a seed; `reads` are the files that it comes from."""

    name: str
    variants: tuple[Variant, ...]
    seeds: tuple[int, ...]
    settings: Settings
    until_s: int | None
    workload_of: Callable[[int], Workload]
    site: Site
    verification: Verification
    keeps_stays: bool
    faults: tuple[TimedFault, ...]
    reads: tuple[Path, ...]

    @property
    def all_settings(self) -> tuple[Settings, ...]:
        """Those of each variant, as far as the order of the queue goes."""
        return tuple(_with_queue(self.settings, variant.queue) for variant in self.variants)

    @property
    def runs(self) -> int:
        """How many simulations it takes."""
        return len(self.variants) * len(self.seeds)


class Run(Struct, frozen=True):
    """One simulation of a study."""

    variant: Variant
    seed: int
    workload: Workload
    played: Played


def study(asked: Asked) -> Study:
    """What the source and the options ask for. Raises `OnePreemptError`, or click's error of usage."""
    is_scenario = kind_of(asked.source) is SourceKind.SCENARIO
    said = read_scenario(asked.source) if is_scenario else _NOTHING_SAID
    variants = _variants(asked, said)
    images = images_of(said)
    durations = simulated_durations(asked.settings.overhead, said.site.durations, shared_storage=images is None)
    if is_scenario:
        _require_no_options_of_traces(asked)
        hosts = hosts_of(said)
        workload = cache(lambda seed: _read(lambda: _workload_of_scenario(asked, said, seed)))
    else:
        trace = _read(lambda: read_trace(asked.source, asked.reading))
        hosts = _hosts(asked, trace)
        workload = cache(lambda _seed: trace)
    return Study(
        name=said.name or asked.source.name,
        variants=variants,
        seeds=said.seeds if asked.seed is None else (asked.seed,),
        settings=_settings(asked, said, durations),
        until_s=said.until_s if asked.until_s is None else asked.until_s,
        workload_of=workload,
        site=Site(hosts, durations, images=images),
        verification=asked.verification,
        keeps_stays=asked.keeps_stays,
        faults=tuple(map(timed_fault, said.faults)),
        reads=_read_for(asked, said),
    )


def _require_no_options_of_traces(asked: Asked) -> None:
    if asked.nodes is not None:
        raise click.UsageError("a scenario says itself what its site is: leave --nodes out")
    if asked.reading != TraceReading(skip_bad_lines=asked.reading.skip_bad_lines):
        raise click.UsageError(
            "a scenario says itself how its trace is read: write workload.trace.annotations, processors_per_vm, "
            "queues, submitted_from_s, submitted_before_s, cut_overruns, or one of its factors of load, size and "
            "duration"
        )


def _workload_of_scenario(asked: Asked, said: Scenario, seed: int) -> Workload:
    return workload_of(said, asked.source.parent, seed, asked.reading.skip_bad_lines)


def _read(read: Callable[[], Workload]) -> Workload:
    """What is read; where a bad line stands against that, with the option that leaves it out."""
    try:
        return read()
    except BadLine as error:
        raise OnePreemptError(f"{error}, or leave bad lines out (--skip-bad-lines)") from error


def _read_for(asked: Asked, said: Scenario) -> tuple[Path, ...]:
    named = [asked.source, asked.reading.annotations]
    trace = said.workload.trace
    if trace is not None:
        named += [asked.source.parent / file for file in (trace.file, trace.annotations) if file is not None]
    return tuple(file for file in named if file is not None)


def _settings(asked: Asked, said: Scenario, durations: Durations) -> Settings:
    overhead = planned_overhead(asked.settings.overhead, durations)
    settings = replace(simulation_settings(asked.settings), overhead=overhead)
    settings = _with_queue(settings, asked.queues[0] if asked.queues else said.queue)
    suspension = asked.suspension or said.suspension
    if suspension is not None:
        settings = replace(settings, time=replace(settings.time, suspension=suspension))
    if said.site.images is None:
        return settings
    # The scheduler counts with the rate that the link has.
    staging = replace(settings.image_staging, link_megabit_per_s=said.site.images.link_megabit_per_s)
    if said.image_staging is not None:
        staging = replace(staging, mode="act", **asdict(said.image_staging))
    if unusable := next(iter(policy_faults({"image_staging.policy": staging.policy})), None):
        raise click.UsageError(f"{asked.source}: {unusable}")
    return replace(settings, image_staging=staging)


def _with_queue(settings: Settings, queue: str | None) -> Settings:
    if queue is None:
        return settings
    return replace(settings, queue_order=QUEUE_ORDERS.named(queue).name)


def _variants(asked: Asked, said: Scenario) -> tuple[Variant, ...]:
    """Every policy with every backfilling and energy policy and order; the label says what differs beside the first."""
    policies = asked.policies or said.policies or (asked.settings.preemption_policy,)
    backfilling = asked.backfilling or said.backfilling or (asked.settings.time.backfilling,)
    named = list(
        dict.fromkeys(
            (PREEMPTION_POLICIES.named(policy).name, BACKFILLING_POLICIES.named(name).name, energy, queue)
            for policy, name, energy, queue in product(policies, backfilling, _energy_policies(asked), _queues(asked))
        )
    )
    differ = [0, *(place for place in (1, 2, 3) if len({one[place] for one in named}) > 1)]
    return tuple(Variant(*one, label=", ".join(str(one[place]) for place in differ)) for one in named)


def _queues(asked: Asked) -> tuple[str | None, ...]:
    """Those to compare; one alone is that of all."""
    names = tuple(QUEUE_ORDERS.named(name).name for name in asked.queues)
    return names if len(set(names)) > 1 else (None,)


def _energy_policies(asked: Asked) -> tuple[str | None, ...]:
    """Those to compare, or the configured one; none where the configuration lets nobody sleep."""
    power = asked.settings.power
    if power.mode == "enforce" and power.hosts:
        return tuple(ENERGY_POLICIES.named(name).name for name in asked.energy_policies or (power.policy,))
    if asked.energy_policies:
        raise click.UsageError(
            "no host would sleep: hand hosts over in a configuration (power.hosts) with power.mode: enforce, "
            "and name its file by --config"
        )
    return (None,)


def _hosts(asked: Asked, workload: Workload) -> tuple[MachineSet, ...]:
    """The nodes of the trace; with `nodes`, so many of the kind it has, or else of the size of its largest VM."""
    if (nodes := asked.nodes) is None:
        if not workload.site and not len(workload):
            left_out = ", ".join(f"{one.count} {one.reason}" for one in workload.left_out) or "it is empty"
            nothing = f"{asked.source}: holds no request that can be played ({left_out})"
            raise OnePreemptError(f"{nothing}: name another trace")
        if not workload.site:
            raise click.UsageError("the trace does not say how many nodes it was recorded on: give --nodes")
        return workload.site
    machines = workload.site or tuple(vms for request in workload.requests for vms in request.vm_sets)
    cpu_centi = max((one.cpu_centi for one in machines), default=100)
    return (MachineSet(nodes, cpu_centi, max((one.memory_mib for one in machines), default=1024)),)


def play_all(asked: Study, on_progress: Callable[[float], None] = lambda _share: None) -> Iterator[Run]:
    """Every variant with every seed; `on_progress` is told how many runs are done, in parts of a run too."""
    for number, (variant, seed) in enumerate(product(asked.variants, asked.seeds)):
        workload = asked.workload_of(seed)
        on_progress(number)
        ends = _of_run(on_progress, number, _virtual_machines(workload, asked.until_s))
        played = play(_trial(asked, variant, seed, workload), ends)
        yield Run(variant, seed, workload, played)


def _virtual_machines(workload: Workload, until_s: int | None) -> int:
    """How many will come; at least one."""
    coming = (one for one in workload.requests if until_s is None or one.submitted_at_s <= until_s)
    return max(1, sum(one.virtual_machines for one in coming))


def _of_run(on_progress: Callable[[float], None], number: int, machines: int) -> Callable[[int], None]:
    return lambda ended: on_progress(number + ended / machines)


def _trial(asked: Study, variant: Variant, seed: int, workload: Workload) -> Trial:
    time = replace(asked.settings.time, backfilling=variant.backfilling)
    power = asked.settings.power
    if variant.energy_policy is not None:
        power = replace(power, policy=variant.energy_policy)
    return Trial(
        workload=workload,
        site=replace(asked.site, seed=seed),
        settings=_with_queue(replace(asked.settings, time=time, power=power), variant.queue),
        policy=variant.policy,
        verification=asked.verification,
        until_s=asked.until_s,
        keeps_stays=asked.keeps_stays,
        faults=asked.faults,
    )


def by_variant(runs: Sequence[Run]) -> dict[str, list[Run]]:
    """Runs by the label of their variant, in the order in which they were played."""
    found: dict[str, list[Run]] = {}
    for run in runs:
        found.setdefault(run.variant.label, []).append(run)
    return found
