"""The room shrinks by what is taken and is restored to the letter by a rollback."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from one_preempt.core.matching.room import Room
from one_preempt.core.model.infrastructure import DatastoreType
from one_preempt.core.model.plan import Placement
from one_preempt.core.model.resources import Resources
from one_preempt.core.model.virtual_machine import Disk, PciRequest, VmState
from tests.core.matching.small_cloud import cloud, datastore, device, host, network, running, vm

COPY = Disk(0, 500, "FILE", 1, True, "SYSTEM", "NONE", "", 24)
SELF = Disk(1, 200, "FILE", 1, True, "SELF", "NONE", "", 0)
SWAP = Disk(2, 100, "swap", None, None, "", "", "", 0)


def sample_room() -> Room:
    snapshot = cloud(
        hosts=[
            host(
                0,
                devices=[device("01:00.0"), device("02:00.0", vm_id=8)],
                vm_ids=(8,),
                used_cpu_centi=100,
                used_memory_mib=1024,
            ),
            host(1, free_disk_mib=5_000),
        ],
        vms=[
            replace(vm(1), disks=(COPY, SELF, SWAP), pci_requests=(PciRequest(vendor="10de"),)),
            replace(vm(2, 200, 2048), disks=(COPY,)),
            running(vm(8), 0),
            replace(running(vm(9), 1), state=VmState.STOPPED),
        ],
        stores=[datastore(100, 10_000), datastore(101, shared=False), datastore(1, 9_000, type=DatastoreType.IMAGE)],
        networks=[network(3, leases=5, used=2)],
    )
    return Room(snapshot)


def facts(room: Room) -> object:
    """All that a room answers."""
    return (
        room.free.tolist(),
        room.dispatched.tolist(),
        dict(room.placed),
        dict(room.gone),
        [room.datastore_free_mib(store_id) for store_id in (1, 100, 101)],
        [room.host_disk_free_mib(host_id, 101) for host_id in (0, 1)],
        room.free_leases(3),
        [[each.address for each in room.free_devices(host_id)] for host_id in (0, 1)],
        [list(room.rows_of(vm_id)) for vm_id in (1, 2, 8, 9)],
    )


def test_a_placement_takes_capacity_space_devices_and_leases() -> None:
    room = sample_room()

    room.take(Placement(1, 0, 100, ((0, 3),)))

    assert room.free.tolist() == [[200, 6144], [400, 8192]]
    assert room.dispatched.tolist() == [1, 0]
    assert room.datastore_free_mib(100) == 10_000 - 500 - 24 - 100
    assert room.datastore_free_mib(1) == 8_800
    assert room.free_leases(3) == 2
    assert room.free_devices(0) == []
    assert list(room.rows_of(1)) == [0]


def test_a_datastore_that_is_not_shared_is_charged_on_the_host() -> None:
    room = sample_room()

    room.take(Placement(2, 1, 101))

    assert room.host_disk_free_mib(1, 101) == 5_000 - 524
    assert room.host_disk_free_mib(0, 101) == 100_000


def test_memory_counts_as_disk_space_by_the_scale() -> None:
    scaled = Room(sample_room().snapshot, memory_system_ds_scale=0.5)

    scaled.take(Placement(2, 1, 100))

    assert scaled.datastore_free_mib(100) == 10_000 - 524 - 1024


def test_the_limit_of_a_datastore_bounds_its_free_space() -> None:
    room = Room(cloud([host(0)], stores=[datastore(100, 10_000, limit_mib=4_000, used_mib=3_500)]))

    assert room.datastore_free_mib(100) == 500


def test_a_vm_that_leaves_gives_back_capacity_and_devices_once() -> None:
    room = sample_room()

    room.leave(8)
    room.leave(8)

    assert room.free[0].tolist() == [400, 8192]
    assert [each.short_address for each in room.free_devices(0)] == ["01:00.0", "02:00.0"]
    assert list(room.rows_of(8)) == []


def test_which_devices_vms_would_leave_is_answered_without_a_change() -> None:
    room = sample_room()
    before = facts(room)

    assert len(room.free_devices(0, leaving=[8])) == 2
    assert facts(room) == before


def test_capacity_held_back_is_not_free() -> None:
    room = sample_room()

    room.hold(1, Resources(300, 4096))
    room.hold(0, Resources(0, 0), ["0000:01:00.0"])

    assert room.free[1].tolist() == [100, 4096]
    assert room.free_devices(0) == []


steps = st.lists(
    st.one_of(
        st.tuples(st.just("take"), st.sampled_from([1, 2]), st.sampled_from([0, 1]), st.sampled_from([100, 101])),
        st.tuples(st.just("leave"), st.sampled_from([8, 9])),
        st.tuples(st.just("hold"), st.sampled_from([0, 1]), st.integers(0, 300)),
    ),
    max_size=8,
)


def apply(room: Room, step: tuple[object, ...]) -> None:
    match step:
        case ("take", int(vm_id), int(host_id), int(store_id)):
            room.take(Placement(vm_id, host_id, store_id, ((0, 3),)))
        case ("leave", int(vm_id)):
            room.leave(vm_id)
        case ("hold", int(host_id), int(cpu_centi)):
            room.hold(host_id, Resources(cpu_centi, cpu_centi))


@given(before=steps, after=steps)
def test_a_rollback_restores_everything(before: list[tuple[object, ...]], after: list[tuple[object, ...]]) -> None:
    room = sample_room()
    for step in before:
        apply(room, step)
    mark, known = room.checkpoint(), facts(room)
    for step in after:
        apply(room, step)

    room.rollback(mark)

    assert facts(room) == known
    room.rollback(0)
    assert facts(room) == facts(sample_room())
