"""Elements of recorded pool documents, read back into the records of the simulated cloud."""

from __future__ import annotations

from lxml import etree

from one_preempt.simulation.emulator.address_owners import holder_of
from one_preempt.simulation.simulated_cloud.authorization import rule_text
from one_preempt.simulation.simulated_cloud.capacity import taken_as_asked
from one_preempt.simulation.simulated_cloud.objects import (
    SimAcl,
    SimAddressRange,
    SimCluster,
    SimDatastore,
    SimGroup,
    SimHistory,
    SimImage,
    SimLock,
    SimNetwork,
    SimPermissions,
    SimQuotas,
    SimRole,
    SimUser,
    SimVm,
    SimVmGroup,
    SimVmQuota,
    SimVmTemplate,
    TemplateDict,
    Vector,
)
from one_preempt.simulation.simulated_cloud.states import LcmState, VmState

Element = etree._Element

_SCHED_ACTION = "SCHED_ACTION"
_LCM_STATES = frozenset(LcmState)


def word(parent: Element, path: str, default: str = "") -> str:
    """The text at `path`, or `default` where the element is absent or empty."""
    return parent.findtext(path) or default


def number(parent: Element, path: str, default: int = 0) -> int:
    """The whole number at `path`, or `default` where the element is absent or empty."""
    return int(word(parent, path, str(default)))


def id_list(parent: Element, path: str) -> list[int]:
    """The ids below `path`."""
    return [int(child.text or 0) for child in parent.iterfind(f"{path}/ID")]


def vector(element: Element) -> Vector:
    """The children of an element as a vector."""
    return {str(child.tag): child.text or "" for child in element}


def vectors(parent: Element, path: str) -> list[Vector]:
    """Each element at `path` as a vector."""
    return [vector(element) for element in parent.iterfind(path)]


def template(parent: Element, path: str = "TEMPLATE") -> TemplateDict:
    """The element at `path` as a template."""
    entries: TemplateDict = {}
    for child in parent.iterfind(f"{path}/*"):
        entries.setdefault(str(child.tag), []).append(vector(child) if len(child) else child.text or "")
    return entries


def vm(element: Element, monitoring: Vector) -> SimVm:
    """VM in its full body; the pool carries no figures, so they come beside it."""
    body = template(element)
    actions = [action for action in body.pop(_SCHED_ACTION, []) if isinstance(action, dict)]
    known_only_by_id = [{"ID": str(number)} for number in id_list(element, "SCHED_ACTIONS")]
    state, lcm_state = VmState(number(element, "STATE")), _lcm_state(element, "LCM_STATE")
    return SimVm(
        *_owned(element),
        last_poll_s=int(monitoring.get("TIMESTAMP", "0")),
        state=state,
        lcm_state=lcm_state,
        prev_state=VmState(number(element, "PREV_STATE", state)),
        prev_lcm_state=_lcm_state(element, "PREV_LCM_STATE", lcm_state),
        resched=word(element, "RESCHED") == "1",
        stime_s=number(element, "STIME"),
        etime_s=number(element, "ETIME"),
        deploy_id=word(element, "DEPLOY_ID"),
        lock=_lock(element.find("LOCK")),
        monitoring=monitoring,
        template=body,
        sched_actions=known_only_by_id if len(known_only_by_id) > len(actions) else actions,
        user_template=template(element, "USER_TEMPLATE"),
        history=[_history(record) for record in element.iterfind("HISTORY_RECORDS/HISTORY")],
        taken=taken_as_asked(body),
    )


def cluster(element: Element) -> SimCluster:
    """CLUSTER."""
    return SimCluster(
        id=number(element, "ID"),
        name=word(element, "NAME"),
        host_ids=id_list(element, "HOSTS"),
        datastore_ids=id_list(element, "DATASTORES"),
        network_ids=id_list(element, "VNETS"),
        template=template(element),
    )


def datastore(element: Element) -> SimDatastore:
    """DATASTORE."""
    return SimDatastore(
        *_owned(element),
        ds_mad=word(element, "DS_MAD"),
        tm_mad=word(element, "TM_MAD"),
        base_path=word(element, "BASE_PATH"),
        type=number(element, "TYPE"),
        disk_type=number(element, "DISK_TYPE"),
        state=number(element, "STATE"),
        cluster_ids=id_list(element, "CLUSTERS"),
        total_mib=number(element, "TOTAL_MB"),
        free_mib=number(element, "FREE_MB"),
        used_mib=number(element, "USED_MB"),
        image_ids=id_list(element, "IMAGES"),
        template=template(element),
    )


def image(element: Element) -> SimImage:
    """IMAGE."""
    return SimImage(
        *_owned(element),
        regtime_s=number(element, "REGTIME"),
        datastore_id=number(element, "DATASTORE_ID"),
        datastore=word(element, "DATASTORE"),
        size_mib=number(element, "SIZE"),
        type=number(element, "TYPE"),
        disk_type=number(element, "DISK_TYPE"),
        persistent=word(element, "PERSISTENT") == "1",
        source=word(element, "SOURCE"),
        path=word(element, "PATH"),
        format=word(element, "FORMAT"),
        state=number(element, "STATE"),
        running_vms=number(element, "RUNNING_VMS"),
        vm_ids=id_list(element, "VMS"),
        template=template(element),
    )


def network(element: Element) -> SimNetwork:
    """VNET."""
    return SimNetwork(
        *_owned(element),
        cluster_ids=id_list(element, "CLUSTERS"),
        bridge=word(element, "BRIDGE"),
        bridge_type=word(element, "BRIDGE_TYPE"),
        state=number(element, "STATE"),
        vn_mad=word(element, "VN_MAD"),
        template=template(element),
        address_ranges=[_address_range(entry) for entry in element.iterfind("AR_POOL/AR")],
    )


