"""Hosts that sleep and are woken, whole: the daemon and the emulator as processes, ipmitool, and OpenIPMI's ipmi_sim.

Each machine of the emulated cloud has a baseboard controller of its own, whose chassis switches it. Only the clock is
not real.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from one_preempt.core.model.host import HostState
from one_preempt.core.model.power_sequence import PowerPhase
from tests.adapters.power_control.ipmi_simulator import PASSWORD, USER, IpmiSimulator
from tests.adapters.power_control.real_parts import ipmi_program
from tests.stories.switched_hosts import (
    BOOT_S,
    answers_awaited,
    assert_nobody_is_harmed,
    has_power,
    power_settings,
    sequences,
)
from tests.stories.world import World, description

HOSTS = ("node0", "node1")
SLEEPER = 1
WHOLE_HOST = 2
POWER_COMMAND = "one_preempt.simulation.emulator.power_command"
SHUTDOWN_S = 5


class Site:
    """A world with a controller before each machine, and every state that the sleeping host was seen in."""

    def __init__(self, world: World, controllers: dict[str, IpmiSimulator]) -> None:
        self.world = world
        self.controllers = controllers
        self.states: list[HostState] = []
        self.phases: list[PowerPhase] = []

    def cycle(self) -> None:
        self.world.cycle()
        assert_nobody_is_harmed(self.world)
        _note(self.states, self.state())
        _note(self.phases, self.phase())

    def until(self, phase: PowerPhase) -> None:
        for _ in range(20):
            self.cycle()
            if self.phase() is phase:
                return
        raise AssertionError(f"{phase} never came: {self.phases}\n{self.world.daemon.log}")

    def state(self) -> HostState:
        documents = self.world.host_documents()
        return next(HostState(one["state"]) for one in documents if one["id"] == SLEEPER)

    def phase(self) -> PowerPhase:
        sequence = sequences(self.world).get(SLEEPER)
        return PowerPhase.AWAKE if sequence is None else sequence.phase

    def orders(self) -> list[str]:
        """What the sleeping host's chassis was told to become."""
        return [asked for asked in self.controllers[HOSTS[SLEEPER]].asked if asked.startswith("set")]


def _note(seen: list[Any], now: Any) -> None:
    if seen[-1:] != [now]:
        seen.append(now)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    ipmitool = ipmi_program("ipmitool")
    password_file = tmp_path / "password"
    password_file.write_text(f"{PASSWORD}\n")
    password_file.chmod(0o600)
    hosts = [{"name": name, "cpu": WHOLE_HOST, "memory_mib": 8192} for name in HOSTS]
    with ExitStack() as stack:
        world = World.begin(tmp_path, description(hosts, instant=True), power_settings(), answers_awaited)
        stack.enter_context(closing(world))
        world.emulator.control("power_times", BOOT_S, SHUTDOWN_S)
        controllers = {}
        for name in HOSTS:
            folder = tmp_path / name
            folder.mkdir()
            machine = [sys.executable, "-m", POWER_COMMAND, world.emulator.url, str(world.auth), name]
            controllers[name] = stack.enter_context(IpmiSimulator(folder, machine))
        login = {"program": str(ipmitool), "address": "127.0.0.1", "user": USER, "password_file": str(password_file)}
        ports = {name: {"port": controller.port} for name, controller in controllers.items()}
        world.reconfigure(power_settings(control={"method": "ipmitool", "hosts": ports, "ipmitool": login}))
        yield Site(world, controllers)


def test_an_idle_host_goes_to_sleep_and_wakes_for_a_request_that_needs_it(site: Site) -> None:
    world = site.world
    site.until(PowerPhase.ASLEEP)
    assert site.states == [HostState.DISABLED, HostState.OFFLINE]
    assert not has_power(world, HOSTS[SLEEPER])
    assert site.orders() == ["set shutdown 1"]
    vm_ids = [world.submit("paul", cpu=WHOLE_HOST) for _ in HOSTS]
    site.until(PowerPhase.ENABLING)
    assert [world.is_running(vm_id) for vm_id in vm_ids].count(True) == 1
    assert site.orders()[1:] == ["set power 1"]
    site.until(PowerPhase.AWAKE)
    world.until(lambda: all(map(world.is_running, vm_ids)), cycles=2)
    assert site.state() is HostState.MONITORED
    assert sorted(len(world.running_on(host_id)) for host_id in range(len(HOSTS))) == [1, 1]
    assert world.emulator.audit() == []


def test_an_administrator_who_deploys_between_disabled_and_offline_wins(site: Site) -> None:
    world = site.world
    site.until(PowerPhase.EMPTYING)
    assert site.state() is HostState.DISABLED
    vm_id = world.submit("paul", cpu=WHOLE_HOST, hold=True)
    world.emulator.must("oneadmin", "one.vm.deploy", vm_id, SLEEPER, True, -1, "")
    site.until(PowerPhase.AWAKE)
    for _ in range(4):
        site.cycle()
    assert world.is_running(vm_id)
    assert site.state() is HostState.MONITORED
    assert HostState.OFFLINE not in site.states
    assert site.orders() == []


def test_a_host_that_an_administrator_disables_is_left_alone(site: Site) -> None:
    site.world.emulator.must("oneadmin", "one.host.status", SLEEPER, 1)
    site.world.emulator.must("oneadmin", "one.host.status", 0, 2)
    for _ in range(6):
        site.world.cycle()
    assert site.state() is HostState.DISABLED
    assert all(has_power(site.world, name) for name in HOSTS)
    assert site.orders() == []
