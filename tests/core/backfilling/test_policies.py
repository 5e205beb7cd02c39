from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random

import numpy as np
import pytest

from one_preempt.core.availability.alike_nodes import AlikeNodes
from one_preempt.core.availability.gang_demand import GangDemand
from one_preempt.core.availability.slot_table import SlotTable
from one_preempt.core.availability.timed_request import TimedRequest
from one_preempt.core.availability.unlike_hosts import UnlikeHosts
from one_preempt.core.backfilling import conservative, easy, intermediate, none
from one_preempt.core.backfilling.policy import (
    AnyDemand,
    Availability,
    BackfillingDecision,
    BackfillingPolicy,
    PromisedStart,
)
from tests.core.availability.like_vms import like_vms
from tests.core.availability.naive import CASES, NaiveHosts
from tests.core.backfilling.replay import (
    Job,
    Starts,
    overrun,
    plain_conservative,
    plain_easy,
    production,
    replay,
    scheduled,
)

NODES = 6
ALL = (none.POLICY, easy.POLICY, intermediate.POLICY, conservative.POLICY)


# -- by example ------------------------------------------------------------------------------------------------


def full_until(end_s: int) -> AlikeNodes:
    """Of 10 nodes 6 are taken until then."""
    nodes = AlikeNodes(10)
    nodes.hold(TimedRequest(1, 6, end_s), 0)
    return nodes


# Two wide leases that have to wait; a long narrow one, a short one, and one that would delay lease 3, but not lease 2.
QUEUE = [
    TimedRequest(2, 7, 50),
    TimedRequest(3, 8, 50),
    TimedRequest(4, 2, 100),
    TimedRequest(5, 4, 100),
    TimedRequest(6, 1, 200),
    TimedRequest(7, 1, 100),
]


def test_without_backfilling_nobody_overtakes() -> None:
    decision = none.POLICY.decide(QUEUE, full_until(100), 0)
    assert decision == BackfillingDecision((), (PromisedStart(2, 100),), (3, 4, 5, 6, 7))


def test_easy_lets_all_overtake_who_do_not_delay_the_head() -> None:
    decision = easy.POLICY.decide(QUEUE, full_until(100), 0)
    assert decision == BackfillingDecision((4, 6, 7), (PromisedStart(2, 100),), (3, 5))


def test_intermediate_keeps_what_it_promised_to_the_first_ones() -> None:
    decision = intermediate.with_promises(2).decide(QUEUE, full_until(100), 0)
    assert decision.starting == (4, 6, 7)
    assert decision.promised == (PromisedStart(2, 100), PromisedStart(3, 150))


def test_conservative_promises_a_start_to_everybody() -> None:
    decision = conservative.POLICY.decide(QUEUE, full_until(100), 0)
    assert decision.starting == (4, 6, 7)
    assert decision.promised == (PromisedStart(2, 100), PromisedStart(3, 150), PromisedStart(5, 200))


def test_extra_nodes_are_left_over_when_the_head_has_enough() -> None:
    """Two leases end in the same second; the head waits for the first only, so nobody may count on the second."""
    nodes = AlikeNodes(10)
    nodes.hold(TimedRequest(1, 4, 100), 0)
    nodes.hold(TimedRequest(2, 4, 100), 0)
    queue = [TimedRequest(3, 5, 50), TimedRequest(4, 2, 150), TimedRequest(5, 1, 150), TimedRequest(6, 1, 100)]
    decision = easy.POLICY.decide(queue, nodes, 0)
    assert decision.starting == (5, 6)
    assert nodes.profile.free_at(100) == 10 - 5 - 1


def test_an_advance_reservation_is_not_overtaken_by_anybody() -> None:
    for policy in ALL:
        nodes = AlikeNodes(4)
        nodes.hold(TimedRequest(1, 4, 60), 100)
        decision = policy.decide([TimedRequest(2, 1, 100), TimedRequest(3, 3, 101)], nodes, 0)
        assert decision.starting == (2,)
        assert [one.start_s for one in decision.promised] == [160]


def test_a_lease_that_never_fits_holds_back_nobody() -> None:
    queue = [TimedRequest(2, 11, 10), TimedRequest(3, 4, 200)]
    for policy in ALL:
        decision = policy.decide(queue, full_until(100), 0)
        assert decision.starting == (3,)
        assert 2 in decision.waiting


def test_of_unknown_duration_is_what_is_promised_only_where_nobody_comes_later() -> None:
    nodes = full_until(100)
    nodes.hold(TimedRequest(9, 10, 10), 500)
    decision = conservative.POLICY.decide([TimedRequest(2, 3, None)], nodes, 0)
    assert decision.promised == (PromisedStart(2, 510),)


