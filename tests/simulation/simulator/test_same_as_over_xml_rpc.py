"""The simulator decides as the daemon does: the same cycle, once on the cloud itself and once over XML-RPC."""

from __future__ import annotations

from collections import Counter

import pytest

from one_preempt.adapters.lease_store.memory_lease_store import MemoryLeaseStore
from one_preempt.adapters.opennebula.credentials import Credentials
from one_preempt.adapters.opennebula.enactor import OpenNebulaEnactor
from one_preempt.adapters.opennebula.pool_reader import OpenNebulaPoolReader
from one_preempt.adapters.opennebula.transport import OnedTransport
from one_preempt.composition import simulated_cycle
from one_preempt.configuration.chosen_policies import admission_rules, policies
from one_preempt.scheduling_cycle import SchedulingCycle
from one_preempt.simulation.emulator.serving import running_emulator
from one_preempt.simulation.experiments.ccpe13_testbed import SITE, WORKLOAD
from one_preempt.simulation.simulator.result import SimulationResult
from one_preempt.simulation.simulator.scheduler import Report, Scheduler
from one_preempt.simulation.simulator.simulator import Simulator
from one_preempt.simulation.simulator.site import Site, build_cloud, simulation_settings
from one_preempt.simulation.simulator.timed_fault import TimedFault
from one_preempt.simulation.workload.workload import Workload
from one_preempt.surroundings import Surroundings
from tests.simulation.simulator.small_stories import SLOW_STORAGE, random_faults, random_workload

Told = list[tuple[object, ...]]


class Story:
    """One workload, played with different connections between scheduler and cloud."""

    def __init__(self, site: Site, workload: Workload, policy: str, faults: tuple[TimedFault, ...] = ()) -> None:
        self.site, self.workload, self.policy, self.faults = site, workload, policy, faults

    def directly(self) -> tuple[SimulationResult, Told]:
        cloud = build_cloud(self.site)
        return self._play(Simulator, cloud, simulated_cycle(simulation_settings(), cloud, self.policy))

    def over_xml_rpc(self) -> tuple[SimulationResult, Told]:
        cloud = build_cloud(self.site)
        settings = simulation_settings()
        with running_emulator(cloud) as url:
            transport = OnedTransport(url, Credentials("oneadmin:opennebula"))
            reader = OpenNebulaPoolReader(transport, cloud.clock)
            around = Surroundings(reader, MemoryLeaseStore(), OpenNebulaEnactor(transport, reader), cloud.clock)
            cycle = SchedulingCycle(around, policies(settings, self.policy), admission_rules(settings))
            try:
                return self._play(Simulator, cloud, cycle)
            finally:
                transport.close()

    def _play(self, simulator: type[Simulator], cloud: object, cycle: Scheduler) -> tuple[SimulationResult, Told]:
        told: Told = []

        def note(at_ms: int, report: Report) -> None:
            plan = report.plan
            assert plan is not None
            told.append((at_ms, plan.actions, plan.preemptions, plan.ended_preemptions, plan.refusals, plan.wake_at_s))

        result = simulator(cloud, cycle, self.workload, self.faults, on_cycle=note).run()  # type: ignore[arg-type]
        return result, told


@pytest.mark.parametrize(
    "story",
    [
        pytest.param(Story(SITE, WORKLOAD, "mov"), id="Table II of CCPE13"),
        pytest.param(Story(SLOW_STORAGE, random_workload(3), "moml"), id="waiting and preempting"),
        pytest.param(Story(SLOW_STORAGE, random_workload(4), "mlip", random_faults(4)), id="with faults"),
    ],
)
def test_the_same_plans_come_in_the_same_order(story: Story) -> None:
    directly, told = story.directly()
    over_xml_rpc, told_over_xml_rpc = story.over_xml_rpc()
    for ours, theirs in zip(told, told_over_xml_rpc, strict=True):
        assert ours == theirs
    assert directly == over_xml_rpc
    kinds = Counter(action.kind for _, actions, *_ in told for action in actions)  # type: ignore[attr-defined]
    assert len(kinds) >= 3