def vm_group(element: Element) -> SimVmGroup:
    """VM_GROUP."""
    return SimVmGroup(
        *_owned(element),
        roles=[_role(role) for role in element.iterfind("ROLES/ROLE")],
        template=template(element),
    )


def vm_template(element: Element) -> SimVmTemplate:
    """VMTEMPLATE."""
    return SimVmTemplate(
        *_owned(element),
        regtime_s=number(element, "REGTIME"),
        template=template(element),
    )


def user(element: Element, quotas: Element | None) -> SimUser:
    """USER and its QUOTAS; a recording has no passwords, so the user's name is the password."""
    return SimUser(
        id=number(element, "ID"),
        gid=number(element, "GID"),
        group_ids=id_list(element, "GROUPS"),
        gname=word(element, "GNAME"),
        name=word(element, "NAME"),
        password=word(element, "NAME"),
        auth_driver=word(element, "AUTH_DRIVER"),
        enabled=word(element, "ENABLED", "1") == "1",
        template=template(element),
        quotas=_quotas(quotas),
    )


def group(element: Element, quotas: Element | None) -> SimGroup:
    """GROUP and its QUOTAS."""
    return SimGroup(
        id=number(element, "ID"),
        name=word(element, "NAME"),
        template=template(element),
        user_ids=id_list(element, "USERS"),
        admin_ids=id_list(element, "ADMINS"),
        quotas=_quotas(quotas),
    )


def acl(element: Element) -> SimAcl:
    """ACL."""
    user, resource, rights, zone = (int(word(element, name), 16) for name in ("USER", "RESOURCE", "RIGHTS", "ZONE"))
    text = word(element, "STRING") or rule_text(user, resource, rights, zone)
    return SimAcl(number(element, "ID"), user, resource, rights, zone, text)


def _owned(element: Element) -> tuple[int, int, int, str, str, str, SimPermissions]:
    """The fields of `SimOwned`."""
    permissions = SimPermissions(**{str(bit.tag).lower(): bit.text == "1" for bit in element.iterfind("PERMISSIONS/*")})
    uid, gid = number(element, "UID"), number(element, "GID")
    return (
        number(element, "ID"), uid, gid, word(element, "UNAME"), word(element, "GNAME"), word(element, "NAME"),
        permissions,
    )  # fmt: skip


def _lcm_state(element: Element, path: str, default: int = 0) -> LcmState:
    """The state; one that the simulated cloud does not know (a disk snapshot, ...) is HOTPLUG, as busy as it was."""
    value = number(element, path, default)
    return LcmState(value) if value in _LCM_STATES else LcmState.HOTPLUG


def _lock(element: Element | None) -> SimLock | None:
    if element is None:
        return None
    return SimLock(
        level=number(element, "LOCKED"),
        owner_uid=number(element, "OWNER"),
        time_s=number(element, "TIME"),
        request_id=number(element, "REQ_ID"),
    )


def _history(element: Element) -> SimHistory:
    return SimHistory(
        vm_id=number(element, "OID"),
        seq=number(element, "SEQ"),
        hostname=word(element, "HOSTNAME"),
        host_id=number(element, "HID"),
        cluster_id=number(element, "CID"),
        stime_s=number(element, "STIME"),
        etime_s=number(element, "ETIME"),
        vm_mad=word(element, "VM_MAD"),
        tm_mad=word(element, "TM_MAD"),
        datastore_id=number(element, "DS_ID"),
        plan_id=number(element, "PLAN_ID", -2),
        action_id=number(element, "ACTION_ID", -1),
        pstime_s=number(element, "PSTIME"),
        petime_s=number(element, "PETIME"),
        rstime_s=number(element, "RSTIME"),
        retime_s=number(element, "RETIME"),
        estime_s=number(element, "ESTIME"),
        eetime_s=number(element, "EETIME"),
        action=number(element, "ACTION"),
        uid=number(element, "UID", -1),
        gid=number(element, "GID", -1),
        request_id=number(element, "REQUEST_ID", -1),
    )


def _address_range(element: Element) -> SimAddressRange:
    entries = vector(element)
    size = int(entries.pop("SIZE", "0"))
    numbers = [int(part) for part in entries.pop("ALLOCATED", "").split()]
    owners = zip(numbers[::2], numbers[1::2], strict=True)
    return SimAddressRange(entries, size, {offset: holder_of(owner) for offset, owner in owners})


def _role(element: Element) -> SimRole:
    entries = vector(element)
    vm_ids = [int(part) for part in entries.pop("VMS", "").split(",") if part]
    return SimRole(int(entries.pop("ID")), entries.pop("NAME"), entries, vm_ids)


def _quotas(element: Element | None) -> SimQuotas:
    if element is None:
        return SimQuotas()
    return SimQuotas(
        datastore=vectors(element, "DATASTORE_QUOTA/DATASTORE"),
        network=vectors(element, "NETWORK_QUOTA/NETWORK"),
        vm=[_vm_quota(entry) for entry in vectors(element, "VM_QUOTA/VM")],
        image=vectors(element, "IMAGE_QUOTA/IMAGE"),
    )


def _vm_quota(entries: Vector) -> SimVmQuota:
    quota = SimVmQuota(cluster_ids=entries.pop("CLUSTER_IDS", ""))
    for name, value in entries.items():
        if not name.endswith("_USED"):
            quota.limits[name] = float(value)
            continue
        counted = name.removesuffix("_USED")
        factor = 100 if counted in ("CPU", "RUNNING_CPU") else 1
        quota.used[counted] = round(float(value) * factor)
    return quota
