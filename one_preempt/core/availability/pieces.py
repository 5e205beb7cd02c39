"""A lease with a deadline, in one piece or in several: when it runs, where, and how much of its time each piece serves.

VW07 and SR11 let a lease with a deadline be split: it is suspended where its room ends and resumed, perhaps on other
hosts, where there is room again. Each suspend and each resume takes the room, too.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, TypeVar

from msgspec import Struct

from one_preempt.core.availability.piece_search import PieceSearch, PlannedPiece
from one_preempt.core.availability.stay_windows import StayWindow

DemandT = TypeVar("DemandT", contravariant=True)


class PieceRules(Struct, frozen=True):
    """Whether a lease may be split, and what that costs.

    Where it may be split, no piece serves less than `minimum_piece_s` seconds of its time (at least 1). The room of a
    piece includes `resume_s` at its start, unless it is the first, and `suspend_s` at its end, unless it is the last.

    Raises:
        ValueError: A time is negative, or a piece might serve nothing.
    """

    splittable: bool = False
    minimum_piece_s: int = 1
    resume_s: int = 0
    suspend_s: int = 0

    def __post_init__(self) -> None:
        if self.minimum_piece_s < 1 or self.resume_s < 0 or self.suspend_s < 0:
            raise ValueError(f"{self}: minimum_piece_s must be at least 1, the other times at least 0")


class Piece(Struct, frozen=True):
    """Room between two instants, the resume before and the suspend after it included, for `useful_s` of the lease.

    `host_rows` has the row of a host for each VM; it is empty where nodes are counted and picked late.
    """

    start_s: int
    end_s: int
    host_rows: tuple[int, ...]
    useful_s: int


class RoomOverTime(Protocol[DemandT]):
    """What a plan asks of free capacity over time: `SlotTable` and `AlikeNodes` answer it."""

    def stay_windows(self, demand: DemandT, shortest_s: int, not_before_s: int, before_s: int) -> Iterable[StayWindow]:
        """Where the demand may stay for at least `shortest_s` (1 or more) between two instants, ascending."""

    def fit_at(self, demand: DemandT, start_s: int, end_s: int | None) -> tuple[int, ...] | None:
        """The row of a host for each VM between two instants; None where they do not fit."""


def plan_pieces(
    table: RoomOverTime[DemandT],
    demand: DemandT,
    remaining_s: int,
    not_before_s: int,
    deadline_s: int,
    rules: PieceRules,
) -> tuple[Piece, ...] | None:
    """When and where a lease serves the rest of its time by its deadline, in time order; None where it cannot.

    It is one piece, the earliest, wherever one ends by the deadline. Else, where the lease may be split, it is the plan
    that ends first of all plans there are, with as few pieces as that takes. Only where there are thousands of windows,
    or many of them are hardly longer than the shortest piece, a plan may be overlooked (see `PieceSearch`), and of VMs
    that differ what `SlotTable.stay_windows` overlooks. Nothing is reserved.

    A lease that is suspended when it is planned has to resume before its first piece: count that in `remaining_s`.

    Args:
        table: Free capacity over time.
        demand: A `GangDemand` for a `SlotTable`, a number of nodes for `AlikeNodes`.
        remaining_s: What is left of the lease's time, at least 1.
        not_before_s: No piece starts before it.
        deadline_s: The last piece ends by then.
        rules: Whether it may be split, and what that costs.

    Raises:
        ValueError: `remaining_s` is less than 1.
    """
    if remaining_s < 1:
        raise ValueError(f"{remaining_s} s remain: a plan needs at least 1")
    for window in table.stay_windows(demand, remaining_s, not_before_s, deadline_s):
        whole = PlannedPiece(window.start_s, window.start_s + remaining_s, remaining_s)
        return _on_hosts(table, demand, [whole])
    if not rules.splittable or remaining_s < 2 * rules.minimum_piece_s:
        return None
    shortest_s = rules.minimum_piece_s + min(rules.resume_s, rules.suspend_s)
    windows = list(table.stay_windows(demand, shortest_s, not_before_s, deadline_s))
    if not windows:
        return None
    search = PieceSearch(windows, remaining_s, rules.minimum_piece_s, rules.resume_s, rules.suspend_s)
    plan = search.first_to_end()
    return None if plan is None else _on_hosts(table, demand, plan)


def _on_hosts(table: RoomOverTime[DemandT], demand: DemandT, plan: list[PlannedPiece]) -> tuple[Piece, ...] | None:
    pieces = []
    for start_s, end_s, useful_s in plan:
        host_rows = table.fit_at(demand, start_s, end_s)
        if host_rows is None:
            return None
        pieces.append(Piece(start_s, end_s, host_rows, useful_s))
    return tuple(pieces)
