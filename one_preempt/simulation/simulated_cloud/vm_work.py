"""The work of drivers on a VM: entered with a state, begun, as long as it takes, and ended well or not.

How long an operation takes, what faults make of it, which images it waits for, and when it takes no time at all. What
follows from its end is in `life_cycle`.
"""

from __future__ import annotations

from abc import abstractmethod
from datetime import UTC, datetime

from one_preempt.simulation.simulated_cloud.drivers import Job
from one_preempt.simulation.simulated_cloud.durations import TRANSFERS, Durations, Operation
from one_preempt.simulation.simulated_cloud.faults import Misbehaviour
from one_preempt.simulation.simulated_cloud.image_link import ImageCopy, ImageLink
from one_preempt.simulation.simulated_cloud.objects import SimHistory, SimHost, SimVm
from one_preempt.simulation.simulated_cloud.operations import host_of, instant_states, operation_of
from one_preempt.simulation.simulated_cloud.quotas import counts_as_running, on_system_datastore
from one_preempt.simulation.simulated_cloud.states import LcmState, VmState
from one_preempt.simulation.simulated_cloud.storage import MEMORY, SystemSpace
from one_preempt.simulation.simulated_cloud.templates import text_of, vectors_of
from one_preempt.simulation.simulated_cloud.vm_books import VmBooks

_L = LcmState
_ACTIVE, _SAVE = VmState.ACTIVE, Operation.SAVE
# What begins and ends with every life, and tells nothing where it takes no time.
_SHORT = frozenset({_L.PROLOG, _L.SHUTDOWN})
_NONE: frozenset[LcmState] = frozenset()

Stay = tuple[SimVm, SimHistory, SimHost]
"""A VM with the record of the host on which it is."""


