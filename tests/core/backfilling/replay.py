"""A workload on nodes that are alike, scheduled by the production code and by plain implementations of the textbook.

The plain ones share nothing with the production code: they keep lists of jobs and count. Decisions are made when jobs
arrive, start or end, and when a start comes that was promised; a job that has overrun its estimate is assumed to end a
second from now. Whoever is promised a start for the next second waits for such a job: its end is looked at, not every
second.
"""

from __future__ import annotations

import gzip
import heapq
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from msgspec.structs import replace

from one_preempt.core.availability.alike_nodes import AlikeNodes
from one_preempt.core.availability.timed_request import TimedRequest
from one_preempt.core.availability.unlike_hosts import UnlikeHosts
from one_preempt.core.backfilling.policy import Availability, BackfillingDecision, BackfillingPolicy

TRACE = Path(__file__).parents[2] / "traces" / "haizea-blue-30days.swf.gz"
ARRIVAL, END = 1, 0


@dataclass(frozen=True)
class Job:
    id: int
    submit_s: int
    nodes: int
    run_s: int
    estimate_s: int


Starts = dict[int, int]
# By instant: how many nodes more are taken from then on.
Changes = dict[int, int]
# (now, ids that have ended, ids that have arrived) -> ids that start, starts that others are promised
Decide = Callable[[int, list[int], list[int]], tuple[Sequence[int], Sequence[int]]]


def read_trace() -> list[Job]:
    with gzip.open(TRACE, "rt") as lines:
        fields = [[int(float(word)) for word in line.split()] for line in lines]
    return [Job(f[0], f[1], f[7], f[3], f[8]) for f in fields if f[3] >= 0]


def replay(jobs: Sequence[Job], decide: Decide) -> Starts:
    by_id = {job.id: job for job in jobs}
    events = sorted((job.submit_s, ARRIVAL, job.id) for job in jobs)
    starts: Starts = {}
    next_start_s: int | None = None
    while events or next_start_s is not None:
        now_s = min(at_s for at_s in (events[0][0] if events else None, next_start_s) if at_s is not None)
        ended: list[int] = []
        arrived: list[int] = []
        while events and events[0][0] == now_s:
            _, what, job_id = heapq.heappop(events)
            (arrived if what == ARRIVAL else ended).append(job_id)
        starting, promised_s = decide(now_s, ended, arrived)
        while starting:
            for job_id in starting:
                assert job_id not in starts
                starts[job_id] = now_s
                heapq.heappush(events, (now_s + by_id[job_id].run_s, END, job_id))
            starting, promised_s = decide(now_s, [], [])
        next_start_s = min((start_s for start_s in promised_s if start_s > now_s + 1), default=None)
    return starts


# -- the production code ---------------------------------------------------------------------------------------


DemandT = TypeVar("DemandT")


class Site(Availability[DemandT], Protocol):
    """What both kinds of availability can do beyond what a policy asks."""

    def forget_before(self, now_s: int) -> None: ...


def scheduled(
    jobs: Sequence[Job],
    site: Site[DemandT],
    policy: BackfillingPolicy,
    demand_of: Callable[[Job], DemandT],
    decisions: list[BackfillingDecision] | None = None,
) -> Starts:
    by_id = {job.id: TimedRequest(job.id, demand_of(job), job.estimate_s) for job in jobs}
    estimate_s = {job.id: job.estimate_s for job in jobs}
    expected_ends: dict[int, int] = {}
    queue: dict[int, TimedRequest[DemandT]] = {}

    def decide(now_s: int, ended: list[int], arrived: list[int]) -> tuple[Sequence[int], Sequence[int]]:
        for job_id in ended:
            site.withdraw(job_id)
            del expected_ends[job_id]
        for job_id, end_s in expected_ends.items():
            if end_s <= now_s:
                overrun(site, job_id, now_s + 1)
        site.forget_before(now_s)
        queue.update((job_id, by_id[job_id]) for job_id in arrived)
        decision = policy.decide(list(queue.values()), site, now_s)
        for job_id in decision.starting:
            del queue[job_id]
            expected_ends[job_id] = now_s + estimate_s[job_id]
        if decisions is not None:
            decisions.append(decision)
        return decision.starting, [one.start_s for one in decision.promised]

    return replay(jobs, decide)


def overrun(site: object, lease_id: int, end_s: int) -> None:
    """The lease runs longer than expected: its room is held until then, even where it is promised."""
    if isinstance(site, AlikeNodes):
        held = site.take_out(lease_id)
        site.hold(TimedRequest(lease_id, held.nodes, end_s - held.start_s), held.start_s)
    else:
        assert isinstance(site, UnlikeHosts)
        site.hold_stay(replace(site.take_out(lease_id), end_s=end_s))


def production(jobs: Sequence[Job], nodes: int, policy: BackfillingPolicy) -> Starts:
    return scheduled(jobs, AlikeNodes(nodes), policy, lambda job: job.nodes)


