"""What the cycle tells, and hears from, its surroundings: promised room, and instants of transitions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from one_preempt import scheduling_cycle
from one_preempt.adapters.clock import FixedClock
from one_preempt.adapters.lease_store.memory_lease_store import MemoryLeaseStore
from one_preempt.configuration.chosen_policies import admission_rules, policies
from one_preempt.core import fallback_plan
from one_preempt.core.model.held_room import HeldRoom
from one_preempt.core.model.image_transfer import HostImages, ImageOrder, TransferReport
from one_preempt.core.model.outcome import Outcome
from one_preempt.core.model.plan import Action, ActionKind, Plan
from one_preempt.core.model.pool_snapshot import PoolSnapshot, RaftState
from one_preempt.core.model.virtual_machine import VirtualMachine
from one_preempt.core.verify import Violation, recounter
from one_preempt.enactment import action_enactment
from one_preempt.enactment.image_enactment import ImageEnactment
from one_preempt.errors import OnePreemptError
from one_preempt.ports import CallResult, CloudUnavailable
from one_preempt.scheduling_cycle import CycleReport, SchedulingCycle
from one_preempt.surroundings import Surroundings
from tests.scenario_reader import NOW_S, settings_of, snapshot_of

RUNNING = {"hosts": {0: {}}, "vms": {1: {"user": "eva", "host": 0}}}
STOPPED = {"hosts": {0: {}}, "vms": {1: {"user": "eva", "state": "STOPPED", "last_host": 0}}}
CONTENTION: dict[str, Any] = {
    "hosts": {0: {"cpu": 1}},
    "vms": {1: {"user": "eva", "host": 0}, 2: {"user": "lea"}},
}


def one_vm_a_host(numbers: Iterable[int]) -> dict[str, Any]:
    """So many hosts, and a VM that waits for each."""
    return {
        "hosts": {number: {} for number in numbers},
        "vms": {number: {"user": "eva"} for number in numbers},
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


class FakeSurroundings:
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


def cycle_on(cloud: Cloud, around: FakeSurroundings, clock: FixedClock) -> tuple[SchedulingCycle, Store]:
    settings = settings_of(cloud.document)
    store = Store(around.told)
    rules = admission_rules(settings)
    surroundings = Surroundings(cloud, store, around, clock, held_capacity=around, events=around)
    cycle = SchedulingCycle(surroundings, policies(settings), rules)
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
    cloud, clock, around = Cloud(RUNNING), FixedClock(NOW_S), FakeSurroundings({})
    cycle, store = cycle_on(cloud, around, clock)
    cycle.run()
    cloud.document, around.instants = STOPPED, heard
    clock.set(NOW_S + 15)
    cycle.run()
    newest = store.transitions(vm_id=1)[0]
    assert (newest.from_state, newest.to_state, newest.observed_at_s) == ("RUNNING", "STOPPED", timed_at_s)


def test_room_is_promised_before_the_plan_is_recorded_and_anything_is_called() -> None:
    around = FakeSurroundings({})
    cycle, _store = cycle_on(Cloud(CONTENTION), around, FixedClock(NOW_S))
    cycle.run()
    calls = [told for told in around.told if not told.startswith("message")]
    assert calls == ["promised [2]", "recorded", "stop 1"]
    assert [(room.host_id, room.vm_id) for room in around.rooms] == [(0, 2)]


def test_where_the_promise_cannot_be_made_nobody_is_preempted() -> None:
    around = FakeSurroundings({})
    around.breaks = True
    cycle, _store = cycle_on(Cloud(CONTENTION), around, FixedClock(NOW_S))
    with pytest.raises(OnePreemptError, match="disk is full"):
        cycle.run()
    assert around.told == []


@pytest.mark.parametrize("breaks", ["the cloud", "the disk"])
def test_who_cannot_go_on_lets_the_daemon_of_another_front_end_write(breaks: str) -> None:
    cloud, around = Cloud(CONTENTION), FakeSurroundings({})
    cycle, store = cycle_on(cloud, around, FixedClock(NOW_S))
    cycle.run()
    assert store.writes
    cloud.is_away, around.breaks = breaks == "the cloud", breaks == "the disk"
    cloud.raft_state = RaftState.SOLO if cloud.is_away else RaftState.FOLLOWER
    with pytest.raises(OnePreemptError):
        cycle.run()
    assert not store.writes


def test_a_front_end_that_leads_no_more_withdraws_its_promises() -> None:
    cloud, around = Cloud(CONTENTION), FakeSurroundings({})
    cycle, _store = cycle_on(cloud, around, FixedClock(NOW_S))
    cycle.run()
    assert around.rooms
    cloud.raft_state = RaftState.FOLLOWER
    assert cycle.run().plan is None
    assert around.rooms == ()


@pytest.mark.parametrize("state", [RaftState.FOLLOWER, RaftState.CANDIDATE])
def test_who_does_not_lead_reads_no_pools_for_that_would_be_asked_of_the_leader(state: RaftState) -> None:
    """A candidate could not even answer: its oned has nobody to ask."""
    cloud, around = Cloud(CONTENTION), FakeSurroundings({})
    cycle, _store = cycle_on(cloud, around, FixedClock(NOW_S))
    cloud.raft_state, cloud.is_away = state, True
    assert cycle.run() == CycleReport(state)


def test_who_no_longer_leads_once_a_plan_is_made_issues_nothing_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another front-end schedules from then on, and may have issued the same."""
    cloud, around = Cloud(CONTENTION), FakeSurroundings({})
    cycle, store = cycle_on(cloud, around, FixedClock(NOW_S))
    answers = iter((RaftState.LEADER, RaftState.FOLLOWER))
    monkeypatch.setattr(cloud, "read_raft_state", lambda: next(answers))
    report = cycle.run()
    assert steps(report) == ["stop 1", "deploy 2"]
    assert report.results == ()
    assert [record.attempts for record in store.load(NOW_S).open_actions.values()].count(0) >= 2
    assert around.told == ["promised [2]", "recorded"]


