"""What of oned's documents may stand in a recording: what decisions use, and nothing else.

Everything is left out that is not named here: CONTEXT, GRAPHICS, passwords, tokens and all that users and
administrators write into templates for other purposes. Of templates, those attributes come along that the
recorded requirements and ranks name, unless they sound like a secret. Users write those and so choose what comes
along: whoever records is told what is there for their sake alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Union

from lxml import etree
from lxml.etree import _Element

# Elements by name: None keeps the text, a table keeps what it names of the children.
Allowed = Mapping[str, Union["Allowed", None]]

_EXPRESSIONS_OF_ONED = frozenset({
    "AUTOMATIC_REQUIREMENTS", "AUTOMATIC_DS_REQUIREMENTS", "AUTOMATIC_NIC_REQUIREMENTS",
})  # fmt: skip
_EXPRESSIONS_OF_USERS = frozenset({
    "SCHED_REQUIREMENTS", "SCHED_DS_REQUIREMENTS", "SCHED_RANK", "SCHED_DS_RANK", "RANK",
})  # fmt: skip
# Where attributes come along that expressions name.
_REFERRED_IN = ("hostpool.info", "hostpool.monitoring", "clusterpool.info", "datastorepool.info", "vnpool.info")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SOUNDS_SECRET = re.compile(
    r"PASS|PWD|SECRET|TOKEN|KEY|CRED|AUTH|PRIVATE|CERT|LOGIN|COOKIE|SESSION|IPMI|BMC|ILO|DRAC|FENCE|REDFISH|^POWER_"
    r"|PSK|WPA|WIFI|SNMP|COMMUNITY|PHRASE|VAULT|SSH|TLS|SSL|LDAP|RADIUS|TOTP|_OTP|JWT|BEARER|HMAC|SALT|HASH|DSN|WEBHOOK"
    r"|USER_?NAME|CONSOLE",
    re.IGNORECASE,
)


def _texts(names: str) -> dict[str, Allowed | None]:
    return dict.fromkeys(names.split())


def secret_sounding(name: str) -> bool:
    """Attributes of such names are recorded under no circumstances."""
    return _SOUNDS_SECRET.search(name) is not None


def names_in_expressions(documents: Iterable[_Element]) -> frozenset[str]:
    """Every name that a requirement or a rank in `documents` might refer to."""
    return _names_in(documents, _EXPRESSIONS_OF_ONED | _EXPRESSIONS_OF_USERS)


def named_by_users_alone(documents: Mapping[str, _Element], kept: Mapping[str, _Element]) -> tuple[str, ...]:
    """The attributes in `kept` that are there because users' requirements or ranks in `documents` name them."""
    without = allowed_in(_names_in(documents.values(), _EXPRESSIONS_OF_ONED), frozenset())
    named = (_names_beyond(kept[document], without[document]) for document in _REFERRED_IN if document in kept)
    return tuple(sorted(frozenset().union(*named)))


def _names_in(documents: Iterable[_Element], expressions: frozenset[str]) -> frozenset[str]:
    texts = (element.text or "" for root in documents for element in root.iter(*sorted(expressions)))
    return frozenset(name for text in texts for name in _NAME.findall(text) if not secret_sounding(name))


def _names_beyond(element: _Element, allowed: Allowed) -> frozenset[str]:
    """The elements below `element` that `allowed` does not name."""
    found: set[str] = set()
    for child in element:
        name = str(child.tag)
        if name not in allowed:
            found.add(name)
        elif (below := allowed[name]) is not None:
            found |= _names_beyond(child, below)
    return frozenset(found)


