from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from one_preempt.adapters.clock import FixedClock
from one_preempt.adapters.power_control.breaker import after_failure
from one_preempt.adapters.power_control.guarded import GuardedPowerControl
from one_preempt.configuration.power_control_settings import PatienceSettings
from one_preempt.core.model.power import PowerAnswer, PowerOutcome, PowerReading, PowerStatus
from one_preempt.core.model.power_standing import PowerAttempt, PowerStanding

HOST, OTHER = "node-01", "node-02"
PATIENCE = PatienceSettings(first_pause_s=10, longest_pause_s=25, failures=4, open_s=1000, on_effect_s=60)
FAILURES = (PowerAnswer.REFUSED, PowerAnswer.UNREACHABLE, PowerAnswer.NO_ANSWER)


class Scripted:
    """A control that answers as it is told and counts how often it was asked."""

    def __init__(self) -> None:
        self.answer = PowerAnswer.ACCEPTED
        self.reads = PowerStatus.OFF
        self.orders: list[str] = []
        self.questions = 0

    def switch_on(self, host: str) -> PowerOutcome:
        self.orders.append(f"on {host}")
        return PowerOutcome(self.answer, "said so")

    def switch_off(self, host: str, hard: bool) -> PowerOutcome:
        self.orders.append(f"{'hard ' if hard else ''}off {host}")
        return PowerOutcome(self.answer, "said so")

    def status(self, host: str) -> PowerReading:
        self.questions += 1
        denied = self.answer is PowerAnswer.DENIED
        answer = PowerAnswer.DENIED if denied else PowerAnswer.ACCEPTED
        return PowerReading(PowerStatus.UNKNOWN if denied else self.reads, PowerOutcome(answer, "read so"))


@pytest.fixture
def control() -> Scripted:
    return Scripted()


@pytest.fixture
def clock() -> FixedClock:
    return FixedClock(0)


@pytest.fixture
def guarded(control: Scripted, clock: FixedClock) -> GuardedPowerControl:
    return GuardedPowerControl(control, clock, PATIENCE)


def pauses(guarded: GuardedPowerControl, clock: FixedClock, count: int) -> list[int]:
    """How long each of `count` failing orders is followed by silence."""
    found = []
    for _ in range(count):
        retry_at_s = guarded.switch_on(HOST).retry_at_s
        assert retry_at_s is not None
        found.append(retry_at_s - clock.now_s())
        clock.set(retry_at_s)
    return found


@pytest.mark.parametrize("answer", FAILURES)
def test_pauses_double_up_to_the_longest_and_then_the_breaker_opens(
    guarded: GuardedPowerControl, control: Scripted, clock: FixedClock, answer: PowerAnswer
) -> None:
    control.answer = answer
    assert pauses(guarded, clock, 6) == [10, 20, 25, 1000, 1000, 1000]


def test_an_order_before_its_time_does_not_reach_the_controller_and_says_why(
    guarded: GuardedPowerControl, control: Scripted, clock: FixedClock
) -> None:
    control.answer = PowerAnswer.UNREACHABLE
    guarded.switch_on(HOST)
    clock.set(9)
    outcome = guarded.switch_on(HOST)
    assert (outcome.answer, outcome.retry_at_s) == (PowerAnswer.HELD_BACK, 10)
    assert "said so" in outcome.text
    assert control.orders == ["on node-01"]
    clock.set(10)
    guarded.switch_on(HOST)
    assert len(control.orders) == 2


def test_hosts_do_not_stand_for_one_another(guarded: GuardedPowerControl, control: Scripted) -> None:
    control.answer = PowerAnswer.UNREACHABLE
    guarded.switch_on(HOST)
    control.answer = PowerAnswer.ACCEPTED
    assert guarded.switch_on(OTHER).accepted


def test_a_failing_start_does_not_hold_the_power_on(guarded: GuardedPowerControl, control: Scripted) -> None:
    control.answer = PowerAnswer.NO_ANSWER
    guarded.switch_on(HOST)
    control.answer = PowerAnswer.ACCEPTED
    assert guarded.switch_off(HOST, hard=True).accepted
    assert control.orders == ["on node-01", "hard off node-01"]


