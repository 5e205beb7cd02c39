"""A VM of the simulated cloud as the scheduler observes it.

Built straight from the cloud's record; equal to what the reader of the live cloud makes of the VM's document.
"""

from __future__ import annotations

from functools import lru_cache

from msgspec.structs import replace

from one_preempt.core.model.virtual_machine import (
    MIGRATING,
    AttributeValue,
    Disk,
    HistoryRecord,
    LockLevel,
    Nic,
    NumaNodeRequest,
    PciRequest,
    ScheduledAction,
    Template,
    Topology,
    VirtualMachine,
    VmState,
)
from one_preempt.simulation.simulated_cloud.capacity import cpu_of
from one_preempt.simulation.simulated_cloud.objects import SimHistory, SimVm, TemplateDict, Vector
from one_preempt.simulation.simulated_cloud.templates import text_of, vectors_of

_STATES = {int(state): state for state in VmState}
_CHANGING = frozenset({"DISK", "NIC", "PCI", "TOPOLOGY", "NUMA_NODE", "VMGROUP"})
_LOCK_LEVELS = {int(level): level for level in LockLevel}


def observed_vm(vm: SimVm, *, with_all_history: bool = False) -> VirtualMachine:
    """The VM as a pool shows it, with its last stay alone, or as it is shown when it is asked for by itself."""
    template = vm.template
    user_template = _user_template(vm.user_template)
    group = vectors_of(template, "VMGROUP")[0] if "VMGROUP" in template else {}
    stays = vm.history if with_all_history else vm.history[-1:]
    return VirtualMachine(
        id=vm.id,
        name=vm.name,
        uid=vm.uid,
        gid=vm.gid,
        uname=vm.uname,
        gname=vm.gname,
        state=_STATES[vm.state],
        lcm_state=int(vm.lcm_state),
        resched=vm.resched,
        submitted_at_s=vm.stime_s,
        ended_at_s=vm.etime_s,
        cpu_centi=cpu_of(vm),
        memory_mib=_number(text_of(template, "MEMORY", "0")),
        automatic_requirements=text_of(template, "AUTOMATIC_REQUIREMENTS"),
        automatic_datastore_requirements=text_of(template, "AUTOMATIC_DS_REQUIREMENTS"),
        automatic_nic_requirements=text_of(template, "AUTOMATIC_NIC_REQUIREMENTS"),
        sched_requirements=_first_text(user_template, "SCHED_REQUIREMENTS"),
        sched_datastore_requirements=_first_text(user_template, "SCHED_DS_REQUIREMENTS"),
        sched_rank=_first_text(user_template, "SCHED_RANK") or _first_text(user_template, "RANK"),
        sched_datastore_rank=_first_text(user_template, "SCHED_DS_RANK"),
        user_priority=_first_text(user_template, "USER_PRIORITY"),
        lock_level=LockLevel.NONE if vm.lock is None else _LOCK_LEVELS[vm.lock.level],
        lock_owner_uid=None if vm.lock is None else vm.lock.owner_uid,
        template_id=_optional(text_of(template, "TEMPLATE_ID")),
        service_id=_first_text(user_template, "SERVICE_ID"),
        virtual_router_id=_optional(text_of(template, "VROUTER_ID")),
        vm_group_id=_optional(group.get("VMGROUP_ID")),
        vm_group_role=group.get("ROLE", ""),
        disks=tuple(map(_disk, vectors_of(template, "DISK"))) if "DISK" in template else (),
        nics=_nics(template) if "NIC" in template or "PCI" in template else (),
        pci_requests=tuple(map(_pci_request, vectors_of(template, "PCI"))) if "PCI" in template else (),
        topology=_topology(vectors_of(template, "TOPOLOGY")[0]) if "TOPOLOGY" in template else None,
        numa_nodes=tuple(map(_numa_node, vectors_of(template, "NUMA_NODE"))) if "NUMA_NODE" in template else (),
        scheduled_actions=_scheduled_actions(vm, with_all_history),
        history=tuple(map(_stay, stays)),
        source_host_id=_source_of(vm),
        user_template=user_template,
    )


def is_plain(vm: SimVm) -> bool:
    """It has no disks, devices and ties: what its template says of it never changes, but for its requirements."""
    return _CHANGING.isdisjoint(vm.template)


def moved_vm(vm: SimVm, before: VirtualMachine) -> VirtualMachine:
    """A plain VM as a pool shows it now; `before` is the same VM or another one, of the same description."""
    lcm_state = int(vm.lcm_state)
    return replace(
        before,
        id=vm.id,
        name=vm.name,
        state=_STATES[vm.state],
        lcm_state=lcm_state,
        history=(_stay(vm.history[-1]),) if vm.history else (),
        source_host_id=_source_of(vm) if lcm_state in MIGRATING else None,
    )


