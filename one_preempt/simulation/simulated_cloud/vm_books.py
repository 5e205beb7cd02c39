"""The books that follow a VM: its history records, the capacity it holds on hosts, the quota it counts against.

What changes them is the life cycle; here is only what is written down, and in which order oned does so.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from one_preempt.simulation.simulated_cloud import capacity
from one_preempt.simulation.simulated_cloud.cloud_state import CloudState, Overcommit
from one_preempt.simulation.simulated_cloud.objects import Caller, SimHistory, SimHost, SimVm
from one_preempt.simulation.simulated_cloud.quotas import counts_as_running, full_request, running_request
from one_preempt.simulation.simulated_cloud.states import VmState


class VmBooks(CloudState):
    """Records, capacity and quotas of VMs."""

    def add_record(self, vm: SimVm, host: SimHost, datastore_id: int) -> SimHistory:
        """A new stay begins on `host`."""
        seq = vm.history[-1].seq + 1 if vm.history else 0
        tm_mad = self.datastores[datastore_id].tm_mad
        record = SimHistory(
            vm.id, seq, host.name, host.id, host.cluster_id, self.clock.now_ms // 1000,
            vm_mad=host.vm_mad, tm_mad=tm_mad, datastore_id=datastore_id,
        )  # fmt: skip
        vm.history.append(record)
        return record

    def repeat_record(self, vm: SimVm) -> SimHistory:
        """A new stay begins where the last one ends."""
        last = vm.history[-1]
        last.etime_s = self.now_s
        vm.history.append(
            replace(
                last, seq=last.seq + 1, stime_s=self.now_s, rstime_s=self.now_s,
                etime_s=0, pstime_s=0, petime_s=0, retime_s=0, estime_s=0, eetime_s=0,
            )
        )  # fmt: skip
        return vm.history[-1]

    def sign(self, record: SimHistory, caller: Caller, action: int) -> None:
        """Write into a record what was asked and by whom."""
        record.action, record.uid, record.gid = action, caller.uid, caller.gid
        record.request_id = self.request_id

    def charge_host(self, vm: SimVm, host_id: int) -> None:
        """Let the VM hold its capacity on the host; a host beyond its limits is noted."""
        host = self.hosts[host_id]
        capacity.charge(host, vm, self.is_series_7)
        self.changes.usage(host_id)
        share = host.share
        if share.cpu_usage > share.max_cpu or share.mem_usage > share.max_mem:
            self.overcommits.append(
                Overcommit(
                    self.clock.now_ms, host_id, vm.id,
                    share.cpu_usage, share.max_cpu, share.mem_usage, share.max_mem,
                )
            )  # fmt: skip
            self.note_load(vm, host_id)

    def note_load(self, vm: SimVm, host_id: int) -> None:
        """Note a host on which more is to run than it may use: what is suspended or powered off there runs not."""
        host = self.hosts[host_id]
        share = host.share
        if share.cpu_usage <= share.max_cpu and share.mem_usage <= share.max_mem:
            return
        guests = [self.vms[vm_id] for vm_id in host.vm_ids]
        resting = [one for one in guests if one is not vm and one.state in (VmState.SUSPENDED, VmState.POWEROFF)]
        cpu = share.cpu_usage - sum(map(capacity.cpu_of, resting))
        memory_kib = share.mem_usage - sum(map(capacity.memory_kib_of, resting))
        if cpu > share.max_cpu or memory_kib > share.max_mem:
            noted = Overcommit(self.clock.now_ms, host_id, vm.id, cpu, share.max_cpu, memory_kib, share.max_mem)
            self.overloads.append(noted)

    def release_host(self, vm: SimVm, host_id: int) -> None:
        """Give the capacity back, if the VM holds any there."""
        capacity.release(self.hosts[host_id], vm)
        self.changes.usage(host_id)

    def leave_previous_host(self, vm: SimVm) -> None:
        """Give back what the VM held where it was before, if that was another host."""
        if vm.history[-1].host_id != vm.history[-2].host_id:
            self.release_host(vm, vm.history[-2].host_id)

    def settle_quota(self, vm: SimVm, before: Mapping[str, int]) -> None:
        """Book the difference between what was booked `before` and what the present state counts."""
        now = full_request(vm)
        if now != before:
            self.quota_books.add(vm.uid, vm.gid, before, -1)
            self.quota_books.add(vm.uid, vm.gid, now)

    def enter_with_quota(self, vm: SimVm, state: VmState) -> None:
        """Change the state and book what the running quota gains or loses by it, without a check."""
        counted = counts_as_running(vm)
        self.change_vm(vm, state)
        self.settle_running_quota(vm, counted)

    def settle_running_quota(self, vm: SimVm, counted: bool) -> None:
        """The same where only the state changed, in which the VM `counted` as running or did not."""
        if counts_as_running(vm) != counted:
            self.quota_books.add(vm.uid, vm.gid, running_request(vm), -1 if counted else 1)
