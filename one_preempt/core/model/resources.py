"""Amounts of the resources that a host offers and a VM takes."""

from __future__ import annotations

from msgspec import Struct


class Resources(Struct, frozen=True, order=True):
    """CPU in hundredths of a processor and memory in MiB. PCI devices are matched one by one, see `host`."""

    cpu_centi: int
    memory_mib: int

    def __add__(self, other: Resources) -> Resources:
        return Resources(self.cpu_centi + other.cpu_centi, self.memory_mib + other.memory_mib)

    def __sub__(self, other: Resources) -> Resources:
        return Resources(self.cpu_centi - other.cpu_centi, self.memory_mib - other.memory_mib)

    def at_most(self, other: Resources) -> Resources:
        """The smaller of each amount."""
        return Resources(min(self.cpu_centi, other.cpu_centi), min(self.memory_mib, other.memory_mib))

    def fits_in(self, room: Resources) -> bool:
        """True when every amount is at most the same amount of `room`."""
        return self.cpu_centi <= room.cpu_centi and self.memory_mib <= room.memory_mib


NO_RESOURCES = Resources(0, 0)
