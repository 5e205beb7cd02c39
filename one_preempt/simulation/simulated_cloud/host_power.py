"""The machines' power: switched on and off as by baseboard controllers, over virtual time, and what goes wrong there.

oned knows nothing of it. A machine without power is not monitored any more; one that has booted is, unless oned has
its host OFFLINE: then it becomes MONITORED only once it is enabled.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from functools import partial

from msgspec import Struct, field

from one_preempt.core.energy.power_model import HostPower
from one_preempt.core.model.power import PowerAnswer, PowerOutcome, PowerReading, PowerStatus
from one_preempt.simulation.simulated_cloud.calls.hosts import HostCalls
from one_preempt.simulation.simulated_cloud.host_power_state import HostPowerEvent, HostPowerState, next_power_state
from one_preempt.simulation.simulated_cloud.objects import SimVm
from one_preempt.simulation.simulated_cloud.states import VmState

_STATE, _EVENT = HostPowerState, HostPowerEvent
_ACCEPTED = PowerOutcome(PowerAnswer.ACCEPTED, "accepted")


class PowerMishap(StrEnum):
    """How the power of a host goes wrong."""

    DOES_NOTHING = "does-nothing"
    """Orders are accepted, and nothing comes of them."""
    NEVER_UP = "never-up"
    """It is given power and does not get through its boot."""
    SLOW = "slow"
    """Boot and shutdown take `SLOWNESS` times as long."""
    SILENT = "silent"
    """Its controller does not answer."""


SLOWNESS = 10


class PowerChange(Struct, frozen=True):
    """A host's power state changed."""

    at_ms: int
    host_id: int
    state: HostPowerState