def test_who_leads_is_asked_again_after_so_many_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    crowd = range(action_enactment.BATCH + 3)
    cloud = Cloud(one_vm_a_host(crowd))
    cycle, _store = cycle_on(cloud, FakeSurroundings({}), FixedClock(NOW_S))
    answers = iter((RaftState.LEADER, RaftState.LEADER, RaftState.FOLLOWER))
    monkeypatch.setattr(cloud, "read_raft_state", lambda: next(answers))
    report = cycle.run()
    assert len(steps(report)) == len(crowd)
    assert len(report.results) == action_enactment.BATCH


def test_a_pause_that_comes_once_the_plan_is_made_sends_nobody_out_and_lets_others_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waiting = {2: {"user": "lea", "requirements": "ID = 0"}, 3: {"user": "eva"}}
    beside: dict[str, Any] = {"hosts": {0: {"cpu": 1}, 1: {"cpu": 2}}, "vms": CONTENTION["vms"] | waiting}
    around = FakeSurroundings({})
    cycle, store = cycle_on(Cloud(beside), around, FixedClock(NOW_S))
    record = store.record_plan

    def paused_meanwhile(plan: Plan) -> None:
        record(plan)
        store.set_paused(True, NOW_S)

    monkeypatch.setattr(store, "record_plan", paused_meanwhile)
    assert "stop 1" in steps(cycle.run())
    assert "stop 1" not in around.told
    assert "deploy 3" in around.told


