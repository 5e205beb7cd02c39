"""Power control hears of boots: what gets power and does not come up is not started again and again."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from one_preempt.adapters.lease_store.memory_lease_store import MemoryLeaseStore
from one_preempt.adapters.lease_store.sql_lease_store import SqlLeaseStore
from one_preempt.adapters.power_control.guarded import GuardedPowerControl
from one_preempt.configuration.power_control_settings import PatienceSettings
from one_preempt.core.model.power_sequence import PowerGoal, PowerOrder, PowerPhase
from one_preempt.core.model.power_standing import PowerAttempt
from one_preempt.simulation.simulated_cloud.host_power import PowerMishap, SimulatedHostPower
from one_preempt.simulation.simulated_cloud.objects import ONEADMIN
from one_preempt.simulation.simulated_cloud.states import HostState
from tests.power.power_play import RULES, Counting, PowerPlay

OPEN_S = 8_000
PATIENCE = PatienceSettings(first_pause_s=1, longest_pause_s=1, failures=2, open_s=OPEN_S)


class Guarded:
    """A cloud of one host whose power control has patience, and counts what gets through to the machine."""

    def __init__(self, store: MemoryLeaseStore | SqlLeaseStore | None = None) -> None:
        self.counting: Counting
        self.guard: GuardedPowerControl
        rules = replace(RULES, longest_pause_s=300)
        self.play = PowerPlay(hosts=1, rules=rules, store=store, control=self._control)

    def _control(self, machines: SimulatedHostPower) -> GuardedPowerControl:
        self.counting = Counting(machines)
        self.guard = GuardedPowerControl(self.counting, machines.cloud.clock, PATIENCE)
        return self.guard

    def restart(self) -> None:
        """A process that knows nothing but its ledger; whatever its power control knows is in there."""
        self.play.control = self.guard = GuardedPowerControl(self.counting, self.play.cloud.clock, PATIENCE)
        self.play.start_daemon()

    @property
    def starts(self) -> int:
        return self.counting.orders.count(("on", "node0"))

    def failed_boots(self) -> int:
        standing = self.guard.standings().get(("node0", PowerAttempt.BOOT))
        return 0 if standing is None else standing.failures


@pytest.fixture
def stuck(any_store: MemoryLeaseStore | SqlLeaseStore) -> Guarded:
    """A machine that was asleep, is wanted, and does not get through its boot."""
    site = Guarded(any_store)
    play = site.play
    play.until(lambda: play.asleep() == [0])
    play.machines.mishaps[0] = PowerMishap.NEVER_UP
    play.submit()
    play.until(lambda: play.phase(0) is PowerPhase.FAILED, at_most_s=3600)
    return site


def test_a_boot_that_does_not_end_counts_and_too_many_open_the_breaker(stuck: Guarded) -> None:
    play = stuck.play
    assert stuck.failed_boots() == 1
    play.until(lambda: stuck.failed_boots() == 2, at_most_s=7200)
    starts = stuck.starts
    play.pass_time(OPEN_S // 4)
    assert stuck.starts == starts
    told = {one.answer_text or one.reason_text for one in play.store.power_sequences()}
    assert any("left alone" in text for text in told)


def test_what_power_control_holds_back_is_no_failure_of_the_host_and_is_put_off_once(stuck: Guarded) -> None:
    play = stuck.play
    play.until(lambda: stuck.failed_boots() == 2, at_most_s=7200)
    (failed,) = play.store.power_sequences()
    opened_ms, began = play.cloud.clock.now_ms, len(play.reports)
    play.pass_time(OPEN_S - 1000)
    (held_back,) = play.store.power_sequences()
    assert (held_back.phase, held_back.failures) == (PowerPhase.FAILED, failed.failures)
    assert held_back.not_before_s == stuck.guard.standings()["node0", PowerAttempt.BOOT].not_before_s
    told = [one.text for report in play.reports[began:] for one in report.discrepancies]
    assert [text for text in told if "left alone until" in text] == told[-1:]
    starts = stuck.starts
    play.until(lambda: stuck.starts > starts, at_most_s=2000)
    assert play.cloud.clock.now_ms - opened_ms <= 1000 * (OPEN_S + play.pace_s)


def test_a_host_rests_as_long_as_its_power_control_wants_to_be_left_alone() -> None:
    site = Guarded()
    play = site.play
    play.machines.mishaps[0] = PowerMishap.SILENT
    for _ in range(2):
        play.until(lambda: play.cloud.hosts[0].state is HostState.OFFLINE, at_most_s=3600)
        play.until(lambda: play.cloud.hosts[0].state is HostState.MONITORED)
    (known,) = play.store.power_sequences()
    assert known.failures == 2
    assert known.not_before_s == site.guard.standings()["node0", PowerAttempt.OFF].not_before_s
    play.pass_time(OPEN_S // 4)
    assert play.phase(0) is PowerPhase.AWAKE


def test_a_boot_that_ends_is_forgiven(stuck: Guarded) -> None:
    play = stuck.play
    del play.machines.mishaps[0]
    play.cloud.revive_host(0)
    play.cloud.host_status(ONEADMIN, 0, 0)
    play.until(lambda: play.phase(0) is PowerPhase.AWAKE, at_most_s=7200)
    assert stuck.guard.standings() == {}


def test_a_host_that_its_administrator_takes_out_of_use_did_not_come_up(stuck: Guarded) -> None:
    play = stuck.play
    play.cloud.host_status(ONEADMIN, 0, 1)
    play.until(lambda: play.phase(0) is PowerPhase.AWAKE)
    assert stuck.failed_boots() == 1


def test_a_restarted_daemon_does_not_start_it_either(stuck: Guarded) -> None:
    play = stuck.play
    play.until(lambda: stuck.failed_boots() == 2, at_most_s=7200)
    known, starts = stuck.guard.standings(), stuck.starts
    stuck.restart()
    play.pass_time(OPEN_S // 8)
    stuck.restart()
    play.pass_time(OPEN_S // 8)
    assert stuck.starts == starts
    assert stuck.guard.standings() == known
    assert {one.key: one for one in play.store.power_standings()} == known


def test_what_came_up_is_forgiven_after_a_restart_as_well(stuck: Guarded) -> None:
    play = stuck.play
    stuck.restart()
    del play.machines.mishaps[0]
    play.until(lambda: play.phase(0) is PowerPhase.AWAKE, at_most_s=7200)
    play.cycle()
    assert play.store.power_standings() == ()


def test_a_process_that_did_not_act_meanwhile_learns_what_another_one_has_written(stuck: Guarded) -> None:
    play = stuck.play
    play.power.step_down()
    stuck.guard.remember({})
    play.cycle()
    assert stuck.failed_boots() == 1


def test_an_administrator_who_mended_it_orders_it_on_at_once(stuck: Guarded) -> None:
    play = stuck.play
    play.until(lambda: stuck.failed_boots() == 2, at_most_s=7200)
    play.until(lambda: play.phase(0) is PowerPhase.FAILED, at_most_s=7200)
    starts = stuck.starts
    del play.machines.mishaps[0]
    play.machines.switch_off("node0", hard=True)
    play.store.order_power(PowerOrder(0, PowerGoal.ON, play.cloud.clock.now_s()))
    play.until(lambda: play.phase(0) is PowerPhase.AWAKE, at_most_s=600)
    assert stuck.starts == starts + 1