class SimulatedHostPower(Struct):
    """Implements `ports.PowerControl` on the machines of a cloud, all of which are on at first if they are alive.

    `power` says how long they boot and shut down; `power_of` names those that differ, by host id. `mishaps` may be
    changed at any time. `lost_guests`: at which instant (ms) which VMs lost their host's power under them, or while
    their disks were being copied from it.
    """

    cloud: HostCalls
    power: HostPower = field(default_factory=HostPower)
    power_of: dict[int, HostPower] = field(default_factory=dict)
    mishaps: dict[int, PowerMishap] = field(default_factory=dict)
    lost_guests: list[tuple[int, int, tuple[int, ...]]] = field(default_factory=list)
    boots: int = 0
    _states: dict[int, HostPowerState] = field(default_factory=dict)
    _due_ms: dict[int, int] = field(default_factory=dict)
    _ids: dict[str, int] = field(default_factory=dict)
    _observers: list[Callable[[PowerChange], None]] = field(default_factory=list)

    def on_change(self, observer: Callable[[PowerChange], None]) -> None:
        """Call `observer` when a machine goes off, boots, comes up or shuts down; of leases it is not told."""
        self._observers.append(observer)

    def state(self, host_id: int) -> HostPowerState:
        """What the machine is doing now."""
        host, state = self.cloud.hosts[host_id], self._states.get(host_id, _STATE.IDLE)
        if state is _STATE.FAILED and host.alive:
            state = self._after(state, _EVENT.BOOTED)
        elif state.is_on and not host.alive:
            state = self._after(state, _EVENT.LOST)
        if state is _STATE.IDLE and host.vm_ids:
            state = self._after(state, _EVENT.FIRST_LEASE)
        elif state is _STATE.BUSY and not host.vm_ids:
            state = self._after(state, _EVENT.LAST_LEASE_LEFT)
        self._states[host_id] = state
        return state

    def power_model(self, host_id: int) -> HostPower:
        """What is known of this machine's power."""
        return self.power_of.get(host_id, self.power)

    # ---------------------------------------------------------------- the port

    def switch_on(self, host: str) -> PowerOutcome:
        """Order a machine to start; one that is on already stays so."""
        host_id, refusal = self._addressed(host)
        if host_id is None or self.mishaps.get(host_id) is PowerMishap.DOES_NOTHING:
            return refusal
        state = self.state(host_id)
        if state is _STATE.FAILED:
            state = self._after(state, _EVENT.MENDED)
        if state is _STATE.OFF:
            self._enter(host_id, self._after(state, _EVENT.WAKE))
            self.boots += 1
            self._later(host_id, self.power_model(host_id).boot_s, self._booted)
        return _ACCEPTED

    def switch_off(self, host: str, hard: bool) -> PowerOutcome:
        """Order the operating system to shut down; while it boots there is none, and only a hard order counts."""
        host_id, refusal = self._addressed(host)
        if host_id is None or self.mishaps.get(host_id) is PowerMishap.DOES_NOTHING:
            return refusal
        state = self.state(host_id)
        if state.is_on:
            # The machine obeys, whoever is on it: that nobody is, is for others to see to.
            self._enter(host_id, self._after(_STATE.IDLE, _EVENT.SWITCH_OFF))
            self._later(host_id, 0 if hard else self.power_model(host_id).shutdown_s, self._shut_down)
        elif hard and state in (_STATE.BOOTING, _STATE.FAILED):
            failed = state if state is _STATE.FAILED else self._after(state, _EVENT.LOST)
            self._enter(host_id, self._after(failed, _EVENT.MENDED))
        return _ACCEPTED

    def status(self, host: str) -> PowerReading:
        """Whether the machine has power; one that shuts down still has."""
        host_id, refusal = self._addressed(host)
        if host_id is None:
            return PowerReading(PowerStatus.UNKNOWN, refusal)
        is_off = self.state(host_id) is _STATE.OFF
        return PowerReading(PowerStatus.OFF if is_off else PowerStatus.ON, _ACCEPTED)

    # ---------------------------------------------------------------- the machines

    def _addressed(self, name: str) -> tuple[int | None, PowerOutcome]:
        """The host whose controller answers, or why there is none."""
        if len(self._ids) != len(self.cloud.hosts):
            self._ids = {host.name: host.id for host in self.cloud.hosts.values()}
        host_id = self._ids.get(name)
        if host_id is None:
            text = f"there is no host named '{name}': name one of the hosts in OpenNebula"
            return None, PowerOutcome(PowerAnswer.MISCONFIGURED, text)
        if self.mishaps.get(host_id) is PowerMishap.SILENT:
            text = f"the controller of {name} does not answer: look at its network"
            return None, PowerOutcome(PowerAnswer.UNREACHABLE, text, self.cloud.now_s + 1)
        return host_id, _ACCEPTED

    def _after(self, state: HostPowerState, event: HostPowerEvent) -> HostPowerState:
        following = next_power_state(state, event)
        assert following is not None, f"{event} does not apply to a host that is {state}"
        return following

    def _enter(self, host_id: int, state: HostPowerState) -> None:
        self._states[host_id] = state
        change = PowerChange(self.cloud.clock.now_ms, host_id, state)
        for observer in self._observers:
            observer(change)

    def _later(self, host_id: int, duration_s: int, effect: Callable[[int], None]) -> None:
        """Let `effect` happen unless the machine does something else by then."""
        if self.mishaps.get(host_id) is PowerMishap.SLOW:
            duration_s *= SLOWNESS
        due_ms = self._due_ms[host_id] = self.cloud.clock.now_ms + 1000 * duration_s
        self.cloud.events.plan(due_ms, partial(self._come_due, host_id, self._states[host_id], effect))

    def _come_due(self, host_id: int, state: HostPowerState, effect: Callable[[int], None]) -> None:
        if self._states[host_id] is state and self._due_ms[host_id] == self.cloud.clock.now_ms:
            effect(host_id)

    def _booted(self, host_id: int) -> None:
        if self.mishaps.get(host_id) is not PowerMishap.NEVER_UP:
            self.cloud.revive_host(host_id)
            self._enter(host_id, self._after(_STATE.BOOTING, _EVENT.BOOTED))

    def _shut_down(self, host_id: int) -> None:
        copied = (vm.id for vm in self.cloud.vms.values() if _is_copied_from(vm, host_id))
        guests = tuple(sorted({*self.cloud.hosts[host_id].vm_ids, *copied}))
        if guests:
            self.lost_guests.append((self.cloud.clock.now_ms, host_id, guests))
        self.cloud.kill_host(host_id)
        self._enter(host_id, self._after(_STATE.SHUTTING_DOWN, _EVENT.SHUT_DOWN))


def _is_copied_from(vm: SimVm, host_id: int) -> bool:
    """Its disks are still there, in whole or in part, though oned counts it on another host by now."""
    is_copied = vm.state == VmState.ACTIVE and vm.lcm_state.name.startswith("PROLOG_MIGRATE")
    return is_copied and len(vm.history) > 1 and vm.history[-2].host_id == host_id
