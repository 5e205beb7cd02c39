"""PEMP12's energies: the workloads are as its section IV says, and verdicts follow from the runs."""

from __future__ import annotations

import io
import os
import re
import tarfile
from collections.abc import Callable, Mapping
from fractions import Fraction
from pathlib import Path

import pytest

from one_preempt.core.energy.policy import NodeCounts, Occasion, SupplyDecision, SupplyQuestion
from one_preempt.core.model.lease import LeaseType
from one_preempt.errors import OnePreemptError
from one_preempt.policy_registry import ENERGY_POLICIES
from one_preempt.simulation.experiments import pemp12_energy
from one_preempt.simulation.experiments.experiment import Claim, ExperimentResult
from one_preempt.simulation.experiments.pemp12_binding import OtherwiseBound
from one_preempt.simulation.experiments.pemp12_energy import concluded
from one_preempt.simulation.experiments.pemp12_rule_bases import AS_SHIPPED, RULE_BASES, with_rule_base
from one_preempt.simulation.experiments.pemp12_runs import (
    ALWAYS_ON,
    GESP,
    LOOK_AHEAD,
    PEMP,
    POLICIES,
    SESP,
    Setting,
)
from one_preempt.simulation.experiments.pemp12_trials import BEGIN_S, Reading, as_read, played, reserved_figures
from one_preempt.simulation.experiments.pemp12_workloads import (
    DELTAS_H,
    LEAD_S,
    LIGHTER_MONTHS,
    MONTHS,
    RESERVATIONS_FILE,
    RHOS,
    SPAN_S,
    THETAS,
    Point,
    TraceFolder,
    best_effort,
    both,
    point_named,
    points,
    recorded_reservations,
    reservations,
)
from one_preempt.simulation.experiments.replicated import Task, TaskResult
from one_preempt.simulation.probes.outcome import Outcome
from one_preempt.simulation.simulator.result import Fate, RequestRecord
from one_preempt.simulation.workload.workload import MachineSet, StartKind, Workload, WorkloadRequest

TRACES = Path(__file__).parents[1] / "traces"
WHOLE_LOGS = os.environ.get("ONE_PREEMPT_TRACES", "")


def test_the_72_points_come_in_an_order_of_which_any_part_is_balanced() -> None:
    everything = points()
    assert len(set(everything)) == len(everything) == len(RHOS) * len(DELTAS_H) * len(THETAS)
    for first in range(0, 72, 6):
        assert {point.rho for point in everything[first : first + 6]} == set(RHOS)
    for first in range(0, 72, 12):
        assert len({(point.delta_h, point.theta) for point in everything[first : first + 12]}) == 12
    assert [point_named(point.name) for point in everything] == everything


def test_the_slice_is_the_papers_on_whole_nodes_with_its_true_run_times() -> None:
    requests = best_effort(TraceFolder(TRACES)).requests
    assert len(requests) == 5108
    assert sum(one.work_vm_s for one in requests) / (512 * SPAN_S) == pytest.approx(0.198, abs=0.0005)
    assert all(one.requested_duration_s == max(1, one.actual_duration_s) for one in requests)
    asked = best_effort(TraceFolder(TRACES), as_requested=True).requests
    assert sum(one.requested_duration_s or 0 for one in asked) > 2 * sum(one.actual_duration_s for one in asked)


def test_what_is_drawn_in_place_of_the_slice_has_its_number_and_its_means() -> None:
    ours, slices = best_effort(None).requests, best_effort(TraceFolder(TRACES)).requests
    assert len(ours) == len(slices)
    for figure in (lambda one: one.virtual_machines, lambda one: one.actual_duration_s):
        assert sum(map(figure, ours)) == pytest.approx(sum(map(figure, slices)), rel=0.001)


@pytest.mark.parametrize("policy", [LOOK_AHEAD, PEMP])
def test_hosts_go_to_sleep_though_everything_is_over_long_before_the_end(policy: str) -> None:
    two_hours = WorkloadRequest(1, 0, (MachineSet(2, 100, 1024),), 3600, 3600)
    reserved = WorkloadRequest(
        1, 0, (MachineSet(1, 100, 1024),), 600, 600, start=StartKind.EXACT, start_at_s=600,
        lease_type=LeaseType.DC_NON_PREEMPTABLE,
    )  # fmt: skip
    requests = both(Workload((two_hours,)), Workload((reserved,)), BEGIN_S)
    figures = played(requests, policy, Reading(), small=True)
    work_kwh = 0.117 * (2 * 3600 + 600) / 3600
    assert figures["unfinished"] == 0
    assert work_kwh <= (figures["kwh"] or 0) <= work_kwh + 0.1


