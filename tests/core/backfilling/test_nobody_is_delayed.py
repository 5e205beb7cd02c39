"""Each decision of EASY and of conservative backfilling against the list of reservations, counted minute by minute.

Leases arrive at any time, end before their time or outlive it. Somebody who outlives his time may delay others: that is
not what backfilling does to them.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from random import Random

import numpy as np
import pytest

from one_preempt.core.availability.alike_nodes import AlikeNodes
from one_preempt.core.availability.gang_demand import GangDemand
from one_preempt.core.availability.slot_table import SlotTable
from one_preempt.core.availability.timed_request import TimedRequest
from one_preempt.core.availability.unlike_hosts import UnlikeHosts
from one_preempt.core.backfilling import conservative, easy
from one_preempt.core.backfilling.policy import AnyDemand, Availability, BackfillingDecision
from tests.core.availability.like_vms import like_vms
from tests.core.availability.naive import CASES, HORIZON, NaiveHosts
from tests.core.backfilling.replay import Job, scheduled

NODES = 6
CAPACITY: list[tuple[int, ...]] = [(4, 8), (2, 8), (6, 4)]
Needs = list[tuple[int, ...]]


def workload(random: Random) -> list[Job]:
    """At most 9 jobs of at most 6 minutes, so that whatever is planned ends within what the naive model counts."""
    jobs, submit_s = [], 0
    for job_id in range(random.randint(2, 9)):
        submit_s += random.choice((0, 0, 1, 2, 5))
        estimate_s = random.randint(1, 6)
        run_s = random.choice((estimate_s, random.randint(1, estimate_s), random.randint(1, 8)))
        jobs.append(Job(job_id, submit_s, random.randint(1, NODES), run_s, estimate_s))
    return jobs


class Nodes:
    """Nodes that are alike: for the naive model, one host."""

    def __init__(self) -> None:
        self.site = AlikeNodes(NODES)
        self.capacity: Needs = [(NODES,)]

    def demand(self, job: Job) -> int:
        return job.nodes

    def needs(self, job: Job) -> Needs:
        return [(job.nodes,)]

    def allowed(self, job: Job) -> list[list[int]]:
        return [[0]]

    def rows(self, job: Job) -> tuple[int, ...]:
        return (0,)


class Hosts:
    """Hosts that differ; a job is a gang of 1 to 3 VMs of 1 or 2 units, somewhere else than on host `id % 4`."""

    def __init__(self) -> None:
        self.site = UnlikeHosts(SlotTable(np.array(CAPACITY, dtype=np.int64), 0))
        self.capacity: Needs = CAPACITY

    def demand(self, job: Job) -> GangDemand:
        may_go = np.array([row in self.allowed(job)[0] for row in range(len(CAPACITY))])
        return like_vms(len(self.needs(job)), self.needs(job)[0], may_go)

    def needs(self, job: Job) -> Needs:
        return [(1 + job.id % 2, 1 + job.nodes % 2)] * ((job.nodes + 1) // 2)

    def allowed(self, job: Job) -> list[list[int]]:
        return [[row for row in range(len(CAPACITY)) if row != job.id % 4]] * len(self.needs(job))

    def rows(self, job: Job) -> tuple[int, ...]:
        stay = self.site.stay_of(job.id)
        assert stay is not None
        return stay.host_rows


@dataclass
class Watched:
    """A policy that is asked at each decision whom it delays. `promised` are the starts that were last promised."""

    jobs: dict[int, Job]
    where: Nodes | Hosts
    name: str = "watched"
    description: str = "asks at each decision whom it delays"
    overtaking: bool = True
    started: dict[int, int] = field(default_factory=dict)
    promised: dict[int, int] = field(default_factory=dict)
    times_outlived: int = 0

    def decide(
        self, queue: Sequence[TimedRequest[AnyDemand]], availability: Availability[AnyDemand], now_s: int
    ) -> BackfillingDecision:
        before = {one: at_s for one, at_s in self.started.items() if self.where.site.start_of(one) is not None}
        expected_ends_s = {one: at_s + self.jobs[one].estimate_s for one, at_s in self.started.items()}
        outlived = any(end_s < now_s + (one in before) for one, end_s in expected_ends_s.items())
        decision = self.look(queue, availability, now_s, before)
        self.started = before | dict.fromkeys(decision.starting, now_s)
        starts_s = {one.lease_id: one.start_s for one in decision.promised}
        for one, start_s in (starts_s | dict.fromkeys(decision.starting, now_s)).items():
            assert outlived or start_s <= self.promised.get(one, start_s)
        self.promised = starts_s
        self.times_outlived += outlived
        return decision

    def look(
        self,
        queue: Sequence[TimedRequest[AnyDemand]],
        availability: Availability[AnyDemand],
        now_s: int,
        before: dict[int, int],
    ) -> BackfillingDecision:
        raise NotImplementedError

    def counted(self, starts: dict[int, int], now_s: int) -> NaiveHosts:
        """These stays, each until its expected end, or a minute more where that has passed; minute 0 is now."""
        naive = NaiveHosts(self.where.capacity)
        for job_id, start_s in starts.items():
            job = self.jobs[job_id]
            first, last = max(start_s - now_s, 0), max(start_s + job.estimate_s - now_s, 1)
            assert last < 2 * HORIZON
            stays = zip(self.where.rows(job), self.where.needs(job), strict=True)
            naive.taken += [(first, last, row, need) for row, need in stays]
        return naive


class WatchedEasy(Watched):
    """The head starts when it would if nobody had overtaken it."""

    def look(
        self,
        queue: Sequence[TimedRequest[AnyDemand]],
        availability: Availability[AnyDemand],
        now_s: int,
        before: dict[int, int],
    ) -> BackfillingDecision:
        decision = easy.POLICY.decide(queue, availability, now_s)
        assert len(decision.promised) == (len(decision.starting) < len(queue))
        for head in decision.promised:
            ids = [request.lease_id for request in queue]
            ahead = ids[: ids.index(head.lease_id)]
            assert set(ahead) <= set(decision.starting)
            job = self.jobs[head.lease_id]
            naive = self.counted(before | dict.fromkeys(ahead, now_s), now_s)
            earliest = naive.earliest(self.where.needs(job), self.where.allowed(job), job.estimate_s, 0)
            assert earliest is not None
            assert head.start_s == now_s + earliest
        return decision


class WatchedConservative(Watched):
    """Nobody's start is another one because somebody arrived, and all that is promised is there."""

    def look(
        self,
        queue: Sequence[TimedRequest[AnyDemand]],
        availability: Availability[AnyDemand],
        now_s: int,
        before: dict[int, int],
    ) -> BackfillingDecision:
        known = [request for request in queue if request.lease_id in self.promised]
        # A slot table knows by identity what it has still to lay in, as it has nothing when all of it was looked at.
        availability.keeps([])
        as_it_was = deepcopy(availability) if len(known) < len(queue) else None
        decision = conservative.POLICY.decide(queue, availability, now_s)
        assert not decision.waiting
        if as_it_was is not None:
            without = conservative.POLICY.decide(known, as_it_was, now_s)
            assert decision.starting[: len(without.starting)] == without.starting
            assert decision.promised[: len(without.promised)] == without.promised
        promised = {one.lease_id: one.start_s for one in decision.promised}
        naive = self.counted(before | dict.fromkeys(decision.starting, now_s) | promised, now_s)
        assert all(amount >= 0 for of_host in naive.minutes() for left in of_host for amount in left)
        return decision


@pytest.mark.parametrize("policy", [WatchedEasy, WatchedConservative])
@pytest.mark.parametrize("kind", [Nodes, Hosts])
def test_backfilling_delays_nobody_whatever_happens(kind: type[Nodes | Hosts], policy: type[Watched]) -> None:
    outlived = 0
    for case in range(CASES // 4):
        jobs, where = workload(Random(case)), kind()
        watched = policy({job.id: job for job in jobs}, where)
        if isinstance(where, Nodes):
            scheduled(jobs, where.site, watched, where.demand)
        else:
            scheduled(jobs, where.site, watched, where.demand)
        outlived += watched.times_outlived
    assert outlived > CASES // 4
