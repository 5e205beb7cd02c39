"""VW07 Tables 8.3 to 8.7: best effort beside reservations, with and without VMs, transfers of images, and their reuse.

The whole scheduler plays it over the simulated cloud and its link; the tables as printed are in `vw07_mixed_tables`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache

import msgspec
import numpy as np
from msgspec.structs import replace

from one_preempt.configuration.settings import ImageStagingSettings, OverheadSettings, Settings, TimeSettings
from one_preempt.core.model.lease import LeaseType
from one_preempt.core.model.modes_and_limits import Verification
from one_preempt.simulation.experiments.experiment import Claim, ExperimentResult, Row
from one_preempt.simulation.experiments.replicated import (
    REFUSED_PLANS,
    Figures,
    ReplicatedExperiment,
    ResultTable,
    Task,
    TaskResult,
)
from one_preempt.simulation.experiments.trial import Trial, play
from one_preempt.simulation.experiments.vw07_mixed_tables import PUBLISHED, Published
from one_preempt.simulation.experiments.vw07_site import chance_of, drawn_image
from one_preempt.simulation.probes.statistics import mean
from one_preempt.simulation.simulator.result import Fate
from one_preempt.simulation.simulator.site import ImageSite, Site, simulation_settings
from one_preempt.simulation.workload.workload import MachineSet, StartKind, Workload, WorkloadRequest

# No VMs; VMs whose images are there, and the same without their slow-down; with transfers; with transfers and reuse.
N, P, P_AS_FAST, T, R = "N", "P", "P-as-fast", "T", "R"
CONFIGURATIONS = (N, P, P_AS_FAST, T, R)
REPLICATIONS = 1
NODES, PLACES = 8, 16
LASTS_S, SMALL_LASTS_S = 36_000, 3_600
MINUTE_S = 60
MEAN_S = {"long": 15 * MINUTE_S, "medium": 10 * MINUTE_S, "short": 5 * MINUTE_S}
SIZES = {"000-025": (1, 4), "025-050": (5, 8), "050-075": (9, 12), "075-100": (13, 16)}
# A reservation takes as many VM seconds as any other: 600 s of 14.5 VMs.
RESERVED_VM_S = 8_700
FIRST_START_S = 1_200
REQUESTS_AN_HOUR = 10
# Of 37 images seven are drawn ten times as often as the others. 572 MiB are 600 MB.
IMAGE_WEIGHTS = (*(10,) * 7, *(1,) * 30)
IMAGE_MIB = 572
MEGABIT_PER_S, QUANTUM_S = 100, 60
# Of what a VM does a tenth is lost to being one.
SLOW = 1.1
_TRIES = 500
# From this rank correlation on two columns count as alike.
_ALIKE = 0.5
SMALL = ("long 075-100 75-25", "short 075-100 75-25")
BE_END_S, USED, REJECTED, RESERVATIONS = "best_effort_end_s", "utilization", "rejected", "reservations"
CHOICES = {
    "work": "10 h of 16 places, divided between best effort and reservations as the table says",
    "reservations": "known at the start; each of 8,700 VM seconds, with a size drawn from its class; starts uniform in "
    "whole minutes, drawn anew up to 500 times until it fits beside the others, and left out if it never does",
    "best effort": "10 requests an hour at even intervals; each VM is a lease of its own; durations uniform from half "
    "to one and a half times the mean, in whole minutes; all VMs of a request have one image",
    "N": "no suspension; EASY",
    "P": "suspension and resumption, which take no time; EASY; best effort takes 1.1 times as long",
    "P-as-fast": "P without the slow-down, for Table 8.4",
    "T": "P, and images of reservations staged by EDF/JIT over 100 Mbit/s in quanta of 60 s, once for each node; best "
    "effort has its own copy for each VM, made when it starts, for which it holds its place; nothing that was brought "
    "for one serves another",
    "R": "T, and what comes to a node stays there without a limit, and serves all VMs",
    "seeds": "one workload for each of the 36, the same in all configurations",
}


def tasks(small: bool) -> list[Task]:
    """Every workload in every configuration; the first of them are of all kinds."""
    points = SMALL if small else [point_of(PUBLISHED[place]) for place in _in_all_directions()]
    return [
        Task(point, replication, configuration, small)
        for point in points
        for replication in range(REPLICATIONS)
        for configuration in CONFIGURATIONS
    ]


def _in_all_directions() -> list[int]:
    """The rows of the tables, each seven on from the one before: another duration, size and proportion."""
    return [7 * number % len(PUBLISHED) for number in range(len(PUBLISHED))]


def point_of(row: Published) -> str:
    """The workload of a row of the tables."""
    return f"{row.duration} {row.taken} {row.batch_to_reserved}"


def workload(task: Task) -> Workload:
    """The requests of a task: reservations first."""
    duration, taken, proportion = task.point.split(" ")
    lasts_s = SMALL_LASTS_S if task.small else LASTS_S
    reserved = int(proportion.partition("-")[2]) / 100
    chance = chance_of(1000 + _place_of(task.point), task.replication)
    total_vm_s = PLACES * lasts_s
    reservations = [*_reservations(chance, SIZES[taken], reserved * total_vm_s, lasts_s)]
    slow = SLOW if task.policy in (P, T, R) else 1
    batch = [*_best_effort(chance, MEAN_S[duration], (1 - reserved) * total_vm_s, lasts_s, slow, len(reservations))]
    if task.policy == T:
        # Nothing that was brought for one serves another.
        reservations = [replace(one, image=f"{one.image} of {one.id}") for one in reservations]
        batch = [replace(one, image=f"{one.image} of best effort") for one in batch]
    return Workload((*reservations, *batch))


def _place_of(point: str) -> int:
    return next(place for place, row in enumerate(PUBLISHED) if point_of(row) == point)


def _reservations(
    chance: np.random.Generator, sizes: tuple[int, int], work_vm_s: float, lasts_s: int
) -> Iterator[WorkloadRequest]:
    taken = np.zeros(2 * lasts_s // MINUTE_S, dtype=np.int64)
    for number in range(round(work_vm_s / RESERVED_VM_S)):
        vms = int(chance.integers(*sizes, endpoint=True))
        minutes = max(1, round(RESERVED_VM_S / vms / MINUTE_S))
        image = drawn_image(chance, IMAGE_WEIGHTS)
        for _ in range(_TRIES):
            first = int(chance.integers(FIRST_START_S // MINUTE_S, lasts_s // MINUTE_S))
            span = taken[first : first + minutes]
            if len(span) == minutes and int(span.max()) + vms <= PLACES:
                span += vms
                yield WorkloadRequest(
                    number + 1, 0, (MachineSet(vms, 100, 1024),), minutes * MINUTE_S, minutes * MINUTE_S,
                    StartKind.EXACT, first * MINUTE_S, lease_type=LeaseType.DC_NON_PREEMPTABLE,
                    image=image, image_mib=IMAGE_MIB,
                )  # fmt: skip
                break


def _best_effort(
    chance: np.random.Generator, mean_s: int, work_vm_s: float, lasts_s: int, slow: float, reservations: int
) -> Iterator[WorkloadRequest]:
    requests = REQUESTS_AN_HOUR * lasts_s // 3600
    vms = round(work_vm_s / mean_s)
    # In minutes; whole ones of the same mean.
    shortest_and_longest = -(-mean_s // (2 * MINUTE_S)), 3 * mean_s // (2 * MINUTE_S)
    number = 1_000 + reservations
    for place in range(requests):
        image = drawn_image(chance, IMAGE_WEIGHTS)
        for _ in range(vms * (place + 1) // requests - vms * place // requests):
            drawn_s = MINUTE_S * int(chance.integers(*shortest_and_longest, endpoint=True))
            runs_s = round(slow * drawn_s)
            number += 1
            yield WorkloadRequest(
                number, place * lasts_s // requests, (MachineSet(1, 100, 1024),), runs_s, runs_s,
                lease_type=LeaseType.BE_SUSPENDABLE, external=True, image=image, image_mib=IMAGE_MIB,
            )  # fmt: skip


def settings_of(configuration: str) -> Settings:
    """How the scheduler is configured for it."""
    at_once = OverheadSettings(
        suspend_mib_per_s=1e9,
        resume_mib_per_s=1e9,
        copy_mib_per_s=1e9,
        pause_s=0,
        reschedule_s=0,
        boot_s=0,
        shutdown_s=0,
    )
    time = TimeSettings(
        backfilling="easy",
        suspension="none" if configuration == N else "all",
        least_run_before_suspension_s=0,
        preparation_margin_s=0,
    )
    settings = simulation_settings(Settings(overhead=at_once, time=time))
    if configuration not in (T, R):
        return settings
    staging = ImageStagingSettings(mode="act", link_megabit_per_s=MEGABIT_PER_S, quantum_s=QUANTUM_S, margin_s=0)
    return msgspec.structs.replace(settings, image_staging=staging)


def simulate(task: Task) -> Figures:
    """When best effort is done, and how much of the places is used until everything is."""
    requests = workload(task)
    images = ImageSite(MEGABIT_PER_S, keeps_copies=task.policy == R) if task.policy in (T, R) else None
    site = replace(_site(), images=images)
    trial = Trial(requests, site, settings_of(task.policy), verification=Verification.SAMPLED)
    result = (played := play(trial)).result
    ends = {one.request_id: (one.ended_at_ms or 0) / 1000 for one in result.records if one.fate is not Fate.REJECTED}
    reserved = {one.id for one in requests.requests if one.start is StartKind.EXACT}
    served_s = sum(one.served_vm_ms for one in result.records) / 1000
    return {
        BE_END_S: max(end_s for number, end_s in ends.items() if number not in reserved),
        USED: served_s / (PLACES * max(ends.values())),
        REJECTED: sum(number not in ends for number in reserved),
        RESERVATIONS: len(reserved),
        REFUSED_PLANS: played.seen.refused_plans,
    }


@cache
def _site() -> Site:
    return Site((MachineSet(NODES, 200, 2048),))


def conclude(results: Sequence[TaskResult]) -> ExperimentResult:
    """A row for each workload, ours beside the published; the claims are about the parts of the tables.

    Of what is there in part, the workloads that were played in all configurations.
    """
    played = {(one.task.point, one.task.policy) for one in results}
    whole = {point for point, _ in played if all((point, configuration) in played for configuration in CONFIGURATIONS)}
    table = ResultTable([one for one in results if one.task.point in whole])
    rows = tuple(_row(table, row) for row in PUBLISHED if point_of(row) in whole)
    return ExperimentResult("vw07-mixed", rows, tuple(_claims(table)) if rows else ())


def _per_cent(table: ResultTable, point: str, ours: str, of: str) -> float:
    """By how much later best effort is done under a configuration than under another one."""
    return 100 * (mean(table.values(point, ours, BE_END_S)) / mean(table.values(point, of, BE_END_S)) - 1)


def _row(table: ResultTable, row: Published) -> Row:
    point = point_of(row)
    published = {N: row.n_s, P: row.p_s, T: row.t_s, R: row.r_s}
    found: dict[str, str | int | float] = {
        "best effort": row.duration, "reservations take": row.taken, "batch to reserved": row.batch_to_reserved,
    }  # fmt: skip
    for configuration, printed_s in published.items():
        found[f"{configuration}_s"] = round(mean(table.values(point, configuration, BE_END_S)))
        found[f"{configuration}_published_s"] = printed_s
    for ours, of, printed in ((P, N, row.p_s / row.n_s), (T, P, row.t_s / row.p_s), (R, P, row.r_s / row.p_s)):
        found[f"{ours}_to_{of}_percent"] = round(_per_cent(table, point, ours, of), 2)
        found[f"{ours}_to_{of}_published_percent"] = round(100 * (printed - 1), 2)
    for name, ours, printed in (
        ("N", N, row.n_used), ("P_as_fast", P_AS_FAST, row.p_used), ("P", P, row.p_slow_used),
        ("T", T, row.t_slow_used), ("R", R, row.r_slow_used),
    ):  # fmt: skip
        found[f"{name}_used"] = round(mean(table.values(point, ours, USED)), 2)
        found[f"{name}_published_used"] = printed
    found["reservations"] = round(mean(table.values(point, P, RESERVATIONS)))
    found["rejected_without_transfers"] = round(mean(table.values(point, P, REJECTED)))
    found["rejected_with_transfers"] = round(mean(table.values(point, T, REJECTED)))
    return found


def _claims(table: ResultTable) -> Iterator[Claim]:
    played = [row for row in PUBLISHED if point_of(row) in table.points]
    is_whole = len(played) == len(PUBLISHED)
    for ours, of, of_ours, of_other in ((P, N, "p_s", "n_s"), (T, P, "t_s", "p_s"), (R, P, "r_s", "p_s")):
        printed = [100 * (getattr(row, of_ours) / getattr(row, of_other) - 1) for row in played]
        yield _are_alike(f"{ours} against {of}", [*_all_per_cent(table, played, ours, of)], printed, is_whole)
    for claim in (_reuse_makes_up(table, played), _short_ones_cost_most(table, played)):
        yield claim if is_whole else replace(claim, holds=None)
    if is_whole:
        yield _long_beside_wide_gains_most(table, played)


def _all_per_cent(table: ResultTable, rows: Sequence[Published], ours: str, of: str) -> Iterator[float]:
    return (_per_cent(table, point_of(row), ours, of) for row in rows)


def _are_alike(what: str, ours: Sequence[float], printed: Sequence[float], is_whole: bool) -> Claim:
    alike = _rank_correlation(ours, printed)
    told = f"{min(ours):+.2f} to {max(ours):+.2f} %; rank correlation over the workloads {alike:.2f}"
    holds = alike > _ALIKE if is_whole else None
    text = f"{what}: from the best to the worst workload"
    return Claim(text, f"{min(printed):+.2f} to {max(printed):+.2f} %", told, holds, required=False)


def _reuse_makes_up(table: ResultTable, played: Sequence[Published]) -> Claim:
    with_reuse, without = (mean([*_all_per_cent(table, played, ours, P)]) for ours in (R, T))
    told = f"a mean of {with_reuse:+.2f} % against P, and {without:+.2f} % without reuse"
    text = "reuse comes closer to images that are there than transfers without it"
    return Claim(text, "at most +7.37 %, and +97.34 % without reuse", told, abs(with_reuse) < abs(without))


def _short_ones_cost_most(table: ResultTable, played: Sequence[Published]) -> Claim:
    means = {
        duration: mean([*_all_per_cent(table, rows, T, P)])
        for duration in MEAN_S
        if (rows := [row for row in played if row.duration == duration])
    }
    told = ", ".join(f"{duration} {value:+.2f} %" for duration, value in means.items())
    text = "transfers cost the more the shorter best effort is"
    return Claim(text, "at most +3.13 % where it is long", told, [*means.values()] == sorted(means.values()))


def _long_beside_wide_gains_most(table: ResultTable, played: Sequence[Published]) -> Claim:
    wide = [row for row in played if row.duration == "long" and _is_wide(row)]
    others = [row for row in played if row not in wide]
    found, elsewhere = (mean([*_all_per_cent(table, rows, P, N)]) for rows in (wide, others))
    text = "VMs gain most where best effort is long and reservations take half of the nodes or more"
    told = f"{found:+.2f} %, all others {elsewhere:+.2f} %"
    return Claim(text, "down to -9.475 %", told, found < elsewhere, required=False)


def _is_wide(row: Published) -> bool:
    return row.taken in ("050-075", "075-100")


def _rank_correlation(ours: Sequence[float], printed: Sequence[float]) -> float:
    """Spearman's, between two figures of the same workloads; equal ones share their ranks."""
    return float(np.corrcoef(_ranks(ours), _ranks(printed))[0, 1])


def _ranks(values: Sequence[float]) -> list[float]:
    return [mean([place for place, one in enumerate(sorted(values)) if one == value]) for value in values]


EXPERIMENT = ReplicatedExperiment(
    name="vw07-mixed",
    description="best effort beside reservations: without VMs, with images that are there, with transfers, with reuse",
    paper="Sotomayor 2007, Tables 8.3 to 8.7",
    choices=CHOICES,
    tasks=tasks,
    simulate=simulate,
    conclude=conclude,
    in_parts=True,
)
