"""The history that the daemon's cycle keeps tells the energy that the machines really took."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from one_preempt.adapters.lease_store.memory_lease_store import MemoryLeaseStore
from one_preempt.adapters.lease_store.sql_lease_store import SqlLeaseStore
from one_preempt.core.energy.energy_account import EnergyAccount, accounts
from one_preempt.core.energy.power_model import HostPower, linear_power
from one_preempt.core.energy.power_rules import PowerMode
from one_preempt.core.model.power_history import HostUse, HostUseStay
from one_preempt.enactment.power_recording import SAMPLE_EVERY_S
from one_preempt.simulation.probes.energy import EnergyMeter
from one_preempt.simulation.simulated_cloud.host_power import PowerMishap
from tests.power.power_play import BOOT_S, RULES, PowerPlay, with_policy

WATTS = HostPower(
    linear_power(100, 200), boot_s=BOOT_S, boot_mw=180_000, shutdown_s=20, shutdown_mw=90_000, off_mw=5_000
)
METERED = replace(RULES, power=WATTS)


def now_s(play: PowerPlay) -> int:
    return play.cloud.clock.now_ms // 1000


def told(play: PowerPlay, from_s: int = 0) -> list[EnergyAccount]:
    """By policy and host, up to now."""
    stays = play.store.host_use(from_s, now_s(play))
    totals = play.store.host_use_totals() if not from_s else ()
    return list(accounts(stays, totals, lambda _host, _cluster: WATTS, from_s, now_s(play)))


def uses(play: PowerPlay, host: int) -> list[HostUse]:
    return [stay.use for stay in play.store.host_use(0, now_s(play) + 1) if stay.host_id == host]


def taken_kwh(found: Sequence[EnergyAccount]) -> float:
    return sum(one.taken_kwh for one in found)


def test_what_is_recorded_is_what_a_meter_at_the_machines_counts(any_store: MemoryLeaseStore | SqlLeaseStore) -> None:
    play = PowerPlay(rules=METERED, store=any_store)
    play.machines.power = WATTS
    meter = EnergyMeter(play.cloud, play.machines)
    start_s = now_s(play)
    play.cycle()
    play.until(lambda: len(play.asleep()) == 3)
    vm = play.submit()
    play.until(lambda: play.host_of(vm) is not None)
    play.pass_time(2400)
    play.end(vm)
    play.until(lambda: len(play.asleep()) == 3)
    play.pass_time(1800)
    metered = meter.energy(play.cloud.clock.now_ms, 1000 * start_s)
    found = told(play)
    # A load is seen up to five minutes late, what a machine does up to a reading of its power late.
    assert taken_kwh(found) == pytest.approx(metered.taken_kwh, rel=0.1)
    assert sum(one.always_on_kwh for one in found) == pytest.approx(metered.always_on_kwh, rel=0.06)
    assert [one.boots for one in found] == [1, 0, 0]
    assert uses(play, 1) == [HostUse.ON, HostUse.SHUTTING_DOWN, HostUse.OFF]
    assert [one.counted_s for one in found] == [now_s(play) - start_s] * 3


def test_a_cycle_in_which_no_host_changes_writes_and_reads_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    play = PowerPlay(rules=METERED)
    play.until(lambda: len(play.asleep()) == 3)
    play.pass_time(SAMPLE_EVERY_S)
    asked: list[str] = []
    lasting = play.store.lasting_host_use

    def counted() -> Sequence[HostUseStay]:
        asked.append("asked")
        return lasting()

    monkeypatch.setattr(play.store, "lasting_host_use", counted)
    play.pass_time(SAMPLE_EVERY_S - 60)
    assert len(asked) <= 1
    play.submit()
    play.pass_time(30)
    assert len(asked) >= 2


def test_a_load_is_sampled_while_nothing_is_switched() -> None:
    play = PowerPlay(hosts=1, rules=with_policy("always-on", METERED))
    play.cycle()
    play.submit(cpu=1)
    play.pass_time(SAMPLE_EVERY_S + 30)
    loads = [(stay.use, stay.load_percent) for stay in play.store.host_use(0, now_s(play))]
    assert loads == [(HostUse.ON, 0), (HostUse.ON, 50)]


def test_a_process_that_died_leaves_no_hole_and_a_new_policy_has_its_own_account() -> None:
    play = PowerPlay(rules=METERED)
    play.until(lambda: len(play.asleep()) == 3)
    start_s = play.store.host_use(0, now_s(play))[0].since_s
    play.cloud.run_until_ms(play.cloud.clock.now_ms + 3_600_000)
    play.rules = with_policy("SESP", METERED)
    play.start_daemon()
    play.pass_time(600)
    found = told(play)
    assert {one.policy for one in found} == {"look-ahead", "SESP"}
    assert sum(one.counted_s for one in found) == 3 * (now_s(play) - start_s)
    assert sum(one.off_s for one in found if one.policy == "look-ahead") > 3 * 3600


def test_where_nothing_is_enforced_hosts_are_on_under_no_policy() -> None:
    play = PowerPlay(rules=replace(METERED, mode=PowerMode.ADVISE))
    play.pass_time(600)
    found = told(play)
    assert {(one.policy, one.saved_kwh) for one in found} == {("", 0.0)}
    assert len(found) == 3


def test_a_host_that_does_not_come_up_is_told_as_failed() -> None:
    play = PowerPlay(hosts=1, rules=METERED)
    play.until(lambda: play.asleep() == [0])
    play.machines.mishaps[0] = PowerMishap.NEVER_UP
    play.submit()
    play.until(lambda: HostUse.FAILED in uses(play, 0), at_most_s=3600)
    assert uses(play, 0)[-3:] == [HostUse.OFF, HostUse.BOOTING, HostUse.FAILED]


def test_stays_follow_one_another_without_a_gap_whatever_happens() -> None:
    play = PowerPlay(rules=METERED)
    for round_ in range(4):
        vm = play.submit(cpu=1 + round_ % 2)
        play.pass_time(400 * (round_ + 1))
        play.end(vm)
        play.machines.mishaps[round_ % 3] = [PowerMishap.SLOW, PowerMishap.SILENT][round_ % 2]
        play.pass_time(700)
        play.machines.mishaps.clear()
    by_host: dict[int, list[HostUseStay]] = {}
    for stay in play.store.host_use(0, now_s(play) + 1):
        by_host.setdefault(stay.host_id, []).append(stay)
    assert sorted(by_host) == [0, 1, 2]
    for stays in by_host.values():
        assert [one.until_s for one in stays] == [*(one.since_s for one in stays[1:]), None]