def allowed_in(names: frozenset[str], extra_user_attributes: frozenset[str]) -> dict[str, Allowed]:
    """The tables by document; `names` are those that expressions refer to."""
    referred = dict.fromkeys(sorted(names))
    user_attributes = dict.fromkeys(sorted(name for name in extra_user_attributes if not secret_sounding(name)))
    vm = {"VM": {**_VM, "USER_TEMPLATE": {**user_attributes, **_USER_TEMPLATE}}}
    host_template = {**_texts("ARCH HYPERVISOR PIN_POLICY PRIORITY RESERVED_CPU RESERVED_MEM"), **_CPU, **referred}
    cluster_template = {**_texts("PRIORITY RESERVED_CPU RESERVED_MEM"), **referred}
    monitoring = {
        **_texts("TIMESTAMP ID"),
        "CAPACITY": {**_texts("FREE_CPU FREE_MEMORY USED_CPU USED_MEMORY"), **referred},
        "SYSTEM": {**_texts("NETRX NETTX"), **referred},
        "NUMA_NODE": {"NODE_ID": None, "HUGEPAGE": _texts("FREE SIZE"), "MEMORY": _texts("FREE USED")},
    }
    return {
        "vmpool.infoextended": vm,
        "hostpool.info": {"HOST": {**_HOST, "TEMPLATE": host_template}},
        "hostpool.monitoring": {"MONITORING": monitoring},
        "clusterpool.info": {"CLUSTER": {**_CLUSTER, "TEMPLATE": cluster_template}},
        "datastorepool.info": {"DATASTORE": {**_DATASTORE, "TEMPLATE": {**_DATASTORE_TEMPLATE, **referred}}},
        "vnpool.info": {"VNET": {**_NETWORK, "TEMPLATE": {"PRIORITY": None, **referred}}},
        "vmgrouppool.info": {"VM_GROUP": _VM_GROUP},
        "acl.info": {"ACL": _texts("ID USER RESOURCE RIGHTS ZONE")},
        "userpool.info": {
            "USER": {**_texts("ID GID GNAME NAME ENABLED"), **_IDS_IN_GROUPS},
            "QUOTAS": _QUOTAS,
            "DEFAULT_USER_QUOTAS": _QUOTAS,
        },
        "grouppool.info": {
            "GROUP": {**_texts("ID NAME"), "USERS": _IDS},
            "QUOTAS": _QUOTAS,
            "DEFAULT_GROUP_QUOTAS": _QUOTAS,
        },
        "zone.raftstatus": _texts("STATE"),
        "system.config": {"FEDERATION": _texts("ZONE_ID")},
    }


def allowed_copy(element: _Element, allowed: Allowed) -> _Element:
    """`element` with only what `allowed` names. A text stays only where a text is expected."""
    copy = etree.Element(str(element.tag))
    for child in element:
        name = str(child.tag)
        if name not in allowed:
            continue
        below = allowed[name]
        if below is not None:
            copy.append(allowed_copy(child, below))
        elif not len(child):
            etree.SubElement(copy, name).text = child.text
    return copy