def test_the_schedule_is_compressed_when_room_comes_free_before_its_time() -> None:
    nodes = full_until(100)
    conservative.POLICY.decide(QUEUE[:2], nodes, 0)
    nodes.withdraw(1)
    nodes.forget_before(30)
    decision = conservative.POLICY.decide(QUEUE[:2], nodes, 30)
    assert decision.starting == (2,)
    assert decision.promised == (PromisedStart(3, 80),)


def test_all_is_promised_anew_in_turn_when_somebody_overruns() -> None:
    nodes = full_until(100)
    conservative.POLICY.decide(QUEUE[:2], nodes, 0)
    nodes.forget_before(100)
    overrun(nodes, 1, 101)
    decision = conservative.POLICY.decide(QUEUE[:2], nodes, 100)
    assert decision.promised == (PromisedStart(2, 101), PromisedStart(3, 151))


def test_a_start_that_was_missed_is_made_up_for_in_turn() -> None:
    nodes = full_until(100)
    conservative.POLICY.decide(QUEUE[:2], nodes, 0)
    nodes.withdraw(1)
    nodes.forget_before(130)
    decision = conservative.POLICY.decide(QUEUE[:2], nodes, 130)
    assert decision.starting == (2,)
    assert decision.promised == (PromisedStart(3, 180),)


def test_a_new_head_takes_over_the_promise_of_easy() -> None:
    nodes = full_until(100)
    easy.POLICY.decide([QUEUE[0]], nodes, 0)
    decision = easy.POLICY.decide([TimedRequest(9, 10, 50), QUEUE[0]], nodes, 0)
    assert decision == BackfillingDecision((), (PromisedStart(9, 100),), (2,))
    assert nodes.start_of(2) is None


def test_intermediate_backfilling_without_a_reservation_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        intermediate.with_promises(0)


# -- random workloads ------------------------------------------------------------------------------------------


def workload(random: Random, overruns: bool) -> list[Job]:
    jobs, submit_s = [], 0
    for job_id in range(random.randint(2, 14)):
        submit_s += random.choice((0, 1, 2, 5))
        estimate_s = random.randint(1, 12)
        run_s = random.randint(1, 14) if overruns else random.randint(1, estimate_s)
        jobs.append(Job(job_id, submit_s, random.randint(1, NODES), run_s, estimate_s))
    return jobs


def never_more_than_there_is(jobs: list[Job], starts: Starts) -> bool:
    """Counted second by second, by how long they really ran."""
    last_s = max(starts[job.id] + job.run_s for job in jobs)
    running = ([job for job in jobs if starts[job.id] <= t < starts[job.id] + job.run_s] for t in range(last_s))
    return all(sum(job.nodes for job in at_once) <= NODES for at_once in running)


def test_every_job_starts_as_in_the_textbook() -> None:
    for case in range(CASES):
        jobs = workload(Random(case), overruns=case % 2 == 0)
        by_easy, by_conservative = (production(jobs, NODES, one) for one in (easy.POLICY, conservative.POLICY))
        assert by_easy == plain_easy(jobs, NODES)
        assert by_conservative == plain_conservative(jobs, NODES)
        assert never_more_than_there_is(jobs, by_easy)
        assert never_more_than_there_is(jobs, by_conservative)


def alike_nodes(jobs: list[Job], policy: BackfillingPolicy, decisions: list[BackfillingDecision]) -> Starts:
    return scheduled(jobs, AlikeNodes(NODES), policy, lambda job: job.nodes, decisions)


def unlike_hosts(jobs: list[Job], policy: BackfillingPolicy, decisions: list[BackfillingDecision]) -> Starts:
    """Hosts that differ, VMs that may not go everywhere."""
    site = UnlikeHosts(SlotTable(np.array(CAPACITY, dtype=np.int64), 0))
    return scheduled(jobs, site, policy, gang_of, decisions)


SITES = [alike_nodes, unlike_hosts]
Schedule = Callable[[list[Job], BackfillingPolicy, list[BackfillingDecision]], Starts]

CAPACITY = ((4, 8), (2, 8), (6, 4))
# All jobs, arriving last and run one after another, end by then.
LAST_MINUTE = 14 * (5 + 14)


