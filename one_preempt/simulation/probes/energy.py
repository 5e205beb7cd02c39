"""What the hosts of a simulation took, by their power states and loads, and whether promised waits were kept.

Beside it stands what the same work had taken with all hosts on all the time.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

import numpy as np
from msgspec import Struct, field

from one_preempt.core.energy.energy_integration import energy_mj, kwh
from one_preempt.core.energy.power_model import HostPower
from one_preempt.simulation.probes.outcome import Outcome
from one_preempt.simulation.simulated_cloud.capacity import cpu_of
from one_preempt.simulation.simulated_cloud.cloud import SimulatedCloud
from one_preempt.simulation.simulated_cloud.cloud_state import StateChange
from one_preempt.simulation.simulated_cloud.host_power import PowerChange, SimulatedHostPower
from one_preempt.simulation.simulated_cloud.host_power_state import HostPowerState
from one_preempt.simulation.simulated_cloud.states import VmState

_MS_PER_S = 1000


class Energy(Struct, frozen=True):
    """Kilowatt-hours of all hosts, what always-on hosts had taken for the same work, and how often hosts booted."""

    taken_kwh: float
    always_on_kwh: float
    boots: int

    @property
    def saved_share(self) -> float:
        """Of what always-on hosts take, 0 to 1."""
        return 1 - self.taken_kwh / self.always_on_kwh if self.always_on_kwh else 0.0


class _PowerOverTime(Struct):
    """A sum of powers, from instants on."""

    now_mw: int = 0
    since_ms: list[int] = field(default_factory=list)
    power_mw: list[int] = field(default_factory=list)

    def change(self, at_ms: int, by_mw: int) -> None:
        if by_mw:
            self.now_mw += by_mw
            self.since_ms.append(at_ms)
            self.power_mw.append(self.now_mw)

    def kwh(self, from_ms: int, until_ms: int) -> float:
        since, power = np.array(self.since_ms, dtype=np.int64), np.array(self.power_mw, dtype=np.int64)
        # Whole milliseconds, so that nothing is rounded before the end.
        return kwh(energy_mj(since, power, from_ms, until_ms)) / _MS_PER_S


class EnergyMeter:
    """Measures from its making on. Hosts that are added later are not measured."""

    def __init__(self, cloud: SimulatedCloud, power: SimulatedHostPower) -> None:
        self._cloud = cloud
        self._power = power
        self._boots_before = power.boots
        self._states = {host_id: power.state(host_id) for host_id in sorted(cloud.hosts)}
        self._used = dict.fromkeys(self._states, 0)
        self._places: dict[int, tuple[int, int]] = {}
        self._powers_mw: dict[int, int] = dict.fromkeys(self._states, 0)
        self._on_powers_mw: dict[int, int] = dict.fromkeys(self._states, 0)
        self._taken, self._always_on = _PowerOverTime(), _PowerOverTime()
        for vm_id in sorted(cloud.vms):
            self._note_place(vm_id)
        for host_id in self._states:
            self._note_power(host_id)
        power.on_change(self._observe_power)
        cloud.on_transition(self._observe)

    def energy(self, until_ms: int, from_ms: int = 0) -> Energy:
        """Between two instants in milliseconds since the epoch; nothing was measured before the meter was made."""
        return Energy(
            taken_kwh=self._taken.kwh(from_ms, until_ms),
            always_on_kwh=self._always_on.kwh(from_ms, until_ms),
            boots=self._power.boots - self._boots_before,
        )

    def _observe_power(self, change: PowerChange) -> None:
        if change.host_id in self._states:
            self._states[change.host_id] = change.state
            self._note_power(change.host_id)

    def _observe(self, change: StateChange) -> None:
        if change.kind == "VM":
            for host_id in sorted(self._note_place(change.object_id)):
                self._note_power(host_id)

    def _note_place(self, vm_id: int) -> set[int]:
        """Where the VM runs now; the hosts whose load changed by it."""
        vm = self._cloud.vms.get(vm_id)
        before = self._places.pop(vm_id, None)
        after = None
        if vm is not None and vm.state == VmState.ACTIVE and vm.history[-1].host_id in self._states:
            after = self._places[vm_id] = (vm.history[-1].host_id, cpu_of(vm))
        if before == after:
            return set()
        changed = set()
        for place, sign in ((before, -1), (after, 1)):
            if place is not None:
                self._used[place[0]] += sign * place[1]
                changed.add(place[0])
        return changed

    def _note_power(self, host_id: int) -> None:
        now_ms, model, used = self._cloud.clock.now_ms, self._power.power_model(host_id), self._used[host_id]
        capacity, state = self._cloud.hosts[host_id].physical_cpu, self._states[host_id]
        for mw, powers_mw, over_time in (
            (drawn_mw(model, state, used, capacity), self._powers_mw, self._taken),
            (model.curve.power_mw(used, capacity), self._on_powers_mw, self._always_on),
        ):
            over_time.change(now_ms, mw - powers_mw[host_id])
            powers_mw[host_id] = mw


def drawn_mw(power: HostPower, state: HostPowerState, used: int, capacity: int) -> int:
    """What a machine draws in a state: as long as it is on, with so much `used` of its `capacity`.

    One that failed is taken to be on and idle: nobody can tell, and it may well be.
    """
    match state:
        case HostPowerState.OFF:
            return power.off_mw
        case HostPowerState.BOOTING:
            return power.boot_mw
        case HostPowerState.SHUTTING_DOWN:
            return power.shutdown_mw
        case HostPowerState.IDLE | HostPowerState.BUSY:
            return power.curve.power_mw(used, capacity)
        case HostPowerState.FAILED:
            return power.curve.idle_mw


class Promises(Struct, frozen=True):
    """Best-effort requests, and those of them that waited longer than is promised (PEMP12: MAWT = alpha E)."""

    promised_wait_s: Fraction
    requests: int
    broken: int

    @property
    def broken_share(self) -> float:
        """0 to 1."""
        return self.broken / self.requests if self.requests else 0.0


def promises(found: Iterable[Outcome], ended_at_ms: int, waiting_factor: Fraction = Fraction(5)) -> Promises:
    """Counted over all waiting of a request, that after preemptions included, up to the end of the simulation.

    `waiting_factor` is alpha: the promised wait in mean run times of the best-effort requests.
    """
    best_effort = [one for one in found if one.best_effort]
    if not best_effort:
        return Promises(Fraction(0), 0, 0)
    total_s = sum(one.request.actual_duration_s for one in best_effort)
    promised_s = waiting_factor * total_s / len(best_effort)
    broken = sum(_waited_ms(one, ended_at_ms) > _MS_PER_S * promised_s for one in best_effort)
    return Promises(promised_s, len(best_effort), broken)


def _waited_ms(one: Outcome, ended_at_ms: int) -> int:
    """All the time that it was not served between its submission and its end, or that of the simulation."""
    first_ms = one.waited_ms
    if first_ms is None:
        return max(0, (one.record.ended_at_ms or ended_at_ms) - _MS_PER_S * one.request.ready_at_s)
    end_ms = one.record.ended_at_ms or ended_at_ms
    resting = ((end_ms if rest.until_ms is None else rest.until_ms) - rest.from_ms for rest in one.record.interruptions)
    return first_ms + sum(resting)
