"""Hosts: their calls, their monitoring, and what a dead machine does to its VMs."""

from __future__ import annotations

from functools import partial

from one_preempt.simulation.simulated_cloud import capacity
from one_preempt.simulation.simulated_cloud.authorization import ObjectKind, Right, Subject
from one_preempt.simulation.simulated_cloud.calls.gangs import GangCalls
from one_preempt.simulation.simulated_cloud.calls.vm_actions import LEGAL
from one_preempt.simulation.simulated_cloud.calls.vm_states import state_name
from one_preempt.simulation.simulated_cloud.calls.vms import parsed
from one_preempt.simulation.simulated_cloud.cloud_state import found, host_subject, oned_call
from one_preempt.simulation.simulated_cloud.errors import ErrorCode, OnedError
from one_preempt.simulation.simulated_cloud.objects import Caller, SimCluster, SimHost, SimVm
from one_preempt.simulation.simulated_cloud.states import HistoryAction, HostState, HostStatus, LcmState, VmState
from one_preempt.simulation.simulated_cloud.templates import merged

_MONITORING_PERIOD_S = 120


class HostCalls(GangCalls):
    """one.host.allocate, status, update, info, one.hostpool.info, and `onehost flush`.

    `new_host_cpu` and `new_host_memory_kib` are the machine that a host allocated by a call turns out to be.
    """

    new_host_cpu = 800
    new_host_memory_kib = 16 * 1024 * 1024

    @oned_call
    def host_allocate(self, caller: Caller, name: str, im_mad: str, vm_mad: str, cluster_id: int) -> int:
        """Add a host; INIT until it was monitored. Cluster -1 is the default one."""
        self.access.demand(caller, (Right.CREATE, Subject(ObjectKind.HOST)))
        cluster = found(self.clusters, max(cluster_id, 0), "cluster")
        namesake = next((host for host in self.hosts.values() if host.name == name), None)
        if namesake is not None:
            raise OnedError(ErrorCode.INTERNAL, f"NAME is already taken by HOST {namesake.id}.")
        host = self.place_host(name, cluster, self.new_host_cpu, self.new_host_memory_kib, im_mad, vm_mad)
        self._monitor_later(host)
        return host.id

    def place_host(
        self, name: str, cluster: SimCluster, cpu: int, memory_kib: int, im_mad: str, vm_mad: str
    ) -> SimHost:
        """Put a machine into a cluster, INIT."""
        # They are kept in the order of their ids.
        host_id = next(reversed(self.hosts), -1) + 1
        state = HostState.INIT
        host = SimHost(host_id, name, state, state, im_mad, vm_mad, cluster.id, cluster.name, cpu, memory_kib)
        host.template = {"RESERVED_CPU": [""], "RESERVED_MEM": [""], "IM_MAD": [im_mad], "VM_MAD": [vm_mad]}
        self.hosts[host_id] = host
        cluster.host_ids.append(host_id)
        return host

    @oned_call
    def host_status(self, caller: Caller, host_id: int, status: int) -> int:
        """Enable, disable or put offline.

        A disabled host of known capacity is MONITORED at once, any other host INIT until it was monitored; OFFLINE
        wipes the capacity and looks at no VM.
        """
        host = self.host(host_id)
        self.access.demand(caller, (Right.ADMIN, host_subject(host)))
        if status == HostStatus.ENABLED:
            known = host.state == HostState.DISABLED and host.share.total_cpu > 0
            self.change_host(host, HostState.MONITORED if known else HostState.INIT)
            if not known:
                self._monitor_later(host)
        elif status == HostStatus.DISABLED:
            self.change_host(host, HostState.DISABLED)
            self._monitor_later(host)
        elif status == HostStatus.OFFLINE:
            self.change_host(host, HostState.OFFLINE)
            capacity.wipe_capacity(host)
        else:
            raise OnedError(ErrorCode.INTERNAL, "Wrong status code")
        return host_id

    @oned_call
    def host_update(self, caller: Caller, host_id: int, template: str, append: int) -> int:
        """Replace (0) or append to (1) the host's template; changed reservations count at once."""
        host = self.host(host_id)
        self.access.demand(caller, (Right.ADMIN, host_subject(host)))
        if append not in (0, 1):
            raise OnedError(ErrorCode.XML_RPC_API, "Wrong update type")
        addition = parsed(template, ErrorCode.INTERNAL)
        host.template = merged(host.template, addition) if append else addition
        if host.share.total_cpu:
            capacity.set_capacity(host, self.clusters[host.cluster_id].template)
        return host_id

    @oned_call
    def host_flush(self, caller: Caller, host_id: int) -> int:
        """What `onehost flush` does: disable the host and mark its running and powered-off VMs for rescheduling."""
        self.host_status(caller, host_id, HostStatus.DISABLED)
        for vm_id in list(self.hosts[host_id].vm_ids):
            vm = self.vms[vm_id]
            if state_name(vm) in LEGAL["resched"] and vm.lock is None:
                self.vm_action(caller, "resched", vm_id)
        return host_id

    def host_info(self, caller: Caller, host_id: int) -> SimHost:
        """The host with a fresh monitoring record."""
        host = self.host(host_id)
        self.access.demand(caller, (Right.USE, host_subject(host)))
        self.refresh_monitoring(host)
        return host

    def host_pool(self, caller: Caller) -> list[SimHost]:
        """The hosts that the caller may use, newest first."""
        seen = [host for host in self.hosts.values() if self.access.allows(caller, Right.USE, host_subject(host))]
        for host in seen:
            self.refresh_monitoring(host)
        return sorted(seen, key=lambda host: -host.id)

    # ---------------------------------------------------------------- monitoring

    def refresh_monitoring(self, host: SimHost) -> None:
        """What the probes said last: each running guest uses what it was promised, saved ones nothing."""
        if host.state in (HostState.INIT, HostState.OFFLINE) or not host.alive:
            return
        record = host.monitoring
        record.timestamp_s = self.now_s - self.now_s % _MONITORING_PERIOD_S
        running = [self.vms[vm_id] for vm_id in host.vm_ids if self.vms[vm_id].state == VmState.ACTIVE]
        used_cpu = min(sum(capacity.cpu_of(vm) for vm in running), host.physical_cpu)
        used_kib = min(sum(capacity.memory_kib_of(vm) for vm in running), host.physical_memory_kib)
        record.capacity = {
            "FREE_CPU": str(host.physical_cpu - used_cpu),
            "FREE_MEMORY": str(host.physical_memory_kib - used_kib),
            "USED_CPU": str(used_cpu),
            "USED_MEMORY": str(used_kib),
        }
        record.system = record.system or {"NETRX": "0", "NETTX": "0"}

    def _monitor_later(self, host: SimHost) -> None:
        durations = self.durations_of_host.get(host.id) or self.durations
        delay_s = durations.monitor_host_s if host.alive else durations.notice_dead_host_s
        self.events.plan(self.clock.now_ms + round(delay_s * 1000), partial(self._monitor, host))

    def _monitor(self, host: SimHost) -> None:
        """A probe comes back, or fails to."""
        if host.state == HostState.OFFLINE:
            return
        if not host.alive:
            if host.state != HostState.DISABLED:
                self._declare_lost(host)
            return
        capacity.set_capacity(host, self.clusters[host.cluster_id].template)
        self.changes.host(host.id)
        if host.state != HostState.DISABLED:
            self.change_host(host, HostState.MONITORED)

    # ---------------------------------------------------------------- machines

    def kill_host(self, host_id: int) -> None:
        """The machine dies: its hypervisor fails every operation, and once oned notices the host is ERROR and its
        running VMs are UNKNOWN."""
        host = self.host(host_id)
        host.alive = False
        self.dead_host_ids.add(host_id)
        self._monitor_later(host)

    def revive_host(self, host_id: int, guests_survived: bool = False) -> None:
        """The machine is back; its guests are found running if they survived, else powered off."""
        host = self.host(host_id)
        host.alive = True
        self.dead_host_ids.discard(host_id)
        self.changes.usage(host_id)
        self._monitor_later(host)
        durations = self.durations_of_host.get(host.id) or self.durations
        at_ms = self.clock.now_ms + round(durations.monitor_host_s * 1000)
        self.events.plan(at_ms, partial(self._find_guests, host, guests_survived))

    def _declare_lost(self, host: SimHost) -> None:
        self.change_host(host, HostState.ERROR)
        for vm in self._guests(host, LcmState.RUNNING):
            self.change_vm(vm, VmState.ACTIVE, LcmState.UNKNOWN)

    def _find_guests(self, host: SimHost, survived: bool) -> None:
        if not host.alive or host.state == HostState.OFFLINE:
            return
        lost = self._guests(host, LcmState.UNKNOWN) + ([] if survived else self._guests(host, LcmState.RUNNING))
        for vm in lost:
            if survived:
                self.change_vm(vm, VmState.ACTIVE, LcmState.RUNNING)
            else:
                vm.history[-1].action = HistoryAction.MONITOR
                self.change_vm(vm, VmState.ACTIVE, LcmState.SHUTDOWN_POWEROFF)
                self.succeed(vm)

    def _guests(self, host: SimHost, state: LcmState) -> list[SimVm]:
        return [self.vms[vm_id] for vm_id in host.vm_ids if state_name(self.vms[vm_id]) == state.name]