def gang_of(job: Job) -> GangDemand:
    """1 to 3 VMs of 1 or 2 units, somewhere else than on host `id % 4` (there is none with number 3)."""
    need = (1 + job.id % 2, 1 + job.nodes % 2)
    return like_vms((job.nodes + 1) // 2, need, np.arange(len(CAPACITY)) != job.id % 4)


@pytest.mark.parametrize("schedule", SITES)
def test_easy_never_delays_the_head_of_the_queue(schedule: Schedule) -> None:
    for case in range(CASES // len(SITES)):
        jobs = workload(Random(case), overruns=False)
        decisions: list[BackfillingDecision] = []
        starts = schedule(jobs, easy.POLICY, decisions)
        for decision in decisions:
            assert all(starts[head.lease_id] <= head.start_s for head in decision.promised)
            assert len(decision.promised) == bool(decision.promised or decision.waiting)


@pytest.mark.parametrize("schedule", SITES)
def test_conservative_backfilling_delays_nobody(schedule: Schedule) -> None:
    for case in range(CASES // len(SITES)):
        jobs = workload(Random(case), overruns=False)
        decisions: list[BackfillingDecision] = []
        starts = schedule(jobs, conservative.POLICY, decisions)
        for decision in decisions:
            assert not decision.waiting
            assert all(starts[one.lease_id] <= one.start_s for one in decision.promised)


def naive_conservative_on_hosts(jobs: list[Job]) -> Starts:
    """Everybody tries to move forward at each event; room is counted minute by minute, every placement is tried."""
    by_id = {job.id: job for job in jobs}
    reserved: dict[int, tuple[int, tuple[int, ...]]] = {}
    queue: list[int] = []

    def others(without: int) -> NaiveHosts:
        hosts = NaiveHosts(list(CAPACITY), minutes_counted=LAST_MINUTE)
        for job_id, (start_s, rows) in reserved.items():
            if job_id != without:
                need = tuple(gang_of(by_id[job_id]).needs[0].tolist())
                hosts.taken += [(start_s, start_s + by_id[job_id].estimate_s, row, need) for row in rows]
        return hosts

    def earliest(job: Job, now_s: int) -> tuple[int, tuple[int, ...]]:
        demand, hosts, start_s = gang_of(job), others(job.id), now_s
        needs, allowed = [tuple(need) for need in demand.needs.tolist()], [np.flatnonzero(a) for a in demand.allowed]
        while not (ways := hosts.places(needs, allowed, start_s, start_s + job.estimate_s)):
            start_s += 1
        return start_s, tuple(map(int, ways[0]))

    def decide(now_s: int, ended: list[int], arrived: list[int]) -> tuple[list[int], list[int]]:
        for job_id in ended:
            del reserved[job_id]
        queue.extend(arrived)
        for job_id in queue:
            found = earliest(by_id[job_id], now_s)
            if job_id not in reserved or found[0] < reserved[job_id][0]:
                reserved[job_id] = found
        due = [job_id for job_id in queue if reserved[job_id][0] == now_s]
        for job_id in due:
            queue.remove(job_id)
        return due, [reserved[job_id][0] for job_id in queue]

    return replay(jobs, decide)


def test_gangs_on_unlike_hosts_start_as_counted_minute_by_minute() -> None:
    for case in range(CASES // 10):
        jobs = workload(Random(case), overruns=False)[:9]
        assert unlike_hosts(jobs, conservative.POLICY, []) == naive_conservative_on_hosts(jobs)


@dataclass
class Watched:
    """A policy that remembers on which hosts it let leases start."""

    policy: BackfillingPolicy
    site: UnlikeHosts
    name: str = "watched"
    description: str = "remembers on which hosts leases start"
    overtaking: bool = True
    rows: dict[int, tuple[int, ...]] = field(default_factory=dict)

    def decide(
        self, queue: Sequence[TimedRequest[AnyDemand]], availability: Availability[AnyDemand], now_s: int
    ) -> BackfillingDecision:
        decision = self.policy.decide(queue, availability, now_s)
        for lease_id in decision.starting:
            stay = self.site.stay_of(lease_id)
            assert stay is not None
            assert stay.start_s == now_s
            self.rows[lease_id] = stay.host_rows
        return decision


@pytest.mark.parametrize("policy", ALL)
def test_no_host_is_overbooked_although_leases_overrun(policy: BackfillingPolicy) -> None:
    for case in range(CASES // 20):
        jobs = workload(Random(case), overruns=True)
        site = UnlikeHosts(SlotTable(np.array(CAPACITY, dtype=np.int64), 0))
        watched = Watched(policy, site)
        starts = scheduled(jobs, site, watched, gang_of)
        hosts = NaiveHosts(list(CAPACITY), minutes_counted=LAST_MINUTE)
        assert max(starts[job.id] + job.run_s for job in jobs) <= LAST_MINUTE
        for job in jobs:
            need = tuple(gang_of(job).needs[0].tolist())
            hosts.taken += [(starts[job.id], starts[job.id] + job.run_s, row, need) for row in watched.rows[job.id]]
        assert all(amount >= 0 for of_host in hosts.minutes() for left in of_host for amount in left)
