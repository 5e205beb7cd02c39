"""The question that an energy policy answers: where do the nodes come from, and which may go?

A node is a host that can take one VM of the request. They are counted from the slot table, and the very hosts picked
afterwards: for waking by `power_model.most_economical_first`, for emptying those with the fewest leases.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from functools import cached_property
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
from msgspec import Struct, field

from one_preempt.core.energy.power_model import HostPower


class Occasion(StrEnum):
    """Why the policy is asked."""

    ARRIVAL = "arrival"
    """An advance reservation arrives: are nodes bound to it now, and where from?"""

    DUE = "due"
    """A reservation that was put off, or whose nodes sleep, comes close: it must be given its nodes now."""

    PERIODIC = "periodic"
    """Time to look after the queue. The request is its head, if any; the answer wakes or consolidates."""

    IDLE = "idle"
    """Nodes are on that nothing is scheduled on: the answer switches off. The request is the head of the queue."""


BINDING = frozenset({Occasion.ARRIVAL, Occasion.DUE})
"""The occasions at which a reservation is bound to nodes, if the policy does not put it off."""


class NodeCounts(Struct, frozen=True):
    """Nodes in numbers. Those on are `free`, `preemptable`, or held by what may not be preempted.

    `free` and `preemptable` are those that could serve the request for all of its time: not the ones promised to
    others then. A node that leases hold only until the request starts is free, if they are certain to end.
    """

    on: int
    free: int
    preemptable: int
    bootable: int
    """Off, and up by the request's start if woken now."""
    booting: int = 0
    """Being woken for the queue, not counted in `on`."""
    unscheduled: int = 0
    """On, idle, and promised to nobody: neither to a reservation nor by backfilling to the head of the queue."""
    required_at_start: int = 0
    """Nodes that reservations accepted so far have when the request starts."""


NO_TIMES = np.zeros(0, dtype=np.int64)


class QueuedWork(Struct, frozen=True):
    """Best-effort requests that wait, the next one first. Seconds.

    `waited_s` is the time so far in which they were not served, that after preemptions included. `duration_s` is the
    whole time that they ask for, which promises are made of, and `remaining_s` what is left of it.
    """

    nodes: npt.NDArray[np.int64] = field(default_factory=NO_TIMES.copy)
    waited_s: npt.NDArray[np.int64] = field(default_factory=NO_TIMES.copy)
    duration_s: npt.NDArray[np.int64] = field(default_factory=NO_TIMES.copy)
    remaining_s: npt.NDArray[np.int64] = field(default_factory=NO_TIMES.copy)


class TimedWork(Struct, frozen=True):
    """What holds, or will hold, nodes from a start to an expected end. Seconds since the epoch."""

    nodes: npt.NDArray[np.int64] = field(default_factory=NO_TIMES.copy)
    start_s: npt.NDArray[np.int64] = field(default_factory=NO_TIMES.copy)
    end_s: npt.NDArray[np.int64] = field(default_factory=NO_TIMES.copy)


class EmptiableNodes(Struct, frozen=True):
    """Nodes that are on and could be emptied, in the order in which they would be: the fewest leases first.

    Only nodes whose leases are allowed to leave and keep their deadlines. `empty_s` is when a node is expected to be
    empty by itself, `energy_mj` what moving its leases away takes (0 for a node without leases).
    """

    empty_s: npt.NDArray[np.int64] = field(default_factory=NO_TIMES.copy)
    energy_mj: npt.NDArray[np.int64] = field(default_factory=NO_TIMES.copy)


_NO_WORK, _SHIPPED_POWER = TimedWork(), HostPower()


# A dataclass, for a Struct has no place for what is counted later.
@dataclass(frozen=True)
class SupplyQuestion:
    """All that a policy may look at. `nodes_asked` is 0 where there is no request: no boot helps the queue.

    What takes long to be counted is counted when a policy first looks at it, for most look at little of it.
    """

    occasion: Occasion
    now_s: int
    nodes_asked: int
    start_s: int
    nodes: NodeCounts
    put_off: TimedWork = _NO_WORK
    """Accepted reservations that are not bound to nodes yet."""
    power: HostPower = _SHIPPED_POWER
    """Of the nodes that would be woken."""
    find_queue: Callable[[], QueuedWork] = QueuedWork
    find_running: Callable[[], TimedWork] = TimedWork
    find_emptiable: Callable[[], EmptiableNodes] = EmptiableNodes

    @cached_property
    def queue(self) -> QueuedWork:
        """What waits in the queue."""
        return self.find_queue()

    @cached_property
    def running(self) -> TimedWork:
        """What runs, one entry for each node in use."""
        return self.find_running()

    @cached_property
    def emptiable(self) -> EmptiableNodes:
        """Nodes that could be emptied."""
        return self.find_emptiable()


class SupplyDecision(Struct, frozen=True):
    """Where a request's nodes come from, and what becomes of the others.

    The request takes the woken and the preempted nodes and for the rest free ones; leases leave when it starts, not
    before. `consolidate` nodes are emptied and switched off; `switch_off` unscheduled ones are switched off at once.
    Free nodes are those with the fewest leases, or if it is `packed` those with the most, so that others come to rest.
    With `ask_again_s` nothing is bound to the request yet: the policy is to be asked again at that instant
    (`Occasion.DUE`).
    """

    wake: int = 0
    preempt: int = 0
    consolidate: int = 0
    switch_off: int = 0
    packed: bool = False
    ask_again_s: int | None = None


class EnergyPolicy(Protocol):
    """Decides which room comes from waking hosts and which from preempting, and which hosts go to sleep."""

    @property
    def name(self) -> str:
        """The name used in configuration and on the command line."""

    @property
    def description(self) -> str:
        """One line for people."""

    @property
    def puts_off(self) -> bool:
        """Are reservations bound to nodes a boot before they start, and not as soon as they are accepted?"""

    @property
    def strands(self) -> bool:
        """Does a request that fits on no nodes that are on wait until reservations wake some that it fits on?

        False: some are woken for it, and those that it needs stay on, whatever the policy answers.
        """

    def decide(self, question: SupplyQuestion) -> SupplyDecision:
        """The supply for this request. Never more than `NodeCounts` says there are."""


@runtime_checkable
class PromisesWaits(Protocol):
    """What an energy policy has besides that looks at the wait which is promised to best-effort requests."""

    def with_promise(self, waiting_factor: Fraction, promised_wait_s: int | None) -> EnergyPolicy:
        """The policy with the configured promise: so many mean durations, or that wait itself where it is given."""
