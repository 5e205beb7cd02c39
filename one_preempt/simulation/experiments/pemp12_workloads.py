"""The workloads of PEMP12 section IV: 30 days of a batch log, and advance reservations over rho, delta and theta.

With a folder of traces the log is SDSC Blue Horizon as Haizea cut it, the reservations are the 72 files that Haizea
injected and others of the same recipe, and eight further months of the log are played where the whole of it is there.
Without, everything is drawn.
"""

from __future__ import annotations

import re
import tarfile
from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import product
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from one_preempt.errors import OnePreemptError, cause_of
from one_preempt.simulation.workload.inject import ReservationRecipe, draw_reservations, merged
from one_preempt.simulation.workload.lublin99 import TYPELESS, Lublin99
from one_preempt.simulation.workload.lwf_text import parse_lwf_text
from one_preempt.simulation.workload.scaling import adjusted_to_means, with_overruns_cut, with_span
from one_preempt.simulation.workload.swf import SwfLog, read_swf
from one_preempt.simulation.workload.swf_workload import SwfReading, workload_from_swf
from one_preempt.simulation.workload.workload import SECONDS_PER_DAY, SECONDS_PER_HOUR, StartKind, Workload

SLICE_FILE = "haizea-blue-30days.swf.gz"
RESERVATIONS_FILE = "haizea-blue-30days-injected-ARs.tar.gz"
LOG_FILE = "SDSC-BLUE-2000-4.2-cln.swf.gz"
HIGHEST_RHO = 30
SPAN_S, SMALL_SPAN_S = 30 * SECONDS_PER_DAY, 6 * SECONDS_PER_HOUR
NODES, SMALL_NODES, SHARED_NODES = 512, 48, 144
# In an order in which any part is balanced.
RHOS, DELTAS_H = (30, 5, 20, 10, 25, 15), (1, 2, 3, 4)
THETAS = {"small": (1, 24), "medium": (25, 48), "large": (49, 72)}
LEAD_S = SECONDS_PER_DAY
# The days of the log after the slice's first, and the seeds, on which nothing was tuned.
MONTHS = {330: 101, 600: 102, 690: 103, 840: 104, 210: 106, 300: 107, 630: 108, 720: 109}
# Of those on which nothing was tuned, and whose jobs ask for no more than the slice's, the four that ask for the most.
LIGHTER_MONTHS = frozenset({210, 300, 630, 720})
SEED = 105
_SLICE_BEGINS_S = 440_070
_BATCH_QUEUES = frozenset({1, 2, 3, 4})
_PROCESSORS_A_NODE = 8
# What is drawn in place of the slice has its number of jobs and its means.
_DRAWN_REQUESTS, _MEAN_NODES, _MEAN_RUN_S = 5108, 8.092, 4454.8
_SMALL_REQUESTS, _SMALL_MEAN_NODES, _SMALL_MEAN_RUN_S, _SMALL_MOST_NODES = 30, 3, 1200, 16
_MEMBER = re.compile(r"(?:.*/)?work_(\d+)-dur_(\d)h-size_\d?(small|medium|large)\.lwf")
_LARGEST_MEMBER_BYTES = 16 << 20


class Point(Struct, frozen=True, order=True):
    """Reservations take `rho` % of 144 nodes, last `delta_h` hours in the mean, and are `theta` (small, ...)."""

    rho: int
    delta_h: int
    theta: str

    @property
    def name(self) -> str:
        """As it stands in results."""
        return f"{self.rho}%-{self.delta_h}h-{self.theta}"

    def recipe(self, span_s: int = SPAN_S, lead_s: int = LEAD_S) -> ReservationRecipe:
        """How reservations of this point are drawn."""
        fewest, most = THETAS[self.theta]
        return ReservationRecipe(
            self.rho / 100, SHARED_NODES, span_s, self.delta_h * SECONDS_PER_HOUR, fewest, most, lead_s=lead_s,
            tolerance=0.01 if span_s == SPAN_S else None,
        )  # fmt: skip


