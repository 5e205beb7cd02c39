"""PCI devices: which free devices of a host a VM gets.

oned gives devices out in one fixed way: requests by address first, then each request in turn takes the free
device with the lowest address that it matches. A deploy that this way does not serve is refused by oned even
where another assignment exists; so the same way is followed here. More free devices never make it fail.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from one_preempt.core.model.host import PciDevice
from one_preempt.core.model.virtual_machine import PciRequest


def assign_devices(requests: Sequence[PciRequest], free: Iterable[PciDevice]) -> tuple[PciDevice, ...] | None:
    """The device for each request, in the order of requests, or None where one gets none."""
    left = {device.address: device for device in sorted(free, key=lambda device: device.address)}
    if len(requests) > len(left):
        return None
    given: dict[int, PciDevice] = {}
    order = sorted(range(len(requests)), key=lambda number: (not by_address(requests[number]), number))
    for number in order:
        device = next((device for device in left.values() if serves(device, requests[number])), None)
        if device is None:
            return None
        given[number] = left.pop(device.address)
    return tuple(given[number] for number in range(len(requests)))


def by_address(request: PciRequest) -> bool:
    """The request names one device; after a migration kinds are still given beside it, and they count then."""
    return bool(request.short_address) and not (request.vendor or request.device or request.device_class)


def serves(device: PciDevice, request: PciRequest) -> bool:
    """Is the device of the kind asked for?"""
    if by_address(request):
        return device.short_address == request.short_address
    if not (request.vendor or request.device or request.device_class):
        return False
    return (
        _same(request.vendor, device.vendor)
        and _same(request.device, device.device)
        and _same(request.device_class, device.device_class)
    )


def _same(asked: str, offered: str) -> bool:
    """Ids are hexadecimal numbers: '0x10de' is '10DE'."""
    return not asked or _hexadecimal(asked) == _hexadecimal(offered) != ""


def _hexadecimal(text: str) -> str:
    digits = text.lower().removeprefix("0x")
    return digits.lstrip("0") or digits[:1]