def test_a_call_is_made_once_its_attempt_is_written_down(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever dies in between finds that it may have been made."""
    around = FakeSurroundings({})
    cycle, store = cycle_on(Cloud(CONTENTION), around, FixedClock(NOW_S))
    written: list[tuple[int, Outcome | None]] = []

    def perform(action: Action) -> CallResult:
        known = store.load(NOW_S).open_actions[action.id]
        written.append((known.attempts, known.outcome))
        return CallResult(Outcome.ACCEPTED)

    monkeypatch.setattr(around, "perform", perform)
    results = cycle.run().results
    assert len(written) == len(results) > 0
    assert set(written) == {(1, None)}


def test_what_is_under_way_stands_in_the_next_plan_and_is_not_called_again() -> None:
    cloud, clock, around = Cloud(CONTENTION), FixedClock(NOW_S), FakeSurroundings({})
    cycle, _store = cycle_on(cloud, around, clock)
    cycle.run()
    cloud.document = {**CONTENTION, "vms": {**CONTENTION["vms"], 1: {"user": "eva", "host": 0, "state": "SAVE_STOP"}}}
    clock.set(NOW_S + 5)
    assert steps(cycle.run()) == ["stop 1", "deploy 2"]
    assert around.told.count("stop 1") == 1


def test_where_two_calls_have_no_answer_the_others_wait_for_the_next_cycle(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each would take as long as oned is given to answer, and the daemon would neither look nor listen meanwhile."""
    crowd = range(5)
    cloud = Cloud(one_vm_a_host(crowd))
    around = FakeSurroundings({})
    cycle, _store = cycle_on(cloud, around, FixedClock(NOW_S))
    answers = iter((Outcome.UNKNOWN, Outcome.ACCEPTED, Outcome.UNKNOWN))
    monkeypatch.setattr(around, "perform", lambda _action: CallResult(next(answers)))
    assert [result.outcome for _, result in cycle.run().results] == [Outcome.UNKNOWN, Outcome.ACCEPTED, Outcome.UNKNOWN]


def test_oned_that_does_not_say_who_leads_after_a_call_without_an_answer_is_sent_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It hangs: what is sent may be carried out much later. Another front-end's daemon may act as soon as possible."""
    cloud, around = Cloud(one_vm_a_host(range(3))), FakeSurroundings({})
    cycle, store = cycle_on(cloud, around, FixedClock(NOW_S))
    asked: list[str] = []

    def hangs() -> RaftState:
        asked.append("who leads")
        if "called" in asked:
            raise CloudUnavailable("no complete answer in time")
        return RaftState.LEADER

    def perform(_action: Action) -> CallResult:
        asked.append("called")
        return CallResult(Outcome.UNKNOWN)

    monkeypatch.setattr(cloud, "read_raft_state", hangs)
    monkeypatch.setattr(around, "perform", perform)
    report = cycle.run()
    assert len(steps(report)) == 3
    assert [result.outcome for _, result in report.results] == [Outcome.UNKNOWN]
    assert asked == ["who leads", "who leads", "called", "who leads"]
    assert not store.writes
    assert cycle.memory is None


def test_a_cycle_in_which_oned_falls_silent_before_any_call_has_failed_and_the_next_one_calls(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cloud, around = Cloud(one_vm_a_host(range(3))), FakeSurroundings({})
    cycle, store = cycle_on(cloud, around, FixedClock(NOW_S))
    answers = iter((RaftState.LEADER,))

    def falls_silent() -> RaftState:
        for answer in answers:
            return answer
        raise CloudUnavailable("no complete answer in time")

    monkeypatch.setattr(cloud, "read_raft_state", falls_silent)
    with pytest.raises(CloudUnavailable, match="no complete answer"):
        cycle.run()
    assert not store.writes
    assert [told for told in around.told if told.startswith("deploy")] == []
    monkeypatch.setattr(cloud, "read_raft_state", lambda: RaftState.LEADER)
    assert len(cycle.run().results) == 3
    assert store.writes


def test_two_vms_that_are_never_answered_about_keep_nobody_from_starting(monkeypatch: pytest.MonkeyPatch) -> None:
    around, clock = FakeSurroundings({}), FixedClock(NOW_S)
    cycle, _ = cycle_on(Cloud(one_vm_a_host(range(4))), around, clock)
    silent = {0, 1}
    called: list[int] = []

    def perform(action: Action) -> CallResult:
        called.append(action.vm_id)
        return CallResult(Outcome.UNKNOWN if action.vm_id in silent else Outcome.ACCEPTED)

    monkeypatch.setattr(around, "perform", perform)
    cycle.run()
    assert called == [0, 1]
    clock.set(NOW_S + 15)
    cycle.run()
    assert called == [0, 1, 2, 3, 0, 1]


def test_a_call_without_an_answer_stays_ours_for_a_while_though_nobody_wants_it_any_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """oned may carry it out yet: what is found stopped then was stopped by us, and returns."""
    cloud, clock, around = Cloud(CONTENTION), FixedClock(NOW_S), FakeSurroundings({})
    cycle, store = cycle_on(cloud, around, clock)
    monkeypatch.setattr(around, "perform", lambda _action: CallResult(Outcome.UNKNOWN))
    assert "stop 1" in steps(cycle.run())
    cloud.document = RUNNING
    clock.set(NOW_S + 5)
    assert steps(cycle.run()) == []
    assert stops_on_record(store, NOW_S + 5) == 1
    cloud.document = STOPPED
    clock.set(NOW_S + 10)
    assert steps(cycle.run()) == ["deploy 1"]


def test_a_call_without_an_answer_is_given_up_once_it_was_not_carried_out_for_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cloud, clock, around = Cloud(CONTENTION), FixedClock(NOW_S), FakeSurroundings({})
    cycle, store = cycle_on(cloud, around, clock)
    monkeypatch.setattr(around, "perform", lambda _action: CallResult(Outcome.UNKNOWN))
    cycle.run()
    cloud.document = RUNNING
    timeout_s = policies(settings_of(CONTENTION)).limits.preemption_timeout_s
    for at_s, stops in ((NOW_S + timeout_s - 1, 1), (NOW_S + timeout_s, 0)):
        clock.set(at_s)
        cycle.run()
        assert stops_on_record(store, at_s) == stops


def stops_on_record(store: Store, now_s: int) -> int:
    return sum(record.kind is ActionKind.STOP for record in store.load(now_s).open_actions.values())


TWO_CONTENTIONS: dict[str, Any] = {
    "hosts": {0: {"cpu": 1}, 1: {"cpu": 1}},
    "vms": {1: {"user": "eva", "host": 0}, 2: {"user": "lea"}, 3: {"user": "eva", "host": 1}},
}
ONE_MORE = {**TWO_CONTENTIONS, "vms": {**TWO_CONTENTIONS["vms"], 4: {"user": "lea"}}}


def refusing(monkeypatch: pytest.MonkeyPatch, is_wrong: Callable[[Plan], bool]) -> None:
    def check(_state: object, plan: Plan, *_books: object, **_rules: object) -> tuple[Violation, ...]:
        return (Violation("odd", "something is wrong"),) if is_wrong(plan) else ()

    for module in (scheduling_cycle, fallback_plan, recounter):
        monkeypatch.setattr(module, "verify", check)


def steps(report: CycleReport) -> list[str]:
    assert report.plan is not None
    assert not report.is_refused
    return [f"{one.kind} {one.vm_id}" for one in report.plan.actions if one.kind is not ActionKind.MESSAGE]


def test_while_a_preemption_is_wrong_none_is_begun_and_those_under_way_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    cloud, clock = Cloud(TWO_CONTENTIONS), FixedClock(NOW_S)
    cycle, _store = cycle_on(cloud, FakeSurroundings({}), clock)
    begun = steps(cycle.run())
    assert len(begun) == 2
    cloud.document = ONE_MORE
    clock.set(NOW_S + 5)
    refusing(monkeypatch, lambda plan: bool(plan.preemptions))
    report = cycle.run()
    assert steps(report) == begun
    assert report.plan is not None
    assert report.plan.ended_preemptions == ()
    assert [refusal.reason.code for refusal in report.plan.refusals] == ["checked"]


def test_what_is_under_way_is_given_up_only_if_nothing_else_helps(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = FixedClock(NOW_S)
    cycle, _store = cycle_on(Cloud(CONTENTION), FakeSurroundings({}), clock)
    (begun,) = (cycle.run().plan or Plan(0, "", ())).preemptions
    clock.set(NOW_S + 5)
    refusing(monkeypatch, lambda plan: any(action.preemption_id for action in plan.actions))
    report = cycle.run()
    assert "stop 1" not in steps(report)
    assert [end.preemption_id for end in (report.plan or Plan(0, "")).ended_preemptions] == [begun.id]


def test_a_vm_at_fault_costs_nobody_else_not_even_a_preemptor(monkeypatch: pytest.MonkeyPatch) -> None:
    waiting = {2: {"user": "lea", "requirements": "ID = 0"}, 3: {"user": "eva"}, 4: {"user": "eva"}}
    row = {"hosts": {0: {"cpu": 1}, 1: {"cpu": 2}, 2: {"cpu": 2}}, "vms": CONTENTION["vms"] | waiting}
    cycle, _store = cycle_on(Cloud(row), FakeSurroundings({}), FixedClock(NOW_S))
    refusing(monkeypatch, lambda plan: any(action.vm_id == 3 for action in plan.actions))
    report = cycle.run()
    assert sorted(steps(report)) == ["deploy 2", "deploy 4", "stop 1"]
    assert report.violations
    # What the refused plan left for the next decision was not carried out.
    remembers = [cycle.memory is not None]
    monkeypatch.undo()
    cycle.run()
    remembers.append(cycle.memory is not None)
    assert remembers == [False, True]
    assert [(one.vm_ids, one.reason.code) for one in (report.plan or Plan(0, "")).refusals] == [((3,), "checked")]


def test_where_nothing_is_sound_nothing_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    around = FakeSurroundings({})
    cycle, _store = cycle_on(Cloud(CONTENTION), around, FixedClock(NOW_S))
    refusing(monkeypatch, lambda _plan: True)
    assert cycle.run().is_refused
    assert around.told == []


class Transfers:
    """Orders for images that are put, and whether they were dropped."""

    def __init__(self) -> None:
        self.put_ids: list[str] = []
        self.drops = 0

    def is_busy(self, order_id: str) -> bool:
        return order_id in self.put_ids

    def put(self, order: ImageOrder, now_s: int) -> None:
        self.put_ids.append(order.id)

    def take_reports(self) -> Sequence[TransferReport]:
        return ()

    def take_holdings(self) -> Sequence[HostImages]:
        return ()

    def drop(self) -> None:
        self.drops += 1


IMAGE_DUE_NOW = {
    "settings": {"image_staging": {"mode": "act", "link_megabit_per_s": 100}},
    "hosts": {0: {}},
    "datastore": {"shared": False},
    "vms": {
        5: {
            "user": "lea", "state": "HOLD", "cpu": 1, "disks": [{"size": 600, "image": 7}],
            "lease": {"TYPE": "DC-NON-PREEMPTABLE", "START_IN_S": 81, "DURATION_S": 3600},
        }
    },
}  # fmt: skip


def staging_cycle(cloud: Cloud, transfers: Transfers) -> SchedulingCycle:
    around, settings, clock = FakeSurroundings({}), settings_of(cloud.document), FixedClock(NOW_S)
    store = Store(around.told)
    images = ImageEnactment(store, transfers, clock)
    surroundings = Surroundings(cloud, store, around, clock, images=images)
    return SchedulingCycle(surroundings, policies(settings), admission_rules(settings))


def test_images_are_ordered_once_and_dropped_by_who_cannot_go_on() -> None:
    cloud, transfers = Cloud(IMAGE_DUE_NOW), Transfers()
    cycle = staging_cycle(cloud, transfers)
    assert [order.id for order in cycle.run().image_orders] == ["stage/7/0"]
    assert cycle.run().image_orders == ()
    cloud.is_away = True
    with pytest.raises(CloudUnavailable):
        cycle.run()
    assert (transfers.put_ids, transfers.drops) == (["stage/7/0"], 1)


def test_who_does_not_lead_orders_no_image() -> None:
    cloud, transfers = Cloud(IMAGE_DUE_NOW), Transfers()
    cloud.raft_state = RaftState.FOLLOWER
    assert staging_cycle(cloud, transfers).run().image_orders == ()
    assert (transfers.put_ids, transfers.drops) == ([], 1)
