"""What happens to a VM after a call was accepted: one driver operation after the other, each may fail.

Every state under way has one operation (`operations.py`); its end is `succeed` or `fail`, told apart by the state
the VM is in then, so that recovery by hand takes the same ways. How an operation goes on until then is in `vm_work`,
what is written down of it in `vm_books`.
"""

from __future__ import annotations

from collections.abc import Callable

from one_preempt.simulation.simulated_cloud import addressing, devices
from one_preempt.simulation.simulated_cloud.objects import Caller, SimVm
from one_preempt.simulation.simulated_cloud.operations import OPERATIONS, POWEROFF_MIGRATIONS
from one_preempt.simulation.simulated_cloud.quotas import full_request
from one_preempt.simulation.simulated_cloud.states import HistoryAction, HostState, LcmState, VmState
from one_preempt.simulation.simulated_cloud.storage import DISKS, MEMORY
from one_preempt.simulation.simulated_cloud.templates import text_of, vectors_of
from one_preempt.simulation.simulated_cloud.vm_work import VmWork, disk_mib

_L = LcmState
_ACTIVE, _DONE, _RUNNING, _EPILOG = VmState.ACTIVE, VmState.DONE, _L.RUNNING, _L.EPILOG
_BOOT_AFTER_PROLOG = {
    _L.PROLOG: _L.BOOT,
    _L.PROLOG_RESUME: _L.BOOT_STOPPED,
    _L.PROLOG_UNDEPLOY: _L.BOOT_UNDEPLOY,
    _L.PROLOG_MIGRATE: _L.BOOT_MIGRATE,
    _L.PROLOG_MIGRATE_UNKNOWN: _L.BOOT,
}
_BOOTS = frozenset(
    {
        _L.BOOT, _L.BOOT_UNKNOWN, _L.BOOT_POWEROFF, _L.BOOT_UNDEPLOY, _L.BOOT_SUSPENDED, _L.BOOT_STOPPED,
        _L.BOOT_MIGRATE,
    }
)  # fmt: skip
_REST_AFTER_MIGRATION = {
    _L.PROLOG_MIGRATE_POWEROFF: VmState.POWEROFF,
    _L.PROLOG_MIGRATE_SUSPEND: VmState.SUSPENDED,
}
_REST_AFTER_SUCCESS = {_L.SAVE_SUSPEND: VmState.SUSPENDED, _L.SHUTDOWN_POWEROFF: VmState.POWEROFF}
_EPILOG_AFTER_SUCCESS = {
    _L.SAVE_STOP: _L.EPILOG_STOP,
    _L.SHUTDOWN_UNDEPLOY: _L.EPILOG_UNDEPLOY,
    _L.SHUTDOWN: _L.EPILOG,
}
# A failure that leaves the VM where it can be retried or recovered: X -> X_FAILURE.
FAILURES = {
    state: LcmState[f"{state.name}_FAILURE"] for state in OPERATIONS if f"{state.name}_FAILURE" in LcmState.__members__
}
WORK_OF_FAILURE = {failure: state for state, failure in FAILURES.items()}
_SAVES = frozenset({_L.SAVE_STOP, _L.SAVE_SUSPEND, _L.SAVE_MIGRATE})
_MIGRATION_PROLOGS = frozenset(
    {_L.PROLOG_MIGRATE, _L.PROLOG_MIGRATE_POWEROFF, _L.PROLOG_MIGRATE_SUSPEND, _L.PROLOG_MIGRATE_UNKNOWN}
)
_DISKS_ARRIVE = frozenset({_L.PROLOG, *_MIGRATION_PROLOGS})
_NEED_ROOM = _SAVES | _DISKS_ARRIVE


