"""What happens over time in a simulation beside the records: who was where, what plans expected, who was on."""

from __future__ import annotations

from collections import Counter
from enum import StrEnum

from msgspec import Struct, field

from one_preempt.simulation.simulated_cloud.cloud import SimulatedCloud
from one_preempt.simulation.simulated_cloud.cloud_state import StateChange
from one_preempt.simulation.simulated_cloud.states import HostState, LcmState, VmState
from one_preempt.simulation.simulator.scheduler import Report


class Activity(StrEnum):
    """What a VM does on a host: it is brought there for the first time, runs, leaves for others, returns, or ends
    (or is of no use any more: its host died, or a driver failed)."""

    START = "start"
    RUN = "run"
    LEAVE = "leave"
    RETURN = "return"
    END = "end"


_ACTIVITIES = {
    **dict.fromkeys((LcmState.RUNNING, LcmState.MIGRATE), Activity.RUN),
    **dict.fromkeys((LcmState.PROLOG, LcmState.BOOT), Activity.START),
    **dict.fromkeys(
        (
            LcmState.SAVE_STOP, LcmState.SAVE_SUSPEND, LcmState.SAVE_MIGRATE, LcmState.EPILOG_STOP,
            LcmState.SHUTDOWN_UNDEPLOY, LcmState.EPILOG_UNDEPLOY, LcmState.SHUTDOWN_POWEROFF,
        ),
        Activity.LEAVE,
    ),
    **dict.fromkeys(
        (
            LcmState.PROLOG_RESUME, LcmState.PROLOG_MIGRATE, LcmState.PROLOG_UNDEPLOY, LcmState.BOOT_STOPPED,
            LcmState.BOOT_SUSPENDED, LcmState.BOOT_UNDEPLOY, LcmState.BOOT_MIGRATE, LcmState.BOOT_POWEROFF,
        ),
        Activity.RETURN,
    ),
}  # fmt: skip


class Stay(Struct, frozen=True):
    """One VM did one thing on one host; instants in milliseconds since the start of the workload."""

    host_id: int
    vm_id: int
    activity: Activity
    from_ms: int
    until_ms: int


class Seen(Struct, frozen=True):
    """What was seen of a whole simulation.

    Attributes:
        vm_ms: Milliseconds that VMs spent on hosts by what they did.
        planned_overhead_ms: What the plans expected their preemptions to cost (CCPE13 section 5), each counted once.
        preemptions: Decided preemptions; one may have several victims.
        host_on_ms: Milliseconds that hosts were on, over all hosts.
        refused_plans: Cycles whose plan the recount refused, whatever was decided instead.
        stays: Who was where, by their begin, where they were asked for.
    """

    vm_ms: dict[Activity, int]
    planned_overhead_ms: int
    preemptions: int
    host_on_ms: int
    refused_plans: int
    stays: tuple[Stay, ...] = ()

    @property
    def overhead_vm_ms(self) -> int:
        """Milliseconds of VMs that left and returned."""
        return self.vm_ms.get(Activity.LEAVE, 0) + self.vm_ms.get(Activity.RETURN, 0)

    @property
    def computation_vm_ms(self) -> int:
        """Milliseconds of VMs that ran."""
        return self.vm_ms.get(Activity.RUN, 0)


class Watch(Struct):
    """Looks on from before a simulation begins. `ended_vms` counts those that are gone, for who shows the progress."""

    cloud: SimulatedCloud
    keeps_stays: bool = False
    ended_vms: int = 0
    _origin_ms: int = 0
    _present: dict[int, tuple[int, Activity, int]] = field(default_factory=dict)
    _vm_ms: Counter[Activity] = field(default_factory=Counter)
    _stays: list[Stay] = field(default_factory=list)
    _overheads_ms: dict[str, int] = field(default_factory=dict)
    _off_since_ms: dict[int, int] = field(default_factory=dict)
    _off_ms: int = 0
    _refused: int = 0

    def __post_init__(self) -> None:
        self._origin_ms = self.cloud.clock.now_ms
        self.cloud.on_transition(self._observe, passing=False)

    def on_cycle(self, at_ms: int, report: Report) -> None:
        """Note what a cycle decided."""
        self._refused += bool(report.violations)
        if report.plan is not None and not report.is_refused:
            self._overheads_ms.update((one.id, one.overhead_ms) for one in report.plan.preemptions)

    def seen(self, passed_ms: int) -> Seen:
        """All up to `passed_ms` after the start of the workload, not before the last event; nothing is seen after."""
        at_ms = self._origin_ms + passed_ms
        for vm_id in sorted(self._present):
            self._leaves(vm_id, at_ms)
        for host_id in sorted(self._off_since_ms):
            self._is_on(host_id, at_ms)
        return Seen(
            vm_ms=dict(self._vm_ms),
            planned_overhead_ms=sum(self._overheads_ms.values()),
            preemptions=len(self._overheads_ms),
            host_on_ms=passed_ms * len(self.cloud.hosts) - self._off_ms,
            refused_plans=self._refused,
            stays=tuple(sorted(self._stays, key=lambda stay: (stay.from_ms, stay.host_id, stay.vm_id, stay.until_ms))),
        )

    def _observe(self, change: StateChange) -> None:
        if change.kind != "VM":
            self._observe_host(change)
            return
        vm_id = change.object_id
        if vm_id in self._present:
            self._leaves(vm_id, change.at_ms)
        if change.new_state == VmState.ACTIVE and change.new_lcm_state is not None:
            activity = _ACTIVITIES.get(LcmState(change.new_lcm_state), Activity.END)
            history = self.cloud.vms[vm_id].history
            self._present[vm_id] = (history[-1].host_id, activity, change.at_ms)
        elif change.new_state == VmState.DONE:
            self.ended_vms += 1

    def _observe_host(self, change: StateChange) -> None:
        if change.new_state == HostState.OFFLINE:
            self._off_since_ms.setdefault(change.object_id, change.at_ms)
        elif change.object_id in self._off_since_ms:
            self._is_on(change.object_id, change.at_ms)

    def _leaves(self, vm_id: int, now_ms: int) -> None:
        """What it did ends."""
        host_id, activity, from_ms = self._present.pop(vm_id)
        self._vm_ms[activity] += now_ms - from_ms
        if self.keeps_stays and now_ms > from_ms:
            origin_ms = self._origin_ms
            self._stays.append(Stay(host_id, vm_id, activity, from_ms - origin_ms, now_ms - origin_ms))

    def _is_on(self, host_id: int, now_ms: int) -> None:
        self._off_ms += now_ms - self._off_since_ms.pop(host_id)
