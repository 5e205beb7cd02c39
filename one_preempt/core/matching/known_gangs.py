"""Which gangs consist of VMs that nothing tells apart, remembered for gangs of which nothing has changed."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter, is_

from one_preempt.core.matching.gang import like_the_first
from one_preempt.core.model.virtual_machine import VirtualMachine

_by_id = attrgetter("id")


class KnownGangs:
    """Tuples of VMs by identity; they are kept with what is said of them."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[tuple[VirtualMachine, ...], tuple[VirtualMachine, ...] | None]] = {}
        self._last: tuple[Sequence[VirtualMachine], int] = ((), 0)

    def forget_beyond(self, most: int) -> None:
        """Forget all where more are known than that: most of them are of VMs that have changed or are over."""
        if len(self._known) > most:
            self._known.clear()

    def like_the_first(self, vms: Sequence[VirtualMachine]) -> int:
        """How many of the VMs, from the first one on, ask for the same as that; remembered for whom is asked last."""
        known, count = self._last
        if not known or len(known) != len(vms) or not all(map(is_, known, vms)):
            count = like_the_first(vms)
            self._last = (tuple(vms), count)
        return count

    def by_id(self, vms: Sequence[VirtualMachine]) -> tuple[VirtualMachine, ...] | None:
        """The VMs by id where all ask for the same, and none belongs to a VM group; None where they may differ."""
        if not isinstance(vms, tuple):
            return self._alike_by_id(vms)
        known = self._known.get(id(vms))
        if known is None:
            known = self._known[id(vms)] = (vms, self._alike_by_id(vms))
        return known[1]

    def _alike_by_id(self, vms: Sequence[VirtualMachine]) -> tuple[VirtualMachine, ...] | None:
        if not vms or vms[0].vm_group_id is not None or self.like_the_first(vms) < len(vms):
            return None
        return tuple(sorted(vms, key=_by_id))
