"""Devices are given out as oned does: by address first, then the lowest free one that matches."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from one_preempt.core.matching.devices import assign_devices, serves
from one_preempt.core.model.host import PciDevice
from one_preempt.core.model.virtual_machine import PciRequest
from tests.core.matching.small_cloud import device

GPU = PciRequest(vendor="10de")
KIND_A = PciRequest(vendor="a")


def test_requests_by_address_are_served_before_requests_by_kind() -> None:
    free = [device("02:00.0"), device("01:00.0")]

    given_out = assign_devices((GPU, PciRequest(short_address="01:00.0")), free)

    assert given_out is not None
    assert [each.short_address for each in given_out] == ["02:00.0", "01:00.0"]


def test_a_kind_beside_an_address_counts_after_a_migration() -> None:
    moved = PciRequest(vendor="10de", short_address="09:00.0", address="0000:09:00.0")

    assert assign_devices((moved,), [device("01:00.0")]) == (device("01:00.0"),)


def test_numbers_are_hexadecimal_however_they_are_written() -> None:
    assert serves(device("01:00.0"), PciRequest(vendor="0x10DE", device="20B5", device_class="302"))
    assert not serves(device("01:00.0"), PciRequest(vendor="10df"))


def test_a_request_for_nothing_gets_nothing() -> None:
    assert assign_devices((PciRequest(),), [device("01:00.0")]) is None


devices = st.lists(
    st.builds(
        device, st.integers(1, 6).map("0{}:00.0".format), st.just(-1), st.sampled_from("ab"), st.sampled_from("12")
    ),
    max_size=5,
    unique_by=lambda each: each.address,
)
requests = st.lists(
    st.one_of(
        st.builds(PciRequest, vendor=st.sampled_from("ab")),
        st.builds(PciRequest, device=st.sampled_from("12")),
        st.builds(PciRequest, vendor=st.sampled_from("ab"), device=st.sampled_from("12")),
        st.builds(PciRequest, short_address=st.integers(1, 6).map("0{}:00.0".format)),
    ),
    max_size=4,
)


@given(requests, devices)
def test_every_request_gets_its_own_fitting_device(wanted: list[PciRequest], free: list[PciDevice]) -> None:
    given_out = assign_devices(wanted, free)

    if given_out is not None:
        assert len({each.address for each in given_out}) == len(wanted)
        assert all(serves(each, request) for each, request in zip(given_out, wanted, strict=True))


@given(requests, devices, st.data())
def test_more_free_devices_never_hurt(wanted: list[PciRequest], free: list[PciDevice], data: st.DataObject) -> None:
    fewer = data.draw(st.lists(st.sampled_from(free), unique_by=lambda each: each.address)) if free else []

    assert assign_devices(wanted, fewer) is None or assign_devices(wanted, free) is not None


@given(st.lists(st.just(KIND_A), max_size=4), devices)
def test_equal_requests_are_served_whenever_there_are_enough(wanted: list[PciRequest], free: list[PciDevice]) -> None:
    matching = sum(1 for each in free if serves(each, KIND_A))

    assert (assign_devices(wanted, free) is not None) is (matching >= len(wanted))
