"""The emulated cloud and the production scheduler on one clock, which moves second by second at a chosen speed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from importlib.resources import as_file, files
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import msgspec

from one_preempt.adapters.clock import FixedClock
from one_preempt.composition import open_cycle, open_made_store
from one_preempt.configuration.settings import Settings, StoreSettings, parse_settings
from one_preempt.core.model.ledger import LeaseRecord
from one_preempt.core.model.outcome import Outcome
from one_preempt.core.model.plan import ActionKind
from one_preempt.core.model.power_sequence import PowerPhase
from one_preempt.core.model.virtual_machine import VirtualMachine
from one_preempt.entrypoints.demo.emulated_cloud import EmulatedCloud, EmulatedPower, emulated_cloud
from one_preempt.entrypoints.demo.story import Event, Machine, Machines, Tell, listed
from one_preempt.errors import OnePreemptError
from one_preempt.scheduling_cycle import CycleReport, SchedulingCycle
from one_preempt.simulation.emulator.described_hosts import host_names
from one_preempt.simulation.emulator.description import Description, read_description
from one_preempt.simulation.simulator.power_calls import ImmediatePowerCalls

PATIENCE_S = 900
RUNNING, STOPPED, ENDED = "RUNNING", "STOPPED", "DONE"
SCHEDULER, CLOUD = "scheduler", "cloud"
AWAKE, ASLEEP = PowerPhase.AWAKE.value, PowerPhase.ASLEEP.value
# Phases of a host's power that are worth a line, in the words of one.
TOLD_PHASES = {PowerPhase.DISABLING: "disable", PowerPhase.ASLEEP: "asleep", PowerPhase.SWITCHING_ON: "wake",
               PowerPhase.AWAKE: "awake"}  # fmt: skip


class DemoFailed(OnePreemptError):
    """Something that the demonstration is to show did not come."""


class Sighting(NamedTuple):
    """A state in which a VM was seen first at an instant."""

    at_s: int
    state: str


class Pace:
    """Lets `speed` seconds of the cloud pass in a second; 0 waits for nothing."""

    def __init__(self, speed: float) -> None:
        self._step_s = 1 / speed if speed else 0.0
        self._due_at_s = time.monotonic()

    def wait(self) -> None:
        """Wait out the rest of a second of the cloud; time lost is not caught up."""
        now_s = time.monotonic()
        self._due_at_s = max(self._due_at_s + self._step_s, now_s)
        time.sleep(self._due_at_s - now_s)


class Stage:
    """What an act plays on: people act, time passes, the scheduler schedules, and all that happens is told.

    `reports` are those of all cycles, `seen` the states each VM was seen in, `leases` the lease names of VMs.
    While `brief`, only what people do is worth a line on a screen. `on_decision` is called with the report of a cycle
    that decided a preemption, before its calls are told; `on_tick` after each second.
    """

    def __init__(
        self,
        description: Description,
        cloud: EmulatedCloud,
        cycle: SchedulingCycle,
        settings: Settings,
        clock: FixedClock,
        tell: Tell,
        speed: float,
    ) -> None:
        self.description = description
        self.cloud = cloud
        self.settings = settings
        self.tell = tell
        self.reports: list[CycleReport] = []
        self.seen: dict[int, list[Sighting]] = {}
        self.leases: dict[int, str] = {}
        self.vms: dict[int, VirtualMachine] = {}
        self.on_decision: Callable[[CycleReport], None] = lambda _report: None
        self.brief = False
        self._hosts = [(name, int(entry.cpu)) for entry in description.hosts for name in host_names(entry)]
        self._cycle = cycle
        self._clock = clock
        self._pace = Pace(speed)
        self._next_cycle_at_s = 0
        self._power: dict[str, str] = {}
        self.on_tick: Callable[[], None] = lambda: None

    @property
    def now_s(self) -> int:
        """The cloud's time in seconds since the epoch."""
        return self._clock.now_s()

    def submit(self, user: str, lease: str, templates: Sequence[str], wish: str) -> list[int]:
        """`user` creates the VMs of one lease; their ids."""
        vm_ids = [self.cloud.submit(user, template) for template in templates]
        self.leases.update(dict.fromkeys(vm_ids, lease))
        self.tell_event(vm_ids, "submit", user, wish)
        return vm_ids

    def terminate(self, user: str, vm_ids: Sequence[int], why: str) -> None:
        """`user` ends VMs of one lease."""
        for vm_id in vm_ids:
            self.cloud.terminate(user, vm_id)
        self.tell_event(vm_ids, "terminate", user, why)

    def state(self, vm_id: int) -> str:
        """The state a VM was last seen in."""
        return self.seen[vm_id][-1].state if vm_id in self.seen else "PENDING"

    def times(self, vm_id: int, state: str) -> list[int]:
        """The instants at which a VM was seen to have come into `state`."""
        return [sighting.at_s for sighting in self.seen.get(vm_id, ()) if sighting.state == state]

    def host_name(self, host_id: int) -> str:
        """What a host is called."""
        return self._hosts[host_id][0]

    def cpus(self, host_id: int) -> int:
        """How many CPUs a host has."""
        return self._hosts[host_id][1]

    def all_are(self, state: str, vm_ids: Sequence[int]) -> bool:
        """All these VMs were last seen in `state`."""
        return all(self.state(vm_id) == state for vm_id in vm_ids)

    def until(self, what: str, condition: Callable[[], bool]) -> None:
        """Let time pass until `condition`. Raises `DemoFailed` where it does not come in `PATIENCE_S`."""
        end_s = self.now_s + PATIENCE_S
        while not condition():
            if self.now_s >= end_s:
                raise DemoFailed(f"it did not come that {what}, in {PATIENCE_S} s of the cloud")
            self._tick()

    def pass_time(self, duration_s: int) -> None:
        """Let time pass."""
        end_s = self.now_s + duration_s
        while self.now_s < end_s:
            self._tick()

    def tell_machines(self) -> None:
        """Tell what is in each CPU of each host now."""
        machines = []
        for host_id, (name, cpus) in enumerate(self._hosts):
            here = [self.leases[vm.id] for vm in self.vms.values() if vm.host_id == host_id]
            power = self.power_of(name)
            machines.append(Machine(name, (*here, *[""] * (cpus - len(here))), "on" if power == AWAKE else power))
        self.tell(Machines(self.now_s, tuple(machines)))

    def tell_event(self, vm_ids: Sequence[int], change: str, by: str, why: str) -> None:
        """Tell what happened now to VMs of one lease; where the cloud says nothing of its effect, it is a detail."""
        detail = not why or (self.brief and by in (CLOUD, SCHEDULER))
        self.tell(Event(self.now_s, self.leases[vm_ids[0]], tuple(vm_ids), change, by, why, detail))

    def power_of(self, host: str) -> str:
        """The phase in which the power of a host was seen last."""
        return self._power.get(host, AWAKE)

    def ledger(self) -> Sequence[LeaseRecord]:
        """All leases that the scheduler has on record, read from its database."""
        with closing(open_made_store(self.settings)) as store:
            return store.leases(include_ended=True)

    def _tick(self) -> None:
        self._clock.set(self.cloud.advance(1))
        self._observe()
        if self.now_s >= self._next_cycle_at_s:
            self._schedule()
        self.on_tick()
        self._pace.wait()

    def _observe(self) -> None:
        self.vms = self.cloud.vms()
        changed: dict[tuple[str, str], list[int]] = {}
        for vm_id, lease in self.leases.items():
            vm = self.vms.get(vm_id)
            state = vm.state_name if vm is not None else ENDED
            seen = self.seen.setdefault(vm_id, [])
            if not seen or seen[-1].state != state:
                seen.append(Sighting(self.now_s, state))
                changed.setdefault((lease, state), []).append(vm_id)
        for (lease, state), vm_ids in changed.items():
            members = [vm_id for vm_id, name in self.leases.items() if name == lease]
            effect = self._effect(state, members) if self.all_are(state, members) else ""
            self.tell_event(members if effect else vm_ids, state, CLOUD, effect)

    def _effect(self, state: str, vm_ids: Sequence[int]) -> str:
        """What it means that a whole lease is in `state`; nothing for a state that VMs only pass through."""
        if state == RUNNING:
            return f"on {listed(sorted({self.host_name(self.vms[vm_id].history[-1].host_id) for vm_id in vm_ids}))}"
        return {STOPPED: "memory saved, room free", ENDED: "ended, room free"}.get(state, "")

    def _schedule(self) -> None:
        report = self._cycle.run()
        self.reports.append(report)
        if report.violations:
            raise DemoFailed(f"the independent recount refuses the plan: {report.violations[0].text}")
        plan = report.plan
        wake_at_s = plan.wake_at_s if plan is not None else None
        latest_s = self.now_s + self.settings.cycle_interval_s
        self._next_cycle_at_s = latest_s if wake_at_s is None else min(latest_s, max(self.now_s + 1, wake_at_s))
        if plan is not None:
            for given in plan.verdicts:
                members = [vm_id for vm_id, lease in self.leases.items() if lease == self.leases[given.lease_id]]
                self.tell_event(members, given.verdict.value, SCHEDULER, given.text)
            if plan.preemptions:
                self.on_decision(report)
        self._tell_calls(report)
        self._tell_power(report)

    def _tell_power(self, report: CycleReport) -> None:
        """One event for each host whose power has come into another phase."""
        observed = report.state.power.sequences.values() if report.state is not None else ()
        decided = report.plan.power_sequences if report.plan is not None else ()
        for sequence in (*observed, *decided):
            phase = sequence.phase.value
            if self.power_of(sequence.host_name) != phase:
                self._power[sequence.host_name] = phase
                change, detail = TOLD_PHASES.get(sequence.phase, phase), sequence.phase not in TOLD_PHASES
                self.tell(Event(self.now_s, sequence.host_name, (), change, SCHEDULER, sequence.reason_text, detail))

    def _tell_calls(self, report: CycleReport) -> None:
        """One event for equal calls on the VMs of one lease."""
        calls: dict[tuple[str, str, str], list[int]] = {}
        for action, result in report.results:
            if action.kind is not ActionKind.MESSAGE:
                accepted = result.outcome is Outcome.ACCEPTED
                why = action.reason.text if accepted else f"{result.outcome}: {result.error_text}"
                calls.setdefault((self.leases[action.vm_id], action.kind.value, why), []).append(action.vm_id)
        for (_, change, why), vm_ids in calls.items():
            self.tell_event(vm_ids, change, SCHEDULER, why)


