"""The recount: what hosts, quotas and devices must say if every transition kept its books."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from one_preempt.simulation.simulated_cloud.cloud_state import CloudState
from one_preempt.simulation.simulated_cloud.objects import SimHost, SimQuotas, SimVm
from one_preempt.simulation.simulated_cloud.states import LcmState, VmState
from one_preempt.simulation.simulated_cloud.templates import text_of, vectors_of

_HOLDING = (VmState.ACTIVE, VmState.SUSPENDED, VmState.POWEROFF)
_HOLDS_TWO_HOSTS = (LcmState.MIGRATE, LcmState.SAVE_MIGRATE)
_RETURNS = (LcmState.EPILOG,)


def discrepancies(cloud: CloudState) -> Iterator[str]:
    """Every disagreement, in words; nothing where the books are right."""
    holders: defaultdict[int, list[SimVm]] = defaultdict(list)
    for vm in cloud.vms.values():
        for host_id in hosts_held_by(vm):
            holders[host_id].append(vm)
    for host in cloud.hosts.values():
        yield from _of_host(cloud, host, holders[host.id])
    for user in cloud.users.values():
        if user.id != 0:
            owned = [vm for vm in cloud.vms.values() if vm.uid == user.id]
            yield from _of_quotas(f"user {user.id}", user.quotas, owned)
    for group in cloud.groups.values():
        if group.id != 0:
            members = [vm for vm in cloud.vms.values() if vm.gid == group.id]
            yield from _of_quotas(f"group {group.id}", group.quotas, members)
    for vm in cloud.vms.values():
        yield from _of_vm(vm)
    yield from _of_leases(cloud)


def _of_host(cloud: CloudState, host: SimHost, holders: list[SimVm]) -> Iterator[str]:
    recorded = [vm_id for vm_id in host.vm_ids if vm_id in cloud.vms]
    optional = {vm.id for vm in holders if vm.lcm_state in _RETURNS and vm.state == VmState.ACTIVE}
    if {vm.id for vm in holders} - optional != set(recorded) - optional:
        yield f"host {host.id} lists VMs {sorted(recorded)}, but {sorted(vm.id for vm in holders)} are on it"
    charged = [cloud.vms[vm_id] for vm_id in recorded]
    share = host.share
    cpu = sum(int(float(text_of(vm.template, "CPU")) * 100 + 0.5) for vm in charged)
    memory_kib = sum(int(text_of(vm.template, "MEMORY")) << 10 for vm in charged)
    if (share.cpu_usage, share.mem_usage, share.running_vms) != (cpu, memory_kib, len(charged)):
        told = share.cpu_usage, share.mem_usage, share.running_vms
        yield f"host {host.id} says {told}, its VMs sum up to {(cpu, memory_kib, len(charged))}"
    for device in share.pci_devices:
        holder = int(device.get("VMID", "-1"))
        if holder != -1 and holder not in host.vm_ids:
            yield f"device {device['ADDRESS']} of host {host.id} belongs to VM {holder}, which is not there"
    for node in share.numa_nodes:
        pinned = {vm_id for core in node.cores for holders in core.cpus.values() for vm_id in holders}
        if not (pinned | set(node.pinned_kib)) <= set(host.vm_ids):
            yield f"NUMA node {node.node_id} of host {host.id} is pinned by VMs {sorted(pinned)} that are not there"
        if sum(node.pinned_kib.values()) != node.memory_usage_kib:
            yield f"NUMA node {node.node_id} of host {host.id} counts its memory wrongly"


def hosts_held_by(vm: SimVm) -> set[int]:
    """The hosts that must count the VM."""
    if vm.state not in _HOLDING or not vm.history:
        return set()
    if vm.state == VmState.ACTIVE and vm.lcm_state in (LcmState.CLEANUP_DELETE, LcmState.CLEANUP_RESUBMIT):
        return set()
    records = vm.history[-2:] if vm.state == VmState.ACTIVE and vm.lcm_state in _HOLDS_TWO_HOSTS else vm.history[-1:]
    return {record.host_id for record in records}


def _of_quotas(holder: str, quotas: SimQuotas, vms: list[SimVm]) -> Iterator[str]:
    expected: Counter[str] = Counter()
    for vm in (vm for vm in vms if vm.state != VmState.DONE):
        amounts = {
            "VMS": 1,
            "CPU": int(float(text_of(vm.template, "CPU")) * 100 + 0.5),
            "MEMORY": int(text_of(vm.template, "MEMORY")),
            "PCI_DEV": len(vectors_of(vm.template, "PCI")),
        }
        expected.update(amounts)
        moves_at_rest = vm.lcm_state.name.startswith(("PROLOG_MIGRATE_POWEROFF", "PROLOG_MIGRATE_SUSPEND"))
        if vm.state in (VmState.PENDING, VmState.HOLD) or (vm.state == VmState.ACTIVE and not moves_at_rest):
            expected.update({f"RUNNING_{name}": amount for name, amount in amounts.items()})
    used = next((quota.used for quota in quotas.vm if not quota.cluster_ids), {})
    for name in ("VMS", "CPU", "MEMORY", "PCI_DEV"):
        for metric in (name, f"RUNNING_{name}"):
            if used.get(metric, 0) != expected[metric]:
                yield f"{holder}: {metric} used {used.get(metric, 0)}, counted {expected[metric]}"


def _of_vm(vm: SimVm) -> Iterator[str]:
    if [record.seq for record in vm.history] != list(range(len(vm.history))):
        yield f"VM {vm.id}: history records are not numbered one after the other"
    if vm.state in (*_HOLDING, VmState.STOPPED, VmState.UNDEPLOYED) and not vm.history:
        yield f"VM {vm.id} is {vm.state.name} without a history record"
    if vm.state in (VmState.STOPPED, VmState.UNDEPLOYED, VmState.DONE) and vm.history and not vm.history[-1].etime_s:
        yield f"VM {vm.id} is {vm.state.name}, but its last history record is open"
    if vm.state != VmState.ACTIVE and vm.lcm_state != LcmState.LCM_INIT:
        yield f"VM {vm.id} is {vm.state.name} with LCM state {vm.lcm_state.name}"


def _of_leases(cloud: CloudState) -> Iterator[str]:
    for network in cloud.networks.values():
        for address_range in network.address_ranges:
            for offset, vm_id in address_range.leases.items():
                if offset in address_range.leaked:
                    continue
                if vm_id in cloud.vms and cloud.vms[vm_id].state == VmState.DONE:
                    yield f"network {network.id}: address {offset} is still leased to VM {vm_id}, which is DONE"
