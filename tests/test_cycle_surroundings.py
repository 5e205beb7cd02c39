"""What the cycle tells, and hears from, its surroundings: promised room, and instants of transitions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from one_preempt import scheduling_cycle
from one_preempt.adapters.clock import FixedClock
from one_preempt.adapters.lease_store.memory_lease_store import MemoryLeaseStore
from one_preempt.chosen_policies import admission_rules, policies
from one_preempt.core.model.held_room import HeldRoom
from one_preempt.core.model.ledger import Outcome
from one_preempt.core.model.plan import Action, Plan
from one_preempt.core.model.pool_snapshot import PoolSnapshot, RaftState
from one_preempt.core.model.virtual_machine import VirtualMachine
from one_preempt.core.verify import Violation, recounter
from one_preempt.errors import OnePreemptError
from one_preempt.ports import CallResult, CloudUnavailable
from one_preempt.scheduling_cycle import SchedulingCycle
from tests.scenario_reader import NOW_S, settings_of, snapshot_of

RUNNING = {"hosts": {0: {}}, "vms": {1: {"user": "eva", "host": 0}}}
STOPPED = {"hosts": {0: {}}, "vms": {1: {"user": "eva", "state": "STOPPED", "last_host": 0}}}
CONTENTION = {
    "hosts": {0: {"cpu": 1}},
    "vms": {1: {"user": "eva", "host": 0}, 2: {"user": "lea"}},
}


class Cloud:
    """Shows one document until another one is put in its place."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.document = document
        self.raft_state = RaftState.SOLO
        self.is_away = False

    def read(self) -> PoolSnapshot:
        if self.is_away:
            raise CloudUnavailable("nothing listens there")
        return replace(snapshot_of(self.document), raft_state=self.raft_state)

    def read_raft_state(self) -> RaftState:
        return self.raft_state

    def read_vm(self, vm_id: int) -> VirtualMachine | None:
        return self.read().vms.get(vm_id)


class Surroundings:
    """Ear, promises, calls and plans, in the order in which they happened."""

    def __init__(self, instants: Mapping[tuple[int, str], int]) -> None:
        self.instants = instants
        self.told: list[str] = []
        self.rooms: tuple[HeldRoom, ...] = ()
        self.breaks = False

    def take_instants(self) -> Mapping[tuple[int, str], int]:
        return self.instants

    def replace(self, rooms: Sequence[HeldRoom]) -> None:
        if self.breaks:
            raise OnePreemptError("the disk is full")
        self.rooms = tuple(rooms)
        self.told.append(f"promised {[room.vm_id for room in rooms]}")

    def perform(self, action: Action) -> CallResult:
        self.told.append(f"{action.kind} {action.vm_id}")
        return CallResult(Outcome.ACCEPTED)


class Store(MemoryLeaseStore):
    """Tells when a plan is recorded, and whether it is this daemon that writes."""

    def __init__(self, told: list[str]) -> None:
        super().__init__()
        self._told = told
        self.writes = False

    def acquire_writer(self) -> None:
        super().acquire_writer()
        self.writes = True

    def release_writer(self) -> None:
        super().release_writer()
        self.writes = False

    def record_plan(self, plan: Plan) -> None:
        self._told.append("recorded")
        super().record_plan(plan)


def cycle_on(cloud: Cloud, around: Surroundings, clock: FixedClock) -> tuple[SchedulingCycle, Store]:
    settings = settings_of(cloud.document)
    store = Store(around.told)
    rules = admission_rules(settings)
    cycle = SchedulingCycle(cloud, store, around, clock, policies(settings), rules, held_capacity=around, events=around)
    return cycle, store


