"""What is found by adding up is what a plan of all transfers says, whoever asks, goes or has something already."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from one_preempt.core.image_staging.image_staging_rules import ImageStagingRules
from one_preempt.core.image_staging.needs_in_time import NeedsInTime
from one_preempt.core.image_staging.pool_room import peaks_mib
from one_preempt.core.image_staging.staging_plan import ImageNeed, StagingState, staging_plan
from one_preempt.core.model.image_transfer import KnownImages, TransferPhase, TransferRecord
from tests.core.image_staging.test_staging_plan import NOW_S, STORIES, drawn, order_of


def with_transfers(chance: random.Random, known: KnownImages, needs: Sequence[ImageNeed]) -> KnownImages:
    """One transfer is under way, and one has failed, if chance wills."""
    found = {}
    for phase in (TransferPhase.UNDER_WAY, TransferPhase.FAILED):
        one = chance.choice(needs)
        if chance.random() < 0.3 and not known.is_held(one.place):
            order = order_of(one.image_id, one.host_id, one.size_mib)
            record = TransferRecord(order, phase, NOW_S - chance.randint(0, 60), not_before_s=NOW_S + 15)
            found[record.id] = record
    return replace(known, transfers=found)


def accepted_by_plan(
    own: Sequence[ImageNeed], others: Sequence[ImageNeed], known: KnownImages, rules: ImageStagingRules
) -> bool:
    before, then = (staging_plan(needs, StagingState(known, rules, NOW_S)) for needs in (others, (*others, *own)))
    is_late = any(one.lease_id in then.left or one.place in then.tight for one in own)
    return not is_late and not then.left.keys() - before.left.keys() and not then.tight - before.tight


@pytest.mark.parametrize("seed", range(STORIES))
def test_it_says_what_a_plan_says_or_that_it_cannot_tell(seed: int) -> None:
    needs, known, rules = drawn(seed)
    chance = random.Random(f"in time {seed}")
    known = with_transfers(chance, known, needs)
    in_time = NeedsInTime(StagingState(known, rules, NOW_S))
    promised: dict[int, list[ImageNeed]] = {}
    for lease_id in dict.fromkeys(one.lease_id for one in needs):
        own = [one for one in needs if one.lease_id == lease_id]
        others = [one for of_lease in promised.values() for one in of_lease]
        told, planned = in_time.also(own), accepted_by_plan(own, others, known, rules)
        assert told in (None, planned)
        if rules.policy.keeps_deadlines and not known.transfers:
            assert told is not None
        if planned:
            promised[lease_id] = own
            in_time.replace((), own)
        if promised and chance.random() < 0.2:
            in_time.replace(promised.pop(min(promised)), ())
        _plans_agree(in_time, [one for of_lease in promised.values() for one in of_lease], known, rules)


def _plans_agree(
    in_time: NeedsInTime, promised: Sequence[ImageNeed], known: KnownImages, rules: ImageStagingRules
) -> None:
    state = StagingState(known, rules, NOW_S)
    plan = staging_plan(promised, state)
    peaks = peaks_mib(promised, plan, state, {})
    room_mib = in_time.room_mib(())
    assert all(peak_mib <= room_mib.get(host_id, 0) for host_id, peak_mib in peaks.items()) or known.transfers
    if not in_time.are_all:
        return
    assert not plan.left
    assert not plan.tight
    for image_id, start_s in {(one.image_id, one.start_s) for one in promised}:
        missing = {host_id for host_id in in_time.come_by(image_id, start_s) if not known.is_held((image_id, host_id))}
        assert missing == {
            one.host_id for one in plan.transfers if one.image_id == image_id and one.needed_s <= start_s
        }
