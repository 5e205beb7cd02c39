"""VM documents: the full body of one.vm.info and the extended pools, and the short body of one.vmpool.info."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from one_preempt.simulation.emulator.permissions_document import owner_and_name, permissions
from one_preempt.simulation.emulator.xml_writing import Vector, attributes, cdata, element, ids, plain, template, vector
from one_preempt.simulation.simulated_cloud.objects import SimHistory, SimLock, SimVm, TemplateDict
from one_preempt.simulation.simulated_cloud.states import LcmState, VmState
from one_preempt.simulation.simulated_cloud.templates import text_of, vectors_of

_SHORT_DISK = (
    "DISK_ID", "DATASTORE", "DATASTORE_ID", "IMAGE", "IMAGE_ID", "SIZE", "TYPE", "CLONE", "CLONE_TARGET", "LN_TARGET",
    "DISK_SNAPSHOT_TOTAL_SIZE",
)  # fmt: skip
_SHORT_NIC_WHERE_GIVEN = ("NETWORK_MODE", "SCHED_REQUIREMENTS", "IP")
_SHORT_NIC = ("MAC", "NETWORK", "NETWORK_ID", "NIC_ID", "SECURITY_GROUPS")
_SHORT_USER_TEMPLATE = frozenset(
    {"ERROR", "LABELS", "SCHED_MESSAGE", "SCHED_RANK", "SCHED_REQUIREMENTS", "SCHED_DS_RANK", "SCHED_DS_REQUIREMENTS",
     "USER_PRIORITY"}
)  # fmt: skip
_SCHED_ACTION = (
    "ID", "PARENT_ID", "TYPE", "ACTION", "ARGS", "TIME", "REPEAT", "DAYS", "END_TYPE", "END_VALUE", "DONE", "MESSAGE",
    "WARNING",
)  # fmt: skip


def vm_full(vm: SimVm, version: str, in_pool: bool) -> str:
    """The body of one.vm.info; in the extended pools it has no figures, no scheduled actions but their ids, and the
    last history record alone."""
    history = vm.history[-1:] if in_pool else vm.history
    actions = "" if in_pool else "".join(map(_sched_action, vm.sched_actions))
    return (
        f"<VM>{owner_and_name(vm)}{permissions(vm.permissions)}"
        f"<LAST_POLL>{0 if in_pool else vm.last_poll_s}</LAST_POLL>"
        f"<STATE>{vm.state:d}</STATE><LCM_STATE>{vm.lcm_state:d}</LCM_STATE>"
        f"<PREV_STATE>{vm.prev_state:d}</PREV_STATE><PREV_LCM_STATE>{vm.prev_lcm_state:d}</PREV_LCM_STATE>"
        f"{_times_and_deploy_id(vm)}{'' if vm.lock is None else _lock(vm.lock)}"
        f"{vector('MONITORING', {} if in_pool else vm.monitoring)}"
        f"{ids('SCHED_ACTIONS', (int(action['ID']) for action in vm.sched_actions))}"
        f"<TEMPLATE>{attributes(_with_identity(vm))}{actions}</TEMPLATE>"
        f"{template('USER_TEMPLATE', vm.user_template)}"
        f"{_history(_full_record(record, version) for record in history)}"
        "<BACKUPS><BACKUP_CONFIG/><BACKUP_IDS></BACKUP_IDS></BACKUPS></VM>"
    )


def accounting_record(vm: SimVm, record: SimHistory, version: str) -> str:
    """A stay on a host as accounting tells it: with the VM as it was when the stay began, without history."""
    began = replace(
        vm, state=VmState.ACTIVE, lcm_state=LcmState.PROLOG, prev_state=VmState.ACTIVE,
        prev_lcm_state=LcmState.LCM_INIT, etime_s=0, history=[], sched_actions=[], lock=None,
    )  # fmt: skip
    body = vm_full(began, version, in_pool=True)
    return _full_record(record, version).removesuffix("</HISTORY>") + f"{body}</HISTORY>"


def vm_short(vm: SimVm) -> str:
    """The body of one.vmpool.info: capacity, the parts of disks and NICs that lists show, the last record."""
    lock = "" if vm.lock is None else element("LOCK", plain("LOCKED", vm.lock.level))
    user_template = {name: vm.user_template[name] for name in vm.user_template if name in _SHORT_USER_TEMPLATE}
    return (
        f"<VM>{owner_and_name(vm)}<LAST_POLL>0</LAST_POLL>"
        f"<STATE>{vm.state:d}</STATE><LCM_STATE>{vm.lcm_state:d}</LCM_STATE>{_times_and_deploy_id(vm)}{lock}"
        f"{_short_template(vm.template)}<MONITORING/>{template('USER_TEMPLATE', user_template)}"
        f"{_history(_short_record(record) for record in vm.history[-1:])}</VM>"
    )


def _with_identity(vm: SimVm) -> TemplateDict:
    """The template with what follows from the VM's id: its number, and its UUID unless it was given one."""
    system, *others = vectors_of(vm.template, "OS") or [{}]
    uuid = system.get("UUID", f"00000000-0000-4000-8000-{vm.id:012x}")
    return {**vm.template, "VMID": [str(vm.id)], "OS": [{**system, "UUID": uuid}, *others]}


