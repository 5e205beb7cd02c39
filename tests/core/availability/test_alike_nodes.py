from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from one_preempt.core.availability.alike_nodes import AlikeNodes, HeldNodes
from one_preempt.core.availability.timed_request import TimedRequest

NODES = 6
LEASES = range(4)

stays = st.builds(HeldNodes, st.integers(1, 3), st.integers(0, 12), st.none() | st.integers(13, 20))
happenings = st.one_of(
    st.tuples(st.just("hold"), st.sampled_from(LEASES), stays),
    st.tuples(st.just("take"), st.sampled_from(LEASES), stays),
    st.tuples(st.just("take out"), st.sampled_from(LEASES), stays),
    st.tuples(st.just("give back"), st.sampled_from(LEASES), stays),
    st.tuples(st.just("time"), st.sampled_from(LEASES), stays),
)
questions = st.tuples(
    st.lists(st.sampled_from(LEASES), unique=True, max_size=2).map(tuple), st.integers(1, NODES), st.integers(0, 18)
)


def _happens(nodes: AlikeNodes, what: str, lease_id: int, stay: HeldNodes) -> None:
    if what == "hold" and lease_id not in nodes.held():
        duration_s = None if stay.end_s is None else stay.end_s - stay.start_s
        nodes.hold(TimedRequest(lease_id, stay.nodes, duration_s), stay.start_s)
    elif what == "take":
        nodes.take(lease_id, [stay])
    elif what == "take out" and lease_id in nodes.held():
        nodes.take_out(lease_id)
    elif what == "give back":
        nodes.give_back(lease_id)
    elif what == "time":
        nodes.forget_before(nodes.profile.since_s + stay.nodes)


@settings(derandomize=True, deadline=None)
@given(st.lists(st.tuples(happenings, questions), max_size=12), st.none() | st.integers(1, 9))
def test_what_is_free_without_some_is_what_is_free_when_they_have_nothing(
    story: list[tuple[tuple[str, int, HeldNodes], tuple[tuple[int, ...], int, int]]], duration_s: int | None
) -> None:
    told = AlikeNodes(NODES)
    for number, (_, (without, wanted, later_s)) in enumerate(story):
        _happens(told, *story[number][0])
        start_s = told.profile.since_s + later_s
        end_s = None if duration_s is None else start_s + duration_s
        anew = AlikeNodes(NODES)
        for happening, _ in story[: number + 1]:
            _happens(anew, *happening)
        for lease_id in without:
            anew.give_back(lease_id)
            if lease_id in anew.held():
                anew.take_out(lease_id)
        for _ in range(2):
            assert told.fits_without(without, wanted, start_s, end_s) == anew.profile.fits(wanted, start_s, end_s)


def test_who_was_given_nodes_is_told_until_all_know_of_it() -> None:
    nodes = AlikeNodes(NODES)
    for lease_id in LEASES:
        assert nodes.place(TimedRequest(lease_id, 4, 10), 0) == 10 * lease_id
    assert nodes.given_anew() == set(LEASES)

    nodes.all_know(LEASES)
    nodes.withdraw(0)
    assert not nodes.given_anew()
    assert nodes.bring_forward(TimedRequest(1, 4, 10), 0) == 0
    assert nodes.given_anew() == {1}
    nodes.withdraw(1)
    assert not nodes.given_anew()
