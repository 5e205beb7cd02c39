"""From a requested template to a VM as oned keeps it: what it moves, completes and derives."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from one_preempt.simulation.simulated_cloud import addressing, devices
from one_preempt.simulation.simulated_cloud.capacity import taken_as_asked
from one_preempt.simulation.simulated_cloud.cloud_state import CloudState, found
from one_preempt.simulation.simulated_cloud.errors import ErrorCode, OnedError
from one_preempt.simulation.simulated_cloud.objects import (
    Caller,
    SimPermissions,
    SimVm,
    SimVmGroup,
    TemplateDict,
    Vector,
)
from one_preempt.simulation.simulated_cloud.states import VmState
from one_preempt.simulation.simulated_cloud.templates import text_of, vectors_of
from one_preempt.simulation.simulated_cloud.topology import complete_topology, pin_policy

# Attributes that belong to oned; everything else is the user's.
_OWN = frozenset(
    [
        "BACKUP_CONFIG",
        "CONTEXT",
        "CPU",
        "CPU_MODEL",
        "DISK",
        "EMULATOR",
        "FEATURES",
        "GRAPHICS",
        "INPUT",
        "IOMMU",
        "MEMORY",
        "MEMORY_ENCRYPTION",
        "NIC",
        "NIC_ALIAS",
        "NIC_DEFAULT",
        "NUMA_NODE",
        "OS",
        "PCI",
        "RAW",
        "SUBMIT_ON_HOLD",
        "TEMPLATE_ID",
        "TOPOLOGY",
        "TPM",
        "VCPU",
        "VCPU_MAX",
        "VIDEO",
        "VMGROUP",
        "VROUTER_ID",
    ]
)
_NUMBERS = frozenset({"CPU", "MEMORY", "VCPU"})
_TIES = frozenset({"DISK", "NIC", "TOPOLOGY"})
_COMPLETED = _TIES | {"CONTEXT", "NUMA_NODE", "PCI", "VMGROUP"}
_NOT_LEFT = _OWN | {"NAME", "SCHED_ACTION"}
_CONTEXT_NIC = [
    "DNS",
    "EXTERNAL",
    "GATEWAY",
    "IP",
    "IP6",
    "IP6_GATEWAY",
    "IP6_METHOD",
    "IP6_METRIC",
    "IP6_PREFIX_LENGTH",
    "IP6_ULA",
    "MAC",
    "MASK",
    "METHOD",
    "METRIC",
    "MTU",
    "NETWORK",
    "SEARCH_DOMAIN",
    "VLAN_ID",
    "VROUTER_IP",
    "VROUTER_IP6",
    "VROUTER_MANAGEMENT",
]
_INVALID_NAME_CHARACTERS = frozenset("&|:\\\";/'#{}$<>\t\n\v\f\r")


def build_vm(cloud: CloudState, caller: Caller, vm_id: int, request: TemplateDict, hold: bool) -> SimVm:
    """The VM that the request describes, with its disks, addresses and automatic requirements. Nothing is booked
    but network leases, images and VM groups; the request becomes part of the VM. Raises INTERNAL for values that oned
    refuses."""
    name = text_of(request, "NAME") or f"one-{vm_id}"
    check_name(name)
    template = _numbers(request)
    sched_actions = vectors_of(request, "SCHED_ACTION")
    for attribute in request:
        if attribute in _OWN and attribute not in _NUMBERS:
            template[attribute] = request[attribute]
    left = {key: values for key, values in request.items() if key not in _NOT_LEFT}
    gname = cloud.groups[caller.gid].name if caller.gid in cloud.groups else ""
    state = VmState.HOLD if hold else VmState.PENDING
    vm = SimVm(
        vm_id, caller.uid, caller.gid, caller.name, gname, name, SimPermissions(), state=state, prev_state=state,
        stime_s=cloud.now_s, template=template, user_template=left,
    )  # fmt: skip
    if hold:
        template["SUBMIT_ON_HOLD"] = ["YES"]
    if not _COMPLETED.isdisjoint(template):
        complete_topology(template, cloud.is_series_7)
        devices.complete_requests(template, cloud.is_series_7)
        _complete_disks(cloud, vm)
        addressing.complete_nics(cloud, vm)
        _complete_context(cloud, vm)
        _join_vm_group(cloud, vm)
    vm.taken = taken_as_asked(template)
    set_automatic_requirements(cloud, vm)
    vm.sched_actions = [_sched_action(vm, index, action) for index, action in enumerate(sched_actions)]
    return vm


def copies_of_vm(vm: SimVm, vm_ids: Iterable[int]) -> list[SimVm]:
    """VMs with other ids that are alike in everything else, just created as well, and share what is never changed
    in its place: values of the template, the user template and the permissions."""
    is_named = vm.name != f"one-{vm.id}"
    return [
        SimVm(
            vm_id, vm.uid, vm.gid, vm.uname, vm.gname, vm.name if is_named else f"one-{vm_id}", vm.permissions,
            state=vm.state, prev_state=vm.state, stime_s=vm.stime_s, template=vm.template.copy(),
            user_template=vm.user_template, taken=vm.taken,
        )
        for vm_id in vm_ids
    ]  # fmt: skip


def check_name(name: str) -> None:
    """Refuse a name that oned refuses."""
    if not _INVALID_NAME_CHARACTERS.isdisjoint(name):
        character = next(one for one in name if one in _INVALID_NAME_CHARACTERS)
        raise OnedError(ErrorCode.INTERNAL, f"Invalid NAME, char '{character}' is not allowed")
    if len(name) > 128:
        raise OnedError(ErrorCode.INTERNAL, "Invalid NAME, max length is 128 chars")


def _numbers(request: TemplateDict) -> TemplateDict:
    template: TemplateDict = {}
    memory = _whole(text_of(request, "MEMORY"))
    if memory is None or memory <= 0:
        raise OnedError(ErrorCode.INTERNAL, "MEMORY attribute must be a positive integer value.")
    template["MEMORY"] = [str(memory)]
    try:
        cpu = float(text_of(request, "CPU"))
    except ValueError:
        cpu = 0.0
    if not 0 < cpu < 1e9:
        raise OnedError(ErrorCode.INTERNAL, "CPU attribute must be a positive float or integer value.")
    template["CPU"] = [f"{cpu:g}"]
    vcpu_text = text_of(request, "VCPU")
    if vcpu_text:
        vcpu = _whole(vcpu_text)
        if vcpu is None or vcpu <= 0:
            raise OnedError(ErrorCode.INTERNAL, "VCPU attribute must be a positive integer value.")
        template["VCPU"] = [str(vcpu)]
    return template


@lru_cache(maxsize=1 << 12)
def _whole(text: str) -> int | None:
    """An integer as a C++ stream reads it: what follows the digits is not looked at."""
    digits = text.strip()
    end = 1 if digits[:1] in ("-", "+") else 0
    while end < len(digits) and digits[end] in "0123456789":
        end += 1
    try:
        return int(digits[:end])
    except ValueError:
        return None


def _complete_disks(cloud: CloudState, vm: SimVm) -> None:
    for index, disk in enumerate(vectors_of(vm.template, "DISK")):
        disk["DISK_ID"] = str(index)
        if "SIZE" in disk:
            size_mib = _whole(disk["SIZE"])
            if size_mib is None or size_mib < 0:
                raise OnedError(ErrorCode.INTERNAL, "SIZE of a DISK must be a positive integer value.")
            disk["SIZE"] = str(size_mib)
        image_id = _image_id(cloud, disk)
        if image_id is None:
            continue
        image = found(cloud.images, image_id, "image")
        datastore = cloud.datastores[image.datastore_id]
        inherited = ("ALLOW_ORPHANS", "CLONE_TARGET", "DISK_TYPE", "LN_TARGET", "PERSISTENT_SNAPSHOTS")
        disk.update({key: text for key in inherited if (text := text_of(datastore.template, key))})
        prefix = text_of(image.template, "DEV_PREFIX", "sd")
        disk.update(
            CLONE="NO" if image.persistent else "YES", CLUSTER_ID=",".join(map(str, datastore.cluster_ids)),
            DATASTORE=datastore.name, DATASTORE_ID=str(datastore.id), DEV_PREFIX=prefix,
            DISK_SNAPSHOT_TOTAL_SIZE="0", DRIVER=image.format, FORMAT=image.format, IMAGE=image.name,
            IMAGE_ID=str(image.id), IMAGE_STATE="2", ORIGINAL_SIZE=str(image.size_mib), READONLY="NO",
            SAVE="YES" if image.persistent else "NO", SOURCE=image.source, TARGET=f"{prefix}{chr(ord('a') + index)}",
            TM_MAD=datastore.tm_mad, TYPE=disk.get("DISK_TYPE", "FILE"),
        )  # fmt: skip
        disk.setdefault("SIZE", str(image.size_mib))
        image.state = 2
        if vm.id not in image.vm_ids:
            image.vm_ids.append(vm.id)
            image.running_vms += 1


def _image_id(cloud: CloudState, disk: Vector) -> int | None:
    if "IMAGE_ID" in disk:
        return _whole(disk["IMAGE_ID"]) or 0
    if "IMAGE" in disk:
        return next((image.id for image in cloud.images.values() if image.name == disk["IMAGE"]), -1)
    return None


def _complete_context(cloud: CloudState, vm: SimVm) -> None:
    for context in vectors_of(vm.template, "CONTEXT"):
        disks = vectors_of(vm.template, "DISK")
        context["DISK_ID"], context["TARGET"] = str(len(disks)), "hda"
    describe_networks(cloud, vm)


def describe_networks(cloud: CloudState, vm: SimVm) -> None:
    """Tell the guest the addresses of its connected NICs, where its CONTEXT asks for it."""
    names = [*_CONTEXT_NIC, "ROUTES"] if cloud.is_series_7 else _CONTEXT_NIC
    for context in vectors_of(vm.template, "CONTEXT"):
        if context.get("NETWORK", "").upper() != "YES":
            continue
        for nic in vectors_of(vm.template, "NIC"):
            if "NETWORK_ID" in nic:
                given = {f"ETH{nic['NIC_ID']}_{key}": "" for key in names}
                given |= {f"ETH{nic['NIC_ID']}_{key}": nic[key] for key in ("IP", "MAC") if key in nic}
                context.update(given)


def _join_vm_group(cloud: CloudState, vm: SimVm) -> None:
    """Add the VM to the role of its first VMGROUP; others are dropped."""
    wishes = vectors_of(vm.template, "VMGROUP")
    if not wishes:
        return
    wanted = wishes[0]
    vm.template["VMGROUP"] = [wanted]
    if not wanted.get("ROLE"):
        raise OnedError(ErrorCode.INTERNAL, "Missing role name in VM Group definition")
    group = vm_group_named(cloud, wanted, vm.uid)
    if group is None:
        raise OnedError(ErrorCode.INTERNAL, "Cannot find VM Group to associate the VM")
    wanted["VMGROUP_ID"] = str(group.id)
    role = next((role for role in group.roles if role.name == wanted["ROLE"]), None)
    if role is None:
        raise OnedError(ErrorCode.INTERNAL, "Role does not exist in VM Group")
    role.vm_ids = sorted([*role.vm_ids, vm.id])


def vm_group_named(cloud: CloudState, wanted: Vector, uid: int) -> SimVmGroup | None:
    """The group that a VMGROUP names: by name among those of VMGROUP_UID, or else of the VM's owner; or by id."""
    if name := wanted.get("VMGROUP_NAME"):
        owner = _whole(wanted.get("VMGROUP_UID", ""))
        owner = uid if owner is None else owner
        return next((group for group in cloud.vm_groups.values() if (group.name, group.uid) == (name, owner)), None)
    number = _whole(wanted.get("VMGROUP_ID", ""))
    return None if number is None else cloud.vm_groups.get(number)


