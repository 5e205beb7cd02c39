"""What VW07 claims (section 8.1: accuracy, disk; 8.2: deployment), on its workloads made small."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from one_preempt.core.model.time import MS_PER_S
from one_preempt.errors import OnePreemptError
from one_preempt.simulation.experiments import vw07_accuracy, vw07_datastar, vw07_disk, vw07_mixed, vw07_stretch
from one_preempt.simulation.experiments.replicated import (
    REFUSED_PLANS,
    ReplicatedExperiment,
    ResultTable,
    Task,
    TaskResult,
)
from one_preempt.simulation.experiments.state_folder import lent
from one_preempt.simulation.experiments.vw07_datastar import Submission
from one_preempt.simulation.experiments.vw07_deployment import DeploymentSite
from one_preempt.simulation.experiments.vw07_mixed_tables import PUBLISHED
from one_preempt.simulation.experiments.vw07_site import TRANSFER_MS
from one_preempt.simulation.vw07_model.image_pool import Keeping, PoolRules

CACHE = PoolRules(limit_mb=1800, keeping=Keeping.UNTIL_EVICTED)


def results_of(experiment: ReplicatedExperiment) -> list[TaskResult]:
    return [TaskResult(task, experiment.simulate(task)) for task in experiment.tasks(True)]


def test_scheduled_transfers_are_accurate_where_naive_ones_are_not() -> None:
    results = results_of(vw07_accuracy.EXPERIMENT)
    table = ResultTable(results)
    for point in table.points:
        assert set(table.values(point, vw07_accuracy.EDF, vw07_accuracy.LEAST)) == {1.0}
        for policy in vw07_accuracy.NAIVE:
            assert min(table.values(point, policy, vw07_accuracy.MEAN)) < 1
    claims = vw07_accuracy.conclude(results).claims
    assert all(claim.holds for claim in claims if claim.required)


def test_a_trace_is_of_so_many_workspaces_and_the_same_each_time() -> None:
    trace = vw07_accuracy.trace(vw07_accuracy.BURSTS, vw07_accuracy.EACH_NODE, 1)
    assert trace == vw07_accuracy.trace(vw07_accuracy.BURSTS, vw07_accuracy.EACH_NODE, 1)
    owners = [one.owner for one in trace]
    assert sorted(set(owners)) == list(range(35))
    assert {owners.count(owner) for owner in owners} == {2, 3, 4}
    starts_s = [(one.deadline_ms or 0) // MS_PER_S for one in trace]
    assert all(start_s % 900 < 100 and start_s < 7200 for start_s in starts_s)
    assert all(one.ready_ms <= (one.deadline_ms or 0) for one in trace)


def test_a_workspace_that_never_gets_its_image_has_nothing_of_its_time() -> None:
    """And one claim that fails is told so."""
    figures = {
        vw07_accuracy.MEAN: 0.5, vw07_accuracy.LEAST: 0.0, vw07_accuracy.FULL: 0.5, vw07_accuracy.NEARLY: 0.5,
    }  # fmt: skip
    forged = [TaskResult(task, figures) for task in vw07_accuracy.tasks(True)]
    verdicts = {claim.text: claim.holds for claim in vw07_accuracy.conclude(forged).claims}
    assert verdicts["bursts at-once: under EDF each workspace has all of its time"] is False
    assert verdicts["bursts at-once: EDF is the most accurate"] is True


def test_images_just_in_time_take_less_disk_and_reuse_fewer_transfers() -> None:
    result = vw07_disk.conclude(results_of(vw07_disk.EXPERIMENT))
    assert all(claim.holds for claim in result.claims if claim.required)
    accepted = {row["images"]: row["accepted"] for row in result.rows}
    assert accepted[vw07_disk.AT_ONCE_94] == 94


def test_the_same_requests_are_asked_for_in_all_readings() -> None:
    first, *others = ([*vw07_disk.requests(reading, 3)] for reading in vw07_disk.READINGS)
    told = [(one.vms, one.image, one.start_ms) for one in first]
    assert all([(one.vms, one.image, one.start_ms) for one in some] == told for some in others)
    assert {one.vms for one in first} == set(range(1, 17))
    assert len({one.image for one in first}) == 37


def test_the_cache_shortens_deployments() -> None:
    result = vw07_stretch.conclude(results_of(vw07_stretch.EXPERIMENT))
    assert {claim.holds for claim in result.claims} == {None}
    seconds = {(row["images"], row["queue"], row["policy"]): float(str(row["deployment_s"])) for row in result.rows}
    for images, queue, policy in seconds:
        if policy != vw07_stretch.NO_CACHE:
            assert seconds[images, queue, policy] < seconds[images, queue, vw07_stretch.NO_CACHE]


def test_images_are_deployed_one_after_the_other_and_at_once_where_they_are_cached() -> None:
    two = [Submission(0, 2, 10 * MS_PER_S, "a"), Submission(200 * MS_PER_S, 2, 10 * MS_PER_S, "a")]
    plain = DeploymentSite(None, together=False).run(two)
    assert [one.lasted_ms // MS_PER_S for one in plain] == [48, 96, 48, 96]
    cached = DeploymentSite(CACHE, together=False, by_image=True).run(two)
    assert [one.lasted_ms // MS_PER_S for one in cached] == [48, 48, 0, 0]
    assert [one.was_transferred for one in cached] == [True, False, False, False]
    by_room = DeploymentSite(CACHE, together=False).run(two)
    assert [one.lasted_ms // MS_PER_S for one in by_room] == [48, 96, 0, 0]


def test_nobody_overtakes_and_places_are_held_while_images_come() -> None:
    """Sixteen places: the second waits until the first is gone, whole or VM by VM."""
    two = [Submission(0, 16, MS_PER_S, "a"), Submission(1, 2, MS_PER_S, "b"), Submission(2, 1, MS_PER_S, "c")]
    whole = DeploymentSite(None, together=True).run(two)
    assert [one.began_ms for one in whole[16:]] == [16 * TRANSFER_MS + MS_PER_S] * 3
    serial = DeploymentSite(None, together=False).run(two)
    assert [one.began_ms for one in serial[16:]] == [number * TRANSFER_MS + MS_PER_S for number in (1, 2, 3)]


def test_best_effort_waits_for_its_images_beside_reservations_and_reuse_makes_up_for_it() -> None:
    results = results_of(vw07_mixed.EXPERIMENT)
    assert {one.figures[REFUSED_PLANS] for one in results} == {0}
    assert all((one.figures[vw07_mixed.RESERVATIONS] or 0) > (one.figures[vw07_mixed.REJECTED] or 0) for one in results)
    concluded = vw07_mixed.conclude(results)
    # Of two workloads nothing is judged.
    assert {claim.holds for claim in concluded.claims} == {None}
    rows = {str(row["best effort"]): row for row in concluded.rows}
    assert rows["short"]["T_published_s"] == 84540
    # Suspending pays for long best effort and not for short one, whose images take all of the link.
    percent = {(name, key): float(str(row[key])) for name, row in rows.items() for key in row if "percent" in key}
    assert percent["long", "P_to_N_percent"] < 0 < percent["short", "P_to_N_percent"]
    assert percent["short", "T_to_P_percent"] > 50 > percent["long", "T_to_P_percent"]


def test_a_mixed_workload_is_the_same_in_all_configurations_but_for_what_they_are_about() -> None:
    asked = {name: vw07_mixed.workload(Task("short 050-075 50-50", 0, name)) for name in vw07_mixed.CONFIGURATIONS}
    known = [one for one in asked[vw07_mixed.N].requests if one.start_at_s is not None]
    assert len(known) == 33
    assert {one.virtual_machines for one in known} == {9, 10, 11, 12}
    assert all(one.virtual_machines * one.actual_duration_s == pytest.approx(8700, rel=0.07) for one in known)
    plain, slow = (asked[name].requests[33:] for name in (vw07_mixed.P_AS_FAST, vw07_mixed.R))
    assert [round(1.1 * one.actual_duration_s) for one in plain] == [one.actual_duration_s for one in slow]
    assert sum(one.actual_duration_s for one in plain) == pytest.approx(288_000, rel=0.03)
    assert [(one.image, one.submitted_at_s) for one in plain] == [(one.image, one.submitted_at_s) for one in slow]
    # Without reuse no two reservations have an image in common, nor any with best effort.
    images = [one.image for one in asked[vw07_mixed.T].requests[:33]]
    assert len(set(images)) == 33
    assert not set(images) & {one.image for one in asked[vw07_mixed.T].requests[33:]}


def test_the_tables_of_mixed_workloads_say_what_the_text_says_of_them() -> None:
    rows = PUBLISHED
    gains = [100 * (row.p_s / row.n_s - 1) for row in rows]
    assert (round(min(gains), 3), round(max(gains), 3)) == (-9.475, 8.178)
    assert max(round(100 * (row.t_s / row.p_s - 1), 2) for row in rows) == 97.34
    assert max(round(100 * (row.t_s / row.p_s - 1), 2) for row in rows if row.duration == "long") == 3.13
    assert max(round(100 * (row.r_s / row.p_s - 1), 2) for row in rows) == 7.37
    assert len({(row.duration, row.taken, row.batch_to_reserved) for row in rows}) == 36


LOG = """; Version: 2.2
21542 0 1 10 8 -1 -1 8 60 -1 1 1 1 -1 1 1 -1 -1
21543 100 1 10 8 -1 -1 8 60 -1 1 1 1 -1 1 1 -1 -1
21544 110 1 20 64 -1 -1 64 60 -1 1 1 1 -1 1 1 -1 -1
21545 120 1 20 8 -1 -1 8 60 -1 5 1 1 -1 1 1 -1 -1
21546 130 1 20 8 -1 -1 8 60 -1 1 1 1 -1 3 1 -1 -1
21665 140 1 20 8 -1 -1 8 60 -1 1 1 1 -1 1 1 -1 -1
"""


def test_of_the_log_the_completed_express_jobs_of_the_stretch_are_played(tmp_path: Path) -> None:
    (tmp_path / vw07_datastar.LOG_FILE).write_bytes(gzip.compress(LOG.encode()))
    assert vw07_datastar.recorded(tmp_path) == (Submission(0, 2, 10_000), Submission(10_000, 16, 20_000))
    experiment = vw07_stretch.over(tmp_path)
    assert vw07_datastar.LOG_FILE in experiment.choices
    figures = experiment.simulate(Task("uniform each-VM", 0, vw07_stretch.NO_CACHE))
    assert figures[vw07_stretch.IMAGES] == 18


def test_a_bad_line_of_the_log_is_told_without_an_option_that_experiments_lack(tmp_path: Path) -> None:
    (tmp_path / vw07_datastar.LOG_FILE).write_bytes(gzip.compress(b"no job\n"))
    with pytest.raises(OnePreemptError, match=r"swf\.gz:1: .*Mend the line$"):
        vw07_datastar.recorded(tmp_path)


def test_a_folder_without_the_log_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OnePreemptError, match=r"there is no SDSC-DS-2004-2\.1-cln\.swf\.gz"):
        vw07_stretch.over(tmp_path)


def test_what_is_drawn_without_the_log_is_as_much() -> None:
    drawn = vw07_datastar.drawn(0)
    assert (len(drawn), sum(one.vms for one in drawn)) == (62, 144)
    assert drawn == vw07_datastar.drawn(0) != vw07_datastar.drawn(1)
    images = [one.image for one in vw07_datastar.with_images(drawn, "skewed", 0)]
    assert max(images, key=images.count) == "image-1"


@pytest.mark.parametrize("experiment", [vw07_accuracy.EXPERIMENT, vw07_disk.EXPERIMENT], ids=lambda one: one.name)
def test_what_is_reported_comes_out_again(experiment: ReplicatedExperiment) -> None:
    """One draw of each point. The deployments need a log that is not here."""
    stored = lent(Path(__file__).parents[2] / "docs" / "researcher" / "results" / experiment.name, experiment, False)
    again = [task for task in experiment.tasks(False) if task.replication == 7 and task in stored]
    assert again
    for task in again:
        assert experiment.simulate(task) == stored[task].figures
