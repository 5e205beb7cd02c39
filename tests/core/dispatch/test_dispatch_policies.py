"""Dispatch: shares are met type by type, and the same requests go the same way every time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from one_preempt.core.dispatch.policy import DispatchPolicy, Routing, routing
from one_preempt.core.dispatch.rnd import POLICY as RND
from one_preempt.core.dispatch.round_robin import POLICY as RR
from one_preempt.core.dispatch.rtdp import POLICY as RTDP
from one_preempt.errors import OnePreemptError
from one_preempt.simulation.experiments.jpdc12_dispatcher import Dispatcher

TYPES = ("BE-CANCELLABLE", "BE-SUSPENDABLE", "DC-MIGRATABLE", "DC-NON-PREEMPTABLE")


@st.composite
def routings(draw: st.DrawFn) -> Routing:
    """Shares out of whole numbers, some of them 0."""
    parts = draw(st.lists(st.integers(0, 20), min_size=1, max_size=5).filter(any))
    fastest = draw(st.integers(0, len(parts) - 1))
    return Routing(tuple(part / sum(parts) for part in parts), fastest, draw(st.integers(0, 2**40)))


requests = st.lists(st.sampled_from(TYPES), max_size=120)


def sent(policy: DispatchPolicy, routing: Routing, types: Sequence[str]) -> list[int]:
    dispatcher = Dispatcher(policy, routing)
    return [dispatcher.send(request_type) for request_type in types]


def algorithm_2(routing: Routing, type_shares: dict[str, float], types: Sequence[str]) -> list[int]:
    """As the paper prints it, with the shares of types."""
    clusters = range(len(routing.shares))
    fastest = [0] * len(routing.shares)
    fastest[routing.fastest] = 1
    p = {(j, i): routing.shares[j] * type_shares[i] for j in clusters for i in type_shares}
    y = dict.fromkeys(p, 0)
    chosen = []
    for i in types:
        least, js = float("inf"), -1
        for j in clusters:
            if p[j, i] != 0:
                d = (fastest[j] + y[j, i]) / p[j, i]
                if d < least:
                    least, js = d, j
        y[js, i] += 1
        chosen.append(js)
    return chosen


@given(routings(), requests)
def test_rtdp_is_algorithm_2(routing: Routing, types: list[str]) -> None:
    # A quarter of each type, as in the paper: a power of two leaves every comparison as it is.
    assert sent(RTDP, routing, types) == algorithm_2(routing, dict.fromkeys(TYPES, 0.25), types)


@given(routings(), requests)
def test_rtdp_meets_the_shares_of_each_type_within_the_bound_of_the_billiard(
    routing: Routing, types: list[str]
) -> None:
    """At no time does a cluster have more than 1 + P too many or X + (N - 1) P too few of a type."""
    used = sum(share > 0 for share in routing.shares)
    counts: Counter[tuple[str, int]] = Counter()
    of_type: Counter[str] = Counter()
    for request_type, cluster in zip(types, sent(RTDP, routing, types), strict=True):
        counts[request_type, cluster] += 1
        of_type[request_type] += 1
        for place, share in enumerate(routing.shares):
            if share:
                x = int(place == routing.fastest)
                ahead = counts[request_type, place] - of_type[request_type] * share
                assert -(x + (used - 1) * share) - 1e-9 <= ahead <= 1 + share - x + 1e-9


@given(routings(), requests)
def test_nothing_goes_to_a_cluster_without_a_share(routing: Routing, types: list[str]) -> None:
    for policy in (RTDP, RND, RR):
        assert all(routing.shares[cluster] > 0 for cluster in sent(policy, routing, types))


@given(routings(), requests)
def test_the_same_requests_go_the_same_way(routing: Routing, types: list[str]) -> None:
    for policy in (RTDP, RND, RR):
        assert sent(policy, routing, types) == sent(policy, routing, types)


@given(routings(), requests, st.data())
def test_a_dispatcher_goes_on_from_what_another_remembered(
    routing: Routing, types: list[str], data: st.DataObject
) -> None:
    broken_off = data.draw(st.integers(0, len(types)))
    for policy in (RTDP, RND, RR):
        first = Dispatcher(policy, routing)
        begun = [first.send(one) for one in types[:broken_off]]
        second = Dispatcher(policy, routing, {name: list(counts) for name, counts in first.sent_by_type.items()})
        assert begun + [second.send(one) for one in types[broken_off:]] == sent(policy, routing, types)


def test_types_take_their_turns_each_for_itself() -> None:
    """Three quarters to the first, which is the fastest: what waits longest behind its share is next."""
    of_two = Routing((0.75, 0.25), 0)
    # (1 + Y0) / 0.75 against Y1 / 0.25: 1.33 0, 1.33 4, 2.67 4, 4 4, 5.33 4, ...
    assert sent(RTDP, of_two, ["a"] * 6) == [1, 0, 0, 0, 1, 0]
    assert sent(RTDP, of_two, ["a", "b", "a", "b"]) == [1, 1, 0, 0]


def test_round_robin_takes_one_after_the_other_whatever_the_type() -> None:
    assert sent(RR, Routing((0.4, 0.3, 0.3)), ["a", "b", "a", "a", "c"]) == [0, 1, 2, 0, 1]
    assert sent(RR, Routing((0.5, 0.0, 0.5)), ["a"] * 3) == [0, 2, 0]


def test_random_order_has_the_shares_in_the_long_run_and_another_order_with_another_seed() -> None:
    shares = (0.2, 0.5, 0.3)
    drawn = sent(RND, Routing(shares, seed=7), ["a"] * 20_000)
    for cluster, share in enumerate(shares):
        assert drawn.count(cluster) / 20_000 == pytest.approx(share, abs=0.015)
    assert drawn[:50] != sent(RND, Routing(shares, seed=8), ["a"] * 50)
    # Independent of one another: after a request to the second the next goes there as often as any.
    after = [later for one, later in pairwise(drawn) if one == 1]
    assert after.count(1) / len(after) == pytest.approx(0.5, abs=0.02)


def test_a_drawn_sequence_is_the_same_on_every_machine() -> None:
    assert sent(RND, Routing((0.2, 0.5, 0.3), seed=1), ["a"] * 12) == [1, 2, 1, 2, 1, 0, 1, 1, 2, 0, 0, 2]


def test_routing_comes_from_rates_and_service_times() -> None:
    assert routing((0.5, 1.5), (4.0, 2.0), seed=3) == Routing((0.25, 0.75), 1, 3)
    assert routing((1.0, 1.0), (2.0, 2.0)).fastest == 0


def test_shares_that_are_none_are_refused() -> None:
    for shares in ((), (0.5, 0.4), (1.5, -0.5), (float("nan"), 1.0)):
        with pytest.raises(OnePreemptError, match="together they must be 1"):
            Routing(shares)
    with pytest.raises(OnePreemptError, match="there are 2, counted from 0"):
        Routing((0.5, 0.5), 2)
