"""The demand of VMs that are all alike."""

from __future__ import annotations

import numpy as np

from one_preempt.core.availability.gang_demand import BoolArray, GangDemand


def like_vms(count: int, need: tuple[int, ...], allowed: BoolArray) -> GangDemand:
    """Of `count` equal VMs that may go where `allowed`, shape (H,), says."""
    needs = np.tile(np.array(need, dtype=np.int64), (count, 1))
    return GangDemand(needs, np.broadcast_to(allowed, (count, len(allowed))))