@pytest.mark.skipif(not WHOLE_LOGS, reason="ONE_PREEMPT_TRACES names no folder of traces")
def test_the_lighter_months_are_those_next_to_the_slice_on_which_nothing_was_tuned() -> None:
    traces, tuned = TraceFolder(Path(WHOLE_LOGS)), {120, 150, 420, 510, 540}
    asked = {
        day: sum(one.work_vm_s for one in best_effort(traces, day).requests)
        for day in range(0, 960, 30)
        if day not in tuned
    }
    lighter = sorted((day for day in asked if day and asked[day] <= asked[0]), key=lambda day: -asked[day])
    assert set(lighter[:4]) == LIGHTER_MONTHS
    assert all(asked[day] > asked[0] for day in MONTHS.keys() - LIGHTER_MONTHS)


def test_drawn_reservations_have_their_share_and_are_known_a_day_ahead() -> None:
    drawn = reservations(Point(30, 2, "medium"), 105).requests
    assert sum(one.work_vm_s for one in drawn) / (144 * SPAN_S) == pytest.approx(0.3, rel=0.01)
    assert {one.submitted_at_s for one in drawn} == {max(0, (one.start_at_s or 0) - LEAD_S) for one in drawn}
    assert drawn != reservations(Point(30, 2, "medium"), 101).requests


def archive_of(path: Path, left_out: Point | None = None) -> TraceFolder:
    """A folder with an archive like Haizea's: one reservation a point, of as many nodes as rho."""
    (path / "haizea-blue-30days.swf.gz").write_bytes((TRACES / "haizea-blue-30days.swf.gz").read_bytes())
    with tarfile.open(path / RESERVATIONS_FILE, "w:gz") as archive:
        for point in points():
            if point == left_out:
                continue
            line = f"13600 100000 3600 3600 {point.rho} 1 1024 0 image 600\n".encode()
            place = list(THETAS).index(point.theta) + 1
            member = tarfile.TarInfo(f"30days/work_{point.rho:02}-dur_{point.delta_h}h-size_{place}{point.theta}.lwf")
            member.size = len(line)
            archive.addfile(member, io.BytesIO(line))
    return TraceFolder(path)


def test_recorded_reservations_are_found_by_their_point_and_take_another_lead(tmp_path: Path) -> None:
    traces = archive_of(tmp_path)
    point = Point(25, 3, "large")
    (found,) = recorded_reservations(traces, point).requests
    assert (found.virtual_machines, found.submitted_at_s, found.start_at_s) == (25, 13_600, 100_000)
    (sooner,) = recorded_reservations(traces, point, lead_s=3600).requests
    assert (sooner.submitted_at_s, sooner.start_at_s) == (96_400, 100_000)
    later = both(best_effort(traces), recorded_reservations(traces, point), 3600).requests
    assert [one.start_at_s for one in later if one.start is StartKind.EXACT] == [103_600]
    assert later[0].submitted_at_s == 3600


def test_an_archive_without_some_point_and_a_folder_without_the_slice_are_named(tmp_path: Path) -> None:
    with pytest.raises(OnePreemptError, match="there is no haizea-blue-30days"):
        TraceFolder(tmp_path)
    traces = archive_of(tmp_path, left_out=Point(5, 1, "small"))
    with pytest.raises(OnePreemptError, match="has no reservations for 5%-1h-small"):
        recorded_reservations(traces, Point(10, 1, "small"))


