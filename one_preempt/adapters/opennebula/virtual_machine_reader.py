"""VM documents as values. Secrets that a VM carries (CONTEXT, GRAPHICS) are never looked at."""

from __future__ import annotations

from collections import Counter
from collections.abc import Set
from functools import lru_cache

import numpy as np
from lxml.etree import Comment, ProcessingInstruction, XPath, _Element

from one_preempt.adapters.opennebula.pool_pieces import GREATEST_ID, NOT_SENT_MARK, ids_named
from one_preempt.adapters.opennebula.xml_document import (
    amount,
    optional_number,
    parse_document,
    read_objects,
    shortened,
    texts_of,
    whole_number,
    whole_number_or,
)
from one_preempt.core.model.virtual_machine import (
    COPIED_FROM_SOURCE,
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

LARGEST_CPU = 1e9
_SCALARS = frozenset({
    "CPU", "MEMORY", "AUTOMATIC_REQUIREMENTS", "AUTOMATIC_DS_REQUIREMENTS", "AUTOMATIC_NIC_REQUIREMENTS",
    "TEMPLATE_ID", "VROUTER_ID",
})  # fmt: skip
# oned writes one of these for each disk that has snapshots; they are not looked at.
_REPEATED = "SNAPSHOTS"
_VECTORS = frozenset({"DISK", "NIC", "PCI", "NUMA_NODE", "TOPOLOGY", "VMGROUP", "SCHED_ACTION"})

# oned writes users' texts into CDATA sections without minding the end mark of a section inside them, so that a text
# can hold elements: another owner, a restricted attribute. But what oned writes stands once, and its attributes are
# sorted by name, while smuggled ones stand between two parts of the attribute that brought them.
# Two texts of one user can hide between them what oned wrote: in a comment, or in an element of his own. oned writes no
# comments, only vectors of texts, and the user template right behind the template.
_NESTED = XPath("boolean((TEMPLATE | USER_TEMPLATE)/*/*/*)")
_SMUGGLED = ": its owner has smuggled markup into an attribute; only documents as oned writes them are read"

Vectors = dict[str, list[dict[str, str]]]


def read_vm_pool(document: bytes, problems: list[str]) -> dict[int, VirtualMachine]:
    """The VMs of one.vmpool.infoextended or one.vmpool.info by ascending id."""
    machines = read_objects(document, "VM_POOL", "VM", read_virtual_machine, problems)
    times = Counter(machine.id for machine in machines)
    twice = sorted(vm_id for vm_id, count in times.items() if count > 1)
    problems.extend(f"VM {vm_id} was left out: it appears twice in the pool" for vm_id in twice)
    once = (machine for machine in machines if times[machine.id] == 1)
    return {machine.id: machine for machine in sorted(once, key=lambda machine: machine.id)}


def ids_in_vm_pool(document: bytes) -> frozenset[int]:
    """The ids of all VMs of a pool, also of those whose documents cannot be read."""
    return ids_named(document, "VM")


def untraced_in_vm_pool(document: bytes, unreadable: Set[int]) -> frozenset[int]:
    """Those of the unreadable VMs of a pool that may be needing a host which does not list them.

    oned lists each VM that it charges a host for; but for one whose disks are being copied, the host that it leaves.
    The state stands before all that its owner writes, so it can be told although the rest cannot.
    """
    found: dict[int, list[bool]] = {}
    for element in parse_document(document, [], "VM_POOL").iterfind("VM"):
        state = whole_number_or(element.findtext("STATE"), -1)
        is_copied = state == VmState.ACTIVE and whole_number_or(element.findtext("LCM_STATE"), -1) in COPIED_FROM_SOURCE
        vm_id = whole_number_or(element.findtext("ID"), -1)
        found.setdefault(vm_id, []).append(state >= 0 and not is_copied)
    return frozenset(vm_id for vm_id in unreadable if found.get(vm_id) != [True])


def _vm_id(text: str) -> int:
    vm_id = amount(text)
    if vm_id > GREATEST_ID:
        raise ValueError(f"its ID {vm_id} is too large")
    return vm_id


def read_virtual_machine(element: _Element, *, in_order: bool = True) -> VirtualMachine:
    """One VM element. `KeyError` or `ValueError` where it lacks what every VM has.

    `in_order`: refuse attributes that are not in oned's order, which a user's markup among them hardly keeps.
    """
    parts = {child.tag: child for child in element}
    if parts.keys() == {"ID", NOT_SENT_MARK}:
        raise ValueError(
            "oned cannot send it, because it has a character beyond the first 65,536 (an emoji?): replace what its "
            "owner wrote (onevm update), or terminate it"
        )
    if parts.keys() <= {"ID", "STATE", "LCM_STATE"}:
        raise ValueError(f"its document is not as oned writes it{_SMUGGLED}")
    if len(parts) != len(element) and _stands_twice(element):
        raise ValueError(f"an element appears twice in its document{_SMUGGLED}")
    # Only the short body of one.vmpool.info comes without permissions.
    extended = "PERMISSIONS" in parts
    if _hides_something(element, parts["TEMPLATE"], parts.get("USER_TEMPLATE") if extended else None):
        raise ValueError(f"a part of its document is hidden{_SMUGGLED}")
    texts = {tag: part.text or "" for tag, part in parts.items()}
    scalars, vectors = _template(parts["TEMPLATE"], is_sorted=extended and in_order)
    user_template = _user_template(parts.get("USER_TEMPLATE"), is_sorted=in_order)
    lock = texts_of(parts["LOCK"]) if "LOCK" in parts else {}
    group = vectors["VMGROUP"][0] if "VMGROUP" in vectors else {}
    return VirtualMachine(
        id=_vm_id(texts["ID"]),
        name=texts["NAME"],
        uid=whole_number(texts["UID"]),
        gid=whole_number(texts["GID"]),
        uname=texts.get("UNAME", ""),
        gname=texts.get("GNAME", ""),
        state=VmState(whole_number(texts["STATE"])),
        lcm_state=whole_number(texts["LCM_STATE"]),
        resched=texts.get("RESCHED", "0") == "1",
        submitted_at_s=whole_number(texts["STIME"]),
        ended_at_s=whole_number(texts["ETIME"]),
        cpu_centi=cpu_centi(scalars["CPU"]),
        memory_mib=amount(scalars["MEMORY"]),
        automatic_requirements=scalars.get("AUTOMATIC_REQUIREMENTS", ""),
        automatic_datastore_requirements=scalars.get("AUTOMATIC_DS_REQUIREMENTS", ""),
        automatic_nic_requirements=scalars.get("AUTOMATIC_NIC_REQUIREMENTS", ""),
        sched_requirements=_first_text(user_template, "SCHED_REQUIREMENTS"),
        sched_datastore_requirements=_first_text(user_template, "SCHED_DS_REQUIREMENTS"),
        sched_rank=_first_text(user_template, "SCHED_RANK") or _first_text(user_template, "RANK"),
        sched_datastore_rank=_first_text(user_template, "SCHED_DS_RANK"),
        user_priority=_first_text(user_template, "USER_PRIORITY"),
        lock_level=LockLevel(whole_number(lock["LOCKED"])) if lock else LockLevel.NONE,
        lock_owner_uid=optional_number(lock.get("OWNER")),
        template_id=optional_number(scalars.get("TEMPLATE_ID")),
        service_id=_first_text(user_template, "SERVICE_ID"),
        virtual_router_id=optional_number(scalars.get("VROUTER_ID")),
        vm_group_id=optional_number(group.get("VMGROUP_ID")),
        vm_group_role=group.get("ROLE", ""),
        disks=tuple(_disk(disk) for disk in vectors.get("DISK", ())),
        nics=_nics(vectors),
        pci_requests=tuple(_pci_request(device) for device in vectors.get("PCI", ())),
        topology=_topology(vectors["TOPOLOGY"][0]) if "TOPOLOGY" in vectors else None,
        numa_nodes=tuple(_numa_node_request(node) for node in vectors.get("NUMA_NODE", ())),
        scheduled_actions=_scheduled_actions(parts.get("SCHED_ACTIONS"), vectors),
        history=_history(parts.get("HISTORY_RECORDS")),
        user_template=user_template,
        extended=extended,
    )


@lru_cache(maxsize=1 << 12)
def cpu_centi(text: str) -> int:
    """CPU in hundredths exactly as oned charges it, which counts in single precision."""
    try:
        is_amount = 0 <= float(text) <= LARGEST_CPU
    except ValueError:
        is_amount = False
    if not is_amount:
        raise ValueError(f"CPU = {shortened(text)} is no amount")
    return int(np.float32(text) * np.float32(100))


def _template(template: _Element, *, is_sorted: bool) -> tuple[dict[str, str], Vectors]:
    scalars: dict[str, str] = {}
    vectors: Vectors = {}
    names: list[str] = []
    for child in template:
        tag = str(child.tag)
        names.append(tag)
        if tag in _VECTORS:
            vectors.setdefault(tag, []).append(texts_of(child))
        elif tag in _SCALARS:
            if tag in scalars:
                raise ValueError(f"{tag} appears twice in its template{_SMUGGLED}")
            scalars[tag] = child.text or ""
    if is_sorted:
        # Scheduled actions are appended to the rest.
        _check_order([name for name in names if name != "SCHED_ACTION"] if "SCHED_ACTION" in vectors else names)
    return scalars, vectors


def _user_template(template: _Element | None, *, is_sorted: bool) -> Template:
    # In lists first: tens of thousands of attributes of one name would otherwise be copied again for each.
    attributes: dict[str, list[AttributeValue]] = {}
    names: list[str] = []
    for child in template if template is not None else ():
        name = str(child.tag)
        names.append(name)
        attributes.setdefault(name, []).append(texts_of(child) if len(child) else child.text or "")
    if is_sorted:
        _check_order(names)
    return {name: tuple(values) for name, values in attributes.items()}


def _stands_twice(element: _Element) -> bool:
    """Whether one of oned's elements is there more than once that a VM has but once."""
    tags = [child.tag for child in element if child.tag != _REPEATED]
    return len(set(tags)) != len(tags)


def _hides_something(element: _Element, template: _Element, user_template: _Element | None) -> bool:
    """Whether there is a place in which oned's own elements can have disappeared."""
    return (
        next(element.iter(Comment, ProcessingInstruction), None) is not None
        or (user_template is not None and template.getnext() is not user_template)
        or bool(_NESTED(element))
    )


def _check_order(names: list[str]) -> None:
    if names != sorted(names):
        raise ValueError(f"its attributes are not in oned's order{_SMUGGLED}")


def _first_text(template: Template, name: str) -> str:
    value = template[name][0] if name in template else ""
    return value if isinstance(value, str) else ""


def _disk(texts: dict[str, str]) -> Disk:
    return Disk(
        id=whole_number(texts["DISK_ID"]),
        size_mib=amount(texts.get("SIZE") or "0"),
        type=texts.get("TYPE", ""),
        datastore_id=optional_number(texts.get("DATASTORE_ID")),
        clone=texts["CLONE"].upper() == "YES" if "CLONE" in texts else None,
        clone_target=texts.get("CLONE_TARGET", ""),
        ln_target=texts.get("LN_TARGET", ""),
        tm_mad=texts.get("TM_MAD", ""),
        snapshot_total_mib=amount(texts.get("DISK_SNAPSHOT_TOTAL_SIZE") or "0"),
        image_id=optional_number(texts.get("IMAGE_ID")),
        image_size_mib=amount(texts.get("ORIGINAL_SIZE") or "0"),
    )


def _nics(vectors: Vectors) -> tuple[Nic, ...]:
    passthrough = [device for device in vectors.get("PCI", ()) if device.get("TYPE") == "NIC" and "NIC_ID" in device]
    return tuple(_nic(texts) for texts in (*vectors.get("NIC", ()), *passthrough))


def _nic(texts: dict[str, str]) -> Nic:
    return Nic(
        id=whole_number(texts["NIC_ID"]),
        network_id=optional_number(texts.get("NETWORK_ID")),
        automatic=texts.get("NETWORK_MODE", "").upper() == "AUTO",
        sched_requirements=texts.get("SCHED_REQUIREMENTS", ""),
        sched_rank=texts.get("SCHED_RANK", ""),
    )


def _pci_request(texts: dict[str, str]) -> PciRequest:
    return PciRequest(
        vendor=texts.get("VENDOR", "").lower(),
        device=texts.get("DEVICE", "").lower(),
        device_class=texts.get("CLASS", "").lower(),
        short_address=texts.get("SHORT_ADDRESS", ""),
        address=texts.get("ADDRESS", ""),
    )


def _topology(texts: dict[str, str]) -> Topology:
    return Topology(
        cores=amount(texts.get("CORES") or "0"),
        threads=amount(texts.get("THREADS") or "0"),
        pin_policy=texts.get("PIN_POLICY", "").upper(),
        hugepage_size_mib=optional_number(texts.get("HUGEPAGE_SIZE")),
        node_affinity=optional_number(texts.get("NODE_AFFINITY")),
    )


def _numa_node_request(texts: dict[str, str]) -> NumaNodeRequest:
    return NumaNodeRequest(
        node_id=optional_number(texts.get("NODE_ID")),
        total_cpus=amount(texts.get("TOTAL_CPUS") or "0"),
        memory_kib=amount(texts.get("MEMORY") or "0"),
        memory_node_id=optional_number(texts.get("MEMORY_NODE_ID")),
    )


def _scheduled_actions(listed: _Element | None, vectors: Vectors) -> tuple[ScheduledAction, ...]:
    """The actions with what they do where the document says so; pools only list their ids."""
    if "SCHED_ACTION" in vectors:
        return tuple(
            ScheduledAction(texts.get("ACTION", ""), texts.get("TIME", "")) for texts in vectors["SCHED_ACTION"]
        )
    return tuple(ScheduledAction("", "") for _ in (listed if listed is not None else ()))


def _history(records: _Element | None) -> tuple[HistoryRecord, ...]:
    stays = [_history_record(texts_of(record)) for record in (records if records is not None else ())]
    return tuple(sorted(stays, key=lambda stay: stay.sequence)) if len(stays) > 1 else tuple(stays)


def _history_record(texts: dict[str, str]) -> HistoryRecord:
    return HistoryRecord(
        sequence=whole_number(texts["SEQ"]),
        host_id=whole_number(texts["HID"]),
        hostname=texts.get("HOSTNAME", ""),
        cluster_id=whole_number(texts["CID"]),
        datastore_id=whole_number(texts["DS_ID"]),
        action=whole_number(texts["ACTION"]),
        start_at_s=whole_number(texts.get("STIME", "0")),
        end_at_s=whole_number(texts.get("ETIME", "0")),
        prolog_start_at_s=whole_number(texts.get("PSTIME", "0")),
        prolog_end_at_s=whole_number(texts.get("PETIME", "0")),
        running_start_at_s=whole_number(texts.get("RSTIME", "0")),
        running_end_at_s=whole_number(texts.get("RETIME", "0")),
        epilog_end_at_s=whole_number(texts.get("EETIME", "0")),
        tm_mad=texts.get("TM_MAD", ""),
        action_uid=whole_number(texts.get("UID", "-1")),
    )
