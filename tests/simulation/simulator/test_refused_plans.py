"""A plan that the recount refuses is told of and not carried out: no owner hears anything of it."""

from __future__ import annotations

from dataclasses import dataclass

from msgspec.structs import replace

from one_preempt.composition import simulated_cycle
from one_preempt.core.model.reservation import Verdict, VerdictGiven
from one_preempt.scheduling_cycle import CycleReport, SchedulingCycle
from one_preempt.simulation.simulator.result import Fate
from one_preempt.simulation.simulator.simulator import Simulator
from one_preempt.simulation.simulator.site import build_cloud, simulation_settings
from one_preempt.simulation.workload.workload import StartKind, Workload
from tests.simulation.simulator.small_stories import TWO_HOSTS, request


@dataclass
class FirstIsRefused:
    """The first plan says no to everybody, and is refused itself: a second cycle decides."""

    cycle: SchedulingCycle
    refused: int = 0

    def run(self) -> CycleReport:
        report = self.cycle.run()
        if self.refused or report.plan is None or report.state is None:
            return report
        self.refused += 1
        verdicts = tuple(VerdictGiven(one, Verdict.REFUSED, "no room") for one in sorted(report.state.leases))
        return replace(report, plan=replace(report.plan, verdicts=verdicts), is_refused=True)


def test_what_a_refused_plan_says_is_not_heard() -> None:
    cloud = build_cloud(TWO_HOSTS)
    wish = request(1, 0, 1, 100, start=StartKind.EXACT, start_at_s=200)
    scheduler = FirstIsRefused(simulated_cycle(simulation_settings(), cloud, "moml"))
    (record,) = Simulator(cloud, scheduler, Workload((wish,))).run().records
    assert (scheduler.refused, record.fate) == (1, Fate.COMPLETED)