def test_what_is_played_depends_on_the_traces_that_are_there(tmp_path: Path) -> None:
    def named(traces: TraceFolder | None) -> list[str]:
        return [setting.name for setting in pemp12_energy.settings(traces) if not setting.reading]

    drawn = ["drawn", "drawn-high-rho"]
    assert named(None) == ["drawn"]
    assert named(TraceFolder(TRACES)) == drawn
    assert named(archive_of(tmp_path)) == ["files", *drawn]
    (tmp_path / "SDSC-BLUE-2000-4.2-cln.swf.gz").touch()
    months = [f"day-{day}" for day in (330, 600, 690, 840, 210, 300, 630, 720)]
    assert named(TraceFolder(tmp_path)) == ["files", *months, *drawn]
    tasks = pemp12_energy.over(tmp_path).tasks(False)
    assert [task.policy for task in tasks[:5]] == list(POLICIES)
    assert len({task.point for task in tasks[:360]}) == 72


# -- verdicts ----------------------------------------------------------------------------------------------------

GOOD: Mapping[str, tuple[float, float]] = {
    ALWAYS_ON: (43_130.9, 0.0),
    GESP: (5000.0, 40.0),
    SESP: (16_000.0, 3.0),
    PEMP: (13_000.0, 1.0),
    LOOK_AHEAD: (12_000.0, 0.0),
}
Changed = Callable[[Point, str], tuple[float, float] | None]


def a_run(point: Point, policy: str, kwh: float, broken: float, **more: int) -> TaskResult:
    served = {"reservations": 10, "rejected_reservations": 0, "late_reservations": 0, "lost_guests": 0}
    figures = {"kwh": kwh, "violations_percent": broken, "boots": 5, "unfinished_node_hours": 0, **served, **more}
    return TaskResult(Task(f"files {point.name}", 0, policy), figures)


def concluded_from(results: list[TaskResult]) -> ExperimentResult:
    return concluded([Setting("files", tuple(points()), gauges=True)], results)


def verdicts(changed: Changed = lambda _point, _policy: None, count: int = 72) -> dict[str, Claim]:
    results = [
        a_run(point, policy, kwh, broken)
        for point in points()[:count]
        for policy in POLICIES
        for kwh, broken in [changed(point, policy) or GOOD[policy]]
    ]
    found = concluded_from(results)
    return {claim.text.removeprefix("files: ").split(" ")[0] + claim.published: claim for claim in found.claims}


def failing(claims: Mapping[str, Claim]) -> list[str]:
    return [claim.text for claim in claims.values() if claim.required and claim.holds is not True]


def test_all_hard_lines_hold_where_every_point_is_good() -> None:
    assert failing(verdicts()) == []


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        (lambda point, policy: (43_140, 0) if policy == ALWAYS_ON and point.rho == 5 else None, "always on"),
        (lambda point, policy: (13_001, 40) if policy == GESP and point.rho == 5 else None, "least energy of the"),
        (lambda point, policy: (5000, 3) if policy == GESP and point.name == "5%-1h-small" else None, None),
        (lambda point, policy: (5000, 3) if policy == GESP and point.delta_h == 1 else None, "breaks the most"),
        (lambda point, policy: (13_000, 4.1) if policy == PEMP and point.rho == 30 else None, "PEMP takes less"),
        (
            lambda point, policy: (13_001, 0) if policy == LOOK_AHEAD and point.name == "5%-1h-small" else None,
            "no more",
        ),
        (lambda point, policy: (12_501, 0) if policy == LOOK_AHEAD and point.rho == 30 else None, "at most 12,500"),
        (lambda point, policy: (12_501, 0) if policy == LOOK_AHEAD and point.rho == 25 else None, None),
        (lambda point, policy: (12_000, 0.21) if policy == LOOK_AHEAD and point.rho == 5 else None, "at most 0.2"),
    ],
)
def test_a_hard_line_fails_where_too_many_points_are_bad(changed: Changed, text: str | None) -> None:
    found = failing(verdicts(changed))
    assert (text is None and not found) or (text is not None and len(found) == 1 and text in found[0])


@pytest.mark.parametrize("fault", ["rejected_reservations", "late_reservations", "lost_guests"])
def test_energies_of_who_served_less_do_not_count(fault: str) -> None:
    results = [
        a_run(point, policy, kwh, broken, **{fault: int(policy == GESP and point.name == "5%-1h-small")})
        for point in points()
        for policy, (kwh, broken) in GOOD.items()
    ]
    spoilt = [claim.text for claim in concluded_from(results).claims if claim.required and not claim.holds]
    assert spoilt == ["files: no reservation is rejected or late, nobody loses a host"]


