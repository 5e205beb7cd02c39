from __future__ import annotations

from random import Random

import numpy as np
import pytest
from msgspec.structs import replace

from one_preempt.core.availability.alike_nodes import AlikeNodes
from one_preempt.core.availability.gang_demand import GangDemand
from one_preempt.core.availability.pieces import Piece, PieceRules, plan_pieces
from one_preempt.core.availability.slot_reservation import SlotReservation
from one_preempt.core.availability.slot_table import SlotTable
from one_preempt.core.availability.timed_request import TimedRequest
from tests.core.availability.like_vms import like_vms
from tests.core.availability.naive import CASES, NaiveHosts

RULES = PieceRules(splittable=True, minimum_piece_s=5, resume_s=2, suspend_s=3)


def nodes_busy(*busy: tuple[int, int | None, int], nodes: int = 4) -> AlikeNodes:
    """So many nodes, some of them taken: (start, end, how many)."""
    alike = AlikeNodes(nodes)
    for lease_id, (start_s, end_s, count) in enumerate(busy):
        alike.hold(TimedRequest(lease_id, count, None if end_s is None else end_s - start_s), start_s)
    return alike


def hosts_busy(*busy: tuple[int, int, int], hosts: int = 2) -> SlotTable:
    """Hosts with room for one VM, some of them taken: (start, end, host)."""
    table = SlotTable(np.ones((hosts, 1), dtype=np.int64), 0)
    for lease_id, (start_s, end_s, row) in enumerate(busy):
        table.reserve(SlotReservation(lease_id, start_s, end_s, (row,), ((1,),)))
    return table


def vms(count: int, hosts: int = 2) -> GangDemand:
    return like_vms(count, (1,), np.ones(hosts, dtype=np.bool_))


# -- by example ------------------------------------------------------------------------------------------------


def test_what_fits_in_one_piece_is_not_split_although_it_would_end_earlier() -> None:
    table = nodes_busy((10, 20, 4))
    assert plan_pieces(table, 2, 15, 0, 35, RULES) == (Piece(20, 35, (), 15),)


def test_what_does_not_fit_in_one_piece_is_suspended_and_resumed() -> None:
    table = nodes_busy((10, 20, 4))
    assert plan_pieces(table, 2, 15, 0, 34, RULES) == (Piece(0, 10, (), 7), Piece(20, 30, (), 8))
    assert plan_pieces(table, 2, 15, 0, 30, RULES) == (Piece(0, 10, (), 7), Piece(20, 30, (), 8))
    assert plan_pieces(table, 2, 15, 0, 29, RULES) is None
    assert plan_pieces(table, 2, 15, 0, 34, replace(RULES, splittable=False)) is None


def test_what_is_stopped_may_return_on_another_host() -> None:
    table = hosts_busy((15, 100, 0), (0, 20, 1), (40, 100, 1))
    assert plan_pieces(table, vms(1), 25, 0, 100, RULES) == (Piece(0, 15, (0,), 12), Piece(20, 35, (1,), 13))


def test_where_hosts_are_free_at_the_same_time_the_move_costs_a_suspend_and_a_resume() -> None:
    table = hosts_busy((15, 100, 0), (0, 10, 1), (40, 100, 1))
    assert plan_pieces(table, vms(1), 31, 0, 100, RULES) == (Piece(0, 10, (0,), 7), Piece(10, 36, (1,), 24))


def test_a_short_stay_is_passed_over_when_the_move_would_cost_more_than_it_serves() -> None:
    """To take what comes first, host 0 until 9, and move on to host 1 would mean to end at 48."""
    table = hosts_busy((9, 36, 0), (0, 1, 1), (34, 100, 1))
    assert plan_pieces(table, vms(1), 36, 0, 60, RULES) == (Piece(1, 34, (1,), 30), Piece(36, 44, (0,), 6))


def test_a_piece_is_cut_for_the_last_one_to_be_long_enough() -> None:
    table = nodes_busy((20, 30, 4))
    assert plan_pieces(table, 1, 19, 0, 60, replace(RULES, suspend_s=1)) == (Piece(0, 19, (), 19),)
    assert plan_pieces(table, 1, 21, 0, 50, replace(RULES, suspend_s=1)) == (Piece(0, 17, (), 16), Piece(30, 37, (), 5))


def test_a_lease_too_short_for_two_pieces_is_not_split() -> None:
    table = nodes_busy((8, 20, 4), (28, None, 4))
    assert plan_pieces(table, 1, 9, 0, 60, RULES) is None
    assert plan_pieces(table, 1, 9, 0, 60, replace(RULES, minimum_piece_s=4)) == (
        Piece(0, 8, (), 5),
        Piece(20, 26, (), 4),
    )


def test_nonsense_is_named() -> None:
    with pytest.raises(ValueError, match="0 s remain"):
        plan_pieces(nodes_busy(), 1, 0, 0, 60, RULES)
    with pytest.raises(ValueError, match="minimum_piece_s must be at least 1"):
        PieceRules(minimum_piece_s=0)


# -- against every plan there is -------------------------------------------------------------------------------