# -- the textbook ----------------------------------------------------------------------------------------------


class PlainCluster:
    """Who runs until when, by what was estimated, and who waits."""

    def __init__(self, jobs: Sequence[Job], nodes: int) -> None:
        self.jobs = {job.id: job for job in jobs}
        self.nodes = nodes
        self.running: dict[int, int] = {}
        self.queue: list[int] = []

    def observe(self, ended: list[int], arrived: list[int]) -> None:
        for job_id in ended:
            del self.running[job_id]
        self.queue += arrived

    def start(self, job_id: int, now_s: int) -> int:
        self.queue.remove(job_id)
        self.running[job_id] = now_s + self.jobs[job_id].estimate_s
        return job_id

    def free(self) -> int:
        return self.nodes - sum(self.jobs[job_id].nodes for job_id in self.running)

    def expected_ends(self, now_s: int) -> list[tuple[int, int]]:
        return sorted((max(end_s, now_s + 1), job_id) for job_id, end_s in self.running.items())


def plain_easy(jobs: Sequence[Job], nodes: int) -> Starts:
    """Mu'alem and Feitelson 2001: shadow time and extra nodes of the head, then whoever respects both."""
    cluster = PlainCluster(jobs, nodes)

    def decide(now_s: int, ended: list[int], arrived: list[int]) -> tuple[list[int], list[int]]:
        cluster.observe(ended, arrived)
        started = []
        while cluster.queue and cluster.jobs[cluster.queue[0]].nodes <= cluster.free():
            started.append(cluster.start(cluster.queue[0], now_s))
        if not cluster.queue:
            return started, []
        collected, shadow_s, wanted = cluster.free(), now_s, cluster.jobs[cluster.queue[0]].nodes
        for end_s, job_id in cluster.expected_ends(now_s):
            if collected >= wanted:
                break
            collected, shadow_s = collected + cluster.jobs[job_id].nodes, end_s
        extra = collected - wanted
        for job_id in cluster.queue[1:]:
            job = cluster.jobs[job_id]
            over = now_s + job.estimate_s > shadow_s
            if job.nodes <= (min(cluster.free(), extra) if over else cluster.free()):
                extra -= job.nodes if over else 0
                started.append(cluster.start(job_id, now_s))
        return started, [shadow_s]

    return replay(jobs, decide)


def plain_conservative(jobs: Sequence[Job], nodes: int) -> Starts:
    """Everybody has a reservation; at each event all move forward in turn where they can."""
    cluster = PlainCluster(jobs, nodes)
    reserved: dict[int, int] = {}

    def reserve(changes: Changes, job_id: int, nodes: int) -> None:
        end_s = reserved[job_id] + cluster.jobs[job_id].estimate_s
        changes[reserved[job_id]] = changes.get(reserved[job_id], 0) + nodes
        changes[end_s] = changes.get(end_s, 0) - nodes

    def all_changes(now_s: int) -> Changes:
        changes = {now_s: nodes - cluster.free()}
        for end_s, job_id in cluster.expected_ends(now_s):
            changes[end_s] = changes.get(end_s, 0) - cluster.jobs[job_id].nodes
        for job_id in reserved:
            reserve(changes, job_id, cluster.jobs[job_id].nodes)
        return changes

    def decide(now_s: int, ended: list[int], arrived: list[int]) -> tuple[list[int], list[int]]:
        cluster.observe(ended, arrived)
        changes = all_changes(now_s)
        if any(start_s < now_s for start_s in reserved.values()) or any(used > nodes for _, used in usage(changes)):
            reserved.clear()
            changes = all_changes(now_s)
        for job_id in cluster.queue:
            job = cluster.jobs[job_id]
            if job_id in reserved:
                reserve(changes, job_id, -job.nodes)
            earliest_s = first_gap(usage(changes), nodes - job.nodes, job.estimate_s, now_s)
            reserved[job_id] = min(earliest_s, reserved.get(job_id, earliest_s))
            reserve(changes, job_id, job.nodes)
        due = [job_id for job_id in cluster.queue if reserved[job_id] == now_s]
        for job_id in due:
            del reserved[job_id]
            cluster.start(job_id, now_s)
        return due, list(reserved.values())

    return replay(jobs, decide)


def usage(changes: Changes) -> Iterator[tuple[int, int]]:
    """(instant, nodes taken from then on), by adding up what begins and ends."""
    used = 0
    for instant_s in sorted(changes):
        used += changes[instant_s]
        yield instant_s, used


def first_gap(taken: Iterator[tuple[int, int]], most_taken: int, duration_s: int, now_s: int) -> int:
    """The first start at which at most `most_taken` nodes are taken for the whole duration."""
    start_s: int | None = now_s
    for instant_s, used in taken:
        if start_s is not None and instant_s >= start_s + duration_s:
            return start_s
        if used > most_taken:
            start_s = None
        elif start_s is None:
            start_s = instant_s
    assert start_s is not None, "wider than the cluster"
    return start_s
