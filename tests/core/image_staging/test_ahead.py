"""Images that come ahead of expected starts take nothing from who was promised a start, whenever they begin."""

from __future__ import annotations

import random

import pytest
from msgspec.structs import replace

from one_preempt.core.image_staging.ahead import may_come_ahead, order_ahead
from one_preempt.core.image_staging.staging_plan import ImageNeed, StagingPlan, StagingState, staging_plan
from one_preempt.core.model.image_transfer import KnownImages, TransferPhase, TransferRecord
from tests.core.image_staging.test_staging_plan import (
    NOW_S,
    RULES,
    STORIES,
    begun_by,
    drawn,
    ended_by,
    need,
)


def drawn_expected(chance: random.Random) -> list[ImageNeed]:
    return [
        ImageNeed(
            100 + lease_id, chance.randrange(6), chance.randrange(4), chance.choice((50, 200, 600)), 1,
            NOW_S + chance.randint(1, 500), NOW_S - chance.randint(0, 100),
        )
        for lease_id in range(chance.randint(3, 9))
    ]  # fmt: skip


@pytest.mark.parametrize("seed", range(STORIES))
def test_who_was_in_time_stays_in_time_whatever_comes_ahead(seed: int) -> None:
    """Second by second: some that may begin do, and everything ends as planned."""
    needs, known, rules = drawn(seed)
    chance = random.Random(f"ahead {seed}")
    expected = drawn_expected(chance)
    while (plan := staging_plan(needs, StagingState(known, rules, NOW_S))).left:
        needs = [one for one in needs if one.lease_id not in plan.left]
    tight = plan.tight
    for now_s in range(NOW_S, NOW_S + 420):
        known = ended_by(known, rules, now_s)
        ahead = [one for one in needs if one.start_s > now_s]
        plan = staging_plan(ahead, StagingState(known, rules, now_s))
        assert not plan.left, f"at {now_s - NOW_S}"
        assert plan.tight <= tight, f"at {now_s - NOW_S}"
        known = begun_by(known, plan, now_s)
        waiting = [one for one in expected if one.start_s > now_s]
        for transfer in may_come_ahead(waiting, ahead, plan, StagingState(known, rules, now_s)):
            assert transfer.end_s <= transfer.needed_s
            if chance.random() < 0.5:
                order = order_ahead(transfer)
                record = TransferRecord(order, TransferPhase.UNDER_WAY, now_s)
                known = replace(known, transfers={**known.transfers, record.id: record})
                break
    assert not plan.transfers


def ahead(expected: list[ImageNeed], promised: list[ImageNeed], known: KnownImages | None = None) -> list[int]:
    """The images that may begin to come, in their order."""
    state = StagingState(known or KnownImages(), RULES, NOW_S)
    plan = staging_plan(promised, state) if promised else StagingPlan()
    return [one.image_id for one in may_come_ahead(expected, promised, plan, state)]


def test_the_earliest_start_comes_first_and_what_would_be_late_not_at_all() -> None:
    assert ahead([need(5, 300), need(6, 200, image_id=8), need(7, 50, image_id=9)], []) == [8, 7]


def test_only_what_ends_before_the_next_promised_one_begins_may_come() -> None:
    # The promised one begins after 60 s: there is time for 51 s, and none for 102.
    promised = [need(1, 111, image_id=1, host_id=3)]
    assert ahead([need(5, 300, size_mib=1200), need(6, 300, image_id=8)], promised) == [8]


def test_what_somebody_was_promised_there_comes_when_it_was_planned() -> None:
    assert ahead([need(5, 100), need(6, 100, host_id=2)], [need(1, 1000)]) == [7]


def test_nothing_comes_to_a_host_that_is_not_on_yet() -> None:
    state = StagingState(KnownImages(), RULES, NOW_S, {1: NOW_S + 60})
    assert list(may_come_ahead([need(5, 300)], [], StagingPlan(), state)) == []
