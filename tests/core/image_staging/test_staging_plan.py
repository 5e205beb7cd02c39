"""The plan of transfers for what was promised: no two have the link at once, none is late, and time changes nothing."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import pairwise

import pytest
from msgspec import Struct
from msgspec.structs import replace

from one_preempt.core.image_staging.edf_jit import POLICY as EDF_JIT
from one_preempt.core.image_staging.image_staging_rules import ImageStagingRules
from one_preempt.core.image_staging.link import Link
from one_preempt.core.image_staging.staging_plan import ImageNeed, StagingPlan, StagingState, staging_plan
from one_preempt.core.image_staging.transfer import StagedTransfer, Transfer
from one_preempt.core.model.image_transfer import (
    HeldImage,
    HostImages,
    ImageOrder,
    ImageOrderKind,
    KnownImages,
    TransferPhase,
    TransferRecord,
)
from one_preempt.policy_registry import slot_planning_policy
from tests.core.availability.naive import CASES

NOW_S = 1_000_000
RULES = ImageStagingRules(link_megabit_per_s=100, margin_s=0)
STORIES = CASES // 4


def drawn(seed: int) -> tuple[list[ImageNeed], KnownImages, ImageStagingRules]:
    """Needs of a few leases on a few hosts, of which some hold something."""
    chance = random.Random(seed)
    needs = []
    sizes = {image_id: chance.choice((50, 300, 600)) for image_id in range(4)}
    for lease_id in range(chance.randint(1, 7)):
        start_s = NOW_S + chance.randint(1, 400)
        for host_id in chance.sample(range(4), chance.randint(1, 3)):
            image_id = chance.randrange(4)
            asked_s = NOW_S - chance.randint(0, 100)
            # Now and then the image has grown meanwhile.
            size_mib = sizes[image_id] * chance.choice((1, 1, 1, 2))
            needs.append(ImageNeed(lease_id, image_id, host_id, size_mib, 1, start_s, asked_s))
    held = {
        host_id: HostImages(host_id, NOW_S, (HeldImage(chance.randrange(4), 300),))
        for host_id in range(4)
        if chance.random() < 0.3
    }
    rules = replace(
        RULES,
        policy=slot_planning_policy(chance.choice(("EDF/JIT", "EDF", "FIFO"))),
        margin_s=chance.choice((0, 10)),
        quantum_s=chance.choice((1, 1, 20)),
    )
    return needs, KnownImages(held), rules


@pytest.mark.parametrize("seed", range(STORIES))
def test_every_need_is_met_in_time_or_told(seed: int) -> None:
    needs, known, rules = drawn(seed)
    plan = staging_plan(needs, StagingState(known, rules, NOW_S))
    ends = {one.place: one.end_s for one in plan.transfers}
    for need in needs:
        is_there = any(one.image_id == need.image_id for one in known.images_on(need.host_id))
        in_time = is_there or ends.get(need.place, need.start_s + 1) <= need.start_s
        assert in_time or need.lease_id in plan.left
    turns = sorted((one.begin_s, one.end_s) for one in plan.transfers)
    assert all(end_s <= begin_s for (_, end_s), (begin_s, _) in pairwise(turns))
    assert all(one.end_s - one.begin_s == rules.transfer_s(one.size_mib) for one in plan.transfers)
    assert all(one.begin_s >= NOW_S and one.end_s <= one.needed_s for one in plan.transfers)
    assert len(ends) == len(plan.transfers)
    # The order in which needs are told says nothing.
    assert staging_plan(reversed(needs), StagingState(known, rules, NOW_S)) == plan


@pytest.mark.parametrize("seed", range(STORIES))
def test_who_is_in_time_stays_in_time_while_transfers_are_carried_out(seed: int) -> None:
    """Each transfer is ordered when its turn has come, and ends as planned: who was in time stays so."""
    needs, known, rules = drawn(seed)
    while (plan := staging_plan(needs, StagingState(known, rules, NOW_S))).left:
        # Under FIFO others may be late without these, whose images they shared.
        needs = [need for need in needs if need.lease_id not in plan.left]
    for now_s in range(NOW_S, NOW_S + 420):
        known = ended_by(known, rules, now_s)
        ahead = [need for need in needs if need.start_s > now_s]
        before, plan = plan, staging_plan(ahead, StagingState(known, rules, now_s))
        assert not plan.left, f"at {now_s - NOW_S}"
        if rules.policy.name == "EDF/JIT":
            moved = {one.place: one.begin_s for one in before.transfers}
            assert all(moved.get(one.place, one.begin_s) == one.begin_s for one in plan.transfers)
        known = begun_by(known, plan, now_s)
    assert not plan.transfers


def begun_by(known: KnownImages, plan: StagingPlan, now_s: int) -> KnownImages:
    begun = {
        record.id: record
        for one in plan.transfers
        if one.begin_s <= now_s and not one.is_under_way
        for record in [
            TransferRecord(order_of(one.image_id, one.host_id, one.size_mib), TransferPhase.UNDER_WAY, now_s)
        ]
    }
    return replace(known, transfers={**known.transfers, **begun})


def ended_by(known: KnownImages, rules: ImageStagingRules, now_s: int) -> KnownImages:
    held, transfers = dict(known.held), dict(known.transfers)
    for id, record in known.transfers.items():
        if record.since_s + rules.transfer_s(record.order.size_mib) <= now_s:
            order = record.order
            pool = held.get(order.host_id) or HostImages(order.host_id, now_s)
            held[order.host_id] = pool.with_image(HeldImage(order.image_id, order.size_mib, now_s))
            del transfers[id]
    return replace(known, held=held, transfers=transfers)


def order_of(image_id: int, host_id: int, size_mib: int) -> ImageOrder:
    return ImageOrder(ImageOrderKind.BRING, image_id, host_id, "", 1, size_mib, 0, 0, None, (), "", "")


def need(lease_id: int, start_s: int, image_id: int = 7, host_id: int = 1, size_mib: int = 600) -> ImageNeed:
    return ImageNeed(lease_id, image_id, host_id, size_mib, 1, NOW_S + start_s, NOW_S)


def test_one_transfer_serves_all_who_need_the_image_there() -> None:
    plan = staging_plan([need(5, 300), need(6, 200)], StagingState(KnownImages(), RULES, NOW_S))
    (one,) = plan.transfers
    assert (one.lease_ids, one.needed_s - NOW_S, one.begin_s - NOW_S) == ((5, 6), 200, 149)


def test_who_starts_too_early_leaves_the_transfer_to_who_starts_later() -> None:
    plan = staging_plan([need(5, 300), need(6, 20)], StagingState(KnownImages(), RULES, NOW_S))
    (one,) = plan.transfers
    assert (one.lease_ids, one.begin_s - NOW_S) == ((5,), 249)
    assert set(plan.left) == {6}


class _CountedPlans(Struct):
    """EDF/JIT, and how often it was asked."""

    name: str = "EDF/JIT"
    description: str = ""
    plans_slots: bool = True
    keeps_deadlines: bool = True
    asked: int = 0

    def stage(self, transfers: Sequence[Transfer], link: Link) -> tuple[StagedTransfer, ...]:
        self.asked += 1
        return EDF_JIT.stage(transfers, link)


def test_a_thousand_images_that_come_too_late_are_given_up_together() -> None:
    policy = _CountedPlans()
    needs = [need(5, 600, host_id=host_id) for host_id in range(1000)]
    plan = staging_plan(needs, StagingState(KnownImages(), replace(RULES, policy=policy), NOW_S))
    assert (len(plan.transfers), set(plan.left), policy.asked) == (11, {5}, 2)


def test_a_transfer_that_overruns_its_time_holds_up_nobody() -> None:
    order = order_of(9, 2, 600)
    known = KnownImages(transfers={order.id: TransferRecord(order, TransferPhase.UNDER_WAY, NOW_S - 60)})
    plan = staging_plan([need(5, 51), need(6, 200, image_id=9, host_id=2)], StagingState(known, RULES, NOW_S))
    assert {one.lease_ids: (one.begin_s - NOW_S, one.end_s - NOW_S) for one in plan.transfers} == {
        (5,): (0, 51),
        (6,): (-60, 1),
    }


def test_what_is_being_removed_is_not_there() -> None:
    removal = replace(order_of(7, 1, 600), kind=ImageOrderKind.DROP)
    known = KnownImages(
        {1: HostImages(1, NOW_S, (HeldImage(7, 600),))},
        {removal.id: TransferRecord(removal, TransferPhase.UNDER_WAY, NOW_S)},
    )
    assert [one.place for one in staging_plan([need(5, 300)], StagingState(known, RULES, NOW_S)).transfers] == [(7, 1)]


def test_it_takes_whole_quanta_and_one_at_least() -> None:
    in_minutes = replace(RULES, quantum_s=60)
    assert [in_minutes.transfer_s(size) for size in (1, 600, 715, 716)] == [60, 60, 60, 120]
    assert [RULES.transfer_s(size) for size in (1, 11, 12, 600)] == [1, 1, 2, 51]