def test_power_that_shows_ends_the_counting(guarded: GuardedPowerControl, control: Scripted, clock: FixedClock) -> None:
    control.answer = PowerAnswer.NO_ANSWER
    pauses(guarded, clock, 2)
    control.reads = PowerStatus.ON
    guarded.status(HOST)
    assert pauses(guarded, clock, 1) == [10]


def test_an_order_taken_does_not_end_the_counting_before_it_shows(
    guarded: GuardedPowerControl, control: Scripted, clock: FixedClock
) -> None:
    control.answer = PowerAnswer.NO_ANSWER
    pauses(guarded, clock, 2)
    control.answer = PowerAnswer.ACCEPTED
    assert guarded.switch_on(HOST).accepted
    control.answer = PowerAnswer.NO_ANSWER
    assert pauses(guarded, clock, 1) == [25]


def test_orders_repeated_while_nothing_shows_do_not_extend_the_wait(
    guarded: GuardedPowerControl, clock: FixedClock
) -> None:
    for now_s in range(0, 60, 15):
        clock.set(now_s)
        assert guarded.switch_on(HOST).accepted
    clock.set(60)
    guarded.status(HOST)
    assert guarded.switch_on(HOST).answer is PowerAnswer.HELD_BACK


def test_a_reading_that_knows_nothing_does_not_count_as_shown(
    guarded: GuardedPowerControl, control: Scripted, clock: FixedClock
) -> None:
    guarded.switch_on(HOST)
    control.reads = PowerStatus.UNKNOWN
    clock.set(60)
    guarded.status(HOST)
    assert "still unknown" in guarded.switch_on(HOST).text


def test_the_contrary_order_ends_the_wait_for_the_first(guarded: GuardedPowerControl, clock: FixedClock) -> None:
    guarded.switch_on(HOST)
    guarded.switch_off(HOST, hard=True)
    clock.set(60)
    guarded.status(HOST)
    assert guarded.switch_on(HOST).accepted


def test_a_refusal_of_what_is_so_already_is_no_failure(guarded: GuardedPowerControl, control: Scripted) -> None:
    control.answer, control.reads = PowerAnswer.REFUSED, PowerStatus.OFF
    assert guarded.switch_off(HOST, hard=True).accepted
    assert guarded.switch_on(HOST).answer is PowerAnswer.REFUSED


def test_a_failed_login_stops_orders_and_questions(
    guarded: GuardedPowerControl, control: Scripted, clock: FixedClock
) -> None:
    control.answer = PowerAnswer.DENIED
    assert guarded.switch_on(HOST).retry_at_s == PATIENCE.login_pause_s
    assert guarded.status(HOST).outcome.answer is PowerAnswer.HELD_BACK
    assert guarded.switch_off(HOST, hard=False).answer is PowerAnswer.HELD_BACK
    assert (len(control.orders), control.questions) == (1, 0)
    clock.set(PATIENCE.login_pause_s)
    control.answer = PowerAnswer.ACCEPTED
    assert guarded.status(HOST).status is PowerStatus.OFF
    assert guarded.switch_on(HOST).accepted


def test_a_host_that_gets_power_and_does_not_come_up_is_not_started_again_and_again(
    guarded: GuardedPowerControl, control: Scripted, clock: FixedClock
) -> None:
    control.reads = PowerStatus.ON
    for expected_s in (10, 20, 25, 1000):
        assert guarded.switch_on(HOST).accepted
        guarded.status(HOST)
        outcome = guarded.did_not_come_up(HOST)
        assert outcome.retry_at_s == clock.now_s() + expected_s
        assert guarded.switch_on(HOST).answer is PowerAnswer.HELD_BACK
        assert guarded.switch_off(HOST, hard=True).accepted
        clock.set(outcome.retry_at_s)
    guarded.came_up(HOST)
    assert guarded.did_not_come_up(HOST).retry_at_s == clock.now_s() + 10


