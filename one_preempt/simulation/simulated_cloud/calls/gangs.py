"""Calls about several VMs at once, to which the same happens at one instant: the same as one call after the other.

Where the operations of a start or an end take no time and nobody listens to each VM by itself, nothing can come between
the VMs of a gang. What cannot be told beforehand to go well is left to single calls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby

from one_preempt.simulation.simulated_cloud.calls.vm_actions import VmActions
from one_preempt.simulation.simulated_cloud.capacity import hold, let_go
from one_preempt.simulation.simulated_cloud.cloud_state import SharedChange
from one_preempt.simulation.simulated_cloud.drivers import Job
from one_preempt.simulation.simulated_cloud.durations import Operation
from one_preempt.simulation.simulated_cloud.objects import Caller, SimDatastore, SimHistory, SimHost, SimVm
from one_preempt.simulation.simulated_cloud.operations import host_of
from one_preempt.simulation.simulated_cloud.quotas import full_request
from one_preempt.simulation.simulated_cloud.states import DatastoreType, HistoryAction, HostState, LcmState, VmState
from one_preempt.simulation.simulated_cloud.storage import DISKS, MEMORY
from one_preempt.simulation.simulated_cloud.vm_work import Stay

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
        if not (places and caller.is_admin and self._is_at_once(_STARTS)) or self.drivers.is_ending:
            return False
        vm_ids, host_ids, _ = zip(*places, strict=True)
        starts = self._starts(places) if len(set(vm_ids)) == len(vm_ids) else []
        if not starts:
            return False
        now_s, stays = self.now_s, []
        for vm, host, datastore in starts:
            tm_mad = datastore.tm_mad
            vm.template["TM_MAD_SYSTEM"] = [tm_mad]
            record = SimHistory(
                vm.id, 0, host.name, host.id, host.cluster_id, now_s,
                vm_mad=host.vm_mad, tm_mad=tm_mad, datastore_id=datastore.id, pstime_s=now_s,
            )  # fmt: skip
            vm.history.append(record)
            vm.state = vm.prev_state = _ACTIVE
            vm.lcm_state = vm.prev_lcm_state = _PROLOG
            stays.append((vm, record, host))
        self.request_id += len(stays)
        self._tell_logs(vm_ids, host_ids)
        self._end_soon(Operation.PROLOG, stays, self._come_to_run)
        return True

    def terminate_together(self, caller: Caller, vm_ids: Sequence[int]) -> bool:
        """End running VMs of the caller.

        False, and nothing is done, where one of these calls might be refused or take time.
        """
        is_sure = self._is_at_once(_ENDS) and not self.drivers.is_ending
        stays = self._ends(caller, vm_ids) if is_sure else []
        if not stays:
            return False
        for vm, record, _ in stays:
            self.request_id += 1
            vm.resched = False
            self.sign(record, caller, _TERMINATE)
            vm.lcm_state = vm.prev_lcm_state = _SHUTDOWN
        self._tell_logs(vm_ids)
        self._end_soon(Operation.SHUTDOWN, stays, self._come_to_an_end)
        return True

    def _enter_together(self, vms: Sequence[SimVm]) -> None:
        """New VMs that are alike come into the pool."""
        first = vms[0]
        if self._hears_each or not _TIES.isdisjoint(first.template):
            for vm in vms:
                self._enter(vm)
            return
        vm_ids = [vm.id for vm in vms]
        self.vms.update(zip(vm_ids, vms, strict=True))
        self._last_vm_id = vm_ids[-1]
        self._tell(vm_ids, (first.state, first.state, first.lcm_state, first.lcm_state))

    # ---------------------------------------------------------------- what can be told beforehand

    def _is_at_once(self, states: frozenset[LcmState]) -> bool:
        """Whatever VM it is, these states are passed in no time, and nobody hears of it or of each VM by itself."""
        return not (self._hears_each or self._hears_passing) and self.drivers.is_idle and states <= self._instant_now()

    def _starts(self, places: Sequence[tuple[int, int, int]]) -> list[_Start]:
        """The VMs, each named once, with their hosts, which are charged with them now, and datastores; empty, and no
        host is charged, where not all of them certainly start."""
        vms, hosts, datastores = self.vms, self.hosts, self.datastores
        found: list[_Start] = []
        for vm_id, host_id, datastore_id in places:
            vm, host, datastore = vms.get(vm_id), hosts.get(host_id), datastores.get(datastore_id)
            if vm is None or host is None or datastore is None or not _may_start(vm, host, datastore):
                break
            share, taken = host.share, vm.taken
            if share.cpu_usage + taken[0] > share.max_cpu or share.mem_usage + taken[1] > share.max_mem:
                break
            hold(host, vm_id, taken)
            found.append((vm, host, datastore))
        if len(found) == len(places):
            return found
        for vm, host, _ in found:
            let_go(host, vm.id, vm.taken)
        return []

    def _ends(self, caller: Caller, vm_ids: Sequence[int]) -> list[Stay]:
        """The VMs where they are; empty where not all of them certainly end."""
        vms, hosts, found = self.vms, self.hosts, []
        for vm_id in vm_ids:
            vm = vms.get(vm_id)
            if vm is None or not _may_end(vm, caller):
                return []
            record = vm.history[-1]
            found.append((vm, record, hosts[record.host_id]))
        is_sure = len(set(vm_ids)) == len(found) and self._jobs.keys().isdisjoint(vm_ids) and self._all_live(found)
        return found if is_sure else []

    def _all_live(self, stays: Iterable[Stay]) -> bool:
        """No host is gone."""
        dead_host_ids = self.dead_host_ids
        return not dead_host_ids or dead_host_ids.isdisjoint([host.id for _, _, host in stays])

    # ---------------------------------------------------------------- what follows at once

    def _come_to_run(self, job: Job) -> None:
        """The prologs ended, and with them the boots."""
        stays = self._ending_together.pop(job)
        if not (self._is_at_once(_STARTS) and self._all_live(stays)):
            self._end_one_by_one(Operation.PROLOG, stays)
            return
        now_s = self.now_s
        for vm, record, _ in stays:
            record.petime_s = record.rstime_s = now_s
            self.name_deployment(vm)
            vm.lcm_state = vm.prev_lcm_state = _RUNNING
        self._tell([vm.id for vm, _, _ in stays], (_ACTIVE, _ACTIVE, _BOOT, _RUNNING))

    def _come_to_an_end(self, job: Job) -> None:
        """The shutdowns ended, and with them the epilogs: DONE, and everything is given back."""
        stays = self._ending_together.pop(job)
        if not (self._is_at_once(_ENDS) and self._all_live(stays)):
            self._end_one_by_one(Operation.SHUTDOWN, stays)
            return
        now_s, hosts, space = self.now_s, self.hosts, self.space
        # The members of a gang share what their templates say, and are counted together.
        together = [list(alike) for _, alike in groupby([vm for vm, _, _ in stays], _counted_by)]
        booked = [(alike[0].uid, alike[0].gid, full_request(alike[0]), len(alike)) for alike in together]
        for vm, record, host in stays:
            record.retime_s = record.estime_s = record.eetime_s = record.etime_s = vm.etime_s = now_s
            if vm.id in host.vm_ids:
                let_go(host, vm.id, vm.taken)
            if len(vm.history) > 1 and vm.id in hosts[vm.history[-2].host_id].vm_ids:
                self.release_host(vm, vm.history[-2].host_id)
            if space.taken:
                space.give_back(vm.id, MEMORY)
                space.give_back(vm.id, DISKS)
            vm.state = vm.prev_state = _DONE
            vm.lcm_state = vm.prev_lcm_state = _INIT
        vm_ids, host_ids = [vm.id for vm, _, _ in stays], [host.id for _, _, host in stays]
        self._tell(vm_ids, (_ACTIVE, _DONE, _EPILOG, _INIT), host_ids)
        for uid, gid, request, count in booked:
            self.quota_books.add(uid, gid, request, -count)

    def _end_soon(self, operation: Operation, stays: list[Stay], finish: Callable[[Job], None]) -> None:
        vm, record, _ = stays[0]
        job = Job(operation, vm.id, record.host_id, self._start, finish)
        self._ending_together[job] = stays
        self.drivers.end_soon(job)

    def _end_one_by_one(self, operation: Operation, stays: Iterable[Stay]) -> None:
        for vm, _, _ in stays:
            job = Job(operation, vm.id, host_of(vm, vm.lcm_state), self._start, self._finish)
            self._jobs[vm.id] = job
            self.drivers.end_now(job)

    def _tell_logs(self, vm_ids: Iterable[int], used_host_ids: Iterable[int] = ()) -> None:
        """The VMs changed, and with them the load of these hosts."""
        for log in self.changes.logs:
            log.vms.update(vm_ids)
            log.usage.update(used_host_ids)

    def _tell(
        self, vm_ids: Sequence[int], states: tuple[int, int, int, int], used_host_ids: Sequence[int] = ()
    ) -> None:
        self._tell_logs(vm_ids, used_host_ids)
        if vm_ids:
            self._publish_shared(SharedChange(self.clock.now_ms, tuple(vm_ids), *states))


def _counted_by(vm: SimVm) -> tuple[object, ...]:
    """Whose quotas count it, and what of its template says how much; it has no disks and devices."""
    template = vm.template
    return vm.uid, vm.gid, template.get("CPU"), template.get("MEMORY")


def _may_start(vm: SimVm, host: SimHost, datastore: SimDatastore) -> bool:
    """It waits for its first start and wants nothing but CPU and memory, of a host that is on and has the datastore."""
    return (
        vm.state in _WAITING
        and vm.lock is None
        and not vm.history
        and _TIES.isdisjoint(vm.template)
        and host.alive
        and host.state != _OFFLINE
        and datastore.type == _SYSTEM
        and host.cluster_id in datastore.cluster_ids
    )


def _may_end(vm: SimVm, caller: Caller) -> bool:
    """It runs, its caller may end it, and has nothing to be given back but CPU and memory."""
    return (
        vm.state == _ACTIVE
        and vm.lcm_state == _RUNNING
        and vm.lock is None
        and caller.uid == vm.uid
        and caller.gid == vm.gid
        and (vm.permissions.owner_m or caller.is_admin)
        and _TIES.isdisjoint(vm.template)
    )
