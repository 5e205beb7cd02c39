"""What an administrator is told of energy after a day in the life of a daemon, restart and new policy included."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from one_preempt.adapters.clock import SystemClock
from one_preempt.core.model.power_sequence import PowerPhase
from one_preempt.enactment.power_recording import SAMPLE_EVERY_S
from one_preempt.entrypoints.cli.command_line import cli
from tests.stories.switched_hosts import BOOT_S, has_power, power_settings, sequences, switched_by_emulator
from tests.stories.world import World, description

HOSTS = ("node0", "node1")
WHOLE_HOST = 2
SHUTDOWN_S = 5
HOUR_S = 3600
WATTS = {"idle_w": 100, "peak_w": 200, "boot_s": BOOT_S, "boot_w": 180, "off_w": 5}


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    hosts = [{"name": name, "cpu": WHOLE_HOST, "memory_mib": 8192} for name in HOSTS]
    settings = power_settings(model=WATTS)
    begun = World.begin(tmp_path, description(hosts, instant=True), settings, switched_by_emulator)
    with closing(begun) as world:
        world.emulator.control("power_times", BOOT_S, SHUTDOWN_S)
        yield world


def asleep(world: World) -> int:
    return sum(one.phase is PowerPhase.ASLEEP for one in sequences(world).values())


def told(world: World, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> dict[str, Any]:
    monkeypatch.setattr(SystemClock, "now_s", lambda _clock: world.emulator.now_s)
    answer = CliRunner().invoke(cli, ["host", "energy", "--json", "--config", str(world.configuration), *arguments])
    assert answer.exit_code == 0, answer.output
    found: dict[str, Any] = json.loads(answer.stdout)
    return found


def test_energy_over_a_daemon_s_life_is_told_by_policy(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    start_s = world.emulator.now_s
    world.until(lambda: asleep(world) == 1)
    world.cycles(12, HOUR_S)
    slept = told(world, monkeypatch)
    (policy,) = slept["policies"]
    # Half of two hosts for twelve hours: 95 W less.
    assert policy["policy"] == "look-ahead"
    assert policy["saved_kwh"] == pytest.approx(12 * 0.095, rel=0.02)
    assert policy["always_on_kwh"] == pytest.approx(12 * 0.2, rel=0.02)
    assert slept["total"]["boots"] == 0
    world.reconfigure(power_settings(model=WATTS, policy="always-on"))
    vm_ids = [world.submit("paul", cpu=WHOLE_HOST) for _ in HOSTS]
    world.until(lambda: all(map(world.is_running, vm_ids)))
    assert all(has_power(world, name) for name in HOSTS)
    world.cycle(SAMPLE_EVERY_S)
    world.cycles(6, HOUR_S)
    both = told(world, monkeypatch)
    by_policy = {one["policy"]: one for one in both["policies"]}
    assert list(by_policy) == ["always-on", "look-ahead"]
    assert by_policy["look-ahead"]["taken_kwh"] == pytest.approx(policy["taken_kwh"], rel=0.02)
    # Both are fully used.
    assert by_policy["always-on"]["taken_kwh"] == pytest.approx(6 * 0.4, rel=0.05)
    assert by_policy["always-on"]["boots"] == 1
    assert both["total"]["counted_s"] == pytest.approx(2 * (world.emulator.now_s - start_s), abs=60)
    assert told(world, monkeypatch, "--all")["total"] == both["total"]
    assert world.emulator.audit() == []