@lru_cache(maxsize=1 << 12)
def _number(text: str) -> int:
    return int(text)


def _optional(text: str | None) -> int | None:
    return int(text) if text else None


def _user_template(template: TemplateDict) -> Template:
    """The owner's attributes by name, as oned sorts them."""
    return {name: tuple(map(_value, template[name])) for name in sorted(template)}


def _value(value: str | Vector) -> AttributeValue:
    """A copy: the cloud changes its own. An empty vector is written as an element without content."""
    if isinstance(value, str):
        return value
    return {key: value[key] for key in sorted(value)} if value else ""


def _first_text(template: Template, name: str) -> str:
    value = template[name][0] if name in template else ""
    return value if isinstance(value, str) else ""


def _source_of(vm: SimVm) -> int | None:
    """The host that it leaves, as whoever asks oned about this VM alone is told."""
    is_migrating = int(vm.lcm_state) in MIGRATING and int(vm.state) == VmState.ACTIVE
    return vm.history[-2].host_id if is_migrating and len(vm.history) > 1 else None


def _stay(record: SimHistory) -> HistoryRecord:
    return HistoryRecord(
        record.seq, record.host_id, record.hostname, record.cluster_id, record.datastore_id, int(record.action),
        record.stime_s, record.etime_s, record.pstime_s, record.petime_s, record.rstime_s, record.retime_s,
        record.eetime_s, record.tm_mad, record.uid,
    )  # fmt: skip


def _disk(texts: Vector) -> Disk:
    return Disk(
        id=int(texts["DISK_ID"]),
        size_mib=int(texts.get("SIZE") or "0"),
        type=texts.get("TYPE", ""),
        datastore_id=_optional(texts.get("DATASTORE_ID")),
        clone=texts["CLONE"].upper() == "YES" if "CLONE" in texts else None,
        clone_target=texts.get("CLONE_TARGET", ""),
        ln_target=texts.get("LN_TARGET", ""),
        tm_mad=texts.get("TM_MAD", ""),
        snapshot_total_mib=int(texts.get("DISK_SNAPSHOT_TOTAL_SIZE") or "0"),
        image_id=_optional(texts.get("IMAGE_ID")),
        image_size_mib=int(texts.get("ORIGINAL_SIZE") or "0"),
    )


def _nics(template: TemplateDict) -> tuple[Nic, ...]:
    passthrough = [
        device for device in vectors_of(template, "PCI") if device.get("TYPE") == "NIC" and "NIC_ID" in device
    ]
    return tuple(map(_nic, [*vectors_of(template, "NIC"), *passthrough]))


def _nic(texts: Vector) -> Nic:
    return Nic(
        id=int(texts["NIC_ID"]),
        network_id=_optional(texts.get("NETWORK_ID")),
        automatic=texts.get("NETWORK_MODE", "").upper() == "AUTO",
        sched_requirements=texts.get("SCHED_REQUIREMENTS", ""),
        sched_rank=texts.get("SCHED_RANK", ""),
    )


def _pci_request(texts: Vector) -> PciRequest:
    return PciRequest(
        vendor=texts.get("VENDOR", "").lower(),
        device=texts.get("DEVICE", "").lower(),
        device_class=texts.get("CLASS", "").lower(),
        short_address=texts.get("SHORT_ADDRESS", ""),
        address=texts.get("ADDRESS", ""),
    )


def _topology(texts: Vector) -> Topology:
    return Topology(
        cores=int(texts.get("CORES") or "0"),
        threads=int(texts.get("THREADS") or "0"),
        pin_policy=texts.get("PIN_POLICY", "").upper(),
        hugepage_size_mib=_optional(texts.get("HUGEPAGE_SIZE")),
        node_affinity=_optional(texts.get("NODE_AFFINITY")),
    )


def _numa_node(texts: Vector) -> NumaNodeRequest:
    return NumaNodeRequest(
        node_id=_optional(texts.get("NODE_ID")),
        total_cpus=int(texts.get("TOTAL_CPUS") or "0"),
        memory_kib=int(texts.get("MEMORY") or "0"),
        memory_node_id=_optional(texts.get("MEMORY_NODE_ID")),
    )


def _scheduled_actions(vm: SimVm, in_full: bool) -> tuple[ScheduledAction, ...]:
    """Pools list their ids alone."""
    if in_full:
        return tuple(ScheduledAction(action.get("ACTION", ""), action.get("TIME", "")) for action in vm.sched_actions)
    return tuple(ScheduledAction("", "") for _ in vm.sched_actions)
