"""What a gang asks for: VMs that run at the same time, each with needs and hosts where it may go."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from one_preempt.core.model.cluster_state import IntArray
from one_preempt.core.packing.packing import Packing

BoolArray = npt.NDArray[np.bool_]


class LikeVms(Struct, frozen=True, eq=False):
    """VMs of a gang that nothing tells apart: they are counted.

    `members` are rows of the gang's `needs`, `need` has shape (R,), `allowed` (H,); a host takes at most
    `most_per_host` of them, and no fewer than `fewest_per_host`, if any.
    """

    members: tuple[int, ...]
    need: IntArray
    allowed: BoolArray
    most_per_host: int
    fewest_per_host: int = 1


class GangDemand(Struct, frozen=True, eq=False, dict=True):
    """N VMs that start together or not at all. A serial VM is a gang of one.

    Attributes:
        needs: Shape (N, R): what each VM takes.
        allowed: Shape (N, H): where each VM may go at all.
        separate: Anti-affinity: groups of VMs (rows of `needs`) that must be on different hosts.
        host_order: Rows of all hosts, the preferred one first; None = ascending.
        on_one_host: All must be on one host. Where they differ they count as one VM that takes what all of them take.

    Raises:
        ValueError: Shapes do not agree or an amount is negative.
    """

    needs: IntArray
    allowed: BoolArray
    separate: tuple[tuple[int, ...], ...] = ()
    host_order: IntArray | None = None
    on_one_host: bool = False

    def __post_init__(self) -> None:
        if self.needs.ndim != 2 or not len(self.needs) or self.allowed.shape[:1] != self.needs.shape[:1]:
            raise ValueError(f"needs {self.needs.shape} and allowed {self.allowed.shape} do not describe the same VMs")
        if (self.needs < 0).any():
            raise ValueError("needs must not be negative")
        if self.host_order is not None and self.host_order.shape != self.allowed.shape[1:]:
            raise ValueError(f"host_order has shape {self.host_order.shape}, expected {self.allowed.shape[1:]}")

    @property
    def size(self) -> int:
        """VMs in the gang."""
        return len(self.needs)

    @cached_property
    def classes(self) -> tuple[LikeVms, ...]:
        """The VMs by likeness, in the order of their first members; one stands for all where they count as one."""
        if not self.separate and self.allowed.strides[0] == 0 and bool((self.needs == self.needs[0]).all()):
            return (self._like(list(range(self.size)), self.size),)
        members_by_likeness: dict[tuple[bytes, bytes, tuple[int, ...]], list[int]] = {}
        # Rows of one and the same memory say the same.
        alike = self.allowed[0].tobytes() if self.allowed.strides[0] == 0 else None
        for vm in range(self.size):
            groups = tuple([number for number, group in enumerate(self.separate) if vm in group])
            allowed = self.allowed[vm].tobytes() if alike is None else alike
            likeness = (self.needs[vm].tobytes(), allowed, groups)
            members_by_likeness.setdefault(likeness, []).append(vm)
        if self.on_one_host and not self.separate and len(members_by_likeness) > 1:
            return (LikeVms((0,), self.needs.sum(axis=0), np.logical_and.reduce(self.allowed), 1),)
        return tuple(
            self._like(members, 1 if groups else len(members))
            for (_, _, groups), members in members_by_likeness.items()
        )

    def _like(self, members: list[int], most_per_host: int) -> LikeVms:
        fewest = self.size if self.on_one_host and len(members) == most_per_host == self.size else 1
        return LikeVms(tuple(members), self.needs[members[0]], self.allowed[members[0]], most_per_host, fewest)

    @cached_property
    def packing_rows(self) -> IntArray:
        """Rows of the hosts to which any VM may go, the preferred one first."""
        somewhere: BoolArray = np.logical_or.reduce(self.allowed)
        order = np.arange(len(somewhere)) if self.host_order is None else self.host_order
        rows: IntArray = order[somewhere[order]]
        return rows

    @cached_property
    def packing(self) -> Packing:
        """The exact packing of VMs that differ on the hosts of `packing_rows`, of which there must be one."""
        return Packing(self.needs, self.allowed[:, self.packing_rows], self.separate)