_IDS = _texts("ID")
_IDS_IN_GROUPS: dict[str, Allowed | None] = {"GROUPS": _IDS}
_PERMISSIONS = _texts("OWNER_U OWNER_M OWNER_A GROUP_U GROUP_M GROUP_A OTHER_U OTHER_M OTHER_A")
_QUOTA_NAMES = [
    f"{running}{name}{used}"
    for name in ("CPU", "MEMORY", "VMS", "SYSTEM_DISK_SIZE", "PCI_DEV", "PCI_NIC")
    for running in ("", "RUNNING_")
    for used in ("", "_USED")
]
_QUOTAS: dict[str, Allowed | None] = {
    "ID": None,
    "VM_QUOTA": {"VM": {"CLUSTER_IDS": None, **dict.fromkeys(_QUOTA_NAMES)}},
}
_CPU = _texts("KVM_CPU_MODEL KVM_CPU_MODELS KVM_CPU_FEATURES MEMORY_ENCRYPTION PUBLIC_CLOUD")
_USER_TEMPLATE: dict[str, Allowed | None] = {
    **_texts(
        "SCHED_REQUIREMENTS SCHED_DS_REQUIREMENTS SCHED_RANK SCHED_DS_RANK SCHED_MESSAGE RANK USER_PRIORITY "
        "LEASE_STATUS SERVICE_ID"
    ),
    "LEASE": _texts("TYPE NAME SIZE DURATION START DEADLINE MAX_SUSPENSIONS SHUTDOWN_OK"),
}
_VM: dict[str, Allowed | None] = {
    **_texts("ID UID GID UNAME GNAME NAME LAST_POLL STATE LCM_STATE RESCHED STIME ETIME"),
    "PERMISSIONS": _PERMISSIONS,
    "LOCK": _texts("LOCKED OWNER TIME"),
    "SCHED_ACTIONS": _IDS,
    "TEMPLATE": {
        **_texts("CPU MEMORY VCPU TEMPLATE_ID VROUTER_ID"),
        **_texts("AUTOMATIC_REQUIREMENTS AUTOMATIC_DS_REQUIREMENTS AUTOMATIC_NIC_REQUIREMENTS"),
        "DISK": _texts(
            "DISK_ID SIZE TYPE DATASTORE_ID CLONE CLONE_TARGET LN_TARGET TM_MAD DISK_SNAPSHOT_TOTAL_SIZE IMAGE_ID "
            "ORIGINAL_SIZE"
        ),
        "NIC": _texts("NIC_ID NETWORK_ID NETWORK_MODE SCHED_REQUIREMENTS SCHED_RANK"),
        "PCI": _texts("VENDOR DEVICE CLASS SHORT_ADDRESS ADDRESS TYPE NIC_ID NETWORK_ID NETWORK_MODE"),
        "NUMA_NODE": _texts("NODE_ID TOTAL_CPUS MEMORY MEMORY_NODE_ID CPUS"),
        "TOPOLOGY": _texts("CORES SOCKETS THREADS PIN_POLICY HUGEPAGE_SIZE NODE_AFFINITY"),
        "VMGROUP": _texts("VMGROUP_ID ROLE"),
        "SCHED_ACTION": _texts("ACTION TIME"),
    },
    "HISTORY_RECORDS": {
        "HISTORY": _texts(
            "OID SEQ HOSTNAME HID CID STIME ETIME TM_MAD DS_ID PSTIME PETIME RSTIME RETIME ESTIME EETIME ACTION UID"
        )
    },
}
_HOST: dict[str, Allowed | None] = {
    **_texts("ID NAME STATE IM_MAD VM_MAD CLUSTER_ID CLUSTER"),
    "HOST_SHARE": {
        **_texts("MEM_USAGE CPU_USAGE TOTAL_MEM TOTAL_CPU MAX_MEM MAX_CPU RUNNING_VMS VMS_THREAD"),
        "DATASTORES": {
            **_texts("DISK_USAGE FREE_DISK MAX_DISK USED_DISK"),
            "DS": _texts("ID FREE_MB TOTAL_MB USED_MB"),
        },
        "PCI_DEVICES": {"PCI": _texts("ADDRESS SHORT_ADDRESS VENDOR DEVICE CLASS VMID NUMA_NODE")},
        "NUMA_NODES": {
            "NODE": {
                "NODE_ID": None,
                "CORE": _texts("CPUS DEDICATED FREE ID"),
                "HUGEPAGE": _texts("PAGES SIZE USAGE"),
                "MEMORY": _texts("DISTANCE TOTAL USAGE"),
            }
        },
    },
    "VMS": _IDS,
}
_CLUSTER: dict[str, Allowed | None] = {**_texts("ID NAME"), "HOSTS": _IDS, "DATASTORES": _IDS, "VNETS": _IDS}
_DATASTORE: dict[str, Allowed | None] = {
    **_texts("ID UID GID UNAME GNAME NAME DS_MAD TM_MAD TYPE DISK_TYPE STATE TOTAL_MB FREE_MB USED_MB"),
    "PERMISSIONS": _PERMISSIONS,
    "CLUSTERS": _IDS,
}
_DATASTORE_TEMPLATE = _texts("SHARED TYPE LIMIT_MB DS_MIGRATE DS_LIVE_MIGRATE PRIORITY BRIDGE_LIST REPLICA_HOST")
_NETWORK: dict[str, Allowed | None] = {
    **_texts("ID UID GID UNAME GNAME NAME STATE USED_LEASES"),
    "PERMISSIONS": _PERMISSIONS,
    "CLUSTERS": _IDS,
    "AR_POOL": {"AR": _texts("AR_ID SIZE")},
}
_VM_GROUP: dict[str, Allowed | None] = {
    **_texts("ID UID GID UNAME GNAME NAME"),
    "PERMISSIONS": _PERMISSIONS,
    "ROLES": {"ROLE": _texts("ID NAME POLICY VMS HOST_AFFINED HOST_ANTI_AFFINED")},
    "TEMPLATE": _texts("AFFINED ANTI_AFFINED"),
}