def test_of_a_part_nothing_is_said_that_the_rest_could_turn() -> None:
    assert {claim.holds for claim in verdicts(count=12).values()} == {None}
    spoilt = verdicts(lambda _, policy: (20_000, 0) if policy == LOOK_AHEAD else None, count=12)
    refused = [claim.text for claim in spoilt.values() if claim.holds is False and claim.required]
    assert [text for text in refused if "no more energy" in text or "12,500" in text] == refused
    assert len(refused) == 2


def test_what_the_paper_says_of_a_figure_is_judged_on_its_points() -> None:
    def papers(point: Point, policy: str) -> tuple[float, float] | None:
        """SESP's saving of Figure 1, and half of it wherever the figure does not look."""
        base = (point.rho, point.delta_h, point.theta)
        shown = base[1:] == (3, "medium") or base[::2] == (15, "medium") or base[:2] == (15, 3)
        if policy != SESP:
            return None
        if shown and point.rho == 30:
            return 13_000 / 0.82, 1
        return (13_000 + 100 * point.delta_h, 1) if shown else (26_000, 1)

    found = verdicts(papers)
    saving, delta, theta = (
        next(claim for claim in found.values() if words in claim.text)
        for words in ("saving", "sweep of delta", "sweep of theta")
    )
    assert saving.holds is True
    assert (delta.ours.split(" kWh")[0], theta.holds) == ("-48.4 to 448.4", False)


def test_rows_tell_each_sweep_and_pictures_are_drawn() -> None:
    found = concluded_from([
        a_run(point, policy, kwh + point.rho, broken) for point in points() for policy, (kwh, broken) in GOOD.items()
    ])  # fmt: skip
    assert [row["at"] for row in found.rows if row["sweep"] == "rho"] == ["5", "10", "15", "20", "25", "30"]
    assert [row["points"] for row in found.rows] == [1, 12] * 6 + [1, 18] * 4 + [1, 24] * 3
    assert found.rows[0]["SESP less PEMP %"] == pytest.approx(18.7)
    assert len({tuple(row) for row in found.rows}) == 1
    assert {name.split("-", 2)[2] for name in found.pictures} == {
        sweep + scope for sweep in ("rho", "delta", "theta") for scope in ("", "-all")
    }


def test_a_claim_asks_for_the_policies_that_it_compares_and_for_no_other() -> None:
    high = [point for point in points() if point.rho >= 25]
    results = [a_run(point, policy, *GOOD[policy]) for point in high[:22] for policy in (PEMP, SESP)]
    results += [a_run(point, LOOK_AHEAD, *GOOD[LOOK_AHEAD]) for point in high if point.rho == 30]
    claims = concluded_from(results).claims
    assert [claim.text for claim in claims if claim.holds] == [
        "files: PEMP takes less than SESP at rho 25 and 30 %, with at most 1 point more broken promises",
        "files: look-ahead takes at most 12,500 kWh at rho 30 %",
    ]
    assert {claim.holds for claim in claims} == {True, None}
    (least,) = (claim for claim in claims if "no more energy" in claim.text)
    both = sum(point.rho == 30 for point in high[:22])
    assert (least.ours, least.holds) == (f"{both} of {both}", None)


def test_what_is_said_of_the_points_with_many_reservations_is_judged_where_all_of_them_are() -> None:
    high = tuple(point for point in points() if point.rho >= 25)
    results = [a_run(point, policy, *GOOD[policy]) for point in high for policy in (PEMP, SESP)]
    found = concluded([Setting("files", high, (PEMP, SESP), gauges=True)], results)
    assert [(claim.ours, claim.holds, claim.required) for claim in found.claims] == [
        ("0 rejected and 0 late of 480, 0 lost", True, True),
        ("24 of 24", True, True),
    ]
    few = concluded([Setting("files", high[:8], (PEMP, SESP), gauges=True)], results[:16])
    assert ["PEMP takes less" in claim.text for claim in few.claims] == [False]


def test_the_bound_on_energy_is_required_of_months_of_no_more_work_than_the_slice() -> None:
    point = Point(30, 1, "small")
    results = [a_run(point, policy, *GOOD[policy]) for policy in (LOOK_AHEAD, PEMP)]
    for in_reach in (False, True):
        found = concluded([Setting("files", (point,), (LOOK_AHEAD, PEMP), in_reach=in_reach)], results)
        assert [claim.required for claim in found.claims if "12,500" in claim.text] == [in_reach]