def required_clusters(vm: SimVm) -> list[int]:
    """The clusters that have all of the VM's image datastores and networks; empty where it has none of them."""
    devices = vectors_of(vm.template, "DISK") + vectors_of(vm.template, "NIC")
    lists = [set(map(int, device["CLUSTER_ID"].split(","))) for device in devices if device.get("CLUSTER_ID")]
    return sorted(set.intersection(*lists)) if lists else []


def set_automatic_requirements(cloud: CloudState, vm: SimVm) -> None:
    """What oned derives from disks, networks and pinning (written at creation, release, resume and resched)."""
    if cloud.is_series_7 and not _TIES & vm.template.keys():
        vm.template["AUTOMATIC_REQUIREMENTS"] = ["!(PIN_POLICY = PINNED)"]
        return
    clauses = [] if cloud.is_series_7 else ["!(PUBLIC_CLOUD = YES)"]
    clauses.append("(PIN_POLICY = PINNED)" if pin_policy(vm) else "!(PIN_POLICY = PINNED)")
    clusters = required_clusters(vm)
    if clusters:
        clauses.insert(0, "(" + " | ".join(f"CLUSTER_ID = {cluster}" for cluster in clusters) + ")")
        in_sets = "(" + " | ".join(f'"CLUSTERS/ID" @> {cluster}' for cluster in clusters) + ")"
        vm.template["AUTOMATIC_NIC_REQUIREMENTS"] = [in_sets]
        same_driver = f' & (TM_MAD = "{vm.history[-1].tm_mad}")' if vm.history else ""
        vm.template["AUTOMATIC_DS_REQUIREMENTS"] = [in_sets + same_driver]
    vm.template["AUTOMATIC_REQUIREMENTS"] = [" & ".join(clauses)]


def _sched_action(vm: SimVm, index: int, action: Vector) -> Vector:
    shipped = {
        "ID": str(index), "PARENT_ID": str(vm.id), "TYPE": "VM", "ACTION": "", "ARGS": "", "TIME": "", "REPEAT": "-1",
        "DAYS": "", "END_TYPE": "-1", "END_VALUE": "-1", "DONE": "-1", "MESSAGE": "", "WARNING": "0",
    }  # fmt: skip
    return {key: action.get(key, value) if key != "ID" else value for key, value in shipped.items()}
