"""The recount of orders for images: each rule finds the plan that breaks it, and passes the one as decided."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from one_preempt.configuration.chosen_policies import policies
from one_preempt.core.decide import decide
from one_preempt.core.model.image_transfer import ImageBounds, ImageOrder, ImageOrderKind
from one_preempt.core.model.plan import Plan
from one_preempt.core.verify import verify
from tests import scenario_reader
from tests.scenario_reader import NOW_S, Decided

SCENARIOS = Path(__file__).parents[1] / "scenarios"
DUE = "images_of_a_start_are_ordered_when_their_turn_has_come"
UNDER_WAY = "images_that_are_under_way_are_ordered_again_under_the_same_id"
REMOVED = "images_that_nobody_needs_give_their_room"
AHEAD = "images_come_ahead_of_an_expected_start"
FULL_LINK = "images_of_others_fill_the_link_until_the_start"


def decided(name: str) -> Decided:
    return scenario_reader.play(scenario_reader.load(SCENARIOS / f"{name}.yaml"))


def broken(before: Decided, plan: Plan) -> list[str]:
    return [violation.code for violation in verify(before.state, plan)]


def with_order(before: Decided, **changes: Any) -> Plan:
    """The plan with its only order changed."""
    (order,) = before.plan.image_orders
    return replace(before.plan, image_orders=(replace(order, **changes),))


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"host_name": "another"}, "image-host"),
        ({"host_id": 9}, "image-host"),
        ({"image_id": 8}, "image-unneeded"),
        ({"lease_ids": (6,)}, "image-unneeded"),
        ({"due_at_s": NOW_S + 82}, "image-late"),
        ({"needed_at_s": None}, "image-unneeded"),
        ({"due_at_s": NOW_S + 50}, "image-hasty"),
    ],
)
def test_an_order_is_for_a_promise_and_in_time(changes: dict[str, Any], code: str) -> None:
    before = decided(DUE)
    assert broken(before, before.plan) == []
    assert broken(before, with_order(before, **changes)) == [code]


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"image_id": 8}, "image-unneeded"),
        ({"lease_ids": (1,)}, "image-unneeded"),
        ({"due_at_s": NOW_S + 601}, "image-late"),
        ({"due_at_s": NOW_S + 50}, "image-hasty"),
    ],
)
def test_what_comes_ahead_is_for_somebody_who_is_expected_there(changes: dict[str, Any], code: str) -> None:
    before = decided(AHEAD)
    assert broken(before, before.plan) == []
    assert broken(before, with_order(before, **changes)) == [code]


@pytest.mark.parametrize("ahead_s", [None, 599])
def test_nothing_comes_ahead_that_may_not_or_not_yet(ahead_s: int | None) -> None:
    before = decided(AHEAD)
    bounds = before.state.images.bounds
    assert bounds is not None
    images = replace(before.state.images, bounds=replace(bounds, ahead_s=ahead_s))
    state = replace(before.state, images=images)
    assert [violation.code for violation in verify(state, before.plan)] == ["image-unneeded"]


def test_what_comes_ahead_leaves_time_for_what_was_promised() -> None:
    before = decided("images_ahead_leave_the_link_to_who_was_promised_a_start")
    assert broken(before, before.plan) == []
    # 51 s are needed until 130; of 88 s that a larger image takes too few are left.
    larger = {"size_mib": 1048, "due_at_s": NOW_S + 88}
    assert broken(before, with_order(before, **larger)) == ["image-ahead"]


def test_none_begins_while_another_one_has_the_link() -> None:
    before = decided(UNDER_WAY)
    (order,) = before.plan.image_orders
    second = replace(order, image_id=8, host_id=1, host_name="host1", begin_at_s=NOW_S, due_at_s=NOW_S + 51)
    second = replace(second, lease_ids=(6,))
    assert broken(before, replace(before.plan, image_orders=(order, second))) == ["image-link"]
    # What is under way has the link whether the plan names it again or not.
    assert broken(before, replace(before.plan, image_orders=(second,))) == ["image-link"]


def test_a_pool_takes_no_more_than_it_may() -> None:
    before = decided(REMOVED)
    brought = ImageOrder(
        ImageOrderKind.BRING, 7, 0, "host0", 1, 600, NOW_S, NOW_S + 51, NOW_S + 120, (5,), "reservation", ""
    )
    assert broken(before, replace(before.plan, image_orders=(brought,))) == ["image-pool"]


def test_nothing_is_removed_that_somebody_needs() -> None:
    before = decided(REMOVED)
    assert broken(before, before.plan) == []
    assert broken(before, with_order(before, image_id=8)) == ["image-needed"]


def test_nothing_is_removed_from_which_a_vm_is_being_made() -> None:
    before = decided("images_from_which_a_vm_is_being_made_are_not_removed")
    removal = ImageOrder(ImageOrderKind.DROP, 9, 0, "host0", None, 600, NOW_S, NOW_S, None, (5,), "pool-room", "")
    assert broken(before, replace(before.plan, image_orders=(removal,))) == ["image-in-use"]


def test_nobody_is_promised_more_than_the_link_can_bring() -> None:
    document = scenario_reader.load(SCENARIOS / f"{FULL_LINK}.yaml")
    before = decided(FULL_LINK)
    assert broken(before, before.plan) == []
    # Who does not know of images accepts it, for there is room.
    careless = replace(policies(scenario_reader.settings_of(document)), images=None)
    slower = replace(before.state.images, bounds=ImageBounds(70))
    state = replace(before.state, images=slower)
    plan = decide(state, careless)
    assert [violation.code for violation in verify(state, plan)] == ["image-promises"]
    twice_as_fast = replace(before.state, images=replace(before.state.images, bounds=ImageBounds(140)))
    assert verify(twice_as_fast, plan) == ()
