"""Which plans of a simulation are recounted."""

from __future__ import annotations

import pytest

from one_preempt import scheduling_cycle
from one_preempt.composition import simulated_cycle
from one_preempt.core.model.cluster_state import ClusterState
from one_preempt.core.model.lease import LeaseType
from one_preempt.core.model.modes_and_limits import Verification
from one_preempt.core.model.plan import Plan
from one_preempt.core.model.power_sequence import HostPowerStep, PowerStepKind
from one_preempt.core.model.recount_rules import AS_SHIPPED, RecountRules
from one_preempt.core.verify import Violation, recounter, verify
from one_preempt.core.verify.books import Books
from one_preempt.scheduling_cycle import RECOUNT_EVERY
from one_preempt.simulation.simulator.simulator import Simulator
from one_preempt.simulation.simulator.site import build_cloud, simulation_settings
from one_preempt.simulation.workload.workload import StartKind, Workload, WorkloadRequest
from tests.simulation.simulator.small_stories import TWO_HOSTS, local, request


def recounted(monkeypatch: pytest.MonkeyPatch, how: Verification, *requests: WorkloadRequest) -> tuple[list[Plan], int]:
    """The plans that were recounted in a simulation of the requests, and how many cycles it took."""
    plans: list[Plan] = []

    def note(
        state: ClusterState, plan: Plan, books: Books | None = None, rules: RecountRules = AS_SHIPPED
    ) -> tuple[Violation, ...]:
        plans.append(plan)
        return verify(state, plan, books, rules)

    for module in (scheduling_cycle, recounter):
        monkeypatch.setattr(module, "verify", note)
    cloud = build_cloud(TWO_HOSTS)
    cycle = simulated_cycle(simulation_settings(), cloud, "moml", how)
    return plans, Simulator(cloud, cycle, Workload(requests)).run().cycles


ONE_BY_ONE = [request(number, 10 * number, 1, 5) for number in range(1, 90)]
PREEMPTED = [request(100, 2000, 4, 500), local(101, 2100, 2, 50)]
RESERVED = [request(110, 4000, 1, 50, start=StartKind.EXACT, start_at_s=4100, lease_type=LeaseType.DC_NON_PREEMPTABLE)]


def test_a_sample_recounts_all_that_preempt_or_promise_firmly_and_few_others(monkeypatch: pytest.MonkeyPatch) -> None:
    plans, cycles = recounted(monkeypatch, Verification.SAMPLED, *ONE_BY_ONE, *PREEMPTED, *RESERVED)
    preempting = [plan for plan in plans if plan.preemptions]
    firm = [plan for plan in plans if any(stay.firm for booking in plan.bookings for stay in booking.reservations)]
    assert preempting
    assert firm
    assert 1 <= len(plans) - len(preempting) - len(firm) <= cycles // RECOUNT_EVERY


def test_all_or_none_are_recounted_where_that_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    plans, cycles = recounted(monkeypatch, Verification.FULL, *ONE_BY_ONE[:9], *PREEMPTED)
    assert len(plans) == cycles
    plans, _ = recounted(monkeypatch, Verification.NONE, *ONE_BY_ONE[:9], *PREEMPTED)
    assert plans == []


@pytest.mark.parametrize("kind", PowerStepKind)
def test_whatever_does_more_to_power_than_look_at_it_is_recounted(kind: PowerStepKind) -> None:
    look, step = (HostPowerStep(1, "node1", one, "idle", "") for one in (PowerStepKind.READ_POWER, kind))
    plan = Plan(made_at_s=1, policy="moml", power_steps=(look, step))
    assert plan.switches_hosts is (kind is not PowerStepKind.READ_POWER)
