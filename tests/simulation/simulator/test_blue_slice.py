"""30 days of a real log through the simulator: the production cycle starts every job when the textbook does.

By default the busiest stretch of it, on so few nodes that many jobs wait; with BLUE=all the whole slice, on
512 nodes as well, and its published figures.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from statistics import mean

import pytest

from one_preempt.composition import simulated_cycle
from one_preempt.configuration.settings import OverheadSettings, Settings, TimeSettings
from one_preempt.simulation.simulator.scheduler import Report
from one_preempt.simulation.simulator.simulator import Simulator
from one_preempt.simulation.simulator.site import Site, build_cloud, simulation_settings
from one_preempt.simulation.workload.swf import read_swf
from one_preempt.simulation.workload.swf_workload import workload_from_swf
from one_preempt.simulation.workload.workload import MachineSet
from tests.core.backfilling.replay import TRACE, Job, Starts, plain_conservative, plain_easy, read_trace

WHOLE = os.environ.get("BLUE") == "all"
BUSIEST = slice(2200, 2700)
NO_TIME = OverheadSettings(boot_s=0, shutdown_s=0, learn=False)

Plain = Callable[[Sequence[Job], int], Starts]


def simulated(jobs: Sequence[Job], nodes: int, backfilling: str) -> Starts:
    """Every plan is recounted, and none may be refused."""
    log = workload_from_swf(read_swf(TRACE))
    ids = {job.id for job in jobs}
    workload = log.after("a part of it", (request for request in log.requests if request.id in ids))
    cloud = build_cloud(Site((MachineSet(nodes, cpu_centi=100, memory_mib=1024),)))
    settings = simulation_settings(Settings(time=TimeSettings(backfilling=backfilling), overhead=NO_TIME))

    def on_cycle(_: int, report: Report) -> None:
        assert not report.violations

    cycle = simulated_cycle(settings, cloud, tells_owners=False)
    records = Simulator(cloud, cycle, workload, on_cycle=on_cycle).run().records
    starts_ms = {record.request_id: record.started_at_ms for record in records}
    return {id: start_ms // 1000 for id, start_ms in starts_ms.items() if start_ms is not None}


@pytest.mark.parametrize(("backfilling", "plain"), [("easy", plain_easy), ("conservative", plain_conservative)])
@pytest.mark.parametrize("nodes", [512, 144] if WHOLE else [144])
def test_every_job_of_the_slice_starts_when_the_textbook_starts_it(nodes: int, backfilling: str, plain: Plain) -> None:
    jobs = read_trace() if WHOLE else read_trace()[BUSIEST]
    expected = plain(jobs, nodes)
    assert any(expected[job.id] > job.submit_s for job in jobs)
    assert simulated(jobs, nodes, backfilling) == expected
    if WHOLE and backfilling == "easy":
        check_published_figures(jobs, nodes, expected)


def check_published_figures(jobs: Sequence[Job], nodes: int, starts: Starts) -> None:
    waits_s = [starts[job.id] - job.submit_s for job in jobs]
    assert len(jobs) == 5108
    if nodes == 512:
        run_s = [max(job.run_s, 1) for job in jobs]
        assert 75 <= mean(waits_s) <= 76
        assert round(mean((wait + run) / run for wait, run in zip(waits_s, run_s, strict=True)), 2) == 1.08
    else:
        assert round(mean(waits_s)) == 4233
        assert sum(wait_s > 0 for wait_s in waits_s) == 1802
