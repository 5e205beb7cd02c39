"""When the VMs of each request were deployed, ran and ended, read from the log of the simulated cloud alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from one_preempt.simulation.simulated_cloud.cloud import SimulatedCloud
from one_preempt.simulation.simulated_cloud.cloud_state import StateChange
from one_preempt.simulation.simulated_cloud.durations import Operation
from one_preempt.simulation.simulated_cloud.states import LcmState, VmState

ONEADMIN_ID = 0
_RUNS = frozenset({LcmState.RUNNING, LcmState.MIGRATE})
_SEEMS_TO_RUN = _RUNS | {LcmState.UNKNOWN}
# What a VM is in while a driver is at it.
_AT_IT = {
    Operation.BOOT: frozenset({LcmState.BOOT, LcmState.BOOT_UNDEPLOY, LcmState.BOOT_POWEROFF}),
    Operation.SAVE: frozenset({LcmState.SAVE_STOP, LcmState.SAVE_SUSPEND, LcmState.SAVE_MIGRATE}),
    Operation.RESTORE: frozenset({LcmState.BOOT_STOPPED, LcmState.BOOT_SUSPENDED, LcmState.BOOT_MIGRATE}),
    Operation.EPILOG_STOP: frozenset({LcmState.EPILOG_STOP}),
}
_MOST_SLOW = 2
_FAILURES = frozenset(state for state in LcmState if state.name.endswith("FAILURE"))


@dataclass(slots=True)
class VmLife:
    """One VM. Instants in milliseconds; `runs` are (from, until), until None while it still runs.

    `believed` are the same with the time on a host that was lost: nobody can tell that it did not run there.
    """

    deployed_ms: list[int] = field(default_factory=list)
    runs: list[tuple[int, int | None]] = field(default_factory=list)
    believed: list[tuple[int, int | None]] = field(default_factory=list)
    gone_ms: int | None = None


@dataclass(slots=True)
class LeaseLife:
    """The VMs of one request together."""

    lease_id: int
    vms: tuple[VmLife, ...]

    @property
    def gone_ms(self) -> int | None:
        """When the first of its VMs was gone."""
        return min((vm.gone_ms for vm in self.vms if vm.gone_ms is not None), default=None)

    @property
    def first_deploy_ms(self) -> int | None:
        """When the first of its VMs was put on a host."""
        return min((vm.deployed_ms[0] for vm in self.vms if vm.deployed_ms), default=None)

    @property
    def started_ms(self) -> int | None:
        """When the last of its VMs was put on a host for the first time."""
        if not all(vm.deployed_ms for vm in self.vms):
            return None
        return max(vm.deployed_ms[0] for vm in self.vms)

    def done_ms(self, takes_ms: int) -> int | None:
        """When the last of its VMs had run for so long; None where one never did."""
        return _last([_reached(vm.runs, takes_ms) for vm in self.vms])

    def believed_done_ms(self, takes_ms: int) -> int | None:
        """The same as far as anybody can tell."""
        return _last([_reached(vm.believed, takes_ms) for vm in self.vms])


@dataclass(slots=True)
class ToldLives:
    """All requests, by request id, and when something went wrong by itself: with a host, or a driver (slow, too)."""

    leases: dict[int, LeaseLife]
    mishaps_ms: list[int]


def told_lives(
    cloud: SimulatedCloud,
    vm_ids_by_request: Mapping[int, Sequence[int]],
    slow: Sequence[tuple[int, Operation]] = (),
) -> ToldLives:
    """Read the log. `slow` are drivers: from which instant (ms) on the next two may be, and at what."""
    vms = {vm_id: VmLife() for vm_ids in vm_ids_by_request.values() for vm_id in vm_ids}
    for call in cloud.history_log:
        if call.method == "vm_deploy" and call.uid == ONEADMIN_ID and call.arguments[0] in vms:
            vms[int(str(call.arguments[0]))].deployed_ms.append(call.at_ms)
    mishaps_ms: list[int] = []
    for from_ms, operation in slow:
        begun_ms = (change.at_ms for change in cloud.state_changes if _begins(change, operation))
        mishaps_ms += islice((at_ms for at_ms in begun_ms if at_ms >= from_ms), _MOST_SLOW)
    for change in cloud.state_changes:
        if _is_mishap(change):
            mishaps_ms.append(change.at_ms)
        if change.kind == "VM" and change.object_id in vms:
            _note(vms[change.object_id], change)
    leases = {
        request_id: LeaseLife(vm_ids[0], tuple(vms[vm_id] for vm_id in vm_ids))
        for request_id, vm_ids in vm_ids_by_request.items()
    }
    return ToldLives(leases, mishaps_ms)


def _note(vm: VmLife, change: StateChange) -> None:
    for noted, states in ((vm.runs, _RUNS), (vm.believed, _SEEMS_TO_RUN)):
        runs = change.new_state == VmState.ACTIVE and change.new_lcm_state in states
        running = bool(noted) and noted[-1][1] is None
        if runs and not running:
            noted.append((change.at_ms, None))
        elif running and not runs:
            noted[-1] = (noted[-1][0], change.at_ms)
    if change.new_state == VmState.DONE:
        vm.gone_ms = change.at_ms


def _is_mishap(change: StateChange) -> bool:
    """Operations that fall back to RUNNING failed as well; a host that is lost or found again changes its state."""
    if change.kind == "HOST":
        return True
    fell_back = change.old_lcm_state in (LcmState.SAVE_STOP, LcmState.SAVE_MIGRATE) and change.new_lcm_state in _RUNS
    return fell_back or change.new_lcm_state in (*_FAILURES, LcmState.UNKNOWN)


def _begins(change: StateChange, operation: Operation) -> bool:
    return change.kind == "VM" and change.new_lcm_state in _AT_IT[operation]


def _last(ends_ms: Sequence[int | None]) -> int | None:
    return None if None in ends_ms else max(end_ms for end_ms in ends_ms if end_ms is not None)


def _reached(runs: Sequence[tuple[int, int | None]], takes_ms: int) -> int | None:
    served_ms = 0
    for since, until in runs:
        if until is None or served_ms + until - since >= takes_ms:
            return since + takes_ms - served_ms
        served_ms += until - since
    return None
