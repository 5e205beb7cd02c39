"""What is counted of cycles for metrics: what happened, once, and what was seen, by what changed."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from msgspec.structs import replace

from one_preempt.adapters.clock import FixedClock
from one_preempt.adapters.lease_store.memory_lease_store import MemoryLeaseStore
from one_preempt.adapters.metrics.instruments import PREFIX, Instruments
from one_preempt.adapters.metrics.observed import Observed
from one_preempt.configuration.chosen_policies import admission_rules, policies
from one_preempt.core.energy.power_model import HostPower, linear_power
from one_preempt.core.host_power.phase_transitions import TAKEN_OVER
from one_preempt.core.model.cluster_state import ClusterState
from one_preempt.core.model.lease import Lease, LeaseState, LeaseTerms
from one_preempt.core.model.outcome import Outcome
from one_preempt.core.model.plan import Action, Plan
from one_preempt.core.model.pool_snapshot import PoolSnapshot, RaftState
from one_preempt.core.model.power_sequence import DELETED, PowerPhase, PowerSequence
from one_preempt.core.model.reservation import Verdict, VerdictGiven
from one_preempt.core.model.virtual_machine import VirtualMachine
from one_preempt.core.reconcile import reconcile
from one_preempt.core.verify import Violation
from one_preempt.entrypoints.cycle_metrics import (
    MOST_CODES,
    OTHER,
    CycleMetrics,
    KnownCodes,
    LeaseTally,
    SwitchTally,
    is_late,
)
from one_preempt.ports import CallResult
from one_preempt.scheduling_cycle import CycleReport, SchedulingCycle
from one_preempt.surroundings import Surroundings
from tests.core.test_reconcile_on_footing import RULES, World
from tests.power.power_play import RULES as POWER_RULES
from tests.power.power_play import PowerPlay
from tests.scenario_reader import NOW_S, settings_of, snapshot_of
from tests.scraped import Samples, by_label, samples_of, value

STEPS = 25
CONTENTION: dict[str, Any] = {
    "hosts": {0: {"cpu": 1}},
    "vms": {1: {"user": "eva", "host": 0}, 2: {"user": "lea"}, 3: {"user": "paul", "cpu": 8}},
}


class Cloud:
    """Shows one document, and takes calls as it is told to."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.document = document
        self.raft_state = RaftState.SOLO
        self.answers: dict[str, Outcome] = {}

    def read(self) -> PoolSnapshot:
        return replace(snapshot_of(self.document), raft_state=self.raft_state)

    def read_raft_state(self) -> RaftState:
        return self.raft_state

    def read_vm(self, vm_id: int) -> VirtualMachine | None:
        return self.read().vms.get(vm_id)

    def perform(self, action: Action) -> CallResult:
        return CallResult(self.answers.get(action.kind, Outcome.ACCEPTED))


