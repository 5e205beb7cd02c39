"""Reservations with their transfers: whatever was promised is kept, and what could be kept is promised."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from one_preempt.policy_registry import IMAGE_STAGING_POLICIES
from one_preempt.simulation.vw07_model.admission import (
    Promised,
    Refusal,
    StagingRules,
    TransferUnit,
    WorkspaceRequest,
    admitted,
)
from one_preempt.simulation.vw07_model.planned_images import (
    ImageUse,
    PlannedImage,
    peak_disk_mb,
    shared_image,
)
from one_preempt.simulation.vw07_model.slot_fitting import fitted
from tests.core.image_staging.drawn_transfers import slots

EDF, EDF_JIT = IMAGE_STAGING_POLICIES.named("EDF"), IMAGE_STAGING_POLICIES.named("EDF/JIT")
PLACES = {0: 2, 1: 2, 2: 1}
# A megabyte takes 8 ms, so that 1 MB to 3 MB take 8 to 24 of the 200 ms over which reservations start.
RATE = 1000


def request(
    id: int, vms: int, start_ms: int, lasts_ms: int = 50, image: str = "a", asked_ms: int = 0
) -> WorkspaceRequest:
    return WorkspaceRequest(id, vms, image, 1, asked_ms, start_ms, start_ms + lasts_ms)


@st.composite
def requests(draw: st.DrawFn) -> list[WorkspaceRequest]:
    drawn = draw(
        st.lists(
            st.tuples(
                st.integers(1, 5), st.integers(0, 200), st.integers(1, 90), st.sampled_from("abc"), st.integers(0, 9)
            ),
            max_size=9,
        )
    )
    asked_ms, found = 0, []
    for id, (vms, ahead_ms, lasts_ms, image, later_ms) in enumerate(drawn):
        asked_ms += later_ms
        found.append(request(id, vms, asked_ms + ahead_ms, lasts_ms, image, asked_ms))
    return found


def all_rules(limit_mb: int | None = None) -> st.SearchStrategy[StagingRules]:
    return st.builds(
        lambda policy, unit, reuses, copies: StagingRules(policy, PLACES, RATE, unit, reuses, copies, limit_mb),
        st.sampled_from([EDF, EDF_JIT]),
        st.sampled_from(TransferUnit),
        st.booleans(),
        st.booleans(),
    )


def promised_after(asked: list[WorkspaceRequest], rules: StagingRules) -> tuple[Promised, list[WorkspaceRequest]]:
    promised, accepted = Promised(), []
    for one in asked:
        promised = promised.at(one.asked_ms)
        answer = admitted(one, promised, rules)
        if isinstance(answer, Promised):
            promised = answer
            accepted.append(one)
    return promised, accepted


@given(requests(), all_rules())
def test_each_vm_that_was_promised_has_its_place_and_its_image(
    asked: list[WorkspaceRequest], rules: StagingRules
) -> None:
    promised, accepted = promised_after(asked, rules)
    assert len(promised.bookings) == sum(one.vms for one in accepted)
    for at_ms in range(0, 400, 7):
        for node, places in PLACES.items():
            there = [one for one in promised.bookings if one.node == node and one.begin_ms <= at_ms < one.end_ms]
            assert len(there) <= places
    staged = promised.staged
    served = {use.vm: (image, use) for image in promised.images for use in image.uses}
    vm = 0
    for one in accepted:
        for _ in range(one.vms):
            image, use = served[vm]
            booking = promised.bookings[vm]
            assert (use.node, use.start_ms, use.end_ms) == booking == (image.node, one.start_ms, one.end_ms)
            brought = staged[image.transfer_id]
            assert one.image == brought.transfer.image
            assert use.node in brought.transfer.nodes
            assert brought.end_ms <= one.start_ms
            assert image.expires_ms >= one.end_ms
            vm += 1
    used = [at for one in staged.values() for span in one.spans for at in range(*span)]
    assert len(used) == len(set(used))
    assert all(one.begin_ms >= one.transfer.ready_ms for one in staged.values())


@given(requests(), all_rules(limit_mb=3))
def test_no_disk_is_fuller_than_its_limit(asked: list[WorkspaceRequest], rules: StagingRules) -> None:
    promised, _ = promised_after(asked, rules)
    staged = promised.staged
    for at_ms in range(400):
        for node in PLACES:
            there_mb = 0
            for image in promised.images:
                if image.node == node and staged[image.transfer_id].begin_ms <= at_ms < image.expires_ms:
                    there_mb += image.size_mb
                    if rules.copies:
                        there_mb += sum(use.size_mb for use in image.uses if use.start_ms <= at_ms < use.end_ms)
            if image_rooms := [one for one in promised.images if one.node == node]:
                peaks = peak_disk_mb(image_rooms, staged, rules.copies)
                assert there_mb <= peaks[node] <= 3


@given(requests())
def test_what_is_refused_for_its_transfers_could_not_be_kept_in_any_order(asked: list[WorkspaceRequest]) -> None:
    """All are known at the beginning: the work that is due by an instant is more than there is until then."""
    rules = StagingRules(EDF_JIT, PLACES, RATE)
    promised = Promised()
    for one in (replace(one, asked_ms=0) for one in asked):
        answer = admitted(one, promised, rules)
        if isinstance(answer, Promised):
            promised = answer
        elif answer == Refusal.TRANSFERS_LATE:
            due = [(staged.transfer.deadline_ms or 0) for staged in promised.waiting] + [one.start_ms] * one.vms
            assert any(8 * sum(other <= instant for other in due) > instant for instant in due)


def test_nodes_with_the_image_come_first_then_those_with_more_room() -> None:
    assert fitted(3, {0: 2, 1: 2, 2: 1}, {2}) == (2, 0, 0)
    assert fitted(3, {0: 1, 1: 2, 2: 0}, ()) == (1, 1, 0)
    assert fitted(4, {0: 1, 1: 2, 2: 0}, ()) is None


def test_a_later_reservation_uses_the_transfer_that_is_planned_for_an_earlier_one() -> None:
    """VW07 6.3.1: the image stays until the end of the second, though the first ends long before it starts."""
    rules = StagingRules(EDF_JIT, PLACES, RATE, reuses=True)
    first = admitted(request(1, 2, 100), Promised(), rules)
    assert isinstance(first, Promised)
    both = admitted(request(2, 2, 190), first, rules)
    assert isinstance(both, Promised)
    assert slots(both.waiting) == {0: (92, 100)}
    (image,) = both.images
    assert (image.node, image.expires_ms, len(image.uses)) == (0, 240, 4)
    # Once it is there, only until the end of those for whom it came.
    arrived = first.at(120)
    anew = admitted(request(2, 2, 190, asked_ms=120), arrived, rules)
    assert isinstance(anew, Promised)
    assert slots(anew.waiting) == {1: (182, 190)}
    again = admitted(request(2, 2, 150, asked_ms=120), arrived, rules)
    assert isinstance(again, Promised)
    assert again.waiting == ()


def test_a_reservation_is_refused_for_what_it_lacks() -> None:
    rules = StagingRules(EDF_JIT, PLACES, RATE, disk_limit_mb=1)
    assert admitted(request(1, 6, 100), Promised(), rules) == Refusal.NO_ROOM
    assert admitted(request(1, 5, 39), Promised(), rules) == Refusal.TRANSFERS_LATE
    assert admitted(request(1, 5, 40), Promised(), rules) == Refusal.DISK_FULL
    assert isinstance(admitted(request(1, 1, 40), Promised(), rules), Promised)
    assert admitted(request(1, 1, 40), Promised().at(41), rules) == Refusal.OVER


def test_one_transfer_a_vm_a_node_or_a_reservation() -> None:
    found = {}
    for unit in TransferUnit:
        answer = admitted(request(1, 4, 100), Promised(), StagingRules(EDF, PLACES, RATE, unit))
        assert isinstance(answer, Promised)
        found[unit] = [one.transfer.nodes for one in answer.waiting]
    assert found[TransferUnit.VM] == [(0,), (0,), (1,), (1,)]
    assert found[TransferUnit.NODE] == [(0,), (1,)]
    assert found[TransferUnit.RESERVATION] == [(0, 1)]


def test_of_several_planned_images_the_one_that_stays_longest_is_used() -> None:
    def planned(id: int, deadline_ms: int, end_ms: int) -> PlannedImage:
        return PlannedImage(id, 0, deadline_ms, (ImageUse(id, 0, "a", 1, deadline_ms, end_ms),))

    wanted = ImageUse(9, 0, "a", 1, 100, 120)
    some = [planned(1, 20, 40), planned(2, 90, 140), planned(3, 101, 200)]
    assert shared_image(wanted, some, {}) == some[1]
    assert shared_image(wanted, some[:1], {}) == some[0]
    assert shared_image(wanted, some[:1], {1: 18}) is None
