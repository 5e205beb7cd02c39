"""User, group and ACL documents with quotas."""

from __future__ import annotations

import hashlib

from one_preempt.simulation.emulator.xml_writing import Attributes, Vector, cdata, element, ids, plain, template, vector
from one_preempt.simulation.simulated_cloud.objects import SimAcl, SimGroup, SimQuotas, SimUser, SimVmQuota

_VM_QUOTAS = ("CPU", "MEMORY", "RUNNING_CPU", "RUNNING_MEMORY", "RUNNING_VMS", "SYSTEM_DISK_SIZE", "VMS")
_VM_QUOTAS_OF_7 = ("PCI_DEV", "PCI_NIC", "RUNNING_PCI_DEV", "RUNNING_PCI_NIC")
_CPU_QUOTAS = frozenset({"CPU", "RUNNING_CPU"})
_NO_QUOTAS = SimQuotas()


def user(person: SimUser, version: str) -> str:
    """USER as one.user.info gives it: quotas inside, the defaults at the end."""
    defaults = element("DEFAULT_USER_QUOTAS", _quotas(_NO_QUOTAS, version))
    return element("USER", _user_body(person), _quotas(person.quotas, version), defaults)


def user_in_pool(person: SimUser, version: str) -> str:
    """USER, and after it QUOTAS, as the pool has them side by side."""
    return element("USER", _user_body(person)) + _quotas_beside(person.id, person.quotas, version)


def group(known: SimGroup, version: str) -> str:
    """GROUP as one.group.info gives it: quotas inside, the defaults at the end."""
    defaults = element("DEFAULT_GROUP_QUOTAS", _quotas(_NO_QUOTAS, version))
    return element("GROUP", _group_body(known), _quotas(known.quotas, version), defaults)


def group_in_pool(group: SimGroup, version: str) -> str:
    """GROUP, and after it QUOTAS, as the pool has them side by side; 7.x adds VLAN_RULES."""
    body = element("GROUP", _group_body(group))
    vlan_rules = "" if version.startswith("6.") else element("VLAN_RULES", cdata("ID", group.id))
    return body + _quotas_beside(group.id, group.quotas, version) + vlan_rules


def default_quotas(tag: str, version: str) -> str:
    """The cloud-wide defaults at the end of a user or group pool; the simulated cloud has none."""
    return element(tag, _quotas(_NO_QUOTAS, version))


def acl(rule: SimAcl) -> str:
    """ACL: the four numbers in hexadecimal and the rule as text."""
    return element(
        "ACL",
        plain("ID", rule.id),
        plain("USER", f"{rule.user:x}"),
        plain("RESOURCE", f"{rule.resource:x}"),
        plain("RIGHTS", f"{rule.rights:x}"),
        plain("ZONE", f"{rule.zone:x}"),
        plain("STRING", rule.text),
    )


def _user_body(person: SimUser) -> str:
    password = hashlib.sha256(person.password.encode()).hexdigest()
    # oned gives every user a secret for tokens; what it is does not matter here.
    entries: Attributes = {"TOKEN_PASSWORD": [hashlib.sha256(password.encode()).hexdigest()], **person.template}
    return (
        f"<ID>{person.id}</ID><GID>{person.gid}</GID>{ids('GROUPS', person.group_ids)}{plain('GNAME', person.gname)}"
        f"{plain('NAME', person.name)}{cdata('PASSWORD', password)}"
        f"{cdata('AUTH_DRIVER', person.auth_driver)}<ENABLED>{person.enabled:d}</ENABLED>"
        f"{template('TEMPLATE', entries)}"
    )


def _group_body(group: SimGroup) -> str:
    return (
        f"{plain('ID', group.id)}{plain('NAME', group.name)}{template('TEMPLATE', group.template)}"
        f"{ids('USERS', group.user_ids)}{ids('ADMINS', group.admin_ids)}"
    )


def _quotas_beside(object_id: int, quotas: SimQuotas, version: str) -> str:
    return element("QUOTAS", plain("ID", object_id), _quotas(quotas, version))


def _quotas(quotas: SimQuotas, version: str) -> str:
    return (
        element("DATASTORE_QUOTA", *(vector("DATASTORE", entry) for entry in quotas.datastore))
        + element("NETWORK_QUOTA", *(vector("NETWORK", entry) for entry in quotas.network))
        + element("VM_QUOTA", *(vector("VM", _vm_quota(entry, version)) for entry in quotas.vm))
        + element("IMAGE_QUOTA", *(vector("IMAGE", entry) for entry in quotas.image))
    )


def _vm_quota(quota: SimVmQuota, version: str) -> Vector:
    names = _VM_QUOTAS if version.startswith("6.") else _VM_QUOTAS + _VM_QUOTAS_OF_7
    entries = {name: _number(quota.limits.get(name, -1)) for name in names}
    for name in names:
        used = quota.used.get(name, 0)
        entries[f"{name}_USED"] = _number(used / 100) if name in _CPU_QUOTAS else str(used)
    if quota.cluster_ids:
        entries["CLUSTER_IDS"] = quota.cluster_ids
    return entries


def _number(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")
