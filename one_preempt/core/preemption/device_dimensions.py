"""PCI devices as further dimensions of room, exact by Hall's theorem.

Free devices can be handed out to all requests on a host if and only if, for every set of kinds that are asked for,
no more requests ask for these kinds than free devices serve one of them. Each such set is one dimension: a VM needs
its number of requests in the set, a host offers its free devices that serve the set, a victim releases those it
holds. Sets are needed only where the kinds overlap (some device serves several of them): of disjoint parts each is
checked alone. Of the sets that the same devices serve, the largest says it all.

Each further model of a vendor may double the sets of a part. Beyond `MOST_SETS` a part has those of single kinds and
the whole: what does not fit by these does not fit at all, and what fits by them must be tried.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from one_preempt.core.matching.devices import serves
from one_preempt.core.model.host import PciDevice
from one_preempt.core.model.virtual_machine import PciRequest
from one_preempt.core.preemption.problem import IntArray

# A kind is what one PCI request accepts; a set of kinds is the bits of their numbers.
_Kinds = int
# Each is a column of every host and lease.
MOST_SETS = 64


class DeviceDimensions(Struct, frozen=True):
    """The dimensions that the PCI requests of one request need; none where it asks for no device.

    `kinds` are the distinct requests; `sets` are the dimensions, each a set of kinds as bits.
    """

    kinds: tuple[PciRequest, ...]
    sets: tuple[_Kinds, ...]

    def need(self, requests: Sequence[PciRequest]) -> IntArray:
        """What a VM with these PCI requests takes, shape (D,)."""
        asked = [1 << self.kinds.index(_kind(request)) for request in requests]
        return np.array([sum(bool(kind & kinds) for kind in asked) for kinds in self.sets], dtype=np.int64)

    def offer(self, devices: Sequence[PciDevice]) -> IntArray:
        """What these devices amount to, shape (D,): of a host those that are free, of a victim those it holds."""
        serving = [_served_by(device, self.kinds) for device in devices]
        return np.array([sum(bool(served & kinds) for served in serving) for kinds in self.sets], dtype=np.int64)


def device_dimensions(
    requests: Sequence[Sequence[PciRequest]], devices: Sequence[Sequence[PciDevice]]
) -> DeviceDimensions:
    """The dimensions for `requests` (of each VM of the request) over `devices` (of each host, free or held)."""
    kinds = tuple(dict.fromkeys(_kind(request) for of_vm in requests for request in of_vm))
    served = {_served_by(device, kinds) for of_host in devices for device in of_host} - {0}
    unserved = [1 << number for number in range(len(kinds)) if not any(kinds_of >> number & 1 for kinds_of in served)]
    parts = [_closed_sets(part, served) for part in _overlapping_parts(served)]
    return DeviceDimensions(kinds, tuple(sorted({*unserved, *(kinds_of for part in parts for kinds_of in part)})))


def _kind(request: PciRequest) -> PciRequest:
    """The request without what oned wrote into it."""
    return PciRequest(request.vendor, request.device, request.device_class, request.short_address)


def _served_by(device: PciDevice, kinds: Sequence[PciRequest]) -> _Kinds:
    return sum(1 << number for number, kind in enumerate(kinds) if serves(device, kind))


def _overlapping_parts(served: set[_Kinds]) -> list[_Kinds]:
    """The kinds in parts that no device connects."""
    parts: list[_Kinds] = []
    for kinds in sorted(served):
        joined = kinds
        for part in [part for part in parts if part & kinds]:
            joined |= part
            parts.remove(part)
        parts.append(joined)
    return parts


def _closed_sets(part: _Kinds, served: set[_Kinds]) -> set[_Kinds]:
    """The sets of kinds of one part, for each set of devices that serve some kinds only the largest such set.

    A largest set is all kinds that no device outside serves: the part less what other devices serve. Where there are
    too many of them, single kinds and the whole.
    """
    closed = {part}
    for kinds in sorted(served):
        if kinds & part:
            closed |= {kept & ~kinds for kept in closed}
        if len(closed) > MOST_SETS:
            return {part, *(1 << number for number in range(part.bit_length()) if part >> number & 1)}
    return closed - {0}
