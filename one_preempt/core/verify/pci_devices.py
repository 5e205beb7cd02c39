"""Which requests for PCI devices can be served at once: counted by augmenting paths, not in oned's order.

oned may serve fewer. What cannot be served like this cannot be served at all.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from one_preempt.core.model.host import PciDevice
from one_preempt.core.model.virtual_machine import PciRequest


def left_over(requests: Sequence[PciRequest], devices: Sequence[PciDevice]) -> int:
    """How many requests get no device of their own, however the devices are given out."""
    holder: dict[int, int] = {}

    def give(request: int, tried: set[int]) -> bool:
        for device in range(len(devices)):
            if device in tried or not _suits(requests[request], devices[device]):
                continue
            tried.add(device)
            if device not in holder or give(holder[device], tried):
                holder[device] = request
                return True
        return False

    return sum(not give(request, set()) for request in range(len(requests)))


def _suits(request: PciRequest, device: PciDevice) -> bool:
    kinds = (
        (request.vendor, device.vendor),
        (request.device, device.device),
        (request.device_class, device.device_class),
    )
    wanted = [(asked, has) for asked, has in kinds if asked]
    if not wanted:
        return request.short_address == device.short_address
    # Where a kind is given the address is the one that the VM had last: oned has written it there.
    return all(_is_number(asked) and _is_number(has) and int(asked, 16) == int(has, 16) for asked, has in wanted)


def _is_number(text: str) -> bool:
    """A hexadecimal one, as oned reads it."""
    return re.fullmatch(r"(0[xX])?[0-9a-fA-F]+", text) is not None
