"""A simulation of years keeps of what is over its records alone: nothing else grows with the number of leases."""

from __future__ import annotations

import gc
from collections import Counter

from one_preempt.composition import simulated_cycle
from one_preempt.core.model.lease import Lease
from one_preempt.core.model.ledger import ActionRecord, LeaseRecord, OpenPreemption, Transition
from one_preempt.core.model.plan import Action
from one_preempt.core.model.virtual_machine import HistoryRecord, VirtualMachine
from one_preempt.simulation.simulated_cloud.drivers import Job
from one_preempt.simulation.simulated_cloud.objects import SimHistory, SimVm
from one_preempt.simulation.simulator.lease_run import LeaseRun, VmRun
from one_preempt.simulation.simulator.simulator import Simulator
from one_preempt.simulation.simulator.site import build_cloud, simulation_settings
from one_preempt.simulation.workload.workload import Workload
from tests.simulation.simulator.small_stories import TWO_HOSTS, random_workload

PASSING = (
    Action, ActionRecord, HistoryRecord, Job, Lease, LeaseRecord, LeaseRun, OpenPreemption, SimHistory, SimVm,
    Transition, VirtualMachine, VmRun,
)  # fmt: skip


def alive() -> Counter[str]:
    gc.collect()
    return Counter(type(one).__name__ for one in gc.get_objects() if type(one) in PASSING)


def left_by(workload: Workload) -> Counter[str]:
    """What there is more of after the simulation than before, while all its parts are still held."""
    before = alive()
    cloud = build_cloud(TWO_HOSTS)
    cycle = simulated_cycle(simulation_settings(), cloud, "moml")
    simulator = Simulator(cloud, cycle, workload)
    assert len(simulator.run().records) == len(workload.requests)
    left = alive() - before
    assert simulator is not None
    return left


def test_what_lives_is_seen() -> None:
    workload = random_workload(1, count=40)
    cloud = build_cloud(TWO_HOSTS)
    cycle = simulated_cycle(simulation_settings(), cloud, "moml")
    simulator = Simulator(cloud, cycle, workload, until_s=workload.span_s)
    simulator.run()
    assert {"Lease", "LeaseRecord", "LeaseRun", "SimVm", "VirtualMachine", "VmRun"} <= alive().keys()


def test_nothing_is_left_of_leases_that_have_ended() -> None:
    few, many = left_by(random_workload(1, count=40)), left_by(random_workload(1, count=160))
    assert sum(many.values()) < 120, many
    assert all(count < few[kind] + 20 for kind, count in many.items()), (few, many)
