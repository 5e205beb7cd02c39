"""PCI devices: what a VM may ask for, which device it gets, and the addresses written on both sides.

oned keeps a host's devices by address and gives the first that suits; requests by address are served before the
others, in the order of the template.
"""

from __future__ import annotations

from one_preempt.simulation.simulated_cloud.errors import ErrorCode, OnedError
from one_preempt.simulation.simulated_cloud.objects import SimHost, SimVm, TemplateDict, Vector
from one_preempt.simulation.simulated_cloud.templates import vectors_of

_NAMES = ("VENDOR", "DEVICE", "CLASS")
_PLACE = ("DOMAIN", "BUS", "SLOT", "FUNCTION", "ADDRESS", "SHORT_ADDRESS")
_WHERE_GIVEN = ("NUMA_NODE", "UUID")
_NOT_ASKED_FOR = ("DOMAIN", "BUS", "SLOT", "FUNCTION", "ADDRESS", "PREV_ADDRESS", "NUMA_NODE", "UUID", "MDEV_MODE")
_BUS_OF_GUEST = "0x01"
_FREE = "-1"


def complete_requests(template: TemplateDict, series_7: bool) -> None:
    """Number and check the PCI attributes of a new VM. Raises INTERNAL in oned's words."""
    for number, request in enumerate(vectors_of(template, "PCI")):
        request["PCI_ID"] = str(number)
        named = [name for name in _NAMES if request.get(name)]
        for name in named:
            if _number(request[name]) is None:
                raise OnedError(ErrorCode.INTERNAL, f"Wrong Hex value for PCI attribute {name}")
        if not request.get("SHORT_ADDRESS") and not named:
            text = "SHORT_ADDRESS, DEVICE, VENDOR or CLASS must be defined for PCI."
            raise OnedError(ErrorCode.INTERNAL, text)
        if request.get("SHORT_ADDRESS") and named:
            raise OnedError(ErrorCode.INTERNAL, "SHORT_ADDRESS cannot be set with DEVICE, VENDOR or CLASS")
        if _number(request.setdefault("VM_BUS", _BUS_OF_GUEST)) is None:
            attribute = "VM_BUS" if series_7 else "BUS"
            raise OnedError(ErrorCode.INTERNAL, f"Wrong {attribute} in PCI attribute")
        for name in _NOT_ASKED_FOR:
            request.pop(name, None)
        if not series_7:
            _write_guest_address(request)


def are_free(host: SimHost, vm: SimVm) -> bool:
    """Every request finds a device of its own."""
    if "PCI" not in vm.template:
        return True
    requests = vectors_of(vm.template, "PCI")
    return len(_assignment(host, requests)) == len(requests)


def assign(host: SimHost, vm: SimVm, series_7: bool) -> None:
    """Give each request a device until one finds none; that one and those after it stay without."""
    for request, device in _assignment(host, vectors_of(vm.template, "PCI")):
        device["VMID"] = str(vm.id)
        if request.get("ADDRESS"):
            request["PREV_ADDRESS"] = request["ADDRESS"]
        _write_device(request, device, series_7)


def take_back(host: SimHost, vm: SimVm) -> None:
    """Free the VM's devices on this host; the address it moved away from, or else its address, leaves the request."""
    freed = set()
    for device in host.share.pci_devices:
        if device.get("VMID") == str(vm.id):
            device["VMID"] = _FREE
            freed.add(device.get("ADDRESS"))
    for request in vectors_of(vm.template, "PCI"):
        for name in ("PREV_ADDRESS", "ADDRESS"):
            if request.get(name) in freed:
                del request[name]
                break


def go_back(host: SimHost, vm: SimVm, series_7: bool) -> None:
    """A move failed: write the devices that the VM still has on this host into its requests again."""
    held = [device for device in _by_address(host) if device.get("VMID") == str(vm.id)]
    for request, device in _pairs(vectors_of(vm.template, "PCI"), held):
        request.pop("PREV_ADDRESS", None)
        _write_device(request, device, series_7)


def _assignment(host: SimHost, requests: list[Vector]) -> list[tuple[Vector, Vector]]:
    return _pairs(requests, [device for device in _by_address(host) if device.get("VMID", _FREE) == _FREE])


def _pairs(requests: list[Vector], devices: list[Vector]) -> list[tuple[Vector, Vector]]:
    """Requests with their devices, those by address first, up to the first request without a device."""
    pairs: list[tuple[Vector, Vector]] = []
    for request in sorted(requests, key=lambda request: not _is_by_address(request)):
        device = next((device for device in devices if _suits(request, device)), None)
        if device is None:
            break
        devices = [other for other in devices if other is not device]
        pairs.append((request, device))
    return pairs


def _by_address(host: SimHost) -> list[Vector]:
    return sorted(host.share.pci_devices, key=lambda device: device.get("ADDRESS", ""))


def _is_by_address(request: Vector) -> bool:
    return bool(request.get("SHORT_ADDRESS")) and not any(request.get(name) for name in _NAMES)


def _suits(request: Vector, device: Vector) -> bool:
    if _is_by_address(request):
        return device.get("SHORT_ADDRESS") == request["SHORT_ADDRESS"]
    named = [name for name in _NAMES if request.get(name)]
    return bool(named) and all(_number(request[name]) == (_number(device.get(name, "")) or 0) for name in named)


def _write_device(request: Vector, device: Vector, series_7: bool) -> None:
    """7.x also writes what the device is, so that a later start takes any of that kind."""
    for name in (*_PLACE, *_NAMES) if series_7 else _PLACE:
        request[name] = device.get(name, "")
    request.update({name: device[name] for name in _WHERE_GIVEN if device.get(name)})
    if series_7:
        _write_guest_address(request)


def _write_guest_address(request: Vector) -> None:
    """Where the guest sees the device: a slot of its own on the bus of VM_BUS."""
    bus, slot = _number(request["VM_BUS"]) or 0, int(request["PCI_ID"]) + 1
    request.update(
        VM_ADDRESS=f"{bus:02x}:{slot:02x}.0", VM_BUS=f"0x{bus:02x}", VM_DOMAIN="0x0000", VM_FUNCTION="0",
        VM_SLOT=f"0x{slot:02x}",
    )  # fmt: skip


def _number(text: str) -> int | None:
    try:
        return int(text, 16)
    except ValueError:
        return None
