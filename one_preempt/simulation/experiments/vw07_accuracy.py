"""VW07 Figures 8.2 and 8.3: how much of its time a reservation has, by when its images are transferred."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from one_preempt.core.image_staging.edf import POLICY as EDF_POLICY
from one_preempt.core.image_staging.link import Link
from one_preempt.core.image_staging.transfer import StagedTransfer, Transfer
from one_preempt.core.model.time import MS_PER_S
from one_preempt.policy_registry import IMAGE_STAGING_POLICIES
from one_preempt.simulation.experiments.experiment import Claim, ExperimentResult, Row
from one_preempt.simulation.experiments.replicated import (
    Figures,
    ReplicatedExperiment,
    ResultTable,
    Task,
    TaskResult,
)
from one_preempt.simulation.experiments.vw07_site import TRANSFER_MS, chance_of, drawn_ms
from one_preempt.simulation.plots.charts import bar_chart
from one_preempt.simulation.probes.statistics import interval, mean
from one_preempt.simulation.vw07_model.staged_in_turn import staged_as_asked

UNIFORM, BURSTS = "uniform", "bursts"
WORKSPACES = {UNIFORM: 36, BURSTS: 35}
# By what one transfer brings an image: to a node, or to all nodes of a workspace at once.
EACH_NODE, AT_ONCE = "each-node", "at-once"
READINGS = (EACH_NODE, AT_ONCE)
REPLICATIONS, SMALL_REPLICATIONS = 30, 3
EDF, EDF_JIT, JOB_STYLE, AGGRESSIVE = "EDF", "EDF/JIT", "job-style", "aggressive"
JIT, JIT_WORKSPACE = "JIT", "JIT-workspace"
POLICIES = (EDF, EDF_JIT, JIT, JIT_WORKSPACE, AGGRESSIVE, JOB_STYLE)
NAIVE = (JIT, JIT_WORKSPACE, AGGRESSIVE, JOB_STYLE)
TRACE_MS, LASTS_MS = 7200 * MS_PER_S, 1800 * MS_PER_S
BURST_EVERY_MS, BURST_MS = 900 * MS_PER_S, 100 * MS_PER_S
FEWEST_NODES, MOST_NODES = 2, 4
# More would mean that the link cannot take so many.
_MOST_DRAWS = 5000
CHOICES = {
    "starts": "uniform over 7200 s; or in bursts, uniform over the first 100 s of each of eight spans of 900 s",
    "workspaces": "36 on uniform starts and 35 on bursts, of 2 to 4 nodes for 1800 s, an image of 600 MB each",
    "transfers": "of 48 s; one for each node of a workspace, and in the reading at-once one for all of its nodes",
    "asked for": "at an instant drawn uniformly between the beginning and the start",
    "admission": "drawn until so many are accepted: where EDF, which knows nothing ahead, has all images in time",
    "places of the nodes": "not counted: the paper's 110 images for 1800 s each are too many for 16 places in 7200 s",
    "accuracy": "the part of its 1800 s that is left of a workspace when the images of all its nodes are there",
    "JIT": "begins one transfer before the start; JIT-workspace as long before as all transfers of a workspace take",
    "EDF/JIT": "planned anew whenever a workspace is asked for; what has begun is not moved",
    "replications": "30 traces of each kind; all policies share them",
}
MEAN, LEAST, FULL, NEARLY, IMAGES = "mean", "least", "full", "nearly_full", "images"
# "Most submissions in the 96%-100% range".
_NEARLY_FULL = 0.96
_PUBLISHED_WORST, _WORST_TOLERANCE = 55, 10


def tasks(small: bool) -> list[Task]:
    """Both kinds of traces in both readings under all policies."""
    replications = SMALL_REPLICATIONS if small else REPLICATIONS
    return [
        Task(point_of(kind, reading), replication, policy, small)
        for reading in READINGS
        for kind in WORKSPACES
        for replication in range(replications)
        for policy in POLICIES
    ]


def point_of(kind: str, reading: str) -> str:
    """The point of the experiment at which such traces are read so."""
    return f"{kind} {reading}"


def trace(kind: str, reading: str, replication: int) -> list[Transfer]:
    """The transfers of all workspaces of a trace, each with its workspace as owner."""
    chance = chance_of(list(WORKSPACES).index(kind), replication)
    accepted: list[Transfer] = []
    workspaces = 0
    for _ in range(_MOST_DRAWS):
        drawn = _drawn(kind, reading, chance, workspaces, len(accepted))
        if all(one.late_ms == 0 for one in EDF_POLICY.stage([*accepted, *drawn], Link(0))):
            accepted += drawn
            workspaces += 1
        if workspaces == WORKSPACES[kind]:
            return accepted
    raise AssertionError(f"of {_MOST_DRAWS} workspaces {workspaces} were accepted: the link cannot take more")


def _drawn(kind: str, reading: str, chance: np.random.Generator, workspace: int, first_id: int) -> list[Transfer]:
    if kind == BURSTS:
        begin_ms = BURST_EVERY_MS * int(chance.integers(TRACE_MS // BURST_EVERY_MS))
        start_ms = begin_ms + drawn_ms(chance, BURST_MS)
    else:
        start_ms = drawn_ms(chance, TRACE_MS)
    asked_ms = drawn_ms(chance, start_ms)
    nodes = tuple(range(int(chance.integers(FEWEST_NODES, MOST_NODES, endpoint=True))))
    together = [nodes] if reading == AT_ONCE else [(node,) for node in nodes]
    return [
        Transfer(first_id + number, "worker", some, TRANSFER_MS, asked_ms, start_ms, workspace)
        for number, some in enumerate(together)
    ]


def accuracies(staged: Sequence[StagedTransfer]) -> list[float]:
    """Of each workspace, in the order of their ids."""
    late_ms: dict[int, int] = {}
    for one in staged:
        owner = one.transfer.owner
        late_ms[owner] = max(late_ms.get(owner, 0), one.late_ms)
    return [max(0, LASTS_MS - late_ms[owner]) / LASTS_MS for owner in sorted(late_ms)]


def simulate(task: Task) -> Figures:
    """How accurate the workspaces of a trace are under a policy."""
    kind, reading = task.point.split(" ")
    transfers = trace(kind, reading, task.replication)
    found = accuracies(staged_as_asked(transfers, Link(0), IMAGE_STAGING_POLICIES.named(task.policy)))
    return {
        MEAN: mean(found),
        LEAST: min(found),
        FULL: sum(one == 1 for one in found) / len(found),
        NEARLY: sum(one >= _NEARLY_FULL for one in found) / len(found),
        IMAGES: len(transfers),
    }


def conclude(results: Sequence[TaskResult]) -> ExperimentResult:
    """A row for each kind of trace and policy, in both readings; the claims are judged in both."""
    table = ResultTable(results)
    rows = tuple(_row(table, point, policy) for point in table.points for policy in POLICIES)
    pictures = {f"accuracy-{point.replace(' ', '-')}": _picture(table, point) for point in table.points}
    claims = tuple(claim for reading in READINGS for claim in _claims(table, reading))
    return ExperimentResult("vw07-accuracy", rows, claims, pictures)


def _picture(table: ResultTable, point: str) -> str:
    bars = [(policy, interval([100 * one for one in table.values(point, policy, MEAN)])) for policy in POLICIES]
    return bar_chart(f"Accuracy, {point}", "% of the time asked for", bars, least=0.0)


def _per_cent(table: ResultTable, point: str, policy: str, figure: str) -> float:
    return 100 * mean(table.values(point, policy, figure))


def _row(table: ResultTable, point: str, policy: str) -> Row:
    kind, reading = point.split(" ")
    return {
        "starts": kind,
        "transfers": reading,
        "policy": policy,
        "accuracy_percent": round(_per_cent(table, point, policy, MEAN), 1),
        "least_percent": round(_per_cent(table, point, policy, LEAST), 1),
        "whole_percent": round(_per_cent(table, point, policy, FULL), 1),
        "above_96_percent": round(_per_cent(table, point, policy, NEARLY), 1),
    }


def _claims(table: ResultTable, reading: str) -> Iterator[Claim]:
    uniform, bursts = point_of(UNIFORM, reading), point_of(BURSTS, reading)
    yield _edf_is_accurate(table, uniform, "100 % in most cases")
    jit = {policy: _per_cent(table, uniform, policy, FULL) for policy in (JIT, JIT_WORKSPACE)}
    told = ", ".join(f"{policy} {value:.1f} % of the workspaces" for policy, value in jit.items())
    text = f"{uniform}: JIT has all of the time in most cases"
    yield Claim(text, "100 % in most cases", told, max(jit.values()) > 50, required=False)
    nearly = _per_cent(table, uniform, AGGRESSIVE, NEARLY)
    text = f"{uniform}: aggressive has 96 to 100 % for most workspaces"
    yield Claim(text, "most", f"{nearly:.1f} % of the workspaces", nearly > 50, required=False)
    yield _edf_is_accurate(table, bursts, "few with less")
    yield _edf_is_best(table, bursts)
    least = zip(*(table.values(bursts, policy, LEAST) for policy in NAIVE), strict=True)
    worst = 100 * mean([min(of_trace) for of_trace in least])
    text = f"{bursts}: the least that a workspace has under a naive strategy"
    is_near = abs(worst - _PUBLISHED_WORST) <= _WORST_TOLERANCE
    yield Claim(text, f"{_PUBLISHED_WORST} %", f"{worst:.1f} %, mean of the traces", is_near, required=False)
    means = {policy: _per_cent(table, bursts, policy, MEAN) for policy in (AGGRESSIVE, JIT, JIT_WORKSPACE)}
    told = ", ".join(f"{policy} {value:.1f} %" for policy, value in means.items())
    text = f"{bursts}: aggressive is better than JIT on average"
    yield Claim(text, "has good performance", told, max(means, key=means.__getitem__) == AGGRESSIVE, required=False)


def _edf_is_accurate(table: ResultTable, point: str, published: str) -> Claim:
    least = min(table.values(point, EDF, LEAST))
    text = f"{point}: under EDF each workspace has all of its time"
    return Claim(text, published, f"at least {100 * least:g} %", least == 1)


def _edf_is_best(table: ResultTable, point: str) -> Claim:
    of_traces = zip(*(table.values(point, policy, MEAN) for policy in (EDF, *NAIVE)), strict=True)
    is_best = [edf >= max(others) for edf, *others in of_traces]
    told = f"no naive one is better in {sum(is_best)} of {len(is_best)} traces"
    return Claim(f"{point}: EDF is the most accurate", "best", told, all(is_best))


EXPERIMENT = ReplicatedExperiment(
    name="vw07-accuracy",
    description="how much of its time a reservation has, with transfers that are scheduled and with naive ones",
    paper="Sotomayor 2007, Figures 8.2 and 8.3",
    choices=CHOICES,
    tasks=tasks,
    simulate=simulate,
    conclude=conclude,
)