class Counted:
    """Cycles over a document, and their metrics."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.cloud, self.store, self.clock = Cloud(document), MemoryLeaseStore(), FixedClock(NOW_S)
        self.metrics = CycleMetrics(lambda _host, _cluster: HostPower())
        settings = settings_of(document)
        around = Surroundings(self.cloud, self.store, self.cloud, self.clock)
        self._cycle = SchedulingCycle(around, policies(settings), admission_rules(settings))

    def cycle(self, at_s: int = NOW_S) -> CycleReport:
        self.clock.set(at_s)
        report = self._cycle.run()
        self.metrics.report(report, 0.2)
        return report

    def samples(self) -> Samples:
        return samples_now(self.metrics)


def samples_now(metrics: CycleMetrics) -> Samples:
    return samples_of(metrics.page().decode())


def plain() -> CycleMetrics:
    return CycleMetrics(lambda _host, _cluster: HostPower())


# -- what happened -------------------------------------------------------------------------------------------


def test_a_preemption_is_counted_once_with_its_victims_calls_and_end() -> None:
    counted = Counted(CONTENTION)
    counted.cycle()
    found = counted.samples()
    assert value(found, "preemptions_decided_total") == 1
    assert by_label(found, "victims_total", "method") == {"stop": 1}
    assert by_label(found, "cycles_total", "result") == {"done": 1}
    assert value(found, "actions_total", kind="stop", outcome="accepted") == 1
    assert value(found, "leads") == 1
    assert value(found, "cycle_duration_seconds_count") == 1
    assert value(found, "cycle_duration_seconds_sum") == 0.2

    counted.cycle(NOW_S + 1)
    assert value(counted.samples(), "preemptions_decided_total") == 1
    assert value(counted.samples(), "open_preemptions") == 1
    assert by_label(counted.samples(), "preemptions_ended_total", "outcome") == {}

    counted.cloud.document = {"hosts": CONTENTION["hosts"], "vms": {1: CONTENTION["vms"][1]}}
    counted.cycle(NOW_S + 2)
    assert by_label(counted.samples(), "preemptions_ended_total", "outcome") == {"given-up": 1}


def test_calls_are_told_apart_by_what_became_of_them() -> None:
    counted = Counted({"hosts": {0: {}, 1: {}, 2: {}}, "vms": {1: {"user": "eva"}, 2: {"user": "paul"}}})
    counted.cloud.answers = {"deploy": Outcome.REFUSED}
    counted.cycle()
    found = counted.samples()
    assert value(found, "actions_total", kind="deploy", outcome="refused") == 2
    assert value(found, "actions_total", kind="deploy", outcome="accepted") == 0


def test_of_a_plan_that_was_refused_nothing_counts_as_done() -> None:
    counted = Counted(CONTENTION)
    report = counted._cycle.run()
    refused = replace(report, violations=(Violation("test", "wrong"),), results=(), is_refused=True)
    counted.metrics.report(refused, 0.2)
    found = counted.samples()
    assert by_label(found, "cycles_total", "result") == {"refused": 1}
    assert value(found, "preemptions_decided_total") == 0
    assert by_label(found, "victims_total", "method") == {}
    counted.metrics.report(replace(report, violations=(Violation("test", "wrong"),)), 0.2)
    found = counted.samples()
    assert by_label(found, "cycles_total", "result") == {"refused": 1, "decided-again": 1}
    assert value(found, "preemptions_decided_total") == 1


def test_answers_to_start_and_deadline_are_counted() -> None:
    metrics = plain()
    snapshot = snapshot_of({"hosts": {}, "vms": {}})
    given = tuple(VerdictGiven(one, Verdict.REFUSED, "no") for one in range(3))
    report = CycleReport(RaftState.SOLO, Plan(NOW_S, "moml", verdicts=given), state_of(snapshot))
    metrics.report(report, 0.1)
    assert by_label(samples_now(metrics), "verdicts_total", "verdict") == {"refused": 3}


def state_of(snapshot: PoolSnapshot) -> ClusterState:
    return reconcile(snapshot, MemoryLeaseStore().load(NOW_S), RULES, NOW_S).state


@pytest.mark.parametrize("ends", ["stands by", "fails", "has a defect"])
def test_a_daemon_that_does_not_schedule_shows_what_it_counted_and_nothing_that_it_saw(ends: str) -> None:
    counted = Counted(CONTENTION)
    counted.cycle()
    assert value(counted.samples(), "leases", type="BE-SUSPENDABLE", state="running") == 1
    if ends == "stands by":
        counted.cloud.raft_state = RaftState.FOLLOWER
        counted.cycle()
    else:
        counted.metrics.failed(defect=ends == "has a defect")
    found = counted.samples()
    result = {"stands by": "standing-by", "fails": "failed", "has a defect": "defect"}[ends]
    assert by_label(found, "cycles_total", "result") == {"done": 1, result: 1}
    assert value(found, "leads") == 0
    assert value(found, "preemptions_decided_total") == 1
    for name in ("leases", "waiting_leases", "open_preemptions", "paused", "late_reservations", "hosts"):
        assert by_label_or_single(found, name) == 0, name
    assert value(found, "last_cycle_end_timestamp_seconds", result=result) is not None

    counted.cloud.raft_state = RaftState.SOLO
    counted.cycle(NOW_S + 1)
    found = counted.samples()
    assert value(found, "leads") == 1
    assert value(found, "leases", type="BE-SUSPENDABLE", state="running") == 1


def by_label_or_single(found: Samples, name: str) -> int:
    """How many samples a family has."""
    return sum(of == f"{PREFIX}_{name}" for of, _labels in found)


def accepted(start_at_s: int | None = None, deadline_at_s: int | None = None) -> Lease:
    terms = LeaseTerms(start_at_s=start_at_s, deadline_at_s=deadline_at_s)
    return Lease(1, terms, 1, 1, (1,), LeaseState.WAITING, NOW_S - 99, verdict=Verdict.ACCEPTED)


# -- what was seen -------------------------------------------------------------------------------------------


def test_leases_are_told_apart_by_type_and_state_and_those_that_wait_by_the_reason() -> None:
    counted = Counted(CONTENTION)
    report = counted.cycle()
    found = counted.samples()
    assert by_label(found, "leases", "type") == {"BE-SUSPENDABLE": 1, "DC-NON-PREEMPTABLE": 2}
    assert by_label(found, "leases", "state") == {"running": 1, "waiting": 2}
    assert report.plan is not None
    assert sum(by_label(found, "waiting_leases", "code").values()) == len(report.plan.refusals) > 0
    assert value(found, "waiting_leases", code="hosts-too-small") == 1
    assert value(found, "paused") == 0


def test_a_code_that_was_met_once_goes_down_to_nothing() -> None:
    counted = Counted(CONTENTION)
    counted.cycle()
    counted.cloud.document = {"hosts": CONTENTION["hosts"], "vms": {1: CONTENTION["vms"][1]}}
    assert value(counted.samples(), "waiting_leases", code="hosts-too-small") == 1
    counted.cycle(NOW_S + 1)
    assert value(counted.samples(), "waiting_leases", code="hosts-too-small") == 0
    assert value(counted.samples(), "oldest_wait_start_timestamp_seconds", code="hosts-too-small") is None


def test_the_longest_wait_began_when_the_lease_came() -> None:
    counted = Counted(CONTENTION)
    report = counted.cycle()
    assert report.state is not None
    arrived_at_s = report.state.leases[3].arrived_at_s
    found = counted.samples()
    assert value(found, "oldest_wait_start_timestamp_seconds", code="hosts-too-small") == arrived_at_s


def test_a_lease_whose_attribute_is_refused_is_told_with_the_code() -> None:
    claims = {"user": "paul", "state": "HOLD", "lease": {"TYPE": "BE-CANCELLABLE"}}
    counted = Counted({"hosts": {0: {}}, "vms": {1: claims}})
    report = counted.cycle()
    assert report.state is not None
    lease = report.state.leases[1]
    assert lease.state is LeaseState.REFUSED
    assert by_label(counted.samples(), "refused_leases", "code") == {lease.refusal_code: 1}


def test_a_pause_is_seen() -> None:
    counted = Counted(CONTENTION)
    counted.store.set_paused(True, NOW_S)
    counted.cycle()
    assert value(counted.samples(), "paused") == 1


def test_under_advise_what_would_be_done_is_seen_and_nothing_counted() -> None:
    counted = Counted(CONTENTION | {"settings": {"preemption": "advise"}})
    counted.cycle()
    found = counted.samples()
    assert value(found, "advised_preemptions") == 1
    assert value(found, "preemptions_decided_total") == 0


def test_a_reservation_is_seen_and_is_late_once_its_start_is_over() -> None:
    starts = {
        "user": "lea",
        "state": "HOLD",
        "lease": {"TYPE": "DC-NON-PREEMPTABLE", "START_IN_S": 600, "DURATION_S": 600},
    }
    counted = Counted({"hosts": {0: {"cpu": 1}}, "vms": {1: starts}})
    counted.cycle()
    assert by_label(counted.samples(), "verdicts_total", "verdict") == {"accepted": 1}
    counted.cycle(NOW_S + 60)
    assert by_label(counted.samples(), "reservations", "kind") == {"firm": 1}
    assert value(counted.samples(), "late_reservations") == 0
    counted.cloud.document = {"hosts": {0: {"cpu": 1, "state": "ERROR"}}, "vms": {1: starts}}
    counted.cycle(NOW_S + 660)
    assert value(counted.samples(), "late_reservations") == 1


@pytest.mark.parametrize(
    ("lease", "late"),
    [
        (accepted(start_at_s=NOW_S - 1), True),
        (accepted(start_at_s=NOW_S), False),
        (replace(accepted(start_at_s=NOW_S - 1), verdict=Verdict.REFUSED), False),
        # It began in time, and waits for its return.
        (replace(accepted(start_at_s=NOW_S - 1), served_s=5), False),
        (replace(accepted(start_at_s=NOW_S - 1), last_preempted_at_s=NOW_S), False),
        # With a DEADLINE a START is the earliest one.
        (accepted(start_at_s=NOW_S - 9, deadline_at_s=NOW_S + 1), False),
        (replace(accepted(deadline_at_s=NOW_S - 1), served_s=5), True),
        (accepted(), False),
    ],
)
def test_late_is_what_was_accepted_and_waits_past_its_time(lease: Lease, late: bool) -> None:
    assert is_late(lease, NOW_S) is late


@pytest.mark.parametrize("seed", range(20))
def test_counted_by_what_changed_is_as_counted_whole(seed: int) -> None:
    """Also where a state was not told of, as after a cycle that failed at its end."""
    world, tally = World(seed), LeaseTally()
    last, last_at_s = None, None
    for step in range(STEPS):
        world.happen()
        snapshot, now_s = world.snapshot(), world.now_s
        ledger = replace(world.store.load(now_s), open_actions=dict(sorted(world.actions.items())))
        made = reconcile(snapshot, ledger, RULES, now_s, last_at_s, last=last)
        world.store.apply(replace(made.changes, closed_actions=()))
        for closed in made.changes.closed_actions:
            del world.actions[closed.id]
        last, last_at_s = made.state, now_s
        if step % 7 == 3:
            tally.forget()
            continue
        tally.take(last)
        leases = last.leases.values()
        assert +tally.counts == Counter((lease.terms.type, lease.state) for lease in leases)
        refused = Counter(lease.refusal_code for lease in leases if lease.state is LeaseState.REFUSED)
        assert +tally.refused == refused


def test_the_codes_of_reasons_have_a_bound() -> None:
    known = KnownCodes()
    assert len(known.counted((f"code-{number}", 1) for number in range(10 * MOST_CODES))) == MOST_CODES + 1
    assert known.counted([("another", 3), ("code-0", 1)]) == {
        **{f"code-{number}": 0 for number in range(1, MOST_CODES)}, "code-0": 1, OTHER: 3,
    }  # fmt: skip
    assert known.earliest([("another", 9), ("one more", 7), ("code-1", 8)]) == {OTHER: 7, "code-1": 8}


# -- hosts ---------------------------------------------------------------------------------------------------


def test_hosts_that_sleep_and_wake_are_counted_once_and_what_they_draw_is_seen() -> None:
    watts = HostPower(linear_power(100, 200), boot_s=120, boot_mw=180_000, off_mw=5_000)
    play = PowerPlay(hosts=3, rules=replace(POWER_RULES, power=watts))
    metrics = CycleMetrics(play.rules.power_named)
    told = 0

    def tell() -> Samples:
        nonlocal told
        for report in play.reports[told:]:
            metrics.report(report, 0.1)
        told = len(play.reports)
        return samples_now(metrics)

    play.cycle()
    found = tell()
    assert sum(by_label(found, "hosts", "phase").values()) == 3
    assert value(found, "hosts_always_on_power_watts") == value(found, "hosts_power_watts") == 300
    play.until(lambda: len(play.asleep()) == 3)
    play.pass_time(10)
    found = tell()
    assert by_label(found, "hosts", "phase") == {"asleep": 3}
    assert by_label(found, "hosts_switched_total", "result") == {"off": 3}
    assert (value(found, "hosts_power_watts"), value(found, "hosts_always_on_power_watts")) == (15, 300)
    vm = play.submit(cpu=2)
    play.until(lambda: play.host_of(vm) is not None)
    play.pass_time(10)
    found = tell()
    assert by_label(found, "hosts", "phase") == {"asleep": 2, "awake": 1}
    assert by_label(found, "hosts_switched_total", "result") == {"off": 3, "on": 1}
    assert (value(found, "hosts_power_watts"), value(found, "hosts_always_on_power_watts")) == (210, 400)


def test_without_hosts_that_are_handed_over_there_is_nothing_of_them() -> None:
    counted = Counted(CONTENTION)
    counted.cycle()
    assert not [name for name, _labels in counted.samples() if "_hosts" in name and "switched" not in name]


def sequence(phase: PowerPhase, code: str = "idle", began_at_s: int = 0) -> PowerSequence:
    return PowerSequence(1, "node1", phase, NOW_S, code, "test", began_at_s=began_at_s)


@pytest.mark.parametrize(
    ("was", "after", "results"),
    [
        (sequence(PowerPhase.SWITCHING_OFF), sequence(PowerPhase.ASLEEP), ["off"]),
        (sequence(PowerPhase.ENABLING, began_at_s=5), sequence(PowerPhase.AWAKE), ["on"]),
        # The way to sleep was given up: it never lost its power.
        (sequence(PowerPhase.ENABLING), sequence(PowerPhase.AWAKE), []),
        (sequence(PowerPhase.ENABLING, began_at_s=5), sequence(PowerPhase.AWAKE, TAKEN_OVER), []),
        (sequence(PowerPhase.SWITCHING_ON, began_at_s=5), sequence(PowerPhase.FAILED), ["failed"]),
        (sequence(PowerPhase.ASLEEP), sequence(PowerPhase.ASLEEP), []),
        (sequence(PowerPhase.SWITCHING_ON), sequence(PowerPhase.ASLEEP, DELETED), []),
        (None, sequence(PowerPhase.ASLEEP), []),
    ],
)
def test_switching_counts_when_it_is_seen_to_be_over(
    was: PowerSequence | None, after: PowerSequence, results: list[str]
) -> None:
    tally = SwitchTally()
    tally.take({} if was is None else {1: was})
    assert tally.take({1: after}) == results
    assert tally.take({1: after}) == []


def test_what_others_switched_while_this_daemon_stood_by_is_not_counted() -> None:
    tally = SwitchTally()
    tally.take({1: sequence(PowerPhase.SWITCHING_OFF)})
    tally.forget()
    assert tally.take({1: sequence(PowerPhase.ASLEEP)}) == []


# -- calls, and the page -------------------------------------------------------------------------------------


def test_calls_to_oned_are_timed_by_method_and_those_without_an_answer_counted() -> None:
    metrics = plain()
    metrics.count_call("one.vm.info", 0.5, True)
    metrics.count_call("one.vm.info", 1.5, False)
    found = samples_now(metrics)
    assert value(found, "oned_call_duration_seconds_count", method="one.vm.info") == 2
    assert value(found, "oned_call_duration_seconds_sum", method="one.vm.info") == 2
    assert value(found, "oned_calls_unanswered_total", method="one.vm.info") == 1


def test_a_page_is_written_once_however_many_ask_at_once() -> None:
    asked: list[None] = []
    instruments = Instruments(lambda: asked.append(None))
    pages = {instruments.page() for _ in range(20)}
    assert (len(pages), len(asked)) == (1, 1)


def test_whatever_users_write_no_word_of_theirs_is_on_the_page() -> None:
    canary = 'canary{}"\n'
    vms = {1: {"user": "eva", "lease": {"TYPE": canary, "NAME": canary}}, 2: {"user": "lea", "cpu": 999}}
    counted = Counted({"hosts": {0: {}}, "vms": vms})
    counted.cycle()
    assert "canary" not in counted.metrics.page().decode()


def test_every_family_is_of_ours_or_of_the_process_and_has_its_unit_last() -> None:
    counted = Counted(CONTENTION)
    counted.cycle()
    for name, labels in counted.samples():
        assert name.startswith((f"{PREFIX}_", "process_"))
        assert not name.endswith(("_created", "_ms", "_s"))
        assert {label for label, _word in labels} <= {
            "version", "result", "kind", "outcome", "method", "verdict", "type", "state", "code", "phase", "le",
        }  # fmt: skip


def test_what_is_seen_is_written_under_its_labels() -> None:
    seen = Observed(leases={("BE-SUSPENDABLE", "running"): 2}, power_w=1.5, always_on_power_w=2.5, hosts={"asleep": 1})
    found = samples_of(Instruments(lambda: seen).page().decode())
    assert value(found, "leases", type="BE-SUSPENDABLE", state="running") == 2
    assert value(found, "hosts_power_watts") == 1.5
    assert by_label(found, "hosts", "phase") == {"asleep": 1}
