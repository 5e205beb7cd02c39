"""What is said where VMs find no host with room."""

from __future__ import annotations

from functools import lru_cache

from msgspec import Struct

from one_preempt.core.matching import reasons
from one_preempt.core.matching.datastores import DatastoreMatch
from one_preempt.core.matching.host_match import HostMatch
from one_preempt.core.matching.reasons import Unplaced
from one_preempt.core.model.plan import Reason
from one_preempt.core.model.virtual_machine import VirtualMachine


class SaidFull(Struct, frozen=True):
    """What was said where no host has room, and what that followed from."""

    first: VirtualMachine
    vms: int
    match: HostMatch
    stores: DatastoreMatch
    answer: Unplaced

    def holds_for(self, first: VirtualMachine, vms: int, match: HostMatch, stores: DatastoreMatch) -> bool:
        """Would the same be said again?"""
        return first is self.first and vms == self.vms and match is self.match and stores is self.stores


@lru_cache(maxsize=1024)
def full(ruled_out: tuple[tuple[str, int], ...], suitable: int, too_small: int, needs: str) -> Unplaced:
    """No host has room, of those that suit as many as are said, of which some have not even when they are empty."""
    counts = dict(ruled_out)
    counts[reasons.TOO_SMALL] = too_small
    counts[reasons.CAPACITY] = counts.get(reasons.CAPACITY, 0) + suitable - too_small
    return reasons.no_host(counts, needs)


def together(vms: int, refusal: Unplaced) -> Unplaced:
    """The same said of several VMs that start together or not at all."""
    text = f"The {vms} VMs do not fit together. {refusal.reason.text}"
    return Unplaced(Reason(refusal.reason.code, text), refusal.counts)


def needs_of(vm: VirtualMachine) -> str:
    """A VM with what it takes."""
    return f"VM {vm.id} ({vm.cpu_centi / 100:g} CPU, {vm.memory_mib} MiB)"
