"""Time to plan: queues on nodes that are alike, gangs on hosts that are not, and a month of a real log.

Run with `python benchmarks/availability.py`; it prints CPU time, the limit and how many times better it is, and
exits with 1 when a limit is missed. Times are the best of three, if nothing else is said.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import mean, median

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from one_preempt.core.availability.alike_nodes import AlikeNodes
from one_preempt.core.availability.gang_demand import GangDemand
from one_preempt.core.availability.slot_table import GangSlot, SlotTable
from one_preempt.core.availability.timed_request import TimedRequest
from one_preempt.core.availability.unlike_hosts import UnlikeHosts
from one_preempt.core.backfilling import conservative, easy
from one_preempt.core.backfilling.policy import BackfillingPolicy
from tests.core.availability.like_vms import like_vms
from tests.core.backfilling.replay import production, read_trace

NODES, HOSTS = 512, 1_250
ALIKE_QUEUES, UNLIKE_QUEUES = (1_250, 2_500, 5_000, 10_000, 20_000), (125, 250, 500, 1_000)
ratios: list[float] = []


def cpu_s(work: Callable[[], object], prepare: Callable[[], None] = lambda: None, repeat: int = 3) -> float:
    measured = []
    for _ in range(repeat):
        prepare()
        start = time.process_time()
        work()
        measured.append(time.process_time() - start)
    return min(measured)


def judge(what: str, measured: float, limit: float, unit: str, *, at_least: bool = False) -> None:
    ratios.append(measured / limit if at_least else limit / measured)
    bound = "at least" if at_least else "at most"
    print(f"{measured:10.3f} {unit:<10} {bound} {limit:9.3f}   x {ratios[-1]:6.1f}   {what}")


def growth(queues: tuple[int, ...], measured: list[float]) -> float:
    """The exponent by which time grows with the queue, by least squares over the logarithms."""
    return float(np.polyfit(np.log(queues), np.log(measured), 1)[0])


# -- nodes that are alike --------------------------------------------------------------------------------------


def jobs_for_nodes(count: int) -> list[TimedRequest[int]]:
    random = np.random.default_rng(1)
    widths = random.choice([1, 1, 2, 4, 8, 16, 32, 64, 128], count).tolist()
    return [TimedRequest(lease_id, nodes, int(random.integers(60, 36_000))) for lease_id, nodes in enumerate(widths)]


def planned(queue: list[TimedRequest[int]], policy: BackfillingPolicy = conservative.POLICY) -> AlikeNodes:
    nodes = AlikeNodes(NODES)
    policy.decide(queue, nodes, 0)
    return nodes


def alike_nodes() -> None:
    measured = []
    for count in ALIKE_QUEUES:
        queue = jobs_for_nodes(count)
        measured.append(cpu_s(lambda queue=queue: planned(queue)))  # type: ignore[misc]
        judge(f"conservative, {count} queued on {NODES} nodes, from scratch", measured[-1], 1.5 * count / 5_000, "s")
    judge("exponent of growth in that queue", growth(ALIKE_QUEUES, measured), 1.3, "")
    queue = jobs_for_nodes(5_000)
    judge("EASY, 5000 queued, from scratch", cpu_s(lambda: planned(queue, easy.POLICY)), 1.5, "s")
    nodes = planned(queue)
    waiting = [request for request in queue if nodes.start_of(request.lease_id)]
    arrived = TimedRequest(5_000, 16, 3_600)
    taken = cpu_s(
        lambda: conservative.POLICY.decide([*waiting, arrived], nodes, 0),
        lambda: nodes.withdraw(5_000) if nodes.start_of(5_000) else None,
    )
    judge("an arrival with 5000 queued and reserved", 1_000 * taken, 20, "ms")
    running = iter([lease_id for lease_id, held in nodes.held().items() if held.start_s == 0])
    taken = cpu_s(
        lambda: conservative.POLICY.decide([*waiting, arrived], nodes, 0), lambda: nodes.withdraw(next(running))
    )
    judge("an end before its time, 5000 promises compressed", 1_000 * taken, 1_500, "ms")


# -- hosts that differ -------------------------------------------------------------------------------------------


class UnlikeSite:
    """Hosts of 16 to 64 cores, full of gangs of 1 to 16 VMs, a tenth of them of two kinds; masks of all widths."""

    def __init__(self) -> None:
        self.random = np.random.default_rng(2)
        cores = self.random.choice([16, 32, 48, 64], HOSTS)
        self.capacity = np.stack([cores * 100, cores * self.random.choice([4, 8], HOSTS) * 1024], axis=1)
        self.masks = [self.random.random(HOSTS) < share for share in (1.0, 1.0, 0.5, 0.25, 0.1, 0.05)]
        self.lease_id = 0
        self.running: list[tuple[TimedRequest[GangDemand], GangSlot]] = []
        table = SlotTable(self.capacity, 0)
        hosts, refused = UnlikeHosts(table), 0
        while refused < 500:
            request = self.request()
            rows = table.fit_at(request.demand, 0, request.end_s(0))
            refused += rows is None
            if rows is not None:
                self.running.append((request, GangSlot(0, rows)))
                hosts.hold(*self.running[-1])

    def request(self) -> TimedRequest[GangDemand]:
        self.lease_id += 1
        count, cores = int(self.random.choice([1, 1, 2, 4, 8, 16])), int(self.random.choice([1, 2, 4, 8, 16]))
        need = (cores * 100, cores * 1024 * int(self.random.choice([2, 4])))
        demand = like_vms(count, need, self.masks[self.random.integers(len(self.masks))])
        if count > 1 and self.random.random() < 0.1:
            needs = demand.needs.copy()
            needs[0] *= 2
            demand = GangDemand(needs, demand.allowed)
        return TimedRequest(self.lease_id, demand, int(self.random.integers(60, 36_000)))

    def planned(self, queue: list[TimedRequest[GangDemand]]) -> UnlikeHosts:
        hosts = UnlikeHosts(SlotTable(self.capacity, 0))
        for request, slot in self.running:
            hosts.hold(request, slot)
        conservative.POLICY.decide(queue, hosts, 0)
        return hosts


def unlike_hosts() -> None:
    site = UnlikeSite()
    requests = [site.request() for _ in range(max(UNLIKE_QUEUES))]
    measured = []
    for count in UNLIKE_QUEUES:
        queue = requests[:count]
        measured.append(cpu_s(lambda queue=queue: site.planned(queue), repeat=2))  # type: ignore[misc]
        what = f"conservative, {count} gangs on {HOSTS} unlike hosts with {len(site.running)} running, from scratch"
        judge(what, measured[-1], 5 * count / 500, "s")
    judge("exponent of growth in that queue", growth(UNLIKE_QUEUES, measured), 1.3, "")
    queue = requests[:500]
    hosts = site.planned(queue)
    waiting = [request for request in queue if hosts.start_of(request.lease_id)]
    arrived = site.request()
    taken = cpu_s(
        lambda: conservative.POLICY.decide([*waiting, arrived], hosts, 0),
        lambda: hosts.withdraw(arrived.lease_id) if hosts.start_of(arrived.lease_id) is not None else None,
    )
    judge(f"an arrival with {len(waiting)} promised", 1_000 * taken, 200, "ms")
    measured = []
    for ended, _ in site.running[:9]:
        hosts.withdraw(ended.lease_id)
        queue = [request for request in waiting if hosts.start_of(request.lease_id)]
        measured.append(cpu_s(lambda queue=queue: conservative.POLICY.decide(queue, hosts, 0), repeat=1))  # type: ignore[misc]
    what = f"an end before its time, {len(waiting)} promises compressed, the median of {len(measured)}"
    judge(what, 1_000 * median(measured), 200, "ms")


# -- a real log ------------------------------------------------------------------------------------------------


def real_log() -> None:
    jobs = read_trace()
    for policy in (easy.POLICY, conservative.POLICY):
        for nodes in (512, 144):
            taken = cpu_s(lambda policy=policy, nodes=nodes: production(jobs, nodes, policy), repeat=2)  # type: ignore[misc]
            starts = production(jobs, nodes, policy)
            waited_s = mean(starts[job.id] - job.submit_s for job in jobs)
            what = f"{policy.name}, {len(jobs)} jobs of SDSC Blue on {nodes} nodes, mean wait {waited_s:.0f} s"
            judge(what, len(jobs) / taken, 1_000, "leases/s", at_least=True)


def main() -> int:
    alike_nodes()
    unlike_hosts()
    real_log()
    return int(min(ratios) < 1)


if __name__ == "__main__":
    sys.exit(main())
