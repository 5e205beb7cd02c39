"""All figures of one simulation: of the whole, and of each group of requests."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from one_preempt.core.model.time import ms_to_seconds
from one_preempt.simulation.probes.acceptance import Acceptance, acceptance, missed_deadlines
from one_preempt.simulation.probes.energy import Energy
from one_preempt.simulation.probes.outcome import Outcome, groups, outcomes
from one_preempt.simulation.probes.probe import Ended, Probe
from one_preempt.simulation.probes.utilization import useful_share, utilization
from one_preempt.simulation.probes.waiting import (
    Distribution,
    bounded_slowdowns,
    distribution,
    makespans_s,
    slowdowns,
    waits_s,
)
from one_preempt.simulation.probes.watch import Seen
from one_preempt.simulation.simulator.result import SimulationResult
from one_preempt.simulation.workload.workload import MachineSet, Workload

Figure = int | float | None


class GroupFigures(Struct, frozen=True):
    """Of one group of requests. Distributions are None where no request of the group got so far.

    `makespan_s`: from being ready to completion. `preemptions`: how often one of its leases had to leave for another,
    however it left; `suspensions`: how often to be put to rest. `deadlines_missed`: None where nobody asked for one.
    """

    acceptance: Acceptance
    wait_s: Distribution | None
    slowdown: Distribution | None
    bounded_slowdown: Distribution | None
    makespan_s: Distribution | None
    preemptions: int
    suspensions: int
    deadlines_missed: int | None


class Figures(Struct, frozen=True):
    """Of a whole simulation.

    Attributes:
        groups: By name, "all" first; see `outcome.groups`.
        makespan_s: When the last request ended of those that ever ran and have ended.
        best_effort_makespan_s: Mean from being ready to completion of best-effort leases (CCPE13, Equation 13).
        utilization: CCPE13 Equation 11, over the whole simulation; `utilization_of_arrivals` until the last submission.
        useful_share: JPDC12, Equation 21: 1 - overhead over computation.
        overhead_vm_s: VM seconds of leaving and returning; `planned_overhead_s` what the plans expected.
        preemptions: Decided preemptions; each may have several victims.
        host_on_s: Host seconds that hosts were on.
        refused_plans: Cycles whose plan the recount refused, whatever was decided instead; 0 as it should be.
        energy: Of all hosts over the whole simulation; None where none of them may be switched.
        own: What the probes measured that somebody has added, by their keys; see `probe.py`.
    """

    groups: dict[str, GroupFigures]
    makespan_s: float
    best_effort_makespan_s: float | None
    utilization: float | None
    utilization_of_arrivals: float | None
    useful_share: float | None
    overhead_vm_s: float
    planned_overhead_s: float
    preemptions: int
    host_on_s: float
    cycles: int
    refused_plans: int
    energy: Energy | None = None
    own: dict[str, float | None] = {}

    @property
    def everybody(self) -> GroupFigures:
        """The figures of all requests."""
        return self.groups["all"]

    def flat(self) -> dict[str, Figure]:
        """One name a figure, for tables and files; those of groups have the group's name behind."""
        whole: dict[str, Figure] = {
            "makespan_s": self.makespan_s,
            "best_effort_makespan_s": self.best_effort_makespan_s,
            "utilization": self.utilization,
            "utilization_of_arrivals": self.utilization_of_arrivals,
            "useful_share": self.useful_share,
            "overhead_vm_s": self.overhead_vm_s,
            "planned_overhead_s": self.planned_overhead_s,
            "preemptions": self.preemptions,
            "host_on_s": self.host_on_s,
            "cycles": self.cycles,
            "refused_plans": self.refused_plans,
        }
        if self.energy is not None:
            whole |= {
                "energy_kwh": self.energy.taken_kwh,
                "energy_always_on_kwh": self.energy.always_on_kwh,
                "energy_saved_share": self.energy.saved_share,
                "boots": self.energy.boots,
            }
        whole |= {f"own.{key}": figure for key, figure in self.own.items()}
        for group, figures in self.groups.items():
            whole.update((f"{name}.{group}", figure) for name, figure in flat_group(figures).items())
        return whole


def flat_group(figures: GroupFigures) -> dict[str, Figure]:
    """One name a figure."""
    told = figures.acceptance
    flat: dict[str, Figure] = {
        "requests": told.submitted,
        "completed": told.completed,
        "cut_short": told.cut_short,
        "rejected": told.rejected,
        "unfinished": told.unfinished,
        "rejection_rate": told.rejection_rate,
        "deadlines_missed": figures.deadlines_missed,
        "preempted": figures.preemptions,
        "suspensions": figures.suspensions,
    }
    for name in ("wait_s", "slowdown", "bounded_slowdown", "makespan_s"):
        spread: Distribution | None = getattr(figures, name)
        flat[f"{name}_mean"] = spread.mean if spread else None
        flat[f"{name}_median"] = spread.median if spread else None
        flat[f"{name}_p90"] = spread.percentile_90 if spread else None
        flat[f"{name}_p99"] = spread.percentile_99 if spread else None
        flat[f"{name}_max"] = spread.largest if spread else None
    return flat


def figures(
    workload: Workload,
    hosts: Sequence[MachineSet],
    result: SimulationResult,
    seen: Seen,
    energy: Energy | None,
    own: Sequence[Probe] = (),
) -> Figures:
    """What came of `workload` on `hosts`, and what that took; `own` are probes that somebody has added."""
    found = outcomes(workload, result)
    ended = Ended(found, hosts, seen, result.ended_at_ms)
    best_effort = distribution(makespans_s(one for one in found if one.best_effort))
    return Figures(
        groups={name: _of_group(members, result.ended_at_ms) for name, members in groups(found).items()},
        makespan_s=ms_to_seconds(result.makespan_ms),
        best_effort_makespan_s=best_effort.mean if best_effort else None,
        utilization=utilization(found, hosts, result.ended_at_ms),
        utilization_of_arrivals=utilization(found, hosts, result.ended_at_ms, 1000 * workload.span_s),
        useful_share=useful_share(seen.overhead_vm_ms, seen.computation_vm_ms),
        overhead_vm_s=ms_to_seconds(seen.overhead_vm_ms),
        planned_overhead_s=ms_to_seconds(seen.planned_overhead_ms),
        preemptions=seen.preemptions,
        host_on_s=ms_to_seconds(seen.host_on_ms),
        cycles=result.cycles,
        refused_plans=seen.refused_plans,
        energy=energy,
        own={probe.key: probe.measure(ended) for probe in own},
    )


def _of_group(found: Sequence[Outcome], ended_at_ms: int) -> GroupFigures:
    interruptions = [one for outcome in found for one in outcome.record.interruptions]
    return GroupFigures(
        acceptance=acceptance(found),
        wait_s=distribution(waits_s(found)),
        slowdown=distribution(slowdowns(found)),
        bounded_slowdown=distribution(bounded_slowdowns(found)),
        makespan_s=distribution(makespans_s(found)),
        preemptions=sum(one.by_request_id is not None for one in interruptions),
        suspensions=sum(one.record.suspensions for one in found),
        deadlines_missed=missed_deadlines(found, ended_at_ms),
    )
