"""Calls about several VMs at once, to which the same happens at one instant: the same as one call after the other.

Where the operations of a start or an end take no time and nobody listens to each VM by itself, nothing can come between
the VMs of a gang. What cannot be told beforehand to go well is left to single calls.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from itertools import groupby

from one_preempt.simulation.simulated_cloud.calls.vm_actions import VmActions
from one_preempt.simulation.simulated_cloud.capacity import charge, release, taken_by
from one_preempt.simulation.simulated_cloud.cloud_state import SharedChange
from one_preempt.simulation.simulated_cloud.drivers import Job
from one_preempt.simulation.simulated_cloud.durations import Operation
from one_preempt.simulation.simulated_cloud.objects import Caller, SimDatastore, SimHost, SimVm
from one_preempt.simulation.simulated_cloud.operations import host_of
from one_preempt.simulation.simulated_cloud.quotas import full_request
from one_preempt.simulation.simulated_cloud.states import DatastoreType, HistoryAction, HostState, LcmState, VmState
from one_preempt.simulation.simulated_cloud.storage import DISKS, MEMORY

_ACTIVE, _DONE, _WAITING = VmState.ACTIVE, VmState.DONE, frozenset({VmState.PENDING, VmState.HOLD})
_INIT, _RUNNING, _BOOT = LcmState.LCM_INIT, LcmState.RUNNING, LcmState.BOOT
_PROLOG, _SHUTDOWN, _EPILOG = LcmState.PROLOG, LcmState.SHUTDOWN, LcmState.EPILOG
_OFFLINE, _SYSTEM, _TERMINATE = HostState.OFFLINE, DatastoreType.SYSTEM, HistoryAction.TERMINATE
_STARTS, _ENDS = frozenset({_PROLOG, _BOOT}), frozenset({_SHUTDOWN, _EPILOG})
# What has to be prepared, handed out or given back, besides CPU and memory.
_TIES = frozenset({
    "DISK", "NIC", "NIC_ALIAS", "PCI", "VMGROUP", "TOPOLOGY", "NUMA_NODE", "GRAPHICS",
})  # fmt: skip

_Start = tuple[SimVm, SimHost, SimDatastore]


class GangCalls(VmActions):
    """one.vm.deploy and one.vm.action for the VMs of a gang."""

    def deploy_together(self, caller: Caller, places: Sequence[tuple[int, int, int]]) -> bool:
        """Start new VMs, each given as (VM, host, system datastore), with the capacity of hosts enforced.

        False, and nothing is done, where one of these calls might be refused or take time.
        """
        starts = self._starts(places) if caller.is_admin and self._is_at_once(_STARTS) else []
        if not starts or self.drivers.is_ending:
            return False
        now_s, series_7, together = self.now_s, self.is_series_7, [vm for vm, _, _ in starts]
        for vm, host, datastore in starts:
            self.request_id += 1
            vm.template["TM_MAD_SYSTEM"] = [datastore.tm_mad]
            self.add_record(vm, host, datastore.id).pstime_s = now_s
            charge(host, vm, series_7)
            vm.state, vm.lcm_state = vm.prev_state, vm.prev_lcm_state = _ACTIVE, _PROLOG
            self._ending_together[vm.id] = together
        self._tell_logs(together, [host.id for _, host, _ in starts])
        self._end_soon(Operation.PROLOG, together[0], partial(self._come_to_run, together))
        return True

    def terminate_together(self, caller: Caller, vm_ids: Sequence[int]) -> bool:
        """End running VMs of the caller.

        False, and nothing is done, where one of these calls might be refused or take time.
        """
        together = [self.vms[vm_id] for vm_id in vm_ids if vm_id in self.vms]
        is_sure = len(together) == len(set(vm_ids)) == len(vm_ids) > 0 and self._is_at_once(_ENDS)
        if not is_sure or self.drivers.is_ending or [vm for vm in together if not self._may_end(caller, vm)]:
            return False
        for vm in together:
            self.request_id += 1
            vm.resched = False
            self.sign(vm.history[-1], caller, _TERMINATE)
            vm.state, vm.lcm_state = vm.prev_state, vm.prev_lcm_state = _ACTIVE, _SHUTDOWN
            self._ending_together[vm.id] = together
        self._tell_logs(together)
        self._end_soon(Operation.SHUTDOWN, together[0], partial(self._come_to_an_end, together))
        return True

    def _enter_together(self, vms: Sequence[SimVm]) -> None:
        """New VMs that are alike come into the pool."""
        first = vms[0]
        if self._hears_each or not _TIES.isdisjoint(first.template):
            for vm in vms:
                self._enter(vm)
            return
        # What they hold on a host is the same, and is found out once.
        taken = taken_by(first)
        for vm in vms:
            vm.taken = taken
            self.vms[vm.id] = vm
        self._last_vm_id = vms[-1].id
        self._tell(vms, (first.state, first.state, first.lcm_state, first.lcm_state))

    # ---------------------------------------------------------------- what can be told beforehand

    def _is_at_once(self, states: frozenset[LcmState]) -> bool:
        """Whatever VM it is, these states are passed in no time, and nobody hears of it or of each VM by itself."""
        return not (self._hears_each or self._hears_passing) and self.drivers.is_idle and states <= self._instant_now()

    def _starts(self, places: Sequence[tuple[int, int, int]]) -> list[_Start]:
        """The VMs with their hosts and datastores; empty where not all of them certainly start."""
        found: list[_Start] = []
        left: dict[int, tuple[int, int]] = {}
        for vm_id, host_id, datastore_id in places:
            vm, host, datastore = self.vms.get(vm_id), self.hosts.get(host_id), self.datastores.get(datastore_id)
            if vm is None or host is None or datastore is None or not (_is_new(vm) and _takes_vms(host, datastore)):
                return []
            share, (cpu, memory_kib) = host.share, taken_by(vm)
            free = (share.max_cpu - share.cpu_usage, share.max_mem - share.mem_usage)
            free_cpu, free_memory_kib = left.get(host_id, free)
            left[host_id] = free_cpu - cpu, free_memory_kib - memory_kib
            if cpu > free_cpu or memory_kib > free_memory_kib:
                return []
            found.append((vm, host, datastore))
        return found if len({vm_id for vm_id, _, _ in places}) == len(found) else []

    def _may_end(self, caller: Caller, vm: SimVm) -> bool:
        """It runs, its caller may end it, and has nothing to be given back but CPU and memory."""
        return (
            vm.state == _ACTIVE
            and vm.lcm_state == _RUNNING
            and vm.lock is None
            and caller.uid == vm.uid
            and caller.gid == vm.gid
            and (vm.permissions.owner_m or caller.is_admin)
            and vm.id not in self._jobs
            and self.hosts[vm.history[-1].host_id].alive
            and _TIES.isdisjoint(vm.template)
        )

    # ---------------------------------------------------------------- what follows at once

    def _come_to_run(self, together: Sequence[SimVm], _: Job) -> None:
        """The prologs ended, and with them the boots."""
        vms = self._still_ending(together)
        if not self._is_still_at_once(vms, _STARTS):
            self._end_one_by_one(Operation.PROLOG, vms)
            return
        now_s = self.now_s
        for vm in vms:
            record = vm.history[-1]
            record.petime_s = record.rstime_s = now_s
            self.name_deployment(vm)
            vm.state, vm.lcm_state = vm.prev_state, vm.prev_lcm_state = _ACTIVE, _RUNNING
        self._tell(vms, (_ACTIVE, _ACTIVE, _BOOT, _RUNNING))

    def _come_to_an_end(self, ending: Sequence[SimVm], _: Job) -> None:
        """The shutdowns ended, and with them the epilogs: DONE, and everything is given back."""
        vms = self._still_ending(ending)
        if not self._is_still_at_once(vms, _ENDS):
            self._end_one_by_one(Operation.SHUTDOWN, vms)
            return
        now_s = self.now_s
        # The members of a gang share what their templates say, and are counted together.
        together = [list(alike) for _, alike in groupby(vms, _counted_by)]
        booked = [(alike[0].uid, alike[0].gid, full_request(alike[0]), len(alike)) for alike in together]
        for vm in vms:
            record = vm.history[-1]
            record.retime_s = record.estime_s = record.eetime_s = record.etime_s = vm.etime_s = now_s
            release(self.hosts[record.host_id], vm)
            for stay in vm.history[-2:-1]:
                if vm.id in self.hosts[stay.host_id].vm_ids:
                    self.release_host(vm, stay.host_id)
            if self.space.taken:
                self.space.give_back(vm.id, MEMORY)
                self.space.give_back(vm.id, DISKS)
            vm.state, vm.lcm_state = vm.prev_state, vm.prev_lcm_state = _DONE, _INIT
        self._tell(vms, (_ACTIVE, _DONE, _EPILOG, _INIT), [vm.history[-1].host_id for vm in vms])
        for uid, gid, request, count in booked:
            self.quota_books.add(uid, gid, request, -count)

    def _end_soon(self, operation: Operation, first: SimVm, finish: partial[None]) -> None:
        self.drivers.end_soon(Job(operation, first.id, first.history[-1].host_id, self._start, finish))

    def _still_ending(self, together: Sequence[SimVm]) -> list[SimVm]:
        """Those of which nobody has stopped the operation since; it is over for all of them."""
        vms = [vm for vm in together if self._ending_together.get(vm.id) is together]
        for vm in vms:
            del self._ending_together[vm.id]
        return vms

    def _is_still_at_once(self, vms: Iterable[SimVm], states: frozenset[LcmState]) -> bool:
        return self._is_at_once(states) and not [vm for vm in vms if not self.hosts[vm.history[-1].host_id].alive]

    def _end_one_by_one(self, operation: Operation, vms: Iterable[SimVm]) -> None:
        for vm in vms:
            job = Job(operation, vm.id, host_of(vm, vm.lcm_state), self._start, self._finish)
            self._jobs[vm.id] = job
            self.drivers.end_now(job)

    def _tell_logs(self, vms: Sequence[SimVm], used_host_ids: Sequence[int] = ()) -> tuple[int, ...]:
        """The VMs changed, and with them the load of these hosts; the ids of the VMs."""
        vm_ids = tuple([vm.id for vm in vms])
        for log in self.changes.logs:
            log.vms.update(vm_ids)
            log.usage.update(used_host_ids)
        return vm_ids

    def _tell(self, vms: Sequence[SimVm], states: tuple[int, int, int, int], used_host_ids: Sequence[int] = ()) -> None:
        vm_ids = self._tell_logs(vms, used_host_ids)
        if vm_ids:
            self._publish_shared(SharedChange(self.clock.now_ms, vm_ids, *states))


def _counted_by(vm: SimVm) -> tuple[int, int, int, int]:
    """Whose quotas count it, and the very values of its template that say how much; it has no disks and devices."""
    return vm.uid, vm.gid, id(vm.template.get("CPU")), id(vm.template.get("MEMORY"))


def _is_new(vm: SimVm) -> bool:
    """It waits for its first start, and has nothing but CPU and memory to be given."""
    return vm.state in _WAITING and vm.lock is None and not vm.history and _TIES.isdisjoint(vm.template)


def _takes_vms(host: SimHost, datastore: SimDatastore) -> bool:
    """The host is on, and this is a system datastore of its cluster."""
    is_on = host.alive and host.state != _OFFLINE
    return is_on and datastore.type == _SYSTEM and host.cluster_id in datastore.cluster_ids