@contextmanager
def open_stage(tell: Tell, speed: float, more: str) -> Iterator[Stage]:
    """The demonstration cloud without leases, and a scheduler for it. Nothing is left behind.

    `more` names a file of configuration in this package that is added to the usual one.

    Neither the endpoint nor the configuration is taken from the environment: a real cloud is never reached.
    """
    with as_file(files("one_preempt.simulation.emulator") / "clouds" / "demo.yaml") as path:
        description = read_description(path)
    configuration = files("one_preempt.entrypoints.demo") / "configuration.yaml"
    text = configuration.read_text(encoding="utf-8")
    if more:
        text += (files("one_preempt.entrypoints.demo") / more).read_text(encoding="utf-8")
    settings = parse_settings(text, str(configuration))
    with TemporaryDirectory(prefix="one_preempt-demo-") as folder, emulated_cloud(description) as cloud:
        settings = msgspec.structs.replace(settings, store=StoreSettings(url=f"sqlite:///{Path(folder, 'leases.db')}"))
        clock = FixedClock(cloud.advance(0))
        cloud.set_power_times(settings.power.model.boot_s, settings.power.model.shutdown_s)
        calls = ImmediatePowerCalls(EmulatedPower(cloud))
        with open_cycle(settings, clock, cloud.connect(), power_calls=calls) as cycle:
            yield Stage(description, cloud, cycle, settings, clock, tell, speed)
