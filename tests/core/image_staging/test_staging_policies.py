"""When transfers have the link: against all orders, against small steps, and in the paper's own pictures."""

from __future__ import annotations

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from one_preempt.core.image_staging.equal_sharing import shared_equally
from one_preempt.core.image_staging.link import Link, link_from
from one_preempt.core.image_staging.policy import ImageStagingPolicy
from one_preempt.core.image_staging.transfer import Span, StagedTransfer, Transfer, transfer_ms
from one_preempt.policy_registry import IMAGE_STAGING_POLICIES
from one_preempt.simulation.vw07_model.staged_in_turn import staged_as_asked
from tests.core.image_staging.drawn_transfers import NOW_MS, links, reserved_transfers, slots, transfer

EDF, EDF_JIT, FIFO = map(IMAGE_STAGING_POLICIES.named, ("EDF", "EDF/JIT", "FIFO"))
SERIAL = (EDF, EDF_JIT, FIFO)


def is_free(link: Link, at_ms: int) -> bool:
    return at_ms >= link.now_ms and not any(span.begin_ms <= at_ms < span.end_ms for span in link.taken)


def milliseconds(staged: StagedTransfer) -> list[int]:
    return [at for span in staged.spans for at in range(span.begin_ms, span.end_ms)]


def some_order_is_in_time(transfers: list[Transfer], link: Link) -> bool:
    """One millisecond after the other, in every order."""
    for order in permutations(transfers):
        at_ms, in_time = link.now_ms, True
        for one in order:
            left = one.duration_ms
            while left:
                left -= is_free(link, at_ms)
                at_ms += 1
            in_time = in_time and (one.deadline_ms is None or at_ms <= one.deadline_ms)
        if in_time:
            return True
    return False


@given(reserved_transfers(), links())
def test_edf_is_in_time_exactly_where_some_order_is(transfers: list[Transfer], link: Link) -> None:
    staged = EDF.stage(transfers, link)
    assert all(one.late_ms == 0 for one in staged) == some_order_is_in_time(transfers, link)


@pytest.mark.parametrize("policy", SERIAL, ids=lambda one: one.name)
@given(transfers=reserved_transfers(8, NOW_MS + 30), link=links())
def test_one_at_a_time_has_the_link_for_as_long_as_it_takes(
    policy: ImageStagingPolicy, transfers: list[Transfer], link: Link
) -> None:
    staged = policy.stage(transfers, link)
    assert sorted(one.transfer.id for one in staged) == [one.id for one in transfers]
    assert list(staged) == sorted(staged, key=lambda one: one.begin_ms)
    used = [at for one in staged for at in milliseconds(one)]
    assert len(used) == len(set(used)) == sum(one.duration_ms for one in transfers)
    assert all(is_free(link, at) for at in used)
    assert all(one.begin_ms >= one.transfer.ready_ms for one in staged)
    assert policy.stage(transfers[::-1], link) == staged


@pytest.mark.parametrize("policy", [EDF, FIFO], ids=lambda one: one.name)
@given(transfers=reserved_transfers(8, NOW_MS + 30), link=links())
def test_the_link_is_never_idle_while_something_waits(
    policy: ImageStagingPolicy, transfers: list[Transfer], link: Link
) -> None:
    staged = policy.stage(transfers, link)
    used = {at for one in staged for at in milliseconds(one)}
    for one in staged:
        waited = range(max(one.transfer.ready_ms, NOW_MS), one.end_ms)
        assert all(at in used for at in waited if is_free(link, at))


@given(reserved_transfers(8, NOW_MS + 30), links())
def test_just_in_time_keeps_the_deadlines_that_edf_keeps_and_no_transfer_could_be_later(
    transfers: list[Transfer], link: Link
) -> None:
    early, late = ({one.transfer.id: one for one in policy.stage(transfers, link)} for policy in (EDF, EDF_JIT))
    assert list(early) == list(late)
    assert all(late[id].begin_ms >= early[id].begin_ms and late[id].late_ms == early[id].late_ms for id in early)
    in_order = list(late.values())
    for one, following in zip(in_order, [*in_order[1:], None], strict=True):
        deadline_ms = max(one.transfer.deadline_ms or 0, early[one.transfer.id].end_ms)
        limit_ms = deadline_ms if following is None else min(deadline_ms, following.begin_ms)
        assert one.end_ms <= limit_ms
        assert not any(is_free(link, at) for at in range(one.end_ms, limit_ms))
        last = milliseconds(one)
        assert last == [at for at in range(last[0], last[-1] + 1) if is_free(link, at)]


