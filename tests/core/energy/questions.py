"""Supply questions for tests: sensible numbers, of which a test names those that matter."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from one_preempt.core.energy.policy import (
    EmptiableNodes,
    NodeCounts,
    Occasion,
    QueuedWork,
    SupplyQuestion,
    TimedWork,
)
from one_preempt.core.energy.power_model import HostPower

NOW_S = 1_000_000
HOUR_S = 3600


def a_queue(*requests: tuple[int, int, int]) -> QueuedWork:
    """Requests of (nodes, seconds waited, seconds they will run) that were not served yet."""
    columns = np.array(requests, dtype=np.int64).reshape(-1, 3)
    return QueuedWork(columns[:, 0], columns[:, 1], columns[:, 2], columns[:, 2])


def timed(*works: tuple[int, int, int]) -> TimedWork:
    """Work of (nodes, start, end), in seconds from now."""
    columns = np.array(works, dtype=np.int64).reshape(-1, 3)
    return TimedWork(columns[:, 0], NOW_S + columns[:, 1], NOW_S + columns[:, 2])


def emptiable(*nodes: tuple[int, int]) -> EmptiableNodes:
    """Nodes that are (empty by themselves in seconds from now, emptied for so many millijoules)."""
    columns = np.array(nodes, dtype=np.int64).reshape(-1, 2)
    return EmptiableNodes(NOW_S + columns[:, 0], columns[:, 1])


def node_counts(
    *,
    on: int = 20,
    free: int = 4,
    preemptable: int = 10,
    bootable: int = 30,
    booting: int = 0,
    unscheduled: int = 0,
    required_at_start: int = 0,
) -> NodeCounts:
    """Twenty nodes are on, four of them free and ten preemptable; thirty sleep."""
    return NodeCounts(on, free, preemptable, bootable, booting, unscheduled, required_at_start)


def a_question(
    occasion: Occasion = Occasion.ARRIVAL,
    *,
    asked: int = 8,
    start_in_s: int = 24 * HOUR_S,
    nodes: NodeCounts | None = None,
    queue: Sequence[tuple[int, int, int]] = (),
    running: Sequence[tuple[int, int, int]] = ((10, -HOUR_S, HOUR_S),),
    put_off: Sequence[tuple[int, int, int]] = (),
    emptiable_nodes: Sequence[tuple[int, int]] = (),
    power: HostPower | None = None,
) -> SupplyQuestion:
    """A reservation of eight nodes for tomorrow arrives; nobody waits."""
    return SupplyQuestion(
        occasion,
        NOW_S,
        asked,
        NOW_S + start_in_s,
        nodes or node_counts(),
        timed(*put_off),
        power or HostPower(),
        lambda: a_queue(*queue),
        lambda: timed(*running),
        lambda: emptiable(*emptiable_nodes),
    )
