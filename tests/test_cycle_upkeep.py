"""What a cycle does beside deciding: logs are cut, who steps down drops his orders, no gang begins in part."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import pytest

from one_preempt.adapters.clock import FixedClock
from one_preempt.adapters.lease_store.memory_lease_store import MemoryLeaseStore
from one_preempt.configuration.chosen_policies import admission_rules
from one_preempt.core.model.outcome import Outcome
from one_preempt.core.model.plan import Action, ActionKind
from one_preempt.core.model.pool_snapshot import RaftState
from one_preempt.core.model.power_sequence import HostPowerStep, PowerReport
from one_preempt.enactment.power_enactment import PowerEnactment
from one_preempt.ports import CallResult, CloudUnavailable
from one_preempt.scheduling_cycle import SchedulingCycle
from one_preempt.surroundings import Surroundings
from tests.scenario_reader import NOW_S, policies_of, settings_of
from tests.test_cycle_surroundings import RUNNING, Cloud, FakeSurroundings

DAY_S = 86_400
WEEK_S = 7 * DAY_S
GANG: dict[str, Any] = {
    "hosts": {0: {}},
    "vms": {
        number: {"user": "eva", "state": "HOLD", "lease": {"TYPE": "BE-SUSPENDABLE", "NAME": "pair", "SIZE": 2}}
        for number in (5, 6)
    },
}


class Calls:
    """Power control to which nothing is put; and how often that is dropped."""

    def __init__(self) -> None:
        self.drops = 0

    def is_busy(self, host_id: int) -> bool:
        return False

    def put(self, step: HostPowerStep, now_s: int) -> None:
        raise AssertionError(step)

    def take_reports(self) -> Sequence[PowerReport]:
        return ()

    def drop(self) -> None:
        self.drops += 1


class Hosts:
    """No host is called."""

    def perform(self, step: HostPowerStep) -> CallResult:
        raise AssertionError(step)


class Refusing:
    """oned, which refuses the calls on these VMs; and what was called."""

    def __init__(self, *vm_ids: int) -> None:
        self.vm_ids = vm_ids
        self.called: list[int] = []

    def perform(self, action: Action) -> CallResult:
        if action.kind is ActionKind.MESSAGE:
            return CallResult(Outcome.ACCEPTED)
        self.called.append(action.vm_id)
        return CallResult(Outcome.REFUSED if action.vm_id in self.vm_ids else Outcome.ACCEPTED)


@pytest.mark.parametrize("keep_log_s", [WEEK_S, None])
def test_logs_are_cut_once_a_day_to_what_is_to_be_kept(keep_log_s: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    clock, store, cuts = FixedClock(NOW_S), MemoryLeaseStore(), list[tuple[int, set[int]]]()

    def prune(before_s: int, host_ids: Collection[int]) -> bool:
        cuts.append((before_s, set(host_ids)))
        return True

    monkeypatch.setattr(store, "prune", prune)
    around = Surroundings(Cloud(RUNNING), store, FakeSurroundings({}), clock)
    cycle = SchedulingCycle(around, policies_of(RUNNING), admission_rules(settings_of(RUNNING)), keep_log_s)
    for passed_s in (0, 15, DAY_S - 1, DAY_S, DAY_S + 15):
        clock.set(NOW_S + passed_s)
        cycle.run()
    expected = [] if keep_log_s is None else [NOW_S - WEEK_S, NOW_S + DAY_S - WEEK_S]
    assert cuts == [(before_s, {0}) for before_s in expected]


def test_where_a_log_is_too_long_for_one_cycle_the_next_ones_go_on_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, store, cuts = FixedClock(NOW_S), MemoryLeaseStore(), list[int]()

    def prune_in_three_parts(before_s: int, _host_ids: Collection[int]) -> bool:
        cuts.append(before_s)
        return len(cuts) >= 3

    monkeypatch.setattr(store, "prune", prune_in_three_parts)
    around = Surroundings(Cloud(RUNNING), store, FakeSurroundings({}), clock)
    cycle = SchedulingCycle(around, policies_of(RUNNING), admission_rules(settings_of(RUNNING)), WEEK_S)
    for passed_s in (0, 15, 30, 45, DAY_S, DAY_S + 30):
        clock.set(NOW_S + passed_s)
        cycle.run()
    assert cuts == [NOW_S - WEEK_S + passed_s for passed_s in (0, 15, 30, DAY_S + 30)]


def test_who_does_not_lead_or_cannot_ask_puts_no_more_to_power_control() -> None:
    cloud, clock, store, calls = Cloud(RUNNING), FixedClock(NOW_S), MemoryLeaseStore(), Calls()
    power = PowerEnactment(store, Hosts(), calls, clock)
    around = Surroundings(cloud, store, FakeSurroundings({}), clock, power=power)
    cycle = SchedulingCycle(around, policies_of(RUNNING), admission_rules(settings_of(RUNNING)))
    cycle.run()
    assert calls.drops == 0
    cloud.raft_state = RaftState.FOLLOWER
    cycle.run()
    assert calls.drops == 1
    cloud.raft_state, cloud.is_away = RaftState.LEADER, True
    with pytest.raises(CloudUnavailable):
        cycle.run()
    assert calls.drops == 2


@pytest.mark.parametrize(("refused", "called"), [((5,), [5]), ((6,), [5, 6]), ((), [5, 6])])
def test_a_gang_of_which_the_first_does_not_start_does_not_begin(refused: tuple[int, ...], called: list[int]) -> None:
    enactor = Refusing(*refused)
    around = Surroundings(Cloud(GANG), MemoryLeaseStore(), enactor, FixedClock(NOW_S))
    SchedulingCycle(around, policies_of(GANG), admission_rules(settings_of(GANG))).run()
    assert enactor.called == called
