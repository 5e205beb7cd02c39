"""CCPE13 Table I and its sweeps: the workloads are as its section 7 says, and the statistics are the paper's."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from one_preempt.core.model.lease import LeaseType
from one_preempt.simulation.experiments import ccpe13_sweeps, ccpe13_table1, ccpe13_workloads
from one_preempt.simulation.experiments.ccpe13_workloads import REPLICATIONS, Mix, mix_of, points, trial, workload
from one_preempt.simulation.experiments.replicated import Figures, ResultTable, Task, TaskResult
from one_preempt.simulation.experiments.trial import play_whole
from one_preempt.simulation.probes.outcome import outcomes
from one_preempt.simulation.simulator.result import Fate
from one_preempt.simulation.workload.workload import MachineSet, StartKind, Workload, WorkloadRequest

FOUR_VMS = (MachineSet(4, 100, ccpe13_workloads.MEMORY_MIB),)
ALL_POINTS = [point for sweep, values in ccpe13_workloads.SWEEPS.items() for point in points(sweep, values)]


def test_the_experiments_have_16_points_with_30_workloads_each() -> None:
    assert len(ALL_POINTS) == 16
    assert len(ccpe13_table1.EXPERIMENT.tasks(False)) == 16 * 30 * 2
    assert len(ccpe13_sweeps.EXPERIMENT.tasks(False)) == 16 * 30 * 3


def test_shares_at_the_points_are_the_papers() -> None:
    assert mix_of("best-effort 10") == Mix(1 / 3, 0.1)
    assert mix_of("deadline 10") == Mix(1 / 3, 0.9)
    assert mix_of("local 70") == Mix(0.7, 0.5)
    assert mix_of("best-effort 50") == mix_of("deadline 50")
    assert {ccpe13_workloads.played_as(Task(point, 0, "MOV")).point for point in ALL_POINTS} == {
        point for point in ALL_POINTS if point != "deadline 50"
    }


def test_the_workload_has_the_papers_means_span_and_types() -> None:
    drawn = workload(mix_of("best-effort 20"), 4)
    requests = drawn.requests
    assert len(requests) == 3000
    assert sum(one.virtual_machines for one in requests) / 3000 == pytest.approx(4, abs=0.001)
    assert sum(one.actual_duration_s for one in requests) / 3000 == pytest.approx(7200, abs=0.5)
    assert drawn.span_s == 14 * 86_400
    assert 24 <= max(one.virtual_machines for one in requests) <= 32
    local = [one for one in requests if not one.external]
    assert len(local) == 1000
    assert {(one.lease_type, one.start) for one in local} == {(LeaseType.DC_NON_PREEMPTABLE, StartKind.IMMEDIATE)}
    best_effort = [one for one in requests if one.external and one.lease_type.best_effort]
    assert len(best_effort) == pytest.approx(400, abs=60)
    for one in requests:
        if one.start is StartKind.DEADLINE:
            assert one.deadline_at_s == one.submitted_at_s + 2 * one.planned_duration_s
    # The points of a sweep share their draws: a request of a small share is one of a larger share too.
    more = {one.id for one in workload(mix_of("best-effort 40"), 4).requests if one.lease_type.best_effort}
    assert {one.id for one in best_effort} <= more


def test_the_overhead_of_the_whole_lease_is_billed_at_its_resumption() -> None:
    durations = ccpe13_workloads._durations(3)
    # h = 2 v tp + delta + v (ts + tr), with 161.0 and 126.1 s for 1024 MB
    assert durations.restore_s == pytest.approx(3 * (161.0 + 126.1) + 2 * 3 * 0.005 + 2.3, abs=0.1)
    assert durations.save_s == durations.boot_s == 0


def test_a_small_simulation_of_a_point_preempts_and_no_plan_is_refused() -> None:
    figures = ccpe13_workloads.simulate(Task("local 70", 0, "MOV", small=True))
    assert figures["refused_plans"] == 0
    assert figures["preemptions"]
    assert {"local_rejection_rate", "external_rejection_rate", "utilization"} <= figures.keys()


def waits_until(deadline_at_s: int, number: int, at_s: int, duration_s: int, kind: LeaseType) -> WorkloadRequest:
    """Four VMs from elsewhere that have to be done by then."""
    asked = WorkloadRequest(number, at_s, FOUR_VMS, duration_s, duration_s, lease_type=kind, external=True)
    return replace(asked, start=StartKind.DEADLINE, deadline_at_s=deadline_at_s)


def local(number: int, at_s: int, duration_s: int) -> WorkloadRequest:
    """Four VMs of a user of this site, now or never."""
    asked = WorkloadRequest(number, at_s, FOUR_VMS, duration_s, duration_s, start=StartKind.IMMEDIATE)
    return replace(asked, lease_type=LeaseType.DC_NON_PREEMPTABLE)


def test_a_lease_is_spared_that_would_be_late_because_its_memory_is_read_back() -> None:
    # Away from 100 to 150, 1151 s to come back, 900 s left.
    kept, refused = play_whole(
        trial(Workload((waits_until(2000, 1, 0, 1000, LeaseType.DC_MIGRATABLE), local(2, 100, 50))), "MOML", nodes=4)
    ).result.records
    assert (kept.fate, kept.ended_at_ms, kept.interruptions) == (Fate.COMPLETED, 1_000_000, ())
    assert refused.fate is Fate.REJECTED


def test_nobody_is_promised_the_room_of_a_lease_whose_memory_is_being_read_back() -> None:
    # The first is made to leave from 950 to 960, is read back until 2111 and ends at 2161.
    best_effort = WorkloadRequest(1, 0, FOUR_VMS, 1000, 1000, external=True)
    requests = best_effort, local(2, 950, 10), waits_until(1100, 3, 1000, 50, LeaseType.DC_NON_PREEMPTABLE)
    records = play_whole(trial(Workload(requests), "MOML", nodes=4)).result.records
    assert records[0].ended_at_ms == pytest.approx(2_160_800, abs=10)
    assert [record.fate for record in records] == [Fate.COMPLETED, Fate.COMPLETED, Fate.REJECTED]


@pytest.mark.parametrize(("point", "replication"), [("best-effort 10", 0), ("local 40", 1)])
def test_every_accepted_deadline_is_kept(point: str, replication: int) -> None:
    requests = workload(mix_of(point), replication, 600)
    result = play_whole(trial(requests, "MOML")).result
    accepted = [
        one for one in outcomes(requests, result) if one.request.deadline_at_s and one.fate is not Fate.REJECTED
    ]
    preempted = [one for one in accepted if one.record.interruptions]
    assert len(preempted) >= 5
    assert ccpe13_workloads.kept_deadlines(requests, result) == [True] * len(accepted)


def table_of(rates: dict[str, tuple[float, float]]) -> list[TaskResult]:
    """Rejection rates of local requests at each point, without and with preemption; all replications alike."""
    return [
        TaskResult(Task(point, replication, policy), _figures(rate))
        for replication in range(REPLICATIONS)
        for point, both in rates.items()
        for policy, rate in zip(("NOP", "MOML"), both, strict=True)
    ]


def _figures(rate: float) -> Figures:
    return {"local_rejection_rate": rate, "external_rejection_rate": 0.3 + rate / 100}


def test_the_fall_is_told_in_per_cent_and_in_points_over_the_points_of_a_sweep() -> None:
    rates = {point: (0.8, 0.2 + 0.001 * number) for number, point in enumerate(ALL_POINTS[:5])}
    measured = ccpe13_table1.measure(ResultTable(table_of(rates)), "best-effort")
    assert measured.points.difference.mean == pytest.approx(59.8)
    assert measured.per_cent.difference.mean == pytest.approx(74.75)
    assert measured.points.difference.count == 5
    assert measured.points.p < 0.001
    # 0.001 * (0 .. 4): s = 0.15811 points, half width 2.776 * s / sqrt(5)
    assert measured.points.difference.half_width == pytest.approx(0.19632, abs=1e-4)


def test_claims_of_table_1_hold_where_rates_are_as_published_and_not_where_they_are_equal() -> None:
    falls = {"best-effort": 0.72, "deadline": 0.55, "local": 0.58}
    good = {
        point: (0.9, 0.9 - falls[point.split()[0]] + 0.01 * (number % 3)) for number, point in enumerate(ALL_POINTS)
    }
    result = ccpe13_table1.conclude(table_of(good))
    local = [claim.holds for claim in result.claims if claim.required and "external" not in claim.text]
    assert local == [True] * 4
    same = ccpe13_table1.conclude(table_of(dict.fromkeys(ALL_POINTS, (0.5, 0.5))))
    assert [claim.holds for claim in same.claims if claim.required and "external" not in claim.text] == [False] * 4


def sweep_results(preemptions: tuple[float, float, float]) -> list[TaskResult]:
    return [
        TaskResult(
            Task(point, replication, policy),
            {
                "preemptions": count * int(point.split()[1]),
                "utilization": 0.5 + count / 1000,
                "best_effort_makespan_s": 5000 - count,
            },
        )
        for replication in range(REPLICATIONS)
        for point in ALL_POINTS
        for policy, count in zip(("MLIP", "MOML", "MOV"), preemptions, strict=True)
    ]


def test_small_results_judge_nothing() -> None:
    wanted = {replace(task, small=False) for task in ccpe13_sweeps.EXPERIMENT.tasks(True)}
    played = [one for one in sweep_results((10, 12, 14)) if one.task in wanted]
    small = [replace(one, task=replace(one.task, small=True)) for one in played]
    assert {claim.holds for claim in ccpe13_sweeps.conclude(small).claims} == {None}


def test_orders_of_the_policies_are_counted_over_all_points() -> None:
    verdicts = {claim.text: claim.holds for claim in ccpe13_sweeps.conclude(sweep_results((10, 12, 14))).claims}
    assert verdicts["preemptions MLIP <= MOML <= MOV"] is True
    assert verdicts["utilization MOV >= MLIP"] is True
    assert verdicts["makespan of best-effort leases: MLIP least"] is False
    assert verdicts["preemptions grow nearly linearly with the local share"] is True
    turned = {claim.text: claim for claim in ccpe13_sweeps.conclude(sweep_results((14, 12, 10))).claims}
    assert turned["preemptions MLIP <= MOML <= MOV"].ours == "at 0 of 16"
    assert turned["utilization MOV >= MLIP"].holds is False


def test_a_part_of_an_experiment_tells_of_its_whole_replications_and_judges_nothing() -> None:
    whole = sweep_results((10, 12, 14))
    of_one = len(ccpe13_sweeps.EXPERIMENT.tasks(False)) // REPLICATIONS
    assert [result.task for result in whole] == ccpe13_sweeps.EXPERIMENT.tasks(False)
    # Whatever is true of a replication that was begun does not count.
    begun = [replace(whole[2 * of_one], figures={"preemptions": 1e9, "utilization": 1, "best_effort_makespan_s": 1})]
    part = ccpe13_sweeps.conclude([*whole[: 2 * of_one], *begun])
    assert part.rows == ccpe13_sweeps.conclude(whole).rows
    assert {claim.holds for claim in part.claims} == {None}
    assert part.claims[0].ours == "at 16 of 16 (2 of 30 replications)"
    assert ccpe13_sweeps.conclude(begun).rows == ({"whole replications": 0, "simulations played": 1},)
    assert ccpe13_table1.conclude([]).claims == ()