class VmWork(VmBooks):
    """The operations of VMs that are under way."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._jobs: dict[int, Job] = {}
        # Those whose operations end together.
        self._ending_together: dict[Job, list[Stay]] = {}
        # What waits for images on their way to its host.
        self._copies: dict[int, list[ImageCopy]] = {}
        self._know_instant()
        self.space = SystemSpace(self.datastores, changes=self.changes)

    @abstractmethod
    def succeed(self, vm: SimVm) -> None:
        """The operation of the VM's state ended well (or somebody says so)."""

    @abstractmethod
    def fail(self, vm: SimVm) -> None:
        """The operation of the VM's state failed (or somebody says so)."""

    def begin(self, vm: SimVm, state: LcmState) -> None:
        """Enter `state` and let the driver do what belongs to it."""
        if self.drivers.is_ending and not self._hears_passing and self._takes_no_time(vm, state):
            # Nobody hears of it, and nobody waits for the answer to a call.
            vm.state, vm.lcm_state = vm.prev_state, vm.prev_lcm_state = _ACTIVE, state
            self.succeed(vm)
        else:
            self._work(vm, state, self._enter_work(vm, state))

    def begin_with_quota(self, vm: SimVm, state: LcmState) -> None:
        """`begin` for a VM that comes from rest."""
        counted = counts_as_running(vm)
        at_once = self._enter_work(vm, state)
        self.settle_running_quota(vm, counted)
        self._work(vm, state, at_once)

    def _enter_work(self, vm: SimVm, state: LcmState) -> bool:
        """Enter `state`, untold where nobody wants to hear of it; whether its work takes no time, on a live machine."""
        at_once = self._takes_no_time(vm, state)
        if at_once and not self._hears_passing and (self.drivers.is_ending or state in _SHORT):
            vm.state, vm.lcm_state = vm.prev_state, vm.prev_lcm_state = _ACTIVE, state
        else:
            self.change_vm(vm, _ACTIVE, state)
        return at_once

    def _work(self, vm: SimVm, state: LcmState, at_once: bool) -> None:
        if at_once and self.drivers.is_ending:
            self.succeed(vm)
            return
        operation = operation_of(vm, state)
        job = Job(operation, vm.id, host_of(vm, state), self._start, self._finish)
        self._jobs[vm.id] = job
        if at_once and not self._hears_passing:
            job.fails = _cannot_be_saved(vm, operation)
            self.drivers.end_soon(job)
        else:
            self.drivers.submit(job)

    def _start(self, job: Job) -> int | None:
        """The duration of the operation; None where it hangs. A fault may turn its end into a failure."""
        vm = self.vms[job.vm_id]
        job.fails = _cannot_be_saved(vm, job.operation)
        durations = self._durations_of(vm, job.host_id)
        memory_mib, disk_mib = self._sizes_of(vm, job.operation)
        duration_ms = durations.duration_ms(job.operation, memory_mib, disk_mib)
        fault = self.faults.strike(job.operation, job.vm_id, job.host_id)
        if fault is not None and fault.misbehaviour == Misbehaviour.HANG:
            return None
        if fault is not None and fault.misbehaviour == Misbehaviour.SLOW:
            duration_ms = round(duration_ms * fault.factor)
        elif fault is not None:
            job.fails = True
        if self.image_link is not None and job.operation == Operation.PROLOG:
            return self._after_its_images(job, vm, duration_ms, self.image_link)
        return duration_ms

    def _after_its_images(self, job: Job, vm: SimVm, duration_ms: int, link: ImageLink) -> int | None:
        """The duration, once all images are on the host; None where one is still to come."""
        missing = [
            (image_id, size_mib) for image_id, size_mib in self._copied(vm) if not link.holds(job.host_id, image_id)
        ]
        if not missing:
            return duration_ms

        def arrived(copy: ImageCopy) -> None:
            copies.remove(copy)
            if not copies:
                del self._copies[vm.id]
                self.drivers.end_after(job, duration_ms)

        copies: list[ImageCopy] = []
        self._copies[vm.id] = copies
        for image_id, size_mib in missing:
            copies.append(link.copy(job.host_id, image_id, size_mib, arrived, is_staged=False))
        return None

    def _copied(self, vm: SimVm) -> list[tuple[int, int]]:
        """The images that are copied to the host for a VM's disks, each once, with their MiB."""
        store = self.datastores[vm.history[-1].datastore_id]
        if "DISK" not in vm.template or text_of(store.template, "SHARED") == "YES":
            return []
        disks = [disk for disk in vectors_of(vm.template, "DISK") if disk.get("CLONE") == "YES" and "IMAGE_ID" in disk]
        sizes = {
            int(disk["IMAGE_ID"]): int(disk["ORIGINAL_SIZE"]) for disk in disks if disk["CLONE_TARGET"] == "SYSTEM"
        }
        return sorted(sizes.items())

    def _takes_no_time(self, vm: SimVm, state: LcmState) -> bool:
        """Its work is done at once, whatever it is and whoever does it; nothing fails, and nobody is waited for."""
        if state not in self._instant_now() or not self.hosts[vm.history[-1].host_id].alive:
            return False
        drivers = self.drivers
        return not drivers.at_work or drivers.has_place(operation_of(vm, state), host_of(vm, state))

    def _instant_now(self) -> frozenset[LcmState]:
        """The states of which the work takes no time, whichever VM and host it is about."""
        if self.faults.faults or self.durations_of_vm or self.durations_of_host:
            return _NONE
        if self._instant_under is not self.durations:
            self._know_instant()
        return self._instant

    def _know_instant(self) -> None:
        self._instant_under, self._instant = self.durations, instant_states(self.durations)
        if self.image_link is not None:
            self._instant -= {_L.PROLOG}

    def _durations_of(self, vm: SimVm, host_id: int) -> Durations:
        return self.durations_of_vm.get(vm.id) or self.durations_of_host.get(host_id) or self.durations

    def _sizes_of(self, vm: SimVm, operation: Operation) -> tuple[int, int]:
        lies_in_a_file = operation not in TRANSFERS or self.space.holds(vm.id, MEMORY)
        memory_mib = int(text_of(vm.template, "MEMORY", "0")) if lies_in_a_file else 0
        return memory_mib, disk_mib(vm)

    def _finish(self, job: Job) -> None:
        vm = self.vms[job.vm_id]
        del self._jobs[vm.id]
        on_dead_host = job.operation not in TRANSFERS and not self.hosts[job.host_id].alive
        if not (job.fails or on_dead_host):
            self.succeed(vm)
        else:
            when = datetime.fromtimestamp(self.now_s, UTC).ctime()
            error = f"{when}: {job.operation.upper()}: failed on {vm.history[-1].hostname}"
            vm.user_template = {**vm.user_template, "ERROR": [error]}
            self.changes.vm(vm.id)
            self.fail(vm)

    def cancel_work(self, vm: SimVm) -> None:
        """Forget the operation under way, if there is one."""
        for together in self._ending_together.values():
            together[:] = [stay for stay in together if stay[0] is not vm]
        if self.image_link is not None:
            for copy in self._copies.pop(vm.id, ()):
                self.image_link.cancel(copy)
        job = self._jobs.pop(vm.id, None)
        if job is not None:
            self.drivers.cancel(job)


def disk_mib(vm: SimVm) -> int:
    """What its disks take of the system datastore."""
    if "DISK" not in vm.template:
        return 0
    disks = [disk for disk in vectors_of(vm.template, "DISK") if on_system_datastore(disk)]
    return sum(int(disk.get("SIZE", "0")) for disk in disks)


def _cannot_be_saved(vm: SimVm, operation: Operation) -> bool:
    """The hypervisor saves no guest to which a device of the host was handed over."""
    return operation == _SAVE and vm.history[-1].vm_mad == "kvm" and bool(vectors_of(vm.template, "PCI"))
