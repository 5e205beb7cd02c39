"""VNET as one.vnpool.info gives it, and as one.vn.info does, which tells of each address who has it."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterable

from one_preempt.simulation.emulator.address_owners import is_vm, owner_of
from one_preempt.simulation.emulator.infrastructure_documents import vm_update_lists
from one_preempt.simulation.emulator.permissions_document import head
from one_preempt.simulation.emulator.xml_writing import Vector, cdata, element, ids, template, vector
from one_preempt.simulation.simulated_cloud.objects import SimAddressRange, SimNetwork

_ADDRESS_RANGE_OF_7 = frozenset({"NEXT_INDEX", "SHARED"})
_MAC_BYTES = 6


def network_in_pool(net: SimNetwork, version: str) -> str:
    """VNET in a pool."""
    return _network(net, version, (vector("AR", _as_stored(entry, version)) for entry in net.address_ranges))


def network(net: SimNetwork, version: str, sees: Callable[[int], bool]) -> str:
    """VNET alone; leases of VMs that the caller does not see are left out."""
    return _network(net, version, (_with_leases(entry, version, sees) for entry in net.address_ranges))


def _network(net: SimNetwork, version: str, address_ranges: Iterable[str]) -> str:
    holders = {holder for addresses in net.address_ranges for holder in addresses.leases.values()}
    return element(
        "VNET",
        head(net),
        ids("CLUSTERS", net.cluster_ids),
        cdata("BRIDGE", net.bridge),
        cdata("BRIDGE_TYPE", net.bridge_type),
        cdata("STATE", net.state),
        cdata("PREV_STATE", net.state),
        "<PARENT_NETWORK_ID/>" if version.startswith("6.") else "<PARENT_NETWORK_ID/><TEMPLATE_ID/>",
        cdata("VN_MAD", net.vn_mad),
        "<PHYDEV/><VLAN_ID/><OUTER_VLAN_ID/><VLAN_ID_AUTOMATIC>0</VLAN_ID_AUTOMATIC>",
        f"<OUTER_VLAN_ID_AUTOMATIC>0</OUTER_VLAN_ID_AUTOMATIC><USED_LEASES>{net.used_leases}</USED_LEASES>",
        f"<VROUTERS></VROUTERS>{vm_update_lists(sorted(filter(is_vm, holders)))}",
        template("TEMPLATE", net.template),
        element("AR_POOL", *address_ranges),
    )


def _as_stored(addresses: SimAddressRange, version: str) -> Vector:
    leases = sorted(addresses.leases.items())
    allocated = "".join(f" {offset} {owner_of(holder)}" for offset, holder in leases)
    return {**_without_leases(addresses, version), "ALLOCATED": allocated}


def _without_leases(addresses: SimAddressRange, version: str) -> Vector:
    entries = {**addresses.vector, "SIZE": str(addresses.size)}
    entries.pop("ALLOCATED", None)
    if version.startswith("6."):
        return {name: value for name, value in entries.items() if name not in _ADDRESS_RANGE_OF_7}
    return {"NEXT_INDEX": str(max(addresses.leases, default=-1) + 1), "SHARED": "NO"} | entries


def _with_leases(addresses: SimAddressRange, version: str, sees: Callable[[int], bool]) -> str:
    """AR: its attributes, its last addresses, how many are taken, and by which VMs."""
    stored = _without_leases(addresses, version)
    last = _address(addresses, addresses.size - 1)
    leases = "".join(
        vector("LEASE", {**_address(addresses, offset), "VM": str(holder)})
        for offset, holder in sorted(addresses.leases.items())
        if is_vm(holder) and sees(holder)
    )
    return element(
        "AR",
        *(cdata(name, stored[name]) for name in sorted(stored)),
        *(cdata(f"{name}_END", last[name]) for name in ("MAC", "IP") if name in last),
        f"<USED_LEASES>{len(addresses.leases)}</USED_LEASES>",
        f"<LEASES>{leases}</LEASES>" if addresses.leases else "<LEASES/>",
    )


def _address(addresses: SimAddressRange, offset: int) -> Vector:
    """IP and MAC so many behind the first, as far as the range has them."""
    found: dict[str, str] = {}
    if "IP" in addresses.vector:
        found["IP"] = str(ipaddress.ip_address(addresses.vector["IP"]) + offset)
    if "MAC" in addresses.vector:
        number = int(addresses.vector["MAC"].replace(":", ""), 16) + offset
        found["MAC"] = number.to_bytes(_MAC_BYTES, "big").hex(":")
    return found
