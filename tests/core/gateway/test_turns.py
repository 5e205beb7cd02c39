"""Whose turn it is: requests follow the shares, type by type, whatever changes on the way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from one_preempt.core.dispatch.policy import DispatchPolicy
from one_preempt.core.dispatch.rnd import POLICY as RND
from one_preempt.core.dispatch.round_robin import POLICY as RR
from one_preempt.core.dispatch.rtdp import POLICY as RTDP
from one_preempt.core.gateway.shares import Allocation, Answer
from one_preempt.core.gateway.turns import Turn, next_turn

ZONES = ("north", "south", "west")


def allocation(*shares: float, by_speed: tuple[str, ...] = ZONES) -> Allocation:
    return Allocation(0, Answer("PAP", dict(zip(ZONES, shares, strict=True))), "", by_speed)


def sent(policy: DispatchPolicy, plan: Sequence[Allocation]) -> tuple[list[str], dict[str, float]]:
    """Where requests of one type go, one for each allocation in force, and the balances in the end."""
    ahead: dict[str, float] = {}
    went = []
    for number, in_force in enumerate(plan):
        turn = next_turn(policy, in_force, ZONES, ahead, number)
        assert turn is not None
        went.append(turn.zone)
        for zone, charge in turn.charges.items():
            ahead[zone] = round(ahead.get(zone, 0.0) + charge, 9)
    return went, ahead


shares = (
    st.lists(st.integers(0, 20), min_size=3, max_size=3)
    .filter(any)
    .map(lambda parts: allocation(*(part / sum(parts) for part in parts)))
)


# Sixteenths, which binary fractions hold exactly.
@given(st.integers(0, 8), st.integers(0, 8), st.integers(1, 200))
def test_with_fixed_shares_it_is_the_sequence_of_the_paper(first: int, second: int, count: int) -> None:
    in_force = allocation(first / 16, second / 16, 1 - (first + second) / 16)
    counts = dict.fromkeys(ZONES, 0)
    expected = []
    for _ in range(count):
        open_ones = [zone for zone in ZONES if in_force.answer.shares[zone] > 0]
        fastest = open_ones[0]
        zone = min(open_ones, key=lambda one: ((one == fastest) + counts[one]) / in_force.answer.shares[one])
        counts[zone] += 1
        expected.append(zone)
    assert sent(RTDP, [in_force] * count)[0] == expected


@given(st.lists(shares, min_size=1, max_size=40), st.integers(1, 30))
def test_nobody_is_ever_far_ahead_or_behind_however_shares_change(changes: list[Allocation], each: int) -> None:
    plan = [in_force for in_force in changes for _ in range(each)]
    _went, ahead = sent(RTDP, plan)
    assert all(abs(balance) < 3 for balance in ahead.values()), ahead
    assert sum(ahead.values()) == pytest.approx(0, abs=1e-6)


def test_over_many_requests_the_counts_follow_the_shares() -> None:
    for policy in (RTDP, RND):
        went, _ahead = sent(policy, [allocation(0.6, 0.3, 0.1)] * 3000)
        counts = Counter(went)
        assert [counts[zone] / 3000 for zone in ZONES] == pytest.approx([0.6, 0.3, 0.1], abs=0.02), policy.name
    assert Counter(sent(RR, [allocation(0.6, 0.4, 0.0)] * 300)[0]) == {"north": 150, "south": 150}


def test_a_zone_that_was_away_has_nothing_to_catch_up_with() -> None:
    half = allocation(0.5, 0.5, 0.0)
    ahead: dict[str, float] = {}
    for number in range(100):  # north refuses all
        turn = next_turn(RTDP, half, ZONES, ahead, number, without={"north"})
        assert turn is not None
        assert turn.zone == "south"
        assert turn.charges == {}
    assert sorted(sent(RTDP, [half] * 2)[0]) == ["north", "south"]


def test_what_a_zone_refuses_is_drawn_anew_among_the_others() -> None:
    in_force, went = allocation(0.5, 0.25, 0.25), Counter[str]()
    for number in range(1000):
        first = next_turn(RND, in_force, ZONES, {}, number)
        if first is not None and first.zone == "north":
            second = next_turn(RND, in_force, ZONES, {}, number, without={"north"})
            assert second is not None
            went[second.zone] += 1
    assert went["south"] == pytest.approx(went["west"], rel=0.2)


def test_what_was_charged_is_taken_back_without_a_rest() -> None:
    turn = next_turn(RTDP, allocation(1 / 3, 1 / 3, 1 / 3), ZONES, {}, 0)
    assert turn is not None
    assert sum(turn.charges.values()) == pytest.approx(0, abs=1e-8)
    assert {zone: round(charge - charge, 9) for zone, charge in turn.charges.items()} == dict.fromkeys(ZONES, 0.0)


def test_zones_without_a_share_come_last_and_the_reason_is_told() -> None:
    in_force = Allocation(
        0,
        Answer("PAP", {"north": 1.0, "south": 0.0}, left_out={"south": "its own users ask for 1.2 times what it has"}),
        unmeasured={"west": "it does not answer"},
    )
    turns: list[Turn] = []
    while turn := next_turn(RTDP, in_force, ZONES, {}, 0, {one.zone for one in turns}):
        turns.append(turn)
    assert [turn.zone for turn in turns] == ["north", "south", "west"]
    assert turns[0].why == "RTDP by the shares of PAP"
    assert "its own users ask" in turns[1].why
    assert "does not answer" in turns[2].why
    assert turns[2].charges == {}


def test_before_anything_is_known_zones_come_in_the_order_of_the_configuration() -> None:
    turn = next_turn(RTDP, None, ZONES, {}, 0)
    assert turn is not None
    assert (turn.zone, turn.charges) == ("north", {})
    assert next_turn(RTDP, None, ZONES, {}, 0, without=set(ZONES)) is None


def test_a_draw_depends_on_the_seed_and_the_number_alone() -> None:
    drawn = [next_turn(RND, allocation(0.4, 0.3, 0.3), ZONES, {}, number, seed=7) for number in range(50)]
    again = [next_turn(RND, allocation(0.4, 0.3, 0.3), ZONES, {"north": 40.0}, number, seed=7) for number in range(50)]
    assert [turn and turn.zone for turn in drawn] == [turn and turn.zone for turn in again]
