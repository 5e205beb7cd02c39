from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from one_preempt.core.matching.devices import serves
from one_preempt.core.model.host import PciDevice
from one_preempt.core.model.virtual_machine import PciRequest
from one_preempt.core.preemption.device_dimensions import device_dimensions

GPU = PciRequest(vendor="10de")
BIG_GPU = PciRequest(vendor="10de", device="1db4")
NETWORK_CARD = PciRequest(device_class="0200")


def a_device(number: int, vendor: str, device: str, device_class: str, vm_id: int = -1) -> PciDevice:
    return PciDevice(f"0000:{number:02x}:00.0", f"{number:02x}:00.0", vendor, device, device_class, vm_id)


def can_be_handed_out(requests: Sequence[PciRequest], devices: Sequence[PciDevice]) -> bool:
    return any(
        all(serves(device, request) for request, device in zip(requests, chosen, strict=True))
        for chosen in permutations(devices, len(requests))
    )


kinds = st.builds(
    PciRequest,
    vendor=st.sampled_from(["", "a", "b"]),
    device=st.sampled_from(["", "1", "2"]),
    device_class=st.sampled_from(["", "c"]),
    short_address=st.sampled_from(["", "", "", "01:00.0"]),
)
hosts = st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from("12"), st.sampled_from("cd")), max_size=5).map(
    lambda parts: [a_device(number, *part) for number, part in enumerate(parts)]
)


@given(st.lists(st.lists(kinds, max_size=3), min_size=1, max_size=3), st.lists(hosts, min_size=1, max_size=2))
def test_the_sums_fit_exactly_where_the_devices_can_be_handed_out(
    requests: list[list[PciRequest]], devices: list[list[PciDevice]]
) -> None:
    dimensions = device_dimensions(requests, devices)
    needed = sum((dimensions.need(of_vm) for of_vm in requests), np.zeros(len(dimensions.sets), dtype=np.int64))
    together = [request for of_vm in requests for request in of_vm]
    for of_host in devices:
        assert bool((needed <= dimensions.offer(of_host)).all()) == can_be_handed_out(together, of_host)


def test_kinds_that_share_devices_are_counted_together_and_others_apart() -> None:
    devices = [
        a_device(1, "10de", "1db4", "0302"),
        a_device(2, "10de", "13f2", "0302"),
        a_device(3, "8086", "1", "0200"),
    ]
    dimensions = device_dimensions([[GPU, BIG_GPU], [NETWORK_CARD]], [devices])
    assert len(dimensions.sets) == 3
    assert dimensions.offer(devices).tolist() == [1, 2, 1]
    assert dimensions.need([GPU, BIG_GPU]).tolist() == [1, 2, 0]
    assert dimensions.need([BIG_GPU, BIG_GPU]).tolist() == [2, 2, 0]
    assert dimensions.need([NETWORK_CARD]).tolist() == [0, 0, 1]


def test_many_models_of_a_vendor_are_counted_each_and_all_together() -> None:
    models = [f"{model:04x}" for model in range(40)]
    asked = [GPU, *(PciRequest(vendor="10de", device=model) for model in models)]
    one_of_each = [a_device(number, "10de", model, "0302") for number, model in enumerate(models)]
    dimensions = device_dimensions([asked], [one_of_each])
    assert len(dimensions.sets) == len(asked) + 1
    # One device more is asked for than there are, and each is enough for its own kind.
    lacking = dimensions.need(asked) - dimensions.offer(one_of_each)
    assert lacking.max() == 1
    assert int((lacking > 0).sum()) == 1
    assert bool((dimensions.need(asked[1:]) <= dimensions.offer(one_of_each)).all())


def test_a_kind_that_no_device_serves_is_needed_and_never_offered() -> None:
    dimensions = device_dimensions([[BIG_GPU]], [[a_device(1, "8086", "1", "0200")]])
    assert dimensions.need([BIG_GPU]).tolist() == [1]
    assert dimensions.offer([a_device(1, "8086", "1", "0200")]).tolist() == [0]


def test_without_requested_devices_there_is_no_dimension() -> None:
    dimensions = device_dimensions([[], []], [[a_device(1, "10de", "1db4", "0302")]])
    assert dimensions.sets == ()
    assert dimensions.need([]).shape == dimensions.offer([]).shape == (0,)


def test_an_address_that_oned_wrote_into_a_request_makes_no_kind_of_its_own() -> None:
    assigned = PciRequest(vendor="10de", address="0000:01:00.0")
    assert device_dimensions([[GPU], [assigned]], []).kinds == (GPU,)
