"""Networks of VMs: leases, chosen networks for automatic NICs, security groups."""

from __future__ import annotations

import ipaddress

from one_preempt.simulation.simulated_cloud.cloud_state import CloudState, found
from one_preempt.simulation.simulated_cloud.errors import ErrorCode, OnedError
from one_preempt.simulation.simulated_cloud.objects import SimNetwork, SimVm, TemplateDict, Vector
from one_preempt.simulation.simulated_cloud.templates import text_of, vectors_of


def complete_nics(cloud: CloudState, vm: SimVm) -> None:
    """Number the NICs and give those with a network their lease."""
    for index, nic in enumerate(vectors_of(vm.template, "NIC")):
        nic["NIC_ID"], nic["NAME"] = str(index), f"NIC{index}"
        if not is_automatic(nic):
            _connect(vm, nic, _network_of(cloud, nic))
    _add_security_group_rules(vm)


def connect_automatic_nics(cloud: CloudState, vm: SimVm, extra: TemplateDict) -> None:
    """At deploy: connect the automatic NICs that `extra` chooses a network for; the others stay unconnected."""
    nics = {nic["NIC_ID"]: nic for nic in vectors_of(vm.template, "NIC")}
    for choice in vectors_of(extra, "NIC"):
        nic = nics.get(choice.get("NIC_ID", ""))
        if nic is not None and is_automatic(nic) and "NETWORK_ID" not in nic:
            _connect(vm, nic, found(cloud.networks, int(choice.get("NETWORK_ID", "-1")), "virtual network"))
    _add_security_group_rules(vm)


def is_automatic(nic: Vector) -> bool:
    """The scheduler is to choose the network."""
    return nic.get("NETWORK_MODE", "").lower() == "auto"


def _network_of(cloud: CloudState, nic: Vector) -> SimNetwork:
    if "NETWORK_ID" in nic:
        return found(cloud.networks, int(nic["NETWORK_ID"]), "virtual network")
    named = (network for network in cloud.networks.values() if network.name == nic.get("NETWORK"))
    network = next(named, None)
    if network is None:
        raise OnedError(ErrorCode.INTERNAL, "Could not get virtual network for VM")
    return network


def _connect(vm: SimVm, nic: Vector, network: SimNetwork) -> None:
    for number, address_range in enumerate(network.address_ranges):
        first, size = address_range.next_index, address_range.size
        turn = (index % size for index in range(first, first + size))
        offset = next((index for index in turn if index not in address_range.leases), None)
        if offset is None:
            continue
        address_range.leases[offset] = vm.id
        address_range.next_index = (offset + 1) % size
        nic.update(_address(address_range.vector, offset))
        nic["AR_ID"] = address_range.vector.get("AR_ID", str(number))
        break
    else:
        raise OnedError(ErrorCode.INTERNAL, f"Cannot get IP/MAC lease from virtual network {network.id}.")
    nic.update(
        BRIDGE=network.bridge, BRIDGE_TYPE=network.bridge_type, CLUSTER_ID=",".join(map(str, network.cluster_ids)),
        NETWORK=network.name, NETWORK_ID=str(network.id), NETWORK_UNAME=network.uname,
        SECURITY_GROUPS=text_of(network.template, "SECURITY_GROUPS", "0"),
        TARGET=f"one-{vm.id}-{nic['NIC_ID']}", VN_MAD=network.vn_mad,
    )  # fmt: skip


def _address(vector: Vector, offset: int) -> Vector:
    address: Vector = {}
    if "IP" in vector:
        address["IP"] = str(ipaddress.IPv4Address(vector["IP"]) + offset)
    if "MAC" in vector:
        number = int(vector["MAC"].replace(":", ""), 16) + offset
        digits = f"{number:012x}"
        address["MAC"] = ":".join(digits[i : i + 2] for i in range(0, 12, 2))
    return address


def _add_security_group_rules(vm: SimVm) -> None:
    groups = sorted({
        group for nic in vectors_of(vm.template, "NIC") for group in nic.get("SECURITY_GROUPS", "").split(",") if group
    })  # fmt: skip
    if groups:
        vm.template["SECURITY_GROUP_RULE"] = [
            {"PROTOCOL": "ALL", "RULE_TYPE": direction, "SECURITY_GROUP_ID": group, "SECURITY_GROUP_NAME": "default"}
            for group in groups
            for direction in ("OUTBOUND", "INBOUND")
        ]
