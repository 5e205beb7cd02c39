"""What SR11 claims (section 5: suspensions, rejected reservations), on its workloads made small."""

from __future__ import annotations

from one_preempt.simulation.experiments import sr11_conversion, sr11_leases, sr11_starvation
from one_preempt.simulation.experiments.replicated import ReplicatedExperiment, ResultTable, Task, TaskResult


def results_of(experiment: ReplicatedExperiment) -> list[TaskResult]:
    return [TaskResult(task, experiment.simulate(task)) for task in experiment.tasks(True)]


def test_with_a_limit_of_2_no_best_effort_lease_is_suspended_more_often_and_it_ends_no_later() -> None:
    results = results_of(sr11_starvation.EXPERIMENT)
    table = ResultTable(results)
    for point in table.points:
        without, with_ = (
            list(zip(table.values(point, policy, "suspensions"), table.values(point, policy, "end_s"), strict=True))
            for policy in (sr11_starvation.WITHOUT, sr11_starvation.WITH)
        )
        assert max(suspensions for suspensions, _ in with_) <= 2
        assert all(after[1] <= before[1] for after, before in zip(with_, without, strict=True))
    # The guard had something to guard against.
    assert max(table.values("20", sr11_starvation.WITHOUT, "suspensions")) > 2
    assert [claim.holds for claim in sr11_starvation.conclude(results).claims] == [True, True]


def test_rejected_reservations_become_0_with_conversion() -> None:
    result = sr11_conversion.conclude(results_of(sr11_conversion.EXPERIMENT))
    assert all(row["rejected_with"] == 0 for row in result.rows)
    assert any(float(str(row["rejected_without"])) > 0 for row in result.rows)
    assert [claim.holds for claim in result.claims] == [True, True, True]


def test_claims_that_do_not_come_out_are_told_so() -> None:
    forged = [
        TaskResult(Task("10", 0, sr11_starvation.WITHOUT), {"suspensions": 1, "end_s": 100.0, "rejected": 0}),
        TaskResult(Task("10", 0, sr11_starvation.WITH), {"suspensions": 3, "end_s": 101.0, "rejected": 0}),
    ]
    assert [claim.holds for claim in sr11_starvation.conclude(forged).claims] == [False, False]


def test_the_workload_is_one_long_lease_and_reservations_that_fit_the_site() -> None:
    first, *others = sr11_leases.workload(50, 3, 2).requests
    assert (len(others), first.max_suspensions, first.work_vm_s) == (49, 2, 4 * 12 * 3600)
    assert all(1 <= one.virtual_machines <= sr11_leases.NODES and one.ready_at_s >= 3600 for one in others)
    assert sr11_leases.workload(50, 3, 2) == sr11_leases.workload(50, 3, 2) != sr11_leases.workload(50, 4, 2)