class Case:
    """A few hosts with a few reservations, a gang, and a lease to be split; all plans by brute force."""

    def __init__(self, seed: int) -> None:
        self.random = random = Random(seed)
        hosts, resources = random.randint(1, 3), random.choice((1, 1, 2))
        capacity = [tuple(random.randint(1, 3) for _ in range(resources)) for _ in range(hosts)]
        self.naive = NaiveHosts(capacity)
        self.table = SlotTable(np.array(capacity, dtype=np.int64), 0)
        for row in range(hosts):
            self.take_often(row)
        kinds = [
            (tuple(random.randint(0, 2) for _ in range(resources)), [random.random() < 0.9 for _ in range(hosts)])
            for _ in range(random.choice((1, 1, 1, 2)))
        ]
        members = [random.choice(kinds) for _ in range(random.choice((1, 1, 2, 3)))]
        self.demand = GangDemand(np.array([need for need, _ in members]), np.array([may for _, may in members]))
        self.remaining_s, self.not_before_s = random.randint(4, 16), random.randint(0, 4)
        self.deadline_s = random.randint(20, 32)
        times = random.choice((1, 2, 3, 4)), random.choice((0, 1, 2)), random.choice((0, 1, 2))
        self.rules = PieceRules(random.random() < 0.95, *times)

    def take_often(self, row: int) -> None:
        """Take most of a host again and again, with pauses."""
        end_s = self.random.randint(-4, 4)
        while end_s < 30:
            start_s = max(0, end_s + self.random.randint(-1, 8))
            end_s = start_s + self.random.randint(1, 4)
            amounts = tuple(self.random.randint(have // 2, have) for have in self.naive.capacity[row])
            reservation = SlotReservation(start_s, start_s, end_s, (row,), (amounts,))
            if reservation not in self.table.reservations_of(start_s):
                self.table.reserve(reservation)
                self.naive.taken.append((start_s, end_s, row, amounts))

    def planned(self) -> tuple[Piece, ...] | None:
        return plan_pieces(self.table, self.demand, self.remaining_s, self.not_before_s, self.deadline_s, self.rules)

    def ways(self, start_s: int, end_s: int) -> list[tuple[int, ...]]:
        allowed = [[row for row, may in enumerate(of_vm) if may] for of_vm in self.demand.allowed.tolist()]
        return self.naive.places([tuple(need) for need in self.demand.needs.tolist()], allowed, start_s, end_s)

    def stays(self, start_s: int) -> list[int]:
        """Every end by the deadline until which the gang may stay from then on."""
        ends_s: list[int] = []
        for end_s in range(start_s + 1, self.deadline_s + 1):
            if not self.ways(start_s, end_s):
                break
            ends_s.append(end_s)
        return ends_s

    def first_end(self) -> int | None:
        """The end of the plan that ends first, minute by minute: all that can have been served when suspended."""
        stays = {start_s: self.stays(start_s) for start_s in range(self.not_before_s, self.deadline_s)}
        whole = [
            start_s + self.remaining_s for start_s, ends_s in stays.items() if start_s + self.remaining_s in ends_s
        ]
        if whole or not self.rules.splittable:
            return min(whole, default=None)
        least_s, resume_s, suspend_s = self.rules.minimum_piece_s, self.rules.resume_s, self.rules.suspend_s
        served_by: dict[int, set[int]] = {minute: {0} for minute in range(self.deadline_s + 1)}
        found: list[int] = []
        for start_s, ends_s in stays.items():
            served_by[start_s] |= served_by.get(start_s - 1, set())
            for served_s in served_by[start_s]:
                for end_s in ends_s:
                    useful_s = end_s - start_s - (resume_s if served_s else 0)
                    if served_s and useful_s == self.remaining_s - served_s and useful_s >= least_s:
                        found.append(end_s)
                    if useful_s - suspend_s >= least_s and served_s + useful_s - suspend_s < self.remaining_s:
                        served_by[end_s].add(served_s + useful_s - suspend_s)
        return min(found, default=None)

    def check(self, plan: tuple[Piece, ...]) -> None:
        """What was asked for, and the room is there."""
        assert sum(piece.useful_s for piece in plan) == self.remaining_s
        assert plan[0].start_s >= self.not_before_s
        ends_s = [piece.end_s for piece in plan]
        assert all(piece.start_s >= end_s for end_s, piece in zip(ends_s, plan[1:], strict=False))
        for position, piece in enumerate(plan):
            resume_s = self.rules.resume_s if position else 0
            suspend_s = self.rules.suspend_s if piece is not plan[-1] else 0
            assert piece.end_s - piece.start_s == resume_s + piece.useful_s + suspend_s
            assert len(plan) == 1 or piece.useful_s >= self.rules.minimum_piece_s
            assert piece.host_rows in self.ways(piece.start_s, piece.end_s)


def test_a_plan_is_found_wherever_there_is_one_and_none_ends_earlier() -> None:
    split = 0
    for seed in range(CASES):
        case = Case(seed)
        plan = case.planned()
        assert (plan[-1].end_s if plan else None) == case.first_end(), seed
        if plan:
            case.check(plan)
            split += len(plan) > 1
    assert split > CASES // 20
