"""VW07 8.2: how long images take to be deployed for a flurry of short jobs, with and without a cache on each node."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from one_preempt.core.model.time import MS_PER_S
from one_preempt.simulation.experiments.experiment import Claim, ExperimentResult, Row
from one_preempt.simulation.experiments.replicated import (
    Figures,
    ReplicatedExperiment,
    ResultTable,
    Task,
    TaskResult,
)
from one_preempt.simulation.experiments.vw07_datastar import (
    IMAGE_WEIGHTS,
    LOG_FILE,
    Submission,
    digest,
    drawn,
    recorded,
    with_images,
)
from one_preempt.simulation.experiments.vw07_deployment import DeploymentSite
from one_preempt.simulation.plots.charts import bar_chart
from one_preempt.simulation.probes.statistics import interval, mean
from one_preempt.simulation.vw07_model.image_pool import Keeping, PoolRules

NAME = "vw07-stretch"
UNIFORM, SKEWED = IMAGE_WEIGHTS
EACH_VM, TOGETHER = "each-VM", "together"
READINGS = (EACH_VM, TOGETHER)
NO_CACHE, CACHE, CACHE_BY_IMAGE = "no cache", "LFU cache", "LFU cache, nodes by image"
POLICIES = (NO_CACHE, CACHE, CACHE_BY_IMAGE)
CACHE_RULES = PoolRules(limit_mb=1800, keeping=Keeping.UNTIL_EVICTED)
REPLICATIONS, SMALL_REPLICATIONS = 30, 2
CHOICES = {
    "submissions": "the completed ones of queue 1 from job 21543 to before 21665, VMs = processors / 4",
    "images of submissions": "six of 600 MB, drawn by the shares of submissions in Table 8.2",
    "queue": "first come, first served, on 16 places: each VM by itself, or (together) all VMs of a submission at once",
    "deployment": "from the instant at which a VM has its place until its image is there; the place is held meanwhile",
    "transfers of images": "FIFO on one link of 100 Mbit/s, 48 s each; with a cache none of what is on its way",
    "node of a VM": "the one with most places free, as images did not matter to the paper's testbed (section 7)",
    "nodes by image": "one that has the image, else one to which it is on its way, else as before (6.3)",
    "cache": "1.8 GB on each node; the least frequently used image goes that no VM uses; copy-on-write takes none",
    "draws": "30 of the images",
}
MEAN_MS, TRANSFERS, IMAGES = "mean_ms", "transfers", "images"
PUBLISHED_S = {(UNIFORM, NO_CACHE): 440, (SKEWED, NO_CACHE): 440, (UNIFORM, CACHE): 305, (SKEWED, CACHE): 247}
_TOLERANCE = 0.2


def tasks(small: bool) -> list[Task]:
    """Both distributions of images in both readings, without and with the cache."""
    return [
        Task(f"{distribution} {reading}", replication, policy, small)
        for reading in READINGS
        for distribution in IMAGE_WEIGHTS
        for replication in range(SMALL_REPLICATIONS if small else REPLICATIONS)
        for policy in POLICIES
    ]


def simulate(traces: Path | None, task: Task) -> Figures:
    """How long an image takes on average."""
    distribution, reading = task.point.split(" ")
    submissions = _submissions(traces, task)
    cache = None if task.policy == NO_CACHE else CACHE_RULES
    site = DeploymentSite(cache, together=reading == TOGETHER, by_image=task.policy == CACHE_BY_IMAGE)
    deployed = site.run(with_images(submissions, distribution, task.replication))
    return {
        MEAN_MS: mean([one.lasted_ms for one in deployed]),
        TRANSFERS: sum(one.was_transferred for one in deployed),
        IMAGES: len(deployed),
    }


def _submissions(traces: Path | None, task: Task) -> tuple[Submission, ...]:
    return drawn(task.replication) if traces is None or task.small else recorded(traces)


def conclude(results: Sequence[TaskResult]) -> ExperimentResult:
    """A row for each distribution, reading and policy."""
    table = ResultTable(results)
    rows = tuple(_row(table, point, policy) for point in table.points for policy in POLICIES)
    claims = tuple(claim for reading in READINGS for claim in _claims(table, reading))
    if any(result.task.small for result in results):
        claims = tuple(Claim(one.text, one.published, one.ours, None, one.required) for one in claims)
    return ExperimentResult(NAME, rows, claims, {"deployment": _picture(table)})


def _seconds(table: ResultTable, point: str, policy: str) -> list[float]:
    return [one / MS_PER_S for one in table.values(point, policy, MEAN_MS)]


def _row(table: ResultTable, point: str, policy: str) -> Row:
    distribution, reading = point.split(" ")
    found = interval(_seconds(table, point, policy))
    return {
        "images": distribution,
        "queue": reading,
        "policy": policy,
        "deployment_s": round(found.mean, 1),
        "from_s": round(found.low, 1),
        "to_s": round(found.high, 1),
        "published_s": PUBLISHED_S.get((distribution, policy)),
        "transfers": round(mean(table.values(point, policy, TRANSFERS)), 1),
        "deployed": round(mean(table.values(point, policy, IMAGES)), 1),
    }


def _claims(table: ResultTable, reading: str) -> Iterator[Claim]:
    found = {key: mean(_seconds(table, f"{key[0]} {reading}", key[1])) for key in PUBLISHED_S}
    for distribution in IMAGE_WEIGHTS:
        before, after = found[distribution, NO_CACHE], found[distribution, CACHE]
        text = f"{reading}: the cache shortens deployments, {distribution} images"
        published = f"from {PUBLISHED_S[distribution, NO_CACHE]} to {PUBLISHED_S[distribution, CACHE]} s"
        yield Claim(text, published, f"from {before:.0f} to {after:.0f} s", after < before)
    even, uneven = found[UNIFORM, CACHE], found[SKEWED, CACHE]
    text = f"{reading}: it shortens them more where two images are most of them"
    yield Claim(text, "247 instead of 305 s", f"{uneven:.0f} instead of {even:.0f} s", uneven < even)
    by_image = [mean(_seconds(table, f"{distribution} {reading}", CACHE_BY_IMAGE)) for distribution in IMAGE_WEIGHTS]
    told = ", ".join(f"{one:.0f} s ({distribution})" for one, distribution in zip(by_image, IMAGE_WEIGHTS, strict=True))
    text = f"{reading}: where VMs go to nodes with their image, deployments are shorter still"
    yield Claim(text, "not played", told, by_image[0] < even and by_image[1] < uneven)
    for key in ((UNIFORM, NO_CACHE), (UNIFORM, CACHE), (SKEWED, CACHE)):
        is_near = abs(found[key] - PUBLISHED_S[key]) <= _TOLERANCE * PUBLISHED_S[key]
        text = f"{reading}: mean deployment within 20 % of the published, {key[0]} images, {key[1]}"
        yield Claim(text, f"{PUBLISHED_S[key]} s", f"{found[key]:.0f} s", is_near, required=False)


def _picture(table: ResultTable) -> str:
    bars = [
        (f"{point}, {policy}", interval(_seconds(table, point, policy)))
        for point in table.points
        for policy in POLICIES
    ]
    return bar_chart("Mean time to deploy an image", "s", bars, least=0.0)


def over(folder: Path) -> ReplicatedExperiment:
    """The experiment over the log in a folder. Raises `OnePreemptError` where it is not there."""
    recorded(folder)
    return _experiment(folder)


def _experiment(traces: Path | None) -> ReplicatedExperiment:
    source = {"log": "drawn: as many with as many VMs, uniform over 4700 s, exponential run times of 53 s on average"}
    return ReplicatedExperiment(
        name=NAME,
        description="how long images take to be deployed for short jobs, without a cache on the nodes and with one",
        paper="Sotomayor 2007, section 8.2",
        choices=CHOICES | (source if traces is None else {LOG_FILE: digest(traces)}),
        tasks=tasks,
        simulate=lambda task: simulate(traces, task),
        conclude=conclude,
        over=over,
        traces=traces,
    )


EXPERIMENT = _experiment(None)