def vm_monitoring(vms: Iterable[SimVm]) -> str:
    """The last figures of each VM that has some, in ascending id order."""
    return "".join(vector("MONITORING", vm.monitoring) for vm in sorted(vms, key=lambda vm: vm.id) if vm.monitoring)


def _times_and_deploy_id(vm: SimVm) -> str:
    return (
        f"<RESCHED>{vm.resched:d}</RESCHED><STIME>{vm.stime_s}</STIME><ETIME>{vm.etime_s}</ETIME>"
        f"{plain('DEPLOY_ID', vm.deploy_id)}"
    )


def _lock(lock: SimLock) -> str:
    return element(
        "LOCK",
        plain("LOCKED", lock.level),
        plain("OWNER", lock.owner_uid),
        plain("TIME", lock.time_s),
        plain("REQ_ID", lock.request_id),
    )


def _sched_action(action: Vector) -> str:
    return element("SCHED_ACTION", *(plain(name, action.get(name, "")) for name in _SCHED_ACTION))


def _short_template(entries: TemplateDict) -> str:
    return element(
        "TEMPLATE",
        *(plain(name, text_of(entries, name)) for name in ("CPU", "MEMORY", "VCPU")),
        *(_short_disk(disk) for disk in vectors_of(entries, "DISK")),
        *(_short_nic(nic) for nic in vectors_of(entries, "NIC")),
        attributes({"GRAPHICS": entries.get("GRAPHICS", [])}),
    )


def _short_disk(disk: Vector) -> str:
    return element("DISK", *(cdata(name, disk[name]) for name in _SHORT_DISK if name in disk))


def _short_nic(nic: Vector) -> str:
    given = (cdata(name, nic[name]) for name in _SHORT_NIC_WHERE_GIVEN if name in nic)
    return element("NIC", *given, *(cdata(name, nic.get(name, "")) for name in _SHORT_NIC))


def _history(records: Iterable[str]) -> str:
    body = "".join(records)
    return element("HISTORY_RECORDS", body) if body else "<HISTORY_RECORDS/>"


def _full_record(record: SimHistory, version: str) -> str:
    plan = "" if version.startswith("6.") else (
        f"<PLAN_ID>{record.plan_id}</PLAN_ID><ACTION_ID>{record.action_id}</ACTION_ID>"
    )  # fmt: skip
    return (
        f"<HISTORY><OID>{record.vm_id}</OID><SEQ>{record.seq}</SEQ>{plain('HOSTNAME', record.hostname)}"
        f"<HID>{record.host_id}</HID><CID>{record.cluster_id}</CID><STIME>{record.stime_s}</STIME>"
        f"<ETIME>{record.etime_s}</ETIME>{cdata('VM_MAD', record.vm_mad)}{cdata('TM_MAD', record.tm_mad)}"
        f"<DS_ID>{record.datastore_id}</DS_ID>{plan}"
        f"<PSTIME>{record.pstime_s}</PSTIME><PETIME>{record.petime_s}</PETIME><RSTIME>{record.rstime_s}</RSTIME>"
        f"<RETIME>{record.retime_s}</RETIME><ESTIME>{record.estime_s}</ESTIME><EETIME>{record.eetime_s}</EETIME>"
        f"<ACTION>{record.action}</ACTION><UID>{record.uid}</UID><GID>{record.gid}</GID>"
        f"<REQUEST_ID>{record.request_id}</REQUEST_ID></HISTORY>"
    )


def _short_record(record: SimHistory) -> str:
    return (
        f"<HISTORY><OID>{record.vm_id}</OID><SEQ>{record.seq}</SEQ>{cdata('HOSTNAME', record.hostname)}"
        f"<HID>{record.host_id}</HID><CID>{record.cluster_id}</CID><DS_ID>{record.datastore_id}</DS_ID>"
        f"{cdata('VM_MAD', record.vm_mad)}{cdata('TM_MAD', record.tm_mad)}{cdata('ACTION', record.action)}</HISTORY>"
    )
