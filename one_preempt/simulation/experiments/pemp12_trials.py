"""PEMP12's set-up: 512 nodes of one VM each that sleep when nobody needs them, under one energy policy.

The production cycle schedules and switches; hosts boot for 120 s at full power, suspending and resuming take 32 s each.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from one_preempt.composition import simulated_cycle
from one_preempt.configuration.chosen_policies import chosen_energy_policy
from one_preempt.configuration.power_settings import HandedOverSettings, HostPowerSettings, PowerSettings
from one_preempt.configuration.settings import OverheadSettings, Settings, TimeSettings
from one_preempt.core.energy.gesp import GreedyEnergySaver
from one_preempt.core.energy.policy import EnergyPolicy
from one_preempt.core.energy.power_model import HostPower
from one_preempt.core.model.modes_and_limits import Verification
from one_preempt.simulation.experiments.pemp12_binding import OtherwiseBound
from one_preempt.simulation.experiments.pemp12_rule_bases import AS_SHIPPED, with_rule_base
from one_preempt.simulation.experiments.pemp12_workloads import NODES, SMALL_NODES, SMALL_SPAN_S, SPAN_S
from one_preempt.simulation.experiments.replicated import REFUSED_PLANS, Figures
from one_preempt.simulation.probes.energy import EnergyMeter, promises
from one_preempt.simulation.probes.outcome import Outcome, outcomes
from one_preempt.simulation.simulated_cloud.durations import INSTANT
from one_preempt.simulation.simulated_cloud.host_power import SimulatedHostPower
from one_preempt.simulation.simulator.result import Fate
from one_preempt.simulation.simulator.scheduler import Report
from one_preempt.simulation.simulator.simulator import Simulator
from one_preempt.simulation.simulator.site import Site, build_cloud, simulation_settings
from one_preempt.simulation.workload.workload import SECONDS_PER_HOUR, MachineSet, StartKind, Workload

MEMORY_MIB = 1024
WAITING_FACTOR = Fraction(5)
PERIOD_S = 300
# Energy is counted from here on. Hosts are on until the first cycle, which the first request brings.
BEGIN_S = SECONDS_PER_HOUR
_LATE_MS = 60_000


class Reading(Struct, frozen=True):
    """What the paper leaves open and the sensitivity table turns.

    `suspend_s` is as long as resuming takes. `period_s`: how often policies look after the queue. `rule_base` is a name
    of `pemp12_rule_bases`: PEMP's rules and peaks. `bound_at_start`: reservations are bound to nodes a boot before they
    start, and not as soon as they are submitted. `packed`: to those with the most leases, under every policy.
    `strands`: GESP wakes hosts, and lets them stay on, for reservations alone.
    """

    suspend_s: int = 32
    period_s: int = PERIOD_S
    rule_base: str = AS_SHIPPED
    bound_at_start: bool = False
    packed: bool = False
    strands: bool = True


def played(workload: Workload, policy: str, reading: Reading, small: bool) -> Figures:
    """The workload of `pemp12_workloads.both` under an energy policy, in flat figures."""
    span_s, nodes = (SMALL_SPAN_S, SMALL_NODES) if small else (SPAN_S, NODES)
    until_s = BEGIN_S + span_s
    rate = MEMORY_MIB / reading.suspend_s
    site = Site(
        (MachineSet(nodes, 100, MEMORY_MIB),), durations=replace(INSTANT, save_mib_per_s=rate, restore_mib_per_s=rate)
    )
    cloud = build_cloud(site)
    power = SimulatedHostPower(cloud, HostPower())
    meter = EnergyMeter(cloud, power)
    begin_ms = cloud.clock.now_ms + 1000 * BEGIN_S
    chosen = settings(policy, reading)
    cycle = simulated_cycle(
        chosen, cloud, verification=Verification.SAMPLED, tells_owners=False, control=power,
        energy_policy=as_read(chosen_energy_policy(chosen.power), reading),
    )  # fmt: skip
    refused = 0

    def on_cycle(_: int, report: Report) -> None:
        nonlocal refused
        refused += bool(report.violations)

    result = Simulator(cloud, cycle, workload, until_s=until_s, on_cycle=on_cycle, plays_on=True).run()
    energy = meter.energy(begin_ms + 1000 * span_s, begin_ms)
    found = outcomes(workload, result)
    kept = promises(found, 1000 * until_s, WAITING_FACTOR)
    return {
        "kwh": round(energy.taken_kwh, 3),
        "always_on_kwh": round(energy.always_on_kwh, 3),
        "violations_percent": round(100 * kept.broken_share, 4),
        "boots": energy.boots,
        "preemptions": sum(one.record.suspensions for one in found),
        "unfinished": sum(one.fate is Fate.UNFINISHED for one in found),
        "unfinished_node_hours": round(sum(map(_node_hours_left, found)), 3),
        **reserved_figures(found, 1000 * until_s),
        "lost_guests": len(power.lost_guests),
        REFUSED_PLANS: refused,
        "cycles": result.cycles,
    }


def as_read(policy: EnergyPolicy, reading: Reading) -> EnergyPolicy:
    """The policy under a reading."""
    if isinstance(policy, GreedyEnergySaver):
        policy = replace(policy, strands=reading.strands)
    policy = with_rule_base(policy, reading.rule_base)
    if not (reading.bound_at_start or reading.packed):
        return policy
    return OtherwiseBound(policy, at_start=reading.bound_at_start, packed=reading.packed)


def _node_hours_left(one: Outcome) -> float:
    """What a request that was there at the end had still to run: energies of others have it in them."""
    if one.fate is not Fate.UNFINISHED:
        return 0.0
    left_s = one.request.virtual_machines * one.request.actual_duration_s - one.record.served_vm_ms / 1000
    return max(left_s, 0.0) / SECONDS_PER_HOUR


def reserved_figures(found: Sequence[Outcome], ended_at_ms: int) -> dict[str, int]:
    """How reservations fared."""
    reserved = [one for one in found if one.request.start is StartKind.EXACT]
    return {
        "reservations": len(reserved),
        "rejected_reservations": sum(one.fate is Fate.REJECTED for one in reserved),
        "late_reservations": sum(_is_late(one, ended_at_ms) for one in reserved),
    }


def _is_late(one: Outcome, ended_at_ms: int) -> bool:
    """It started late, or never though it was time."""
    if one.waited_ms is not None:
        return one.waited_ms > _LATE_MS
    return one.fate is not Fate.REJECTED and ended_at_ms - 1000 * one.request.ready_at_s > _LATE_MS


def settings(policy: str, reading: Reading) -> Settings:
    """Aggressive backfilling; all hosts are handed over, and nothing that keeps a live cloud calm stands between."""
    rate = MEMORY_MIB / reading.suspend_s
    overhead = OverheadSettings(
        suspend_mib_per_s=rate, resume_mib_per_s=rate, copy_mib_per_s=1e9, pause_s=0, reschedule_s=0, boot_s=0,
        shutdown_s=0, learn=False,
    )  # fmt: skip
    time = TimeSettings(
        backfilling="easy", least_run_before_suspension_s=1, preparation_margin_s=0, overrun_grace_s=0,
        exclusion="host",
    )  # fmt: skip
    power = PowerSettings(
        mode="enforce",
        policy=policy,
        waiting_factor=float(WAITING_FACTOR),
        period_s=reading.period_s,
        hosts=(HandedOverSettings(),),
        floor=0,
        most_booting=NODES,
        least_on_s=0,
        least_off_s=0,
        asleep_reading_s=0,
        model=HostPowerSettings(),
    )
    return msgspec.structs.replace(simulation_settings(), overhead=overhead, time=time, power=power)
