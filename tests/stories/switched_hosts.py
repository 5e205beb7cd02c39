"""A world whose hosts are switched: how its daemon reaches their power, and what must never be seen."""

from __future__ import annotations

import xmlrpc.client
from contextlib import closing
from typing import Any

from one_preempt.adapters.power_control import factory
from one_preempt.adapters.power_control.guarded import GuardedPowerControl
from one_preempt.adapters.power_control.in_background import BackgroundPowerCalls
from one_preempt.composition import open_store
from one_preempt.configuration.settings import Settings, StoreSettings
from one_preempt.core.model.host import HostState
from one_preempt.core.model.power import PowerAnswer, PowerOutcome, PowerReading, PowerStatus
from one_preempt.core.model.power_sequence import HostPowerStep, PowerSequence
from tests.stories.world import SETTINGS, World

SESSION = "oneadmin:opennebula"
BOOT_S = 60
NOT_UP = (HostState.INIT, HostState.MONITORING_INIT, HostState.ERROR, HostState.MONITORING_ERROR)


def power_settings(**more: Any) -> dict[str, Any]:
    """All hosts but one may sleep as soon as nobody needs them."""
    power = {
        "mode": "enforce",
        "policy": "look-ahead",
        "period_s": 15,
        "hosts": [{"host": "*"}],
        "floor": 1,
        "least_on_s": 0,
        "least_off_s": 0,
        "first_pause_s": 60,
        "model": {"boot_s": BOOT_S},
        "control": {"method": "command", "command": {"on": ["/x"], "off": ["/x"], "status": ["/x"]}},
    }
    return {**SETTINGS, "power": {**power, **more}}


class EmulatorsPower:
    """Implements `ports.PowerControl` by the emulator's control methods, in the daemon's process."""

    def __init__(self, url: str) -> None:
        self._url = url

    def switch_on(self, host: str) -> PowerOutcome:
        return self._ask(host, "on")[1]

    def switch_off(self, host: str, hard: bool) -> PowerOutcome:
        return self._ask(host, "hard-off" if hard else "off")[1]

    def status(self, host: str) -> PowerReading:
        return PowerReading(*self._ask(host, "status"))

    def _ask(self, host: str, order: str) -> tuple[PowerStatus, PowerOutcome]:
        proxy = xmlrpc.client.ServerProxy(self._url)  # one each, as threads share none
        try:
            answer = proxy.one_preempt.emulator.power(SESSION, host, order)
        except xmlrpc.client.Fault as fault:
            return PowerStatus.UNKNOWN, PowerOutcome(PowerAnswer.UNREACHABLE, fault.faultString)
        assert isinstance(answer, list)
        return PowerStatus(answer[1]), PowerOutcome(PowerAnswer.ACCEPTED, "accepted")


def put_and_wait(calls: BackgroundPowerCalls, step: HostPowerStep, now_s: int) -> None:
    """Whatever is asked of power control is answered before the cycle goes on, however slow the machine is."""
    report = calls._carried_out(step, now_s, calls._drops)
    if report is not None:
        calls._reports[step.host_id] = report


def answers_awaited(_url: str) -> None:
    """In this process orders and questions are answered at once."""
    setattr(BackgroundPowerCalls, "put", put_and_wait)  # noqa: B010, as nothing else may be assigned there


def switched_by_emulator(url: str) -> None:
    """The emulator's machines are switched without a program in between."""
    answers_awaited(url)
    factory.make_power_control = lambda settings, clock, *_given: GuardedPowerControl(
        EmulatorsPower(url), clock, settings.patience
    )


def sequences(world: World) -> dict[int, PowerSequence]:
    """What the daemon has written down of each host's power."""
    with closing(open_store(Settings(store=StoreSettings(url=f"sqlite:///{world.ledger}")))) as store:
        return {one.host_id: one for one in store.power_sequences()}


def has_power(world: World, host: str) -> bool:
    """Whether a machine has power, as its own controller sees it."""
    return bool(world.emulator.control("power", host, "status") == "on")


def assert_nobody_is_harmed(world: World) -> None:
    """No machine is off with a VM on it, none that is not OFFLINE, and none out of use that nobody will bring back.

    Of one that hung in its boot the power was cut while oned waited for it, or had it in ERROR.
    """
    written = sequences(world)
    for host in world.host_documents():
        state = HostState(host["state"])
        told = f"node{host['id']} is {state.name}\n{world.daemon.log}"
        if not has_power(world, f"node{host['id']}"):
            known = written.get(host["id"])
            hung = known is not None and known.is_ours and known.failures > 0
            assert state in ((HostState.OFFLINE, *NOT_UP) if hung else (HostState.OFFLINE,)), f"switched off: {told}"
            assert not world.running_on(host["id"]), f"switched off with VMs: {told}"
        if state in (HostState.DISABLED, HostState.OFFLINE):
            assert host["id"] in written, f"forgotten: {told}"
            assert written[host["id"]].is_ours, f"forgotten: {told}"