class LifeCycle(VmWork):
    """The transitions of VMs."""

    # ---------------------------------------------------------------- success

    def succeed(self, vm: SimVm) -> None:
        """The operation of the VM's state ended well (or somebody says so)."""
        state = WORK_OF_FAILURE.get(vm.lcm_state, vm.lcm_state)
        if state in _NEED_ROOM and not self._has_room(vm, state):
            self.fail(vm)
        else:
            _ON_SUCCESS.get(state, LifeCycle._off_the_hypervisor)(self, vm, state)

    def _moved_at_rest(self, vm: SimVm, state: LcmState) -> None:
        record = vm.history[-1]
        record.petime_s = record.retime_s = self.now_s
        self.change_vm(vm, _REST_AFTER_MIGRATION[state])

    def _disks_are_there(self, vm: SimVm, state: LcmState) -> None:
        record = vm.history[-1]
        record.petime_s = record.rstime_s = self.clock.now_ms // 1000
        restarts = state == _L.PROLOG_MIGRATE and record.action in POWEROFF_MIGRATIONS
        self.begin(vm, _L.BOOT if restarts else _BOOT_AFTER_PROLOG[state])

    def _running(self, vm: SimVm, _: LcmState) -> None:
        record = vm.history[-1]
        record.etime_s = record.retime_s = 0
        record.action, record.uid, record.gid, record.request_id = 0, -1, -1, -1
        self.name_deployment(vm)
        if self.space.taken:
            self.space.give_back(vm.id, MEMORY)
        self.change_vm(vm, _ACTIVE, _RUNNING)

    def name_deployment(self, vm: SimVm) -> None:
        """The hypervisor's name for the guest, as the driver tells it once it runs."""
        if not vm.deploy_id:
            record = vm.history[-1]
            vm.deploy_id = f"{record.hostname}:{vm.name}:dummy" if record.vm_mad == "dummy" else f"one-{vm.id}"

    def _arrived_live(self, vm: SimVm, _: LcmState) -> None:
        vm.history[-1].rstime_s = self.now_s
        vm.history[-2].etime_s = vm.history[-2].retime_s = self.now_s
        self.leave_previous_host(vm)
        self.change_vm(vm, VmState.ACTIVE, _L.RUNNING)

    def _off_the_hypervisor(self, vm: SimVm, state: LcmState) -> None:
        """A save or a shutdown ended: the guest is off, its memory may lie in a file."""
        if state == _L.SAVE_MIGRATE:
            self._prolog_migrate(vm)
            return
        record = vm.history[-1]
        record.retime_s = self.clock.now_ms // 1000
        if state in _REST_AFTER_SUCCESS:
            self._rest(vm, _REST_AFTER_SUCCESS[state])
            return
        record.estime_s = record.retime_s
        self.begin(vm, _EPILOG_AFTER_SUCCESS[state])

    def _prolog_migrate(self, vm: SimVm) -> None:
        record, previous = vm.history[-1], vm.history[-2]
        previous.etime_s = previous.retime_s = record.pstime_s = self.now_s
        self.leave_previous_host(vm)
        self.begin(vm, _L.PROLOG_MIGRATE)

    def _epilog_done(self, vm: SimVm, state: LcmState) -> None:
        record = vm.history[-1]
        record.eetime_s = record.etime_s = self.clock.now_ms // 1000
        self.release_host(vm, record.host_id)
        if "GRAPHICS" in vm.template and state != _L.EPILOG_STOP:
            for graphics in vectors_of(vm.template, "GRAPHICS"):
                graphics.pop("PORT", None)
        if state == _EPILOG:
            self.end(vm)
        else:
            self._rest(vm, VmState.STOPPED if state == _L.EPILOG_STOP else VmState.UNDEPLOYED)

    def _rest(self, vm: SimVm, state: VmState) -> None:
        """Come to rest, and give the running quota back."""
        with_running = full_request(vm)
        self.change_vm(vm, state)
        self.settle_quota(vm, with_running)

    # ---------------------------------------------------------------- failure

    def fail(self, vm: SimVm) -> None:
        """The operation of the VM's state failed (or somebody says so)."""
        state, record = vm.lcm_state, vm.history[-1]
        if state in WORK_OF_FAILURE:
            if WORK_OF_FAILURE[state] in _MIGRATION_PROLOGS:
                self._give_up_migration(vm, WORK_OF_FAILURE[state])
        elif state in (_L.MIGRATE, _L.SAVE_MIGRATE):
            self._stay_on_source(vm)
        elif state in (_L.SAVE_STOP, _L.SAVE_SUSPEND, _L.SHUTDOWN, _L.SHUTDOWN_POWEROFF, _L.SHUTDOWN_UNDEPLOY):
            record.action, record.uid, record.gid, record.request_id = 0, -1, -1, -1
            self.change_vm(vm, VmState.ACTIVE, _L.RUNNING)
        elif state in (_L.BOOT_SUSPENDED, _L.BOOT_POWEROFF):
            record.retime_s = self.now_s
            self._rest(vm, VmState.SUSPENDED if state == _L.BOOT_SUSPENDED else VmState.POWEROFF)
        elif state == _L.BOOT_UNKNOWN:
            self.change_vm(vm, VmState.ACTIVE, _L.UNKNOWN)
        else:
            if state in _BOOTS:
                record.retime_s = self.now_s
            self.change_vm(vm, VmState.ACTIVE, FAILURES[state])
        self._note_dead_host(vm)

    def _stay_on_source(self, vm: SimVm) -> None:
        """A migration that did not leave: back on the source in a record of its own."""
        now_s = self.now_s
        vm.history[-1].etime_s = vm.history[-2].etime_s = vm.history[-2].retime_s = now_s
        if vm.history[-1].host_id != vm.history[-2].host_id:
            self.release_host(vm, vm.history[-1].host_id)
            devices.go_back(self.hosts[vm.history[-2].host_id], vm, self.is_series_7)
            self.changes.usage(vm.history[-2].host_id)
        self.add_record(vm, self.hosts[vm.history[-2].host_id], vm.history[-2].datastore_id)
        vm.history[-1].rstime_s = now_s
        self.change_vm(vm, VmState.ACTIVE, _L.RUNNING)

    def _give_up_migration(self, vm: SimVm, work: LcmState) -> None:
        """Recovery says the transfer failed for good: take the VM up again where it came from."""
        record, previous = vm.history[-1], vm.history[-2]
        record.petime_s = record.etime_s = self.now_s
        self.release_host(vm, record.host_id)
        self.add_record(vm, self.hosts[previous.host_id], previous.datastore_id)
        vm.history[-1].action, vm.history[-1].pstime_s = record.action, self.now_s
        self.charge_host(vm, previous.host_id)
        self.change_vm(vm, VmState.ACTIVE, work)
        self.succeed(vm)

    def _note_dead_host(self, vm: SimVm) -> None:
        host = self.hosts[vm.history[-1].host_id]
        if host.state == HostState.ERROR and vm.lcm_state == _L.RUNNING:
            self.change_vm(vm, VmState.ACTIVE, _L.UNKNOWN)

    # ---------------------------------------------------------------- ends

    def end(self, vm: SimVm) -> None:
        """DONE: give back leases, memory image, group, quota and capacity."""
        for record in vm.history[-2:]:
            if vm.id in self.hosts[record.host_id].vm_ids:
                self.release_host(vm, record.host_id)
        if vm.history:
            record = vm.history[-1]
            record.etime_s = record.etime_s or self.now_s
            if record.rstime_s and not record.retime_s:
                record.retime_s = self.now_s
        if self.space.taken:
            self.space.give_back(vm.id, MEMORY)
            self.space.give_back(vm.id, DISKS)
        if self.networks:
            addressing.give_leases_back(self.networks, vm.id)
        if self.images or self.vm_groups:
            self._leave_images_and_groups(vm)
        booked = full_request(vm)
        vm.etime_s = self.now_s
        vm.resched = False
        self.change_vm(vm, _DONE)
        self.quota_books.add(vm.uid, vm.gid, booked, -1)

    def _leave_images_and_groups(self, vm: SimVm) -> None:
        for image in self.images.values():
            if vm.id in image.vm_ids:
                image.vm_ids.remove(vm.id)
                image.running_vms -= 1
        for role in (role for group in self.vm_groups.values() for role in group.roles):
            if vm.id in role.vm_ids:
                role.vm_ids.remove(vm.id)

    def clean_up(self, vm: SimVm, caller: Caller, resubmit: bool) -> None:
        """Take the VM away from wherever it is, at once: to DONE, or to PENDING for another try."""
        self.cancel_work(vm)
        booked = full_request(vm)
        vm.resched = False
        if vm.history:
            record = vm.history[-1]
            self.sign(record, caller, HistoryAction.DELETE_RECREATE if resubmit else HistoryAction.DELETE)
            record.etime_s = record.etime_s or self.now_s
            for record in vm.history[-2:]:
                self.release_host(vm, record.host_id)
                record.etime_s = record.etime_s or self.now_s
        self.space.give_back(vm.id, MEMORY)
        self.space.give_back(vm.id, DISKS)
        cleanup = _L.CLEANUP_RESUBMIT if resubmit else _L.CLEANUP_DELETE
        self.change_vm(vm, VmState.ACTIVE, cleanup)
        self.settle_quota(vm, booked)
        if resubmit:
            vm.deploy_id = ""
            self.change_vm(vm, VmState.PENDING)
        else:
            self.end(vm)

    # ---------------------------------------------------------------- room

    def _has_room(self, vm: SimVm, state: LcmState) -> bool:
        if state in _SAVES:
            return self._has_room_for_memory(vm, state)
        return self._has_room_for_disks(vm)

    def _has_room_for_memory(self, vm: SimVm, state: LcmState) -> bool:
        """Take room for the guest's memory where the guest is saved."""
        record = vm.history[-2] if state == _L.SAVE_MIGRATE else vm.history[-1]
        if record.action in POWEROFF_MIGRATIONS:
            return True
        return self.space.take(vm.id, MEMORY, record.datastore_id, int(text_of(vm.template, "MEMORY", "0")))

    def _has_room_for_disks(self, vm: SimVm) -> bool:
        """Take room for the disks where they are made or brought to."""
        if "DISK" not in vm.template:
            return True
        return self.space.take(vm.id, DISKS, vm.history[-1].datastore_id, disk_mib(vm))


_ON_SUCCESS: dict[LcmState, Callable[[LifeCycle, SimVm, LcmState], None]] = {
    **dict.fromkeys(_REST_AFTER_MIGRATION, LifeCycle._moved_at_rest),
    **dict.fromkeys(_BOOT_AFTER_PROLOG, LifeCycle._disks_are_there),
    **dict.fromkeys(_BOOTS, LifeCycle._running),
    _L.MIGRATE: LifeCycle._arrived_live,
    **dict.fromkeys((_L.EPILOG, _L.EPILOG_STOP, _L.EPILOG_UNDEPLOY), LifeCycle._epilog_done),
}
