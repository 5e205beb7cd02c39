"""Which requests for PCI devices can be served at once: counted by augmenting paths, not in oned's order.

oned may serve fewer. What cannot be served like this cannot be served at all.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from itertools import pairwise

from msgspec.structs import replace

from one_preempt.core.model.host import PciDevice
from one_preempt.core.model.virtual_machine import PciRequest


def left_over(requests: Iterable[PciRequest], devices: Iterable[PciDevice]) -> int:
    """How many requests get no device of their own, however the devices are given out.

    Alike requests, and alike devices, are counted and not told apart: a host may have hundreds of them.
    """
    asked = Counter(replace(request, address="") for request in requests)
    by_address = {request.short_address for request in asked}
    free = Counter(_kind(device, by_address) for device in devices)
    suiting = {request: [device for device in free if _suits(request, device)] for request in asked}
    given: dict[PciDevice, Counter[PciRequest]] = {device: Counter() for device in free}
    lacking = 0
    for request, count in asked.items():
        left = count
        while left and (path := _way_to_a_free_one(request, suiting, given, free)):
            amount = min(left, free[path[-1][1]], *(given[device][holder] for holder, device in _handed_on(path)))
            for holder, device in _handed_on(path):
                given[device][holder] -= amount
            for holder, device in path:
                given[device][holder] += amount
            free[path[-1][1]] -= amount
            left -= amount
        lacking += left
    return lacking


def _kind(device: PciDevice, by_address: Set[str]) -> PciDevice:
    """What tells a device from others; its address only where somebody asks for that."""
    short_address = device.short_address if device.short_address in by_address else ""
    return replace(device, address="", short_address=short_address, vm_id=0)


_Path = list[tuple[PciRequest, PciDevice]]


def _handed_on(path: _Path) -> _Path:
    """What those behind the first give up for the one before them: (who, the device that he had)."""
    return [(holder, device) for (_, device), (holder, _) in pairwise(path)]


def _way_to_a_free_one(
    request: PciRequest,
    suiting: Mapping[PciRequest, Sequence[PciDevice]],
    given: Mapping[PciDevice, Mapping[PciRequest, int]],
    free: Mapping[PciDevice, int],
) -> _Path:
    """The shortest way: each takes the device that the next gives up for another; the last one's is free."""
    ways: list[_Path] = [[(request, device)] for device in suiting[request]]
    seen = set(suiting[request])
    for way in ways:
        device = way[-1][1]
        if free[device]:
            return way
        for holder, amount in given[device].items():
            for other in suiting[holder] if amount else ():
                if other not in seen:
                    seen.add(other)
                    ways.append([*way, (holder, other)])
    return []


def _suits(request: PciRequest, device: PciDevice) -> bool:
    kinds = (
        (request.vendor, device.vendor),
        (request.device, device.device),
        (request.device_class, device.device_class),
    )
    wanted = [(asked, has) for asked, has in kinds if asked]
    if not wanted:
        return request.short_address == device.short_address != ""
    # Where a kind is given the address is the one that the VM had last: oned has written it there.
    return all(_is_number(asked) and _is_number(has) and int(asked, 16) == int(has, 16) for asked, has in wanted)


def _is_number(text: str) -> bool:
    """A hexadecimal one, as oned reads it."""
    return re.fullmatch(r"(0[xX])?[0-9a-fA-F]+", text) is not None