@pytest.mark.parametrize(
    ("heard", "timed_at_s"),
    [
        ({(1, "STOPPED"): NOW_S + 7}, NOW_S + 7),
        ({(1, "STOPPED"): NOW_S + 15}, NOW_S + 15),
        ({}, NOW_S + 15),
        ({(1, "EPILOG_STOP"): NOW_S + 7}, NOW_S + 15),
        ({(2, "STOPPED"): NOW_S + 7}, NOW_S + 15),
        ({(1, "STOPPED"): NOW_S}, NOW_S + 15),
        ({(1, "STOPPED"): NOW_S - 900}, NOW_S + 15),
        ({(1, "STOPPED"): NOW_S + 16}, NOW_S + 15),
    ],
)
def test_a_transition_has_the_instant_that_was_heard_where_it_lies_between_two_readings(
    heard: dict[tuple[int, str], int], timed_at_s: int
) -> None:
    cloud, clock, around = Cloud(RUNNING), FixedClock(NOW_S), Surroundings({})
    cycle, store = cycle_on(cloud, around, clock)
    cycle.run()
    cloud.document, around.instants = STOPPED, heard
    clock.set(NOW_S + 15)
    cycle.run()
    newest = store.transitions(vm_id=1)[0]
    assert (newest.from_state, newest.to_state, newest.observed_at_s) == ("RUNNING", "STOPPED", timed_at_s)


def test_room_is_promised_before_the_plan_is_recorded_and_anything_is_called() -> None:
    around = Surroundings({})
    cycle, _store = cycle_on(Cloud(CONTENTION), around, FixedClock(NOW_S))
    cycle.run()
    calls = [told for told in around.told if not told.startswith("message")]
    assert calls == ["promised [2]", "recorded", "stop 1"]
    assert [(room.host_id, room.vm_id) for room in around.rooms] == [(0, 2)]


def test_where_the_promise_cannot_be_made_nobody_is_preempted() -> None:
    around = Surroundings({})
    around.breaks = True
    cycle, _store = cycle_on(Cloud(CONTENTION), around, FixedClock(NOW_S))
    with pytest.raises(OnePreemptError, match="disk is full"):
        cycle.run()
    assert around.told == []


@pytest.mark.parametrize("breaks", ["the cloud", "the disk"])
def test_who_cannot_go_on_lets_the_daemon_of_another_front_end_write(breaks: str) -> None:
    cloud, around = Cloud(CONTENTION), Surroundings({})
    cycle, store = cycle_on(cloud, around, FixedClock(NOW_S))
    cycle.run()
    assert store.writes
    cloud.is_away, around.breaks, cloud.raft_state = breaks == "the cloud", breaks == "the disk", RaftState.FOLLOWER
    with pytest.raises(OnePreemptError):
        cycle.run()
    assert not store.writes


def test_a_front_end_that_leads_no_more_withdraws_its_promises() -> None:
    cloud, around = Cloud(CONTENTION), Surroundings({})
    cycle, _store = cycle_on(cloud, around, FixedClock(NOW_S))
    cycle.run()
    assert around.rooms
    cloud.raft_state = RaftState.FOLLOWER
    assert cycle.run().plan is None
    assert around.rooms == ()


@pytest.mark.parametrize(("refused", "given_up"), [(0, False), (1, False), (2, True)])
def test_a_refused_plan_gives_up_what_is_under_way_only_if_nothing_else_helps(
    monkeypatch: pytest.MonkeyPatch, refused: int, given_up: bool
) -> None:
    cloud, around, clock = Cloud(CONTENTION), Surroundings({}), FixedClock(NOW_S)
    cycle, _store = cycle_on(cloud, around, clock)
    (begun,) = (cycle.run().plan or Plan(0, "", ())).preemptions
    clock.set(NOW_S + 5)
    left = [refused]

    def check(*_: object) -> tuple[Violation, ...]:
        left[0] -= 1
        return (Violation("odd", "something is wrong"),) if left[0] >= 0 else ()

    for module in (scheduling_cycle, recounter):
        monkeypatch.setattr(module, "verify", check)
    report = cycle.run()
    assert report.plan is not None
    assert not report.is_refused
    assert [end.preemption_id for end in report.plan.ended_preemptions] == ([begun.id] if given_up else [])
    assert ("stop" in [action.kind.value for action in report.plan.actions]) is not given_up


def test_while_a_plan_is_decided_again_nobody_is_preempted_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    cycle, _store = cycle_on(Cloud(CONTENTION), Surroundings({}), FixedClock(NOW_S))
    answers = [(Violation("odd", "something is wrong"),)]
    for module in (scheduling_cycle, recounter):
        monkeypatch.setattr(module, "verify", lambda *_: answers.pop() if answers else ())
    plan = cycle.run().plan
    assert plan is not None
    assert plan.preemptions == ()
    assert [refusal.reason.code for refusal in plan.refusals] == ["checked"]
