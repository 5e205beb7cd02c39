"""Whether VMs would fit on some hosts, as far as one decision has found out."""

from __future__ import annotations

from collections import Counter

from msgspec import Struct, field

from one_preempt.core.availability.gang_demand import BoolArray
from one_preempt.core.model.cluster_state import IntArray


class FitAnswers(Struct, eq=False):
    """Answers about the hosts `among`, shape (H,), were so much `free` there, shape (H, 2).

    `places`: how many there are, by the identity of a mask of hosts and what a VM takes; beside the mask, so that no
    other one is ever given its identity. `tried`: whether the matchmaker found a place for each, by all that VMs ask
    for. `tries_by_owner`: how often it was asked, by user id.
    """

    free: IntArray
    among: BoolArray
    places: dict[tuple[int, int, int], tuple[BoolArray, int]] = field(default_factory=dict)
    tried: dict[tuple[object, ...], bool] = field(default_factory=dict)
    tries_by_owner: Counter[int] = field(default_factory=Counter)