def test_a_host_that_came_up_though_its_orders_failed_is_held_back_no_more(
    guarded: GuardedPowerControl, control: Scripted, clock: FixedClock
) -> None:
    control.answer = PowerAnswer.NO_ANSWER
    pauses(guarded, clock, 2)
    assert guarded.switch_on(HOST).retry_at_s is not None
    guarded.came_up(HOST)
    assert guarded.standings() == {}
    control.answer = PowerAnswer.ACCEPTED
    assert guarded.switch_on(HOST).accepted


@pytest.mark.parametrize("answer", [PowerAnswer.MISCONFIGURED, PowerAnswer.ADVICE_ONLY])
def test_what_never_reached_a_controller_is_not_counted(
    guarded: GuardedPowerControl, control: Scripted, answer: PowerAnswer
) -> None:
    control.answer = answer
    for _ in range(5):
        assert guarded.switch_on(HOST) == PowerOutcome(answer, "said so")
    assert guarded.standings() == {}


def test_what_is_remembered_survives_a_restart(
    guarded: GuardedPowerControl, control: Scripted, clock: FixedClock
) -> None:
    control.answer = PowerAnswer.UNREACHABLE
    pauses(guarded, clock, 4)
    clock.set(clock.now_s() - 1)
    restarted = GuardedPowerControl(control, clock, PATIENCE)
    restarted.remember(guarded.standings())
    assert restarted.switch_on(HOST) == guarded.switch_on(HOST)
    assert restarted.switch_on(HOST).answer is PowerAnswer.HELD_BACK


def test_a_restart_forgets_what_was_not_taken_over(guarded: GuardedPowerControl, control: Scripted) -> None:
    control.answer = PowerAnswer.UNREACHABLE
    guarded.switch_on(HOST)
    guarded.remember({})
    control.answer = PowerAnswer.ACCEPTED
    assert guarded.switch_on(HOST).accepted


def test_what_is_mended_is_tried_at_once_and_others_wait_on(guarded: GuardedPowerControl, control: Scripted) -> None:
    control.answer = PowerAnswer.DENIED
    guarded.switch_on(HOST)
    guarded.switch_on(OTHER)
    guarded.forgive(HOST)
    control.answer = PowerAnswer.ACCEPTED
    assert guarded.switch_on(HOST).accepted
    assert guarded.switch_on(OTHER).answer is PowerAnswer.HELD_BACK


def test_a_pause_that_a_wrong_clock_began_holds_nothing_back(guarded: GuardedPowerControl, clock: FixedClock) -> None:
    guarded.remember({(HOST, PowerAttempt.ON): PowerStanding(HOST, PowerAttempt.ON, 4, 10**9, None, "so")})
    clock.set(10**9 - 10_000)
    assert guarded.switch_on(HOST).accepted


@given(
    steps=st.lists(st.tuples(st.integers(0, 400), st.sampled_from(PowerAnswer)), max_size=40),
    failures=st.integers(1, 5),
)
def test_between_two_orders_that_reach_a_failing_host_lies_at_least_the_first_pause(
    steps: list[tuple[int, PowerAnswer]], failures: int
) -> None:
    control, clock = Scripted(), FixedClock(0)
    patience = PatienceSettings(first_pause_s=10, longest_pause_s=40, failures=failures, open_s=300, login_pause_s=90)
    guarded = GuardedPowerControl(control, clock, patience)
    failed_at_s: int | None = None
    for passed_s, control.answer in steps:
        clock.set(clock.now_s() + passed_s)
        before = len(control.orders)
        outcome = guarded.switch_on(HOST)
        if len(control.orders) > before:
            assert failed_at_s is None or clock.now_s() - failed_at_s >= 10
            failed_at_s = clock.now_s() if outcome.retry_at_s is not None else None
        else:
            assert outcome.answer is PowerAnswer.HELD_BACK
            assert outcome.retry_at_s is not None
            assert clock.now_s() < outcome.retry_at_s <= clock.now_s() + 300


@given(st.integers(0, 10**6))
def test_many_failures_do_not_overflow(failures: int) -> None:
    standing = after_failure(PowerStanding(HOST, PowerAttempt.ON, failures), "so", 0, PATIENCE)
    assert standing.not_before_s <= PATIENCE.open_s