def test_a_policy_has_figures_where_it_was_played_at_all_points_of_a_row() -> None:
    beside = [Point(30, 1, "small"), Point(30, 1, "large")]
    results = [a_run(point, policy, *GOOD[policy]) for point in beside for policy in (PEMP, SESP)]
    results.append(a_run(beside[0], LOOK_AHEAD, *GOOD[LOOK_AHEAD]))
    rows = {(row["sweep"], row["at"]): row for row in concluded_from(results).rows}
    together, alone = rows["rho, all", "30"], rows["theta, all", "12.5"]
    assert (together["points"], together["SESP kWh"], together["SESP less PEMP %"]) == (2, 16_000, 18.8)
    assert (together["look-ahead kWh"], together["GESP kWh"]) == (None, None)
    assert (alone["points"], alone["look-ahead kWh"]) == (1, 12_000)


def test_a_policy_keeps_its_colour_where_another_was_not_played() -> None:
    places = [Point(rho, 1, "small") for rho in (25, 30)]
    legends = []
    for policies in ((PEMP, SESP), POLICIES):
        drawn = concluded_from([a_run(one, policy, *GOOD[policy]) for one in places for policy in policies]).pictures
        picture = drawn["energy-files-rho-all"]
        names = re.findall(r'text-anchor="start">([^<]+)<', picture)
        strokes = re.findall(r'<polyline[^>]* stroke="([^"]+)"', picture)
        legends.append(dict(zip(names, strokes, strict=False)))
        assert set(strokes[len(names) :]) == {legends[-1][policy] for policy in policies}
        assert picture.count("<polygon") == len(names) + len(policies) * len(places)
    assert legends[0] == legends[1]


def test_of_a_sweep_with_one_place_there_is_no_picture() -> None:
    drawn = concluded_from([a_run(Point(rho, 1, "small"), PEMP, *GOOD[PEMP]) for rho in (25, 30)]).pictures
    assert {name for name in drawn if name.endswith("-all")} == {"energy-files-rho-all", "promises-files-rho-all"}


def test_where_nothing_was_played_nothing_is_said() -> None:
    found = concluded_from([])
    assert (found.rows, found.claims) == (({"simulations played": 0},), ())


def test_a_point_beside_the_papers_figures_is_told_too() -> None:
    beside = Point(30, 1, "small")
    found = concluded_from([a_run(beside, policy, kwh, broken) for policy, (kwh, broken) in GOOD.items()])
    assert [(row["sweep"], row["at"], row["points"]) for row in found.rows] == [
        ("rho, all", "30", 1), ("delta, all", "1", 1), ("theta, all", "12.5", 1),
    ]  # fmt: skip


def test_a_small_simulation_saves_by_real_switching_and_loses_nobody() -> None:
    point = f"drawn {pemp12_energy.SMALL_POINTS[0].name}"
    always_on, look_ahead = (
        pemp12_energy.simulate(None, Task(point, 0, policy, small=True)) for policy in (ALWAYS_ON, LOOK_AHEAD)
    )
    assert always_on["kwh"] == always_on["always_on_kwh"] == look_ahead["always_on_kwh"] == 48 * 117 * 6 / 1000
    assert (always_on["boots"], look_ahead["violations_percent"], look_ahead["lost_guests"]) == (0, 0, 0)
    assert (look_ahead["rejected_reservations"], look_ahead["late_reservations"]) == (0, 0)
    assert float(look_ahead["kwh"] or 0) < 20
    assert int(look_ahead["boots"] or 0) > 0


# -- rule bases --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", list(RULE_BASES))
def test_every_rule_base_falls_with_risk_and_keeps_the_published_rule(name: str) -> None:
    engine = RULE_BASES[name].engine
    steps = [Fraction(step, 60) for step in range(61)]
    for utilization in engine.first.values():
        answers = [engine.infer(utilization.peak, risk) for risk in steps]
        assert answers == sorted(answers, reverse=True)
        assert -1 <= answers[-1] <= answers[0] <= 2
    medium = sum((engine.second[risk].peak for risk in ("LR", "HR")), Fraction(0)) / 2
    assert engine.infer(Fraction(3, 4), medium) == Fraction(1, 2)


