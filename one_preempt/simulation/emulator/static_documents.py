"""Documents that do not depend on the cloud's state, or hardly: zone, VDC, hooks, configuration."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from one_preempt.simulation.emulator.infrastructure_documents import vm_update_lists
from one_preempt.simulation.emulator.permissions_document import permissions
from one_preempt.simulation.emulator.xml_writing import Attributes, element, ids, plain, template
from one_preempt.simulation.simulated_cloud.objects import SimPermissions, SimZone, TemplateDict

# What of oned.conf a scheduler may want to know; the rest of one.system.config is left out.
_CONFIGURATION: Attributes = {
    "API_LIST_ORDER": ["DESC"],
    "DATASTORE_CAPACITY_CHECK": ["YES"],
    "MANAGER_TIMER": ["15"],
    "PORT": ["2633"],
    "VM_RESTRICTED_ATTR": ["USER_PRIORITY"],
}
_CONFIGURATION_OF_7: Attributes = {
    "ACTION_TIMEOUT": ["300"],
    "COLD_MIGRATE_MODE": ["0"],
    "DRS_INTERVAL": ["-1"],
    "LIVE_RESCHEDS": ["0"],
    "MAX_ACTIONS_PER_CLUSTER": ["30"],
    "MAX_ACTIONS_PER_HOST": ["1"],
    "SCHED_MAX_WND_LENGTH": ["7"],
    "SCHED_MAX_WND_TIME": ["10"],
    "SCHED_RETRY_TIME": ["60"],
}
_DEFAULT_SECURITY_GROUP = SimPermissions(owner_a=True, group_u=True, other_u=True)


def configuration(version: str, zone_id: int, zones: Sequence[SimZone]) -> str:
    """The answer of one.system.config: the entries a scheduler may want to know."""
    entries = {**_CONFIGURATION, "FEDERATION": [_federation(zone_id, zones)]}
    if not version.startswith("6."):
        entries |= _CONFIGURATION_OF_7
    return template("OPENNEBULA_CONFIGURATION", {name: entries[name] for name in sorted(entries)})


def _federation(zone_id: int, zones: Sequence[SimZone]) -> dict[str, str]:
    master = next(zone for zone in zones if zone.id == 0)
    mode = "STANDALONE" if len(zones) == 1 else "SLAVE" if zone_id else "MASTER"
    return {
        "MASTER_ONED": master.endpoint if mode == "SLAVE" else "",
        "MODE": mode,
        "SERVER_ID": "-1",
        "ZONE_ID": str(zone_id),
    }


def raft_status(state: int) -> str:
    """The answer of one.zone.raftstatus; a server that is not alone (0) has the number 0."""
    server_id = 0 if state else -1
    return (
        f"<RAFT><SERVER_ID>{server_id}</SERVER_ID><STATE>{state}</STATE><TERM>0</TERM><VOTEDFOR>-1</VOTEDFOR>"
        "<COMMIT>0</COMMIT><LOG_INDEX>-1</LOG_INDEX><LOG_TERM>-1</LOG_TERM><FEDLOG_INDEX>-1</FEDLOG_INDEX></RAFT>"
    )


def hook_pool(hooks: Mapping[int, TemplateDict]) -> str:
    """The hooks, newest first."""
    return element("HOOK_POOL", *(_hook(hook_id, hooks[hook_id]) for hook_id in sorted(hooks, reverse=True)))


def _hook(hook_id: int, entries: TemplateDict) -> str:
    named = {name: str(entries[name][0]) for name in ("NAME", "TYPE")}
    rest = {name: values for name, values in entries.items() if name not in named}
    heads = (plain(name, value) for name, value in named.items())
    return element("HOOK", plain("ID", hook_id), *heads, template("TEMPLATE", rest))


def zone_pool(version: str, zones: Iterable[SimZone]) -> str:
    """The zones of the federation, newest first."""
    newest_first = sorted(zones, key=lambda zone: zone.id, reverse=True)
    return element("ZONE_POOL", *(_zone(version, zone) for zone in newest_first))


def _zone(version: str, zone: SimZone) -> str:
    addresses: Attributes = {"ENDPOINT": [zone.endpoint]}
    if zone.endpoint_grpc and not version.startswith("6."):
        addresses = {**addresses, "ENDPOINT_GRPC": [zone.endpoint_grpc]}
    state = 0 if zone.is_enabled else 1
    head = f"<ID>{zone.id}</ID>{plain('NAME', zone.name)}<STATE>{state}</STATE>"
    return element("ZONE", head, template("TEMPLATE", addresses), "<SERVER_POOL></SERVER_POOL>")


def vdc_pool(group_ids: Iterable[int]) -> str:
    """The default VDC: every group but oneadmin, every cluster."""
    return element(
        "VDC_POOL",
        element(
            "VDC",
            "<ID>0</ID><NAME>default</NAME>",
            ids("GROUPS", group_ids),
            "<CLUSTERS><CLUSTER><ZONE_ID>0</ZONE_ID><CLUSTER_ID>-10</CLUSTER_ID></CLUSTER></CLUSTERS>",
            "<HOSTS></HOSTS><DATASTORES></DATASTORES><VNETS></VNETS>",
            template("TEMPLATE", {"DESCRIPTION": ["Every new group is added to this VDC."]}),
        ),
    )


def security_group_pool(vm_ids: Iterable[int]) -> str:
    """The default security group and the VMs whose NICs follow it."""
    rules: Attributes = {
        "DESCRIPTION": ["The default security group of every network."],
        "RULE": [
            {"PROTOCOL": "ALL", "RULE_TYPE": "OUTBOUND"},
            {"PROTOCOL": "ALL", "RULE_TYPE": "INBOUND"},
        ],
    }
    return element(
        "SECURITY_GROUP_POOL",
        element(
            "SECURITY_GROUP",
            "<ID>0</ID><UID>0</UID><GID>0</GID><UNAME>oneadmin</UNAME><GNAME>oneadmin</GNAME>",
            plain("NAME", "default"),
            permissions(_DEFAULT_SECURITY_GROUP),
            vm_update_lists(vm_ids),
            template("TEMPLATE", rules),
        ),
    )