@given(reserved_transfers(8, NOW_MS + 30), links())
def test_fifo_lets_nobody_overtake(transfers: list[Transfer], link: Link) -> None:
    ids = [one.transfer.id for one in FIFO.stage(transfers, link)]
    at_once = {one.id: (max(one.ready_ms, 0), one.id) for one in transfers}
    assert ids == sorted(ids, key=at_once.__getitem__)


STEPS = 60


@given(
    st.lists(st.tuples(st.integers(1, 9), st.integers(NOW_MS - 3, NOW_MS + 20)), min_size=1, max_size=5),
    links(),
)
def test_equal_shares_are_those_of_small_steps(drawn: list[tuple[int, int]], link: Link) -> None:
    """60 steps a millisecond: whatever up to 5 at once get in a step is a whole number of 1/3600 ms."""
    transfers = [transfer(number, duration, None, ready) for number, (duration, ready) in enumerate(drawn)]
    left = {one.id: one.duration_ms * STEPS * STEPS for one in transfers}
    ends: dict[int, int] = {}
    step = NOW_MS * STEPS
    while left:
        at_ms = step // STEPS
        active = (
            [one.id for one in transfers if one.id in left and one.ready_ms <= at_ms] if is_free(link, at_ms) else []
        )
        for id in active:
            left[id] -= STEPS // len(active)
            if left[id] <= 0:
                del left[id]
                ends[id] = -(-(step + 1) // STEPS)
        step += 1
    staged = shared_equally(transfers, link, lambda one: one.ready_ms)
    for one in staged:
        # Who ends within a step leaves the rest of it unused there: a step for each that ended before, at most.
        assert ends[one.transfer.id] - 1 <= one.end_ms <= ends[one.transfer.id]
        assert all(is_free(link, at) for at in milliseconds(one))


@given(reserved_transfers(8, NOW_MS + 30), links())
def test_edf_does_not_know_what_comes(transfers: list[Transfer], link: Link) -> None:
    """Planned anew each time, or at once with all that will be asked for: the same."""
    assert staged_as_asked(transfers, link, EDF) == EDF.stage(transfers, link)


@pytest.mark.parametrize("name", sorted(IMAGE_STAGING_POLICIES.all()))
@given(
    reserved_transfers(6, NOW_MS + 30),
    reserved_transfers(4, NOW_MS + 30),
    links(),
    st.integers(NOW_MS, NOW_MS + 40),
)
def test_what_happens_until_an_instant_does_not_depend_on_what_is_asked_for_later(
    name: str, reserved: list[Transfer], others: list[Transfer], link: Link, at_ms: int
) -> None:
    policy = IMAGE_STAGING_POLICIES.named(name)
    # The transfers of one lease are all asked for with it: here each is of a lease of its own.
    both = [
        *(replace(one, owner=one.id) for one in reserved),
        *(replace(one, id=one.id + 100, deadline_ms=None, owner=one.id + 100) for one in others),
    ]
    whole = staged_as_asked(both, link, policy)
    so_far = staged_as_asked([one for one in both if one.ready_ms < at_ms], link, policy)

    def until_then(staged: tuple[StagedTransfer, ...]) -> dict[int, list[int]]:
        used = {one.transfer.id: [at for at in milliseconds(one) if at < at_ms] for one in staged}
        return {id: some for id, some in used.items() if some}

    assert until_then(whole) == until_then(so_far)


@given(reserved_transfers(6, NOW_MS + 30), reserved_transfers(4, NOW_MS + 30), links())
def test_best_effort_fills_what_reservations_leave_whenever_they_are_asked_for(
    reserved: list[Transfer], others: list[Transfer], link: Link
) -> None:
    queued = [replace(one, id=one.id + 100, deadline_ms=None) for one in others]
    staged = staged_as_asked([*reserved, *queued], link, EDF_JIT)
    used = [at for one in staged for at in milliseconds(one)]
    assert len(used) == len(set(used)) == sum(one.duration_ms for one in (*reserved, *queued))
    for one in staged:
        if not one.transfer.is_reserved:
            waited = range(max(one.transfer.ready_ms, NOW_MS), one.end_ms)
            assert {at for at in waited if is_free(link, at)} <= set(used)


@given(reserved_transfers(8, NOW_MS + 30), links())
def test_what_has_begun_just_in_time_is_not_moved_by_what_comes_later(transfers: list[Transfer], link: Link) -> None:
    staged = staged_as_asked(transfers, link, EDF_JIT)
    used = [at for one in staged for at in milliseconds(one)]
    assert len(used) == len(set(used)) == sum(one.duration_ms for one in transfers)
    assert all(one.begin_ms >= one.transfer.ready_ms for one in staged)


def test_two_strategies_as_in_the_picture_of_the_paper() -> None:
    """Figure 6.2: EDF packs three transfers from now on; EDF/JIT pushes each to its deadline or its successor."""
    three = [transfer(1, 10, 1050), transfer(2, 10, 1090), transfer(3, 10, 1095)]
    link = Link(NOW_MS)
    assert slots(EDF.stage(three, link)) == {1: (1000, 1010), 2: (1010, 1020), 3: (1020, 1030)}
    assert slots(EDF_JIT.stage(three, link)) == {1: (1040, 1050), 2: (1075, 1085), 3: (1085, 1095)}


def test_naive_strategies_begin_at_instants_of_their_own_and_share() -> None:
    """Two workspaces that start at the same time, one of two nodes: whoever comes beside them is delayed."""
    three = [
        transfer(1, 10, 1100, 1000, owner=1),
        transfer(2, 10, 1100, 1000, owner=1),
        transfer(3, 10, 1100, 1040, owner=2),
    ]
    link = Link(NOW_MS)
    ends = {
        name: slots(IMAGE_STAGING_POLICIES.named(name).stage(three, link))
        for name in ("job-style", "JIT", "JIT-workspace", "aggressive")
    }
    assert ends["job-style"] == dict.fromkeys((1, 2, 3), (1100, 1130))
    assert ends["JIT"] == dict.fromkeys((1, 2, 3), (1090, 1120))
    assert ends["JIT-workspace"] == {1: (1080, 1105), 2: (1080, 1105), 3: (1090, 1110)}
    assert ends["aggressive"] == {1: (1000, 1020), 2: (1000, 1020), 3: (1040, 1050)}


def test_best_effort_has_what_reservations_leave_and_pauses_for_them() -> None:
    both = [transfer(1, 10, 1020), transfer(2, 10, None), transfer(3, 10, None)]
    told = {one.transfer.id: one.spans for one in staged_as_asked(both, Link(NOW_MS), EDF_JIT)}
    assert told[1] == (Span(1010, 1020),)
    assert told[2] == (Span(1000, 1010),)
    assert told[3] == (Span(1020, 1030),)
    paused = [transfer(1, 10, 1015), transfer(2, 10, None)]
    told = {one.transfer.id: one.spans for one in staged_as_asked(paused, Link(NOW_MS), EDF_JIT)}
    assert told[2] == (Span(1000, 1005), Span(1015, 1020))


@given(reserved_transfers(5), reserved_transfers(5), links())
def test_best_effort_delays_no_reservation(reserved: list[Transfer], others: list[Transfer], link: Link) -> None:
    queued = [replace(one, id=one.id + 100, deadline_ms=None) for one in others]
    staged = staged_as_asked([*reserved, *queued], link, EDF_JIT)
    assert tuple(one for one in staged if one.transfer.is_reserved) == staged_as_asked(reserved, link, EDF_JIT)


def test_a_link_takes_spans_in_whatever_order_they_come() -> None:
    link = link_from(1000, [Span(1030, 1040), Span(1005, 1010), Span(1008, 1015), Span(900, 950), Span(1040, 1050)])
    assert link.taken == (Span(1005, 1015), Span(1030, 1050))
    assert (link.free_from(1007), link.free_ms(1000, 1060)) == (1015, 30)
    assert link.backward(1055, 10) == (Span(1025, 1030), Span(1050, 1055))


def test_an_image_of_the_paper_takes_48_seconds() -> None:
    assert transfer_ms(600, 100) == 48_000
    assert transfer_ms(1, 3000) == 3


def test_the_policies_of_the_paper_are_there() -> None:
    found = IMAGE_STAGING_POLICIES.all()
    assert {"EDF", "EDF/JIT", "FIFO", "job-style", "JIT", "JIT-workspace", "aggressive"} <= set(found)
    assert [name for name, one in found.items() if one.plans_slots] == ["EDF", "EDF/JIT", "FIFO"]