def test_rule_bases_differ_and_only_pemp_has_one() -> None:
    policy = ENERGY_POLICIES.named(PEMP)
    assert with_rule_base(policy, AS_SHIPPED) == policy
    inferred = {tuple(one.engine.rules) + tuple(one.engine.second.values()) for one in RULE_BASES.values()}
    assert len(inferred) == len(RULE_BASES)
    assert with_rule_base(ENERGY_POLICIES.named(SESP), "even-risk") is ENERGY_POLICIES.named(SESP)


def test_a_reservation_that_was_due_and_never_started_is_late() -> None:
    request = WorkloadRequest(
        1, 0, (MachineSet(1, 100, 1024),), 600, 600, start=StartKind.EXACT, start_at_s=600,
        lease_type=LeaseType.DC_NON_PREEMPTABLE,
    )  # fmt: skip
    outcomes = [
        Outcome(request, RequestRecord(1, 1, 1, 0, started, ended, fate, (), 0))
        for started, ended, fate in (
            (600_000, 1_200_000, Fate.COMPLETED),
            (661_000, 1_261_000, Fate.COMPLETED),
            (None, None, Fate.UNFINISHED),
            (None, 0, Fate.REJECTED),
        )
    ]
    late = {"late_reservations": 2, "rejected_reservations": 1, "reservations": 4}
    assert reserved_figures(outcomes, 700_000) == late
    assert reserved_figures(outcomes, 600_000) == late | {"late_reservations": 1}


def test_a_rule_base_is_played_where_the_policy_has_one() -> None:
    def played(reading: str, policy: str) -> str:
        return pemp12_energy.played_as(None, Task(f"{reading} 30%-1h-small", 0, policy)).point

    assert played("as-read", SESP) == played("rules-even-risk", SESP) == "drawn 30%-1h-small"
    assert played("rules-even-risk", PEMP) == "rules-even-risk 30%-1h-small"
    assert played("drawn-high-rho", SESP) == "drawn 30%-1h-small"
    assert played("lead-6h", SESP) == "lead-6h 30%-1h-small"


def test_the_rule_base_is_what_decides() -> None:
    readings = ("as-read", "rules-no-consolidation", "rules-even-risk")
    found = [pemp12_energy.simulate(None, Task(f"{one} 30%-2h-medium", 0, PEMP, small=True)) for one in readings]
    assert len({figures["kwh"] for figures in found}) == len(readings)


def test_what_is_bound_at_its_start_is_not_bound_before() -> None:
    bound, put_off = (
        pemp12_energy.simulate(None, Task(f"{reading} 30%-2h-medium", 0, SESP, small=True))
        for reading in ("as-read", "bound-at-start")
    )
    assert float(put_off["kwh"] or 0) < float(bound["kwh"] or 0)
    policy = as_read(ENERGY_POLICIES.named(SESP), Reading(bound_at_start=True))
    assert isinstance(policy, OtherwiseBound)
    assert (policy.name, policy.puts_off) == (SESP, True)


def test_packed_binds_to_other_nodes_and_decides_alike() -> None:
    policy = as_read(ENERGY_POLICIES.named(SESP), Reading(packed=True))
    assert isinstance(policy, OtherwiseBound)
    assert (policy.name, policy.description, policy.puts_off) == (SESP, ENERGY_POLICIES.named(SESP).description, False)
    nodes = NodeCounts(on=6, free=2, preemptable=3, bootable=9)
    question = SupplyQuestion(Occasion.ARRIVAL, now_s=0, nodes_asked=7, start_s=3600, nodes=nodes)
    assert policy.decide(question) == SupplyDecision(wake=2, preempt=3, packed=True)
    assert ENERGY_POLICIES.named(SESP).decide(question) == SupplyDecision(wake=2, preempt=3)


def test_gesp_strands_in_the_experiment_and_not_on_a_cloud() -> None:
    read = [as_read(ENERGY_POLICIES.named(GESP), reading) for reading in (Reading(), Reading(strands=False))]
    assert [policy.strands for policy in read] == [True, False]
    assert read[1] == ENERGY_POLICIES.named(GESP)
    assert not as_read(ENERGY_POLICIES.named(SESP), Reading()).strands
