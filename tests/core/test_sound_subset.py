"""What is left of a plan without those who are at fault."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from one_preempt.core.model.image_transfer import ImageOrder, ImageOrderKind
from one_preempt.core.model.plan import Action, ActionKind, Plan, Preemption, Reason
from one_preempt.core.model.reservation import Booking
from one_preempt.core.sound_subset import TRIALS, SoundSubset, sound_subset

WHY = Reason("placed", "there is room")


def deploy(lease_id: int, *after: int, preemption: str | None = None) -> Action:
    """The start of the one VM of a lease, after those of others."""
    waits = tuple(f"deploy/{other}" for other in after)
    return Action(
        f"deploy/{lease_id}", ActionKind.DEPLOY, lease_id, lease_id, WHY, 0, after=waits, preemption_id=preemption
    )


def plan_of(*actions: Action, booked: tuple[int, ...] = ()) -> Plan:
    return Plan(0, "MOML", actions, bookings=tuple(Booking(lease_id, ()) for lease_id in booked))


def leases(plan: Plan) -> set[int]:
    return {action.lease_id for action in plan.actions} | {booking.lease_id for booking in plan.bookings}


def without(plan: Plan, wrong: set[int]) -> SoundSubset | None:
    return sound_subset(plan, lambda tried: leases(tried).isdisjoint(wrong))


@given(st.sets(st.integers(0, 30)), st.sets(st.integers(0, 40)), st.sets(st.integers(0, 30), max_size=4))
def test_exactly_those_at_fault_are_left_out(starting: set[int], booked: set[int], wrong: set[int]) -> None:
    plan = plan_of(*map(deploy, sorted(starting)), booked=tuple(sorted(booked)))
    found = without(plan, wrong)
    assert found is not None
    assert leases(found.plan) == (starting | booked) - wrong
    assert found.left_out == (starting | booked) & wrong
    assert {refusal.lease_id for refusal in found.plan.refusals} == starting & wrong
    assert not found.breaks_preemptions


def test_the_order_of_the_plan_stays() -> None:
    found = without(plan_of(*map(deploy, (5, 3, 9, 1, 7))), {9})
    assert found is not None
    assert [action.lease_id for action in found.plan.actions] == [5, 3, 1, 7]


def test_who_waits_for_one_at_fault_is_left_out_with_it() -> None:
    found = without(plan_of(deploy(1), deploy(2, 1), deploy(3, 2), deploy(4)), {1})
    assert found is not None
    assert leases(found.plan) == {4}


def test_a_preemption_is_left_out_as_a_whole() -> None:
    begun = Preemption("p1", 1, (), (), "MOML", 0, True, 0, 0)
    actions = (deploy(1, preemption="p1"), deploy(2, preemption="p1"), deploy(3))
    plan = Plan(0, "MOML", actions, (begun,))
    found = without(plan, {2})
    assert found is not None
    assert (leases(found.plan), found.plan.preemptions, found.breaks_preemptions) == ({3}, (), True)
    harmless = without(plan, {3})
    assert harmless is not None
    assert (harmless.plan.preemptions, harmless.breaks_preemptions) == ((begun,), False)


def test_nothing_is_left_where_the_fault_is_nobodys() -> None:
    assert sound_subset(plan_of(deploy(1)), lambda _plan: False) is None


def test_the_recounts_are_bounded_and_what_was_not_tried_is_left_out() -> None:
    tried: list[Plan] = []

    def is_sound(plan: Plan) -> bool:
        tried.append(plan)
        return all(lease_id % 2 for lease_id in leases(plan))

    found = sound_subset(plan_of(*map(deploy, range(500))), is_sound)
    assert found is not None
    assert len(tried) <= TRIALS + 2
    assert leases(found.plan)
    assert is_sound(found.plan)
    assert leases(found.plan) | found.left_out == set(range(500))


def test_an_order_for_an_image_goes_with_all_for_whom_it_is() -> None:
    """Who is at fault for it is promised nothing either; what comes for others comes all the same."""

    def order(image_id: int, *lease_ids: int) -> ImageOrder:
        return ImageOrder(ImageOrderKind.BRING, image_id, 0, "host0", 1, 600, 0, 51, 100, lease_ids, "reservation", "")

    wrong, shared, other = order(7, 5), order(8, 5, 6), order(9, 1)
    plan = replace(plan_of(deploy(4), booked=(5, 6)), image_orders=(wrong, shared, other))
    found = sound_subset(plan, lambda tried: wrong not in tried.image_orders)
    assert found is not None
    assert found.plan.image_orders == (other,)
    assert found.left_out == {5, 6}
    assert leases(found.plan) == {4}
