"""A small cloud whose hosts can be switched, under the very cycle of the daemon, on virtual time."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from msgspec.structs import replace

from one_preempt.adapters.lease_store.memory_lease_store import MemoryLeaseStore
from one_preempt.adapters.lease_store.sql_lease_store import SqlLeaseStore
from one_preempt.adapters.power_control.guarded import GuardedPowerControl
from one_preempt.configuration.chosen_policies import admission_rules, policies
from one_preempt.configuration.settings import TimeSettings, VictimSettings
from one_preempt.core.energy.policy import EnergyPolicy
from one_preempt.core.energy.power_model import HostPower
from one_preempt.core.energy.power_rules import HostPattern, PowerMode, PowerRules
from one_preempt.core.model.power import PowerOutcome, PowerReading
from one_preempt.core.model.power_sequence import PowerPhase
from one_preempt.enactment.power_enactment import PowerEnactment
from one_preempt.enactment.power_recording import PowerRecorder
from one_preempt.policy_registry import ENERGY_POLICIES
from one_preempt.ports import PowerCalls, PowerControl, PowerMemory
from one_preempt.scheduling_cycle import CycleReport, SchedulingCycle
from one_preempt.simulation.simulated_cloud.durations import INSTANT
from one_preempt.simulation.simulated_cloud.host_power import SimulatedHostPower
from one_preempt.simulation.simulated_cloud.host_power_state import HostPowerState
from one_preempt.simulation.simulated_cloud.objects import Caller
from one_preempt.simulation.simulated_cloud.states import HostState, VmState
from one_preempt.simulation.simulator.enactor import SimulatedEnactor
from one_preempt.simulation.simulator.host_enactor import SimulatedHostEnactor
from one_preempt.simulation.simulator.pool_reader import SimulatedPoolReader
from one_preempt.simulation.simulator.power_calls import ImmediatePowerCalls
from one_preempt.simulation.simulator.site import EXTERNALS, LOCALS, Site, build_cloud, simulation_settings
from one_preempt.simulation.workload.workload import MachineSet
from one_preempt.surroundings import Surroundings

BOOT_S = 120
# Under these energy policies every host sleeps that nobody needs. A policy that somebody adds may be another kind.
ALL_IDLE_SLEEP = ("GESP", "PEMP", "SESP", "look-ahead")
RULES = PowerRules(
    mode=PowerMode.ENFORCE,
    policy=ENERGY_POLICIES.named("look-ahead"),
    handed_over=(HostPattern(),),
    floor=0,
    most_booting=8,
    least_on_s=0,
    least_off_s=0,
    enable_after_s=0,
    power=HostPower(boot_s=BOOT_S),
)


class Died(Exception):
    """The process was killed here."""


class PowerPlay:
    """Hosts of two CPUs each, and behind them `large` ones of four. What is said of hosts is said by their numbers,
    from 0."""

    pace_s = 5

    def __init__(
        self,
        hosts: int = 3,
        rules: PowerRules = RULES,
        store: MemoryLeaseStore | SqlLeaseStore | None = None,
        control: Callable[[SimulatedHostPower], PowerControl] | None = None,
        copy_s: float = 0,
        victims: VictimSettings | None = None,
        large: int = 0,
        time: TimeSettings | None = None,
    ) -> None:
        machines = (MachineSet(hosts, 200, 4096), *((MachineSet(large, 400, 4096),) if large else ()))
        site = Site(machines, durations=replace(INSTANT, monitor_host_s=10, copy_s=copy_s))
        self.cloud = build_cloud(site, keeps_logs=True)
        self.machines = SimulatedHostPower(self.cloud, HostPower(boot_s=BOOT_S, shutdown_s=20))
        self.control: PowerControl = self.machines if control is None else control(self.machines)
        self.rules, self.victims, self.time = rules, victims, time
        self.store = MemoryLeaseStore() if store is None else store
        self.reports: list[CycleReport] = []
        self.start_daemon()

    def start_daemon(self, calls: PowerCalls | None = None) -> None:
        """A process that knows nothing but its ledger; `calls` in place of ones that are answered at once."""
        clock, cloud = self.cloud.clock, self.cloud
        settings = simulation_settings()
        if self.victims is not None:
            settings = msgspec.structs.replace(settings, victims=self.victims)
        if self.time is not None:
            settings = msgspec.structs.replace(settings, time=self.time)
        self.policies = replace(policies(settings), power=self.rules, tells_owners=False)
        self.reader = SimulatedPoolReader(cloud)
        calls = ImmediatePowerCalls(self.control) if calls is None else calls
        self.power = PowerEnactment(self.store, SimulatedHostEnactor(cloud), calls, clock, self._memory())
        around = Surroundings(
            self.reader, self.store, self._enactor(), clock, power=self.power, recorder=PowerRecorder(self.store)
        )
        self.daemon = SchedulingCycle(around, self.policies, admission_rules(settings))

    def _enactor(self) -> SimulatedEnactor:
        return SimulatedEnactor(self.cloud)

    def _memory(self) -> PowerMemory | None:
        return self.control if isinstance(self.control, GuardedPowerControl) else None

    def cycle(self) -> CycleReport:
        report = self.daemon.run()
        assert report.violations == (), report.violations
        self.reports.append(report)
        return report

    def pass_time(self, seconds: int) -> None:
        """Cycles at a pace; nobody is ever switched off under a VM, nor without being OFFLINE."""
        for _ in range(0, seconds, self.pace_s):
            self.cloud.run_until_ms(self.cloud.clock.now_ms + 1000 * self.pace_s)
            self.cycle()
            self.judge()

    def judge(self) -> None:
        """What must hold at any moment, whatever happened."""
        assert self.machines.lost_guests == []
        for host in self.cloud.hosts.values():
            if not self.machines.state(host.id).is_on:
                assert host.state is HostState.OFFLINE or self.is_coming(host.id), f"{host.name} is {host.state.name}"

    def is_coming(self, host: int) -> bool:
        """It boots, or hangs in its boot; of such a one the power is cut before it is started again."""
        known = {one.host_id: one for one in self.store.power_sequences()}.get(host)
        boots = self.machines.state(host) is HostPowerState.BOOTING
        return boots or (known is not None and known.is_ours and known.failures > 0)

    def until(self, done: Callable[[], bool], at_most_s: int = 1800) -> None:
        start_ms = self.cloud.clock.now_ms
        while not done():
            assert self.cloud.clock.now_ms < start_ms + 1000 * at_most_s, [str(one) for one in self.phases()]
            self.pass_time(self.pace_s)

    def phase(self, host: int) -> PowerPhase:
        known = {one.host_id: one.phase for one in self.store.power_sequences()}
        return known.get(host, PowerPhase.AWAKE)

    def phases(self) -> list[PowerPhase]:
        return [self.phase(host) for host in sorted(self.cloud.hosts)]

    def asleep(self) -> list[int]:
        return [host for host in sorted(self.cloud.hosts) if self.phase(host) is PowerPhase.ASLEEP]

    def user(self, name: str) -> Caller:
        return self.cloud.caller(next(user.id for user in self.cloud.users.values() if user.name == name))

    def submit(self, cpu: int = 2, lease: str = "", *, external: bool = False) -> int:
        """One VM; a plain one, which runs until somebody ends it, or with these terms."""
        terms = f"LEASE = [ {lease} ]\n" if lease else ""
        template = f'CPU = "{cpu}"\nMEMORY = "512"\n{terms}'
        (vm_id,) = self.cloud.add_vms(self.user(EXTERNALS if external else LOCALS), template, 1, hold=bool(lease))
        return vm_id

    def end(self, vm_id: int) -> None:
        self.cloud.run_until_ms(self.cloud.clock.now_ms)
        self.cloud.vm_action(self.user("oneadmin"), "terminate-hard", vm_id)

    def host_of(self, vm_id: int) -> int | None:
        vm = self.cloud.vms[vm_id]
        return vm.history[-1].host_id if vm.state == VmState.ACTIVE else None


class Counting:
    """Power control that notes what it is told, and may be made to fail."""

    def __init__(self, machines: PowerControl) -> None:
        self.machines = machines
        self.orders: list[tuple[str, str]] = []

    def switch_on(self, host: str) -> PowerOutcome:
        self.orders.append(("on", host))
        return self.machines.switch_on(host)

    def switch_off(self, host: str, hard: bool) -> PowerOutcome:
        self.orders.append(("hard-off" if hard else "off", host))
        return self.machines.switch_off(host, hard)

    def status(self, host: str) -> PowerReading:
        return self.machines.status(host)


def with_policy(name: str, rules: PowerRules = RULES) -> PowerRules:
    policy: EnergyPolicy = ENERGY_POLICIES.named(name)
    return replace(rules, policy=policy)
