"""Networks of VMs: leases, chosen networks for automatic NICs, security groups."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping

from one_preempt.simulation.simulated_cloud.cloud_state import CloudState, found
from one_preempt.simulation.simulated_cloud.errors import ErrorCode, OnedError
from one_preempt.simulation.simulated_cloud.objects import SimAddressRange, SimNetwork, SimVm, TemplateDict, Vector
from one_preempt.simulation.simulated_cloud.templates import copy_template, text_of, vectors_of


def complete_nics(cloud: CloudState, vm: SimVm) -> None:
    """Number the NICs and give those with a network their lease."""
    for index, nic in enumerate(vectors_of(vm.template, "NIC")):
        nic["NIC_ID"], nic["NAME"] = str(index), f"NIC{index}"
        if not is_automatic(nic):
            _connect(vm, nic, _network_of(cloud, nic), ErrorCode.INTERNAL)
    _add_security_group_rules(vm)


def connect_automatic_nics(cloud: CloudState, vm: SimVm, choices: list[Vector]) -> None:
    """At deploy: connect the automatic NICs that `choices` name a network for; the others stay unconnected.

    Raises ACTION where a choice names no such NIC or no network, or where a network has no lease left. The VM is then
    as before, but the leases that NICs before that one got stay taken, with nothing to free them: as oned does.
    """
    before = copy_template(vm.template)
    nics = {nic["NIC_ID"]: nic for nic in vectors_of(vm.template, "NIC")}
    try:
        for choice in choices:
            number = choice.get("NIC_ID", "0")
            nic = nics.get(number)
            if nic is None:
                raise OnedError(ErrorCode.ACTION, f"NIC_ID {number} not found")
            if not is_automatic(nic) or "NETWORK_ID" in nic:
                raise OnedError(ErrorCode.ACTION, f"NIC_ID {number} not AUTO")
            nic["NETWORK_ID"] = choice.get("NETWORK_ID", "")
        for nic in nics.values():
            if is_automatic(nic) and nic.get("NETWORK_ID"):
                _connect(vm, nic, _network_to_deploy_on(cloud, nic["NETWORK_ID"]), ErrorCode.ACTION)
    except OnedError:
        _leak(cloud, vm, before)
        vm.template = before
        raise
    _add_security_group_rules(vm)


def give_leases_back(networks: Mapping[int, SimNetwork], vm_id: int) -> None:
    """Free the addresses of a VM, but for the leaked ones."""
    for address_range in (each for network in networks.values() for each in network.address_ranges):
        address_range.leases = {
            offset: holder
            for offset, holder in address_range.leases.items()
            if holder != vm_id or offset in address_range.leaked
        }


def _leak(cloud: CloudState, vm: SimVm, before: TemplateDict) -> None:
    """Mark the addresses that the VM holds and no NIC of `before` names."""
    named = {nic.get("IP") or nic.get("MAC") for nic in vectors_of(before, "NIC")}
    for address_range in (each for network in cloud.networks.values() for each in network.address_ranges):
        for offset, holder in address_range.leases.items():
            address = _address(address_range.vector, offset)
            if holder == vm.id and (address.get("IP") or address.get("MAC")) not in named:
                address_range.leaked.add(offset)


def is_automatic(nic: Vector) -> bool:
    """The scheduler is to choose the network."""
    return nic.get("NETWORK_MODE", "").lower() == "auto"


def _network_of(cloud: CloudState, nic: Vector) -> SimNetwork:
    if nic.get("NETWORK_ID", "").isdecimal():
        return found(cloud.networks, int(nic["NETWORK_ID"]), "virtual network")
    named = (network for network in cloud.networks.values() if network.name == nic.get("NETWORK"))
    network = next(named, None)
    if network is None:
        raise OnedError(ErrorCode.INTERNAL, "Could not get virtual network for VM")
    return network


def _network_to_deploy_on(cloud: CloudState, number: str) -> SimNetwork:
    network = cloud.networks.get(int(number)) if number.isdecimal() else None
    if network is None:
        raise OnedError(ErrorCode.ACTION, f"Virtual network with ID: {number} does not exist")
    return network


def _connect(vm: SimVm, nic: Vector, network: SimNetwork, code: ErrorCode) -> None:
    lease = _free_lease(network, nic)
    if lease is None:
        raise OnedError(code, f"Cannot get IP/MAC lease from virtual network {network.id}.")
    address_range, offset = lease
    address_range.leases[offset] = vm.id
    address_range.next_index = (offset + 1) % address_range.size
    nic.update(_address(address_range.vector, offset))
    nic["AR_ID"] = address_range.vector.get("AR_ID", str(network.address_ranges.index(address_range)))
    nic.update(
        BRIDGE=network.bridge, BRIDGE_TYPE=network.bridge_type, CLUSTER_ID=",".join(map(str, network.cluster_ids)),
        NETWORK=network.name, NETWORK_ID=str(network.id),
        SECURITY_GROUPS=text_of(network.template, "SECURITY_GROUPS", "0"),
        TARGET=f"one-{vm.id}-{nic['NIC_ID']}", VN_MAD=network.vn_mad,
    )  # fmt: skip


def _free_lease(network: SimNetwork, nic: Vector) -> tuple[SimAddressRange, int] | None:
    """The address that the NIC asks for, or else the next one of the first range that has one."""
    asked = {name: nic[name] for name in ("IP", "MAC") if nic.get(name)}
    if len(asked) > 1:
        return None
    for address_range in network.address_ranges:
        first, size = address_range.next_index, address_range.size
        for offset in (index % size for index in range(first, first + size)):
            if offset in address_range.leases:
                continue
            if asked.items() <= _address(address_range.vector, offset).items():
                return address_range, offset
    return None


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