def points() -> list[Point]:
    """All 72: each six in a row have every rho, and each twelve every delta with every theta."""
    thetas, kinds = tuple(THETAS), len(DELTAS_H) * len(THETAS)
    found = []
    for turn in range(kinds):
        for place, rho in enumerate(RHOS):
            kind = (place + len(RHOS) * turn + turn // 2) % kinds
            found.append(Point(rho, DELTAS_H[kind % len(DELTAS_H)], thetas[kind % len(thetas)]))
    return found


def point_named(name: str) -> Point:
    """The point of that name."""
    rho, delta, theta = name.split("-")
    return Point(int(rho.removesuffix("%")), int(delta.removesuffix("h")), theta)


class TraceFolder(Struct, frozen=True):
    """A folder that has the slice, and the reservations and the whole log if one is lucky."""

    path: Path

    def __post_init__(self) -> None:
        if not (self.path / SLICE_FILE).is_file():
            raise OnePreemptError(f"{self.path}: there is no {SLICE_FILE}: name the folder that holds the traces")

    @property
    def has_reservations(self) -> bool:
        """Haizea's injected reservations are there."""
        return (self.path / RESERVATIONS_FILE).is_file()

    @property
    def has_log(self) -> bool:
        """The whole log is there."""
        return (self.path / LOG_FILE).is_file()


def best_effort(
    traces: TraceFolder | None, month: int = 0, *, small: bool = False, as_requested: bool = False
) -> Workload:
    """The best-effort requests of a month, by the day on which it begins after the slice's begin.

    Plans know the true run times, or with `as_requested` what users asked for.
    """
    if traces is None or small:
        found = _drawn(small)
    elif month:
        begin_s = _SLICE_BEGINS_S + month * SECONDS_PER_DAY
        found = _batch_jobs(traces.path / LOG_FILE, _PROCESSORS_A_NODE, begin_s)
    else:
        found = _batch_jobs(traces.path / SLICE_FILE, 1, 0)
    if as_requested:
        return found
    return found.mapped(
        "asks for its run time",
        lambda request: replace(request, requested_duration_s=max(1, request.actual_duration_s)),
    )


def _batch_jobs(path: Path, processors: int, from_s: int) -> Workload:
    reading = SwfReading(
        processors_per_vm=processors, queues=_BATCH_QUEUES, submitted_from_s=from_s, submitted_before_s=from_s + SPAN_S
    )
    return with_overruns_cut(workload_from_swf(_log(path), reading))


@lru_cache(maxsize=2)
def _log(path: Path) -> SwfLog:
    return read_swf(path)


def _drawn(small: bool) -> Workload:
    if small:
        drawn = Lublin99((TYPELESS,)).for_nodes(_SMALL_MOST_NODES).draw(seed=SEED, requests=_SMALL_REQUESTS)
        means = (_SMALL_MEAN_NODES, _SMALL_MEAN_RUN_S, _SMALL_MOST_NODES)
        return with_span(adjusted_to_means(drawn, *means), SMALL_SPAN_S - 1)
    drawn = Lublin99((TYPELESS,)).for_nodes(SHARED_NODES).draw(seed=SEED, requests=_DRAWN_REQUESTS)
    return with_span(adjusted_to_means(drawn, _MEAN_NODES, _MEAN_RUN_S, SHARED_NODES), SPAN_S - 1)


def reservations(point: Point, seed: int, *, small: bool = False, lead_s: int = LEAD_S) -> Workload:
    """Drawn ones. The same seed gives other reservations at each point."""
    span_s = SMALL_SPAN_S if small else SPAN_S
    number = points().index(point)
    return draw_reservations(point.recipe(span_s, lead_s), 1000 * seed + number)


def recorded_reservations(traces: TraceFolder, point: Point, *, lead_s: int = LEAD_S) -> Workload:
    """Haizea's; those with another lead are submitted so long before their start."""
    found = _recorded(traces.path / RESERVATIONS_FILE)[point]
    if lead_s == LEAD_S:
        return found
    return found.mapped(
        f"submitted {lead_s} s ahead",
        lambda request: replace(request, submitted_at_s=max(0, (request.start_at_s or 0) - lead_s)),
    )


@lru_cache(maxsize=1)
def _recorded(path: Path) -> Mapping[Point, Workload]:
    try:
        with tarfile.open(path) as archive:
            found = dict(_members(archive, path))
    except (OSError, EOFError, tarfile.TarError) as error:
        raise OnePreemptError(f"{path}: cannot be read: {cause_of(error)}") from error
    missing = [Point(*one).name for one in product(RHOS, DELTAS_H, THETAS) if Point(*one) not in found]
    if missing:
        raise OnePreemptError(f"{path}: has no reservations for {missing[0]}: is it Haizea's archive?")
    return found


def _members(archive: tarfile.TarFile, path: Path) -> Iterator[tuple[Point, Workload]]:
    for member in archive:
        named = _MEMBER.fullmatch(member.name)
        content = archive.extractfile(member) if named and member.size <= _LARGEST_MEMBER_BYTES else None
        if named and content is not None:
            source = f"{path}:{member.name}"
            workload = parse_lwf_text(content, source)
            reserved = (one for one in workload.requests if one.start is StartKind.EXACT)
            yield Point(int(named[1]), int(named[2]), named[3]), workload.after("reservations", reserved)


def both(requests: Workload, reserved: Workload, from_s: int) -> Workload:
    """Both in one, everything `from_s` later."""
    together = merged(requests, reserved)
    return together.mapped(
        f"{from_s} s later",
        lambda one: replace(
            one,
            submitted_at_s=one.submitted_at_s + from_s,
            start_at_s=None if one.start_at_s is None else one.start_at_s + from_s,
        ),
    )
