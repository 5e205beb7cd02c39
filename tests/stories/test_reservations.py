"""Reservations over the wire: zones and daylight saving in START, a daemon that was away, a clock that jumps."""

from __future__ import annotations

from calendar import timegm
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.stories.timed_requests import settings_about_time, written_duration, written_instant
from tests.stories.world import CYCLE_S, World, description

HOUR_S = 3600
RESERVED = {"TYPE": "DC-NON-PREEMPTABLE", "DURATION": "00:10:00"}
EXTERNAL = {"TYPE": "BE-SUSPENDABLE", "DURATION": "02:00:00"}
# In central Europe clocks go back from 3:00 to 2:00 in that night, and 2:30 comes twice.
NIGHT_S = timegm((2027, 10, 31, 0, 30, 0))


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    cloud = description([{"name": "node{}", "count": 2, "cpu": 2, "memory_mib": 8192}])
    settings = settings_about_time(0)
    settings["time"] |= {"suspension": "all", "least_run_before_suspension_s": 0}
    made = World.begin(tmp_path, cloud, settings)
    yield made
    made.close()


def test_one_instant_in_three_zones_is_one_start(world: World) -> None:
    start_s = world.emulator.now_s + 300
    vm_ids = [
        world.submit("lea", lease={**RESERVED, "START": written_instant(start_s, zone)})
        for zone in ("Z", "+01:00", "-05:30")
    ]
    _cycle_until(world, start_s - 1)
    assert not any(map(world.is_deployed, vm_ids))
    _cycle_until(world, start_s)
    assert all(map(world.is_deployed, vm_ids))


def test_the_hour_that_comes_twice_when_summer_time_ends_is_two_hours(world: World) -> None:
    world.emulator.advance(NIGHT_S - 60 - world.emulator.now_s)
    winter = world.submit("lea", lease={**RESERVED, "START": "2027-10-31T02:30:00+01:00"})
    summer = world.submit("lea", lease={**RESERVED, "START": "2027-10-31T02:30:00+02:00"})
    _cycle_until(world, NIGHT_S - 1)
    assert not world.is_deployed(summer)
    _cycle_until(world, NIGHT_S)
    assert world.is_deployed(summer)
    world.emulator.advance(HOUR_S - 2)
    _cycle_until(world, NIGHT_S + HOUR_S - 1)
    assert not world.is_deployed(winter)
    _cycle_until(world, NIGHT_S + HOUR_S)
    assert world.is_deployed(winter)


def test_a_start_without_a_zone_is_refused_by_name(world: World) -> None:
    vm_id = world.submit("lea", lease={**RESERVED, "START": "2027-10-31T02:30:00"})
    world.cycle()
    assert "START" in world.vm(vm_id).findtext("USER_TEMPLATE/LEASE_STATUS", "")
    assert "zone" in world.vm(vm_id).findtext("USER_TEMPLATE/LEASE_STATUS", "")


@pytest.mark.parametrize("back_s", [60, 20])
def test_a_reservation_is_met_although_the_daemon_was_down_until_shortly_before(world: World, back_s: int) -> None:
    externals = [world.submit("eva", cpu=1, lease=EXTERNAL) for _ in range(4)]
    world.until(lambda: all(map(world.is_running, externals)))
    start_s = world.emulator.now_s + 600
    reserved = {**RESERVED, "START": written_instant(start_s), "NAME": "dawn", "SIZE": 2}
    vm_ids = [world.submit("lea", cpu=1, lease=reserved) for _ in range(2)]
    world.cycle()
    assert "reserved" in world.vm(vm_ids[0]).findtext("USER_TEMPLATE/LEASE_STATUS", "")
    world.daemon.kill()
    world.emulator.advance(start_s - back_s - world.emulator.now_s)
    world.restart_daemon()
    _cycle_until(world, start_s + CYCLE_S)
    assert all(map(world.is_deployed, vm_ids)), world.daemon.log
    world.until(lambda: all(map(world.is_running, vm_ids)))
    away = [vm_id for vm_id in externals if not world.is_running(vm_id)]
    assert len(away) == 2
    for vm_id in vm_ids:
        world.action("lea", "terminate", vm_id)
    world.until(lambda: all(map(world.is_running, externals)))
    assert world.emulator.audit() == []


@pytest.mark.parametrize("ahead_s", [HOUR_S, -HOUR_S])
def test_a_clock_that_jumps_starts_nothing_twice_and_loses_nothing(world: World, ahead_s: int) -> None:
    external = world.submit("eva", cpu=2, lease=EXTERNAL)
    world.until(lambda: world.is_running(external))
    reserved = {**RESERVED, "START": f"+{written_duration(120)}", "NAME": "noon", "SIZE": 2}
    vm_ids = [world.submit("lea", cpu=1, lease=reserved) for _ in range(2)]
    world.cycle()
    for ahead in (ahead_s, 0, ahead_s, 0):
        for _ in range(4):
            world.daemon.step(world.emulator.advance(CYCLE_S) + ahead)
    world.until(lambda: all(map(world.is_running, [external, *vm_ids])))
    for vm_id in (external, *vm_ids):
        deploys = [call for call in world.emulator.log() if _acted(call, "one.vm.deploy", vm_id)]
        stops = [call for call in world.emulator.log() if _acted(call, "one.vm.action", "stop", vm_id)]
        assert len(deploys) == 1 + len(stops)
    assert world.emulator.audit() == []


def _acted(call: dict[str, object], method: str, *first: object) -> bool:
    arguments = call["arguments"]
    assert isinstance(arguments, list)
    return call["method"] == method and not call["code"] and arguments[: len(first)] == list(first)


def _cycle_until(world: World, at_s: int) -> None:
    """Cycles as the daemon takes them, every `CYCLE_S` or when it wants to be woken; the last one at exactly `at_s`."""
    now_s, wake_at_s = world.emulator.now_s, None
    while now_s < at_s:
        next_s = min(now_s + CYCLE_S, at_s, max(now_s + 1, wake_at_s or at_s))
        wake_at_s = world.cycle(next_s - now_s)["wake_at"]
        now_s = next_s
