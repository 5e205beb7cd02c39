"""Energy of small stories and broken promises, recounted by hand."""

from __future__ import annotations

from fractions import Fraction

import pytest

from one_preempt.core.energy.power_model import HostPower, linear_power
from one_preempt.simulation.probes.energy import EnergyMeter, drawn_mw, promises
from one_preempt.simulation.probes.outcome import Outcome
from one_preempt.simulation.simulated_cloud.cloud import SimulatedCloud
from one_preempt.simulation.simulated_cloud.host_power import SimulatedHostPower
from one_preempt.simulation.simulated_cloud.host_power_state import HostPowerState
from one_preempt.simulation.simulated_cloud.objects import ONEADMIN
from one_preempt.simulation.simulator.result import Fate, Interruption, RequestRecord
from one_preempt.simulation.simulator.site import LOCALS, Site, build_cloud
from one_preempt.simulation.workload.workload import MachineSet, WorkloadRequest

WATTS = HostPower(linear_power(100, 200), boot_s=60, boot_mw=150_000, shutdown_s=30, shutdown_mw=80_000, off_mw=5_000)
DISABLED, OFFLINE = 1, 2


def measured() -> tuple[SimulatedCloud, SimulatedHostPower, EnergyMeter]:
    cloud = build_cloud(Site((MachineSet(2, 400, 4096),)))
    power = SimulatedHostPower(cloud, WATTS)
    return cloud, power, EnergyMeter(cloud, power)


def test_idle_hosts_take_their_idle_power() -> None:
    cloud, _, meter = measured()
    cloud.advance(3600)
    energy = meter.energy(cloud.clock.now_ms)
    assert (energy.taken_kwh, energy.always_on_kwh, energy.saved_share, energy.boots) == (0.2, 0.2, 0, 0)


def test_a_host_takes_by_its_load_and_by_what_it_does() -> None:
    cloud, power, meter = measured()
    owner = next(user.id for user in cloud.users.values() if user.name == LOCALS)
    (vm_id,) = cloud.add_vms(cloud.caller(owner), 'CPU = "1"\nMEMORY = "1024"\n', 1)
    cloud.vm_deploy(ONEADMIN, vm_id, 0)
    cloud.advance(3600)
    cloud.vm_action(ONEADMIN, "terminate", vm_id)
    cloud.advance(0)
    power.switch_off("node1", hard=False)
    cloud.advance(1800)
    power.switch_on("node1")
    cloud.advance(1800)
    energy = meter.energy(cloud.clock.now_ms)
    # A quarter of host 0 was used for an hour: 125 W.
    always_on_ws = (125 + 100 + 100 + 100) * 3600
    asleep_ws = 30 * 80 + 1770 * 5 + 60 * 150 + 1740 * 100
    assert energy.always_on_kwh == pytest.approx(always_on_ws / 3.6e6, abs=1e-12)
    assert energy.taken_kwh == pytest.approx((always_on_ws - 3600 * 100 + asleep_ws) / 3.6e6, abs=1e-12)
    assert energy.boots == 1


def test_every_state_has_its_power() -> None:
    power = HostPower(linear_power(100, 200), boot_mw=150_000, shutdown_mw=90_000, off_mw=7_000)
    assert {state: drawn_mw(power, state, 1, 2) for state in HostPowerState} == {
        HostPowerState.OFF: 7_000,
        HostPowerState.BOOTING: 150_000,
        HostPowerState.IDLE: 150_000,
        HostPowerState.BUSY: 150_000,
        HostPowerState.SHUTTING_DOWN: 90_000,
        HostPowerState.FAILED: 100_000,
    }


def test_only_what_lies_between_the_instants_counts() -> None:
    cloud, power, meter = measured()
    start_ms = cloud.clock.now_ms
    cloud.advance(1800)
    power.switch_off("node0", hard=True)
    cloud.advance(7200)
    half_hour_ms = 1_800_000
    first = meter.energy(start_ms + half_hour_ms)
    later = meter.energy(start_ms + 2 * half_hour_ms, start_ms + half_hour_ms)
    assert first.taken_kwh == 0.1
    assert later.taken_kwh == pytest.approx(0.05 + 0.0025)
    assert later.always_on_kwh == 0.1


def waiting(id: int, started_s: int | None, rests_s: tuple[tuple[int, int | None], ...] = ()) -> Outcome:
    """A best-effort request of 100 s from instant 0."""
    asked = WorkloadRequest(id, 0, (MachineSet(1, 100, 1024),), 100, 100)
    rests = tuple(Interruption(1000 * a, None if b is None else 1000 * b, 9, False) for a, b in rests_s)
    started_ms = None if started_s is None else 1000 * started_s
    return Outcome(asked, RequestRecord(id, id, 1, 0, started_ms, None, Fate.UNFINISHED, rests, 0))


def test_a_promise_is_broken_by_all_waiting_together() -> None:
    kept = [waiting(1, 500), waiting(2, 100, ((200, 600),))]
    broken = [waiting(3, 501), waiting(4, 100, ((200, 600), (700, 701))), waiting(5, None), waiting(6, 0, ((1, None),))]
    found = promises([*kept, *broken], 1_000_000)
    assert (found.promised_wait_s, found.requests, found.broken) == (Fraction(500), 6, 4)
    assert found.broken_share == pytest.approx(4 / 6)
    assert promises(kept, 1_000_000, Fraction(4)).broken == 2
    assert promises([], 0).broken_share == 0


def test_who_has_not_waited_long_when_the_simulation_ends_breaks_nothing() -> None:
    assert promises([waiting(1, None)], 500_000).broken == 0
