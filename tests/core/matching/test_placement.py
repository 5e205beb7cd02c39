"""Where VMs go: the best ranked host that matches and has room, gangs all or nothing, and why not."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from one_preempt.core.matching.options import MatchOptions, datastore_rank, network_rank
from one_preempt.core.matching.placement import HOSTS_TRIED_FOR_ALL
from one_preempt.core.matching.reasons import Unplaced
from one_preempt.core.model.host import Host, HostState, NumaCore, NumaNode
from one_preempt.core.model.infrastructure import DatastoreType, Permissions, VmGroup, VmGroupRole
from one_preempt.core.model.plan import Placement
from one_preempt.core.model.virtual_machine import (
    Disk,
    Nic,
    NumaNodeRequest,
    PciRequest,
    Topology,
    VirtualMachine,
    VmState,
)
from tests.core.matching.small_cloud import (
    NO_LIMITS,
    cloud,
    datastore,
    device,
    host,
    matchmaker,
    network,
    running,
    stay,
    vm,
)

RACKS = [host(0, attributes={"TEMPLATE/RACK": ("A",)}), host(1, attributes={"TEMPLATE/RACK": ("B",)})]


def place(snapshot_hosts: list, machine: VirtualMachine, **changes: object) -> Placement | Unplaced:  # type: ignore[type-arg]
    options = changes.pop("options", NO_LIMITS)
    assert isinstance(options, MatchOptions)
    maker = matchmaker(cloud(snapshot_hosts, [machine], **changes), options)  # type: ignore[arg-type]
    return maker.place(machine, maker.new_room())


def refused(placed: Placement | tuple[Placement, ...] | Unplaced) -> tuple[str, str]:
    assert isinstance(placed, Unplaced)
    return placed.reason.code, placed.reason.text


def host_of(placed: Placement | Unplaced) -> int:
    assert isinstance(placed, Placement), placed
    return placed.host_id


# -- host match ----------------------------------------------------------------------------------------------


def test_a_vm_goes_where_its_requirements_point() -> None:
    assert host_of(place(RACKS, replace(vm(1), sched_requirements='RACK = "A"'))) == 0
    assert host_of(place(RACKS, replace(vm(1), automatic_requirements='!(RACK = "A")'))) == 1


def test_a_user_cannot_undo_the_automatic_requirement_with_a_parenthesis() -> None:
    sly = replace(vm(1), automatic_requirements='RACK = "A"', sched_requirements='RACK = "C") | (RACK = "B"')

    assert refused(place(RACKS, sly)) == (
        "unreadable-requirement",
        "SCHED_REQUIREMENTS cannot be read: column 11: this parenthesis was never opened.",
    )


def test_an_unreadable_requirement_stops_nobody_else() -> None:
    broken, sound = replace(vm(1), sched_requirements="RACK = ="), vm(2)
    maker = matchmaker(cloud(RACKS, [broken, sound]))
    room = maker.new_room()

    assert isinstance(maker.place(broken, room), Unplaced)
    assert isinstance(maker.place(sound, room), Placement)


@pytest.mark.parametrize("state", [HostState.DISABLED, HostState.OFFLINE, HostState.ERROR, HostState.INIT])
def test_only_monitored_hosts_take_vms(state: HostState) -> None:
    assert refused(place([host(0, state=state)], vm(1)))[0] == "no-hosts"
    assert host_of(place([host(0, state=HostState.MONITORING_MONITORED)], vm(1))) == 0


def test_without_a_rule_the_owner_may_use_no_host() -> None:
    code, text = refused(place([host(0)], vm(1), rules=()))

    assert code == "not-authorized"
    assert "HOST MANAGE" in text


def test_access_is_left_to_oned_when_it_was_tested_before() -> None:
    assert host_of(place([host(0)], vm(1), rules=(), options=replace(NO_LIMITS, check_access=False))) == 0


def test_pinned_vms_and_hosts_for_pinned_vms_find_each_other() -> None:
    pinned_host = host(1, attributes={"TEMPLATE/PIN_POLICY": ("PINNED",)})
    pinned = replace(vm(1), topology=Topology(1, 1, "THREAD", None, None))

    assert host_of(place([host(0), pinned_host], vm(1))) == 0
    assert host_of(place([host(0), pinned_host], pinned)) == 1


def test_a_vm_that_is_to_be_moved_leaves_its_host_and_keeps_its_datastore() -> None:
    moving = replace(running(vm(1), 1), resched=True, nics=(Nic(0, None, True),))
    moving = replace(moving, history=(stay(1, datastore_id=101),))

    placed = place([host(0), host(1)], moving, stores=[datastore(100), datastore(101, free_mib=1)])

    assert placed == Placement(1, 0, 101, ())


@pytest.mark.parametrize("action", [5, 6, 9])
def test_a_stopped_vm_returns_to_its_disks_without_a_test_of_space(action: int) -> None:
    big = Disk(0, 10**9, "FILE", 1, True, "SYSTEM", "NONE", "", 0)
    stopped = replace(vm(1), disks=(big,), history=(stay(1, datastore_id=101, action=action),))

    assert place([host(0)], stopped, stores=[datastore(100), datastore(101)]) == Placement(1, 0, 101, ())
    assert isinstance(place([host(0)], replace(stopped, history=())), Unplaced)


@pytest.mark.parametrize("moving", [False, True])
def test_a_vm_whose_disks_are_on_a_disabled_datastore_waits_for_it(moving: bool) -> None:
    back = replace(vm(1), history=(stay(1, datastore_id=101, action=9),))
    machine = replace(back, state=VmState.ACTIVE, lcm_state=3, resched=True) if moving else back
    stores = [datastore(100), datastore(101, enabled=False)]

    code, text = refused(place([host(0), host(1)], machine, stores=stores))

    assert (code, text.partition(":")[0]) == (
        "no-system-datastore",
        "Its disks are on system datastore 101, which is disabled",
    )
    assert isinstance(place([host(0), host(1)], machine, stores=stores[:1]), Placement)


def test_public_clouds_are_refused_in_words() -> None:
    assert (
        refused(place([host(0)], replace(vm(1), user_template={"PUBLIC_CLOUD": ({"TYPE": "EC2"},)})))[0]
        == "public-cloud"
    )
    assert refused(place([host(0, attributes={"TEMPLATE/PUBLIC_CLOUD": ("YES",)})], vm(1)))[0] == "no-hosts"


def test_a_short_document_is_no_base_for_a_placement() -> None:
    assert refused(place([host(0)], replace(vm(1), extended=False)))[0] == "incomplete-document"


# -- room ----------------------------------------------------------------------------------------------------


def test_the_reason_counts_hosts_by_what_they_lack() -> None:
    full = [host(2, used_cpu_centi=200), host(3, used_memory_mib=8000)]
    hosts = [host(0, state=HostState.DISABLED), host(1), *full]

    code, text = refused(place(hosts, replace(vm(1, 300, 2048), sched_requirements="ID > 1")))

    assert code == "no-capacity"
    assert text == (
        "No host for VM 1 (3 CPU, 2048 MiB): 2 hosts without enough free CPU or memory, "
        "1 not meeting its requirements, 1 not enabled or not monitored. It starts when others leave."
    )


def test_nobody_waits_for_room_on_hosts_that_would_be_too_small_when_empty() -> None:
    small, full = [host(0, cpu_centi=200), host(1, memory_mib=1024)], host(2, used_cpu_centi=200)
    gang = [vm(1, 300, 2048), vm(2, 300, 2048)]

    def refusal(hosts: list[Host]) -> list[tuple[str, str]]:
        matcher = matchmaker(cloud(hosts, gang))
        answers = (matcher.place(gang[0], matcher.new_room()), matcher.place_together(gang, matcher.new_room()))
        return [(one.reason.code, one.reason.text) for one in answers if isinstance(one, Unplaced)]

    alone = "No host for VM 1 (3 CPU, 2048 MiB): 2 hosts smaller than that."
    mend = "Ask for less CPU or memory, or the administrator for a larger host."
    assert refusal(small) == [
        ("hosts-too-small", f"{alone} {mend}"),
        ("hosts-too-small", f"The 2 VMs do not fit together. {alone} {mend}"),
    ]
    alone = "No host for VM 1 (3 CPU, 2048 MiB): 1 host without enough free CPU or memory, 2 smaller than that."
    assert refusal([*small, full])[0] == ("no-capacity", f"{alone} It starts when others leave.")
    assert [code for code, _ in refusal([*small, full])] == ["no-capacity", "no-capacity"]


def test_each_vm_that_no_host_suits_is_refused_by_its_own_name() -> None:
    picky = [replace(vm(number), sched_requirements="RACK = Z") for number in (5, 7)]
    matcher = matchmaker(cloud([host(1)], picky))

    texts = [
        refusal.reason.text for one in picky if isinstance(refusal := matcher.place(one, matcher.new_room()), Unplaced)
    ]

    assert [text.partition(":")[0] for text in texts] == ["No host for VM 5", "No host for VM 7"]


def test_a_vm_fits_exactly_or_not_at_all() -> None:
    assert isinstance(place([host(0, 400, 8192)], vm(1, 400, 8192)), Placement)
    assert isinstance(place([host(0, 400, 8192)], vm(1, 401, 8192)), Unplaced)
    assert isinstance(place([host(0, 400, 8192)], vm(1, 400, 8193)), Unplaced)


def test_devices_are_looked_for_host_by_host() -> None:
    hosts = [host(0, devices=[device("01:00.0")]), host(1, devices=[device("01:00.0", vm_id=9)])]
    wanting = replace(vm(1), pci_requests=(PciRequest(vendor="10de"),))

    assert host_of(place(hosts, wanting)) == 0
    assert refused(place(hosts[1:], wanting))[0] == "no-devices"


def test_limits_of_a_cycle_hold_for_single_vms() -> None:
    vms = [vm(number) for number in range(1, 5)]
    maker = matchmaker(cloud([host(0), host(1)], vms), MatchOptions(max_host=1, max_dispatch=2))
    room = maker.new_room()
    placed = [maker.place(machine, room) for machine in vms[:2]]

    assert sorted(map(host_of, placed)) == [0, 1]
    assert refused(maker.place(vms[2], room))[0] == "dispatch-limit"
    assert isinstance(maker.place_together(vms[2:], room), tuple)


def test_current_vms_counts_the_vms_placed_in_this_decision() -> None:
    together = replace(vm(2), sched_requirements="CURRENT_VMS != 1")
    maker = matchmaker(cloud([host(0), host(1)], [vm(1), together]))
    room = maker.new_room()
    first = host_of(maker.place(vm(1), room))

    assert host_of(maker.place(together, room)) == 1 - first


def test_among_narrows_the_hosts() -> None:
    maker = matchmaker(cloud([host(0), host(1)], [vm(1)]))

    assert host_of(maker.place(vm(1), maker.new_room(), np.array([True, False]))) == 0
    assert refused(maker.place(vm(1), maker.new_room(), np.array([False, False])))[0] == "not-considered"


def test_a_placement_is_kept_to_its_host_or_refused() -> None:
    maker = matchmaker(cloud([host(0), host(1)], [vm(1, 300), vm(2, 300)]))
    room = maker.new_room()

    assert maker.place_at([vm(1, 300)], [Placement(1, 0)], room) == (Placement(1, 0, 100, ()),)
    before = room.free.tolist()
    assert isinstance(maker.place_at([vm(2, 300)], [Placement(2, 0)], room), Unplaced)
    assert room.free.tolist() == before


def test_vms_that_ask_for_the_same_each_go_to_the_host_that_is_given_or_none_of_them() -> None:
    vms = [vm(number, 200) for number in (3, 1, 2)]
    maker = matchmaker(cloud([host(0), host(1)], vms))
    room = maker.new_room()
    free = room.free.tolist()

    here = [Placement(3, 1), Placement(1, 0), Placement(2, 1)]
    placed = maker.place_at(vms, here, room)
    assert not isinstance(placed, Unplaced)
    assert [(one.vm_id, one.host_id, one.datastore_id) for one in placed] == [(3, 1, 100), (1, 0, 100), (2, 1, 100)]
    assert (np.array(free) - room.free)[:, 0].tolist() == [200, 400]
    room.rollback(0)
    assert isinstance(maker.place_at(vms, [Placement(one.vm_id, 1) for one in here], room), Unplaced)
    assert room.free.tolist() == free


# -- which host ----------------------------------------------------------------------------------------------


def test_the_rank_of_the_vm_wins_and_an_unreadable_one_makes_all_equal() -> None:
    assert host_of(place([host(0), host(1)], replace(vm(1), sched_rank="- ID"))) == 0
    assert host_of(place([host(0), host(1)], replace(vm(1), sched_rank="- ID +"))) == 1


def test_the_order_of_the_pools_does_not_matter() -> None:
    hosts = [host(number) for number in range(6)]

    assert place(hosts, vm(1)) == place(hosts[::-1], vm(1))


# -- datastores and networks ---------------------------------------------------------------------------------

COPY = Disk(0, 1000, "FILE", 1, True, "SYSTEM", "NONE", "", 0)


@pytest.mark.parametrize(
    ("changes", "fits"),
    [
        ({"free_mib": 1001}, True),
        ({"free_mib": 1000}, False),
        ({"limit_mib": 1001, "used_mib": 1}, False),
        ({"limit_mib": 1002, "used_mib": 1}, True),
        ({"cluster_ids": (7,)}, False),
        ({"enabled": False}, False),
        ({"type": DatastoreType.IMAGE}, False),
        ({"permissions": Permissions()}, False),
    ],
)
def test_a_shared_datastore_must_be_usable_and_have_more_room_than_asked(
    changes: dict[str, object], fits: bool
) -> None:
    placed = place([host(0)], replace(vm(1), disks=(COPY,)), stores=[datastore(100, **changes)])  # type: ignore[arg-type]

    if fits:
        assert placed == Placement(1, 0, 100, ())
    else:
        assert refused(placed)[0] == "no-system-datastore"


def test_a_datastore_that_was_never_monitored_is_taken_only_where_that_is_allowed() -> None:
    unknown = datastore(101, 0, total_mib=0, used_mib=0)
    accepting = replace(NO_LIMITS, accept_unmonitored_datastores=True)
    copied = replace(vm(1), disks=(COPY,))

    assert refused(place([host(0)], copied, stores=[unknown]))[0] == "datastore-not-monitored"
    assert place([host(0)], copied, stores=[unknown], options=accepting) == Placement(1, 0, 101, ())
    assert place([host(0)], copied, stores=[unknown, datastore(100)], options=accepting) == Placement(1, 0, 100, ())


def test_a_datastore_that_is_not_shared_is_measured_on_the_host() -> None:
    hosts = [host(0, free_disk_mib=1001), host(1, free_disk_mib=1000)]

    assert host_of(place(hosts, replace(vm(1), disks=(COPY,)), stores=[datastore(100, 0, shared=False)])) == 0


def test_datastore_requirements_and_ranks_choose_among_datastores() -> None:
    stores = [datastore(100, 50_000), datastore(101, 90_000)]
    packed = replace(NO_LIMITS, datastore_rank=datastore_rank("packing"))

    assert place([host(0)], vm(1), stores=stores) == Placement(1, 0, 101, ())
    assert place([host(0)], vm(1), stores=stores, options=packed) == Placement(1, 0, 100, ())
    required = replace(vm(1), sched_datastore_requirements='NAME = "store100"')
    assert place([host(0)], required, stores=stores) == Placement(1, 0, 100, ())
    ranked = replace(vm(1), sched_datastore_rank="- ID")
    assert place([host(0)], ranked, stores=stores) == Placement(1, 0, 100, ())
    unreadable = replace(vm(1), sched_datastore_requirements="NAME")
    assert refused(place([host(0)], unreadable, stores=stores))[0] == "unreadable-requirement"


def test_copies_on_the_image_datastore_need_room_there() -> None:
    own_copy = replace(vm(1), disks=(Disk(0, 600, "FILE", 1, True, "SELF", "NONE", "", 0),))
    stores = [datastore(100), datastore(1, 1000, type=DatastoreType.IMAGE)]
    second = replace(own_copy, id=2)
    maker = matchmaker(cloud([host(0)], [own_copy, second], stores=stores))
    room = maker.new_room()

    assert isinstance(maker.place(own_copy, room), Placement)
    assert refused(maker.place(second, room))[0] == "no-image-datastore"


AUTO = replace(vm(1), nics=(Nic(0, 7, False), Nic(1, None, True), Nic(2, None, True)))


def test_automatic_nics_get_different_networks_of_the_cluster_with_leases() -> None:
    networks = [network(1, used=3), network(2, used=1), network(3, leases=1, used=1), network(4, cluster_ids=(9,))]

    assert place([host(0)], AUTO, networks=networks) == Placement(1, 0, 100, ((1, 2), (2, 1)))
    one = replace(NO_LIMITS, different_networks=False, network_rank=network_rank("packing"))
    assert place([host(0)], AUTO, networks=networks, options=one) == Placement(1, 0, 100, ((1, 1), (2, 1)))
    assert refused(place([host(0)], AUTO, networks=networks[1:3]))[0] == "no-network"


def test_a_nic_has_requirements_of_its_own() -> None:
    picky = replace(vm(1), nics=(Nic(0, None, True, sched_requirements='NAME = "net2"'),))

    assert place([host(0)], picky, networks=[network(1), network(2)]) == Placement(1, 0, 100, ((0, 2),))
    assert refused(place([host(0)], picky, networks=[network(1)]))[0] == "no-network"


def test_networks_shared_by_nics_need_a_lease_for_each() -> None:
    one = replace(NO_LIMITS, different_networks=False)

    assert refused(place([host(0)], AUTO, networks=[network(1, leases=1)], options=one))[0] == "no-network"
    assert isinstance(place([host(0)], AUTO, networks=[network(1, leases=2)], options=one), Placement)


# -- VM groups -----------------------------------------------------------------------------------------------


def member(vm_id: int, role: str) -> VirtualMachine:
    return replace(vm(vm_id), vm_group_id=0, vm_group_role=role)


@pytest.mark.parametrize(
    ("group", "host_ids"),
    [
        (VmGroup(0, "g", (VmGroupRole(0, "web", "ANTI_AFFINED", (1, 8)),)), {0, 2}),
        (VmGroup(0, "g", (VmGroupRole(0, "web", "AFFINED", (1, 8)),)), {1}),
        (VmGroup(0, "g", (VmGroupRole(0, "web", "NONE", (1, 8), host_affined=(0, 2)),)), {0, 2}),
        (VmGroup(0, "g", (VmGroupRole(0, "web", "NONE", (1,), host_anti_affined=(0, 2)),)), {1}),
        (
            VmGroup(
                0,
                "g",
                (VmGroupRole(0, "web", "NONE", (1,)), VmGroupRole(1, "db", "NONE", (8,))),
                anti_affined=(("web", "db"),),
            ),
            {0, 2},
        ),
        (
            VmGroup(
                0,
                "g",
                (
                    VmGroupRole(0, "web", "NONE", (1,)),
                    VmGroupRole(1, "db", "NONE", (8,)),
                    VmGroupRole(2, "x", "NONE", ()),
                ),
                affined=(("x", "db"), ("web", "x")),
            ),
            {1},
        ),
    ],
)
def test_rules_of_a_vm_group_hold_against_running_members(group: VmGroup, host_ids: set[int]) -> None:
    other = running(member(8, group.roles[-1].name), 1)
    snapshot = cloud([host(0), host(1, vm_ids=(8,)), host(2)], [member(1, "web"), other], vm_groups={0: group})
    maker = matchmaker(snapshot)

    found = {placement.host_id for placement in maker.candidates(snapshot.vms[1], maker.new_room())}

    assert found == host_ids


AFFINED = VmGroup(0, "g", (VmGroupRole(0, "web", "AFFINED", (1, 2)),))


def test_the_oldest_of_an_affined_role_goes_where_all_have_room_and_the_others_follow_when_it_runs() -> None:
    first, second = member(1, "web"), replace(member(2, "web"), cpu_centi=300)
    hosts = [host(0, 400), host(1, 300)]
    maker = matchmaker(cloud(hosts, [first, second], vm_groups={0: AFFINED}))
    room = maker.new_room()

    assert refused(maker.place(second, room)) == ("affinity", "It goes to the host of VM 1, once that has started.")
    assert host_of(maker.place(first, room)) == 0
    assert room.free.tolist() == [[0, 6144], [300, 8192]]
    assert refused(maker.place(second, room))[0] == "affinity"

    started = matchmaker(cloud(hosts, [running(first, 0), second], vm_groups={0: AFFINED}))
    assert host_of(started.place(second, started.new_room())) == 0


def test_a_gang_of_an_affined_role_is_placed_at_once() -> None:
    gang = [member(1, "web"), member(2, "web")]
    maker = matchmaker(cloud([host(0), host(1)], gang, vm_groups={0: AFFINED}))

    placed = maker.place_together(gang, maker.new_room())

    assert isinstance(placed, tuple)
    assert len({placement.host_id for placement in placed}) == 1


def the_one_host_found(gang: list[VirtualMachine], better: Host, lacking: Host, able: Host) -> None:
    """A gang that is to share a host is placed on the last: each VM alone fits on the first, of all the others some."""
    hosts = [better, *(replace(lacking, id=number) for number in range(1, 2 * HOSTS_TRIED_FOR_ALL)), able]
    ranked = [replace(one, max_cpu_centi=4000 - 10 * place) for place, one in enumerate(hosts)]
    gang = [replace(one, sched_rank="MAX_CPU") for one in gang]
    maker = matchmaker(cloud(ranked, gang, vm_groups={0: AFFINED}))
    placed = maker.place_together(gang, maker.new_room())
    assert isinstance(placed, tuple)
    assert {placement.host_id for placement in placed} == {able.id}


def test_a_gang_of_an_affined_role_finds_the_one_host_with_devices_for_all_of_it() -> None:
    gang = [replace(member(number, "web"), pci_requests=(PciRequest(vendor="10de"),)) for number in (1, 2)]
    one, two = device("01:00.0"), device("02:00.0")
    for lacking in (host(0), host(0, devices=[one]), host(0, devices=[one, replace(two, vm_id=9)])):
        the_one_host_found(gang, host(0, devices=[one]), lacking, host(500, devices=[one, two]))


def test_a_gang_of_an_affined_role_finds_the_one_host_with_cores_to_pin_it_to() -> None:
    guest_node = NumaNodeRequest(None, 1, 1024 * 1024, None)
    pinned = Topology(1, 1, "THREAD", None, None)
    gang = [replace(member(number, "web"), topology=pinned, numa_nodes=(guest_node,)) for number in (1, 2)]

    def with_threads(host_id: int, *nodes: tuple[tuple[int, int], ...]) -> Host:
        numa_nodes = [NumaNode(0, (NumaCore(0, threads, False),), (), 4096 * 1024, 0, (0,)) for threads in nodes]
        pinned_only = host(host_id, attributes={"TEMPLATE/PIN_POLICY": ("PINNED",)})
        return replace(pinned_only, numa_nodes=tuple(numa_nodes))

    for lacking in (with_threads(0), with_threads(0, ((0, 8), (1, 9)))):
        the_one_host_found(gang, with_threads(0, ((0, 9), (1, -1))), lacking, with_threads(500, ((0, -1), (1, -1))))


def test_rules_of_a_vm_group_hold_inside_a_gang() -> None:
    apart = VmGroup(0, "g", (VmGroupRole(0, "web", "ANTI_AFFINED", (1, 2, 3)),))
    gang = [member(number, "web") for number in (1, 2, 3)]
    for count, fits in ((3, True), (2, False)):
        maker = matchmaker(cloud([host(number) for number in range(count)], gang, vm_groups={0: apart}))
        placed = maker.place_together(gang, maker.new_room())
        if fits:
            assert isinstance(placed, tuple)
            assert len({placement.host_id for placement in placed}) == 3
        else:
            assert isinstance(placed, Unplaced)


# -- gangs ---------------------------------------------------------------------------------------------------


def test_a_gang_that_greed_cannot_place_is_found_by_search() -> None:
    # The best ranked host is the only one for the picky VM, and the others must leave it alone.
    hosts = [host(0, 200), host(1, 200)]
    picky = replace(vm(2, 100), sched_requirements="ID = 1")
    gang = [vm(1, 100), picky, vm(3, 200)]
    maker = matchmaker(cloud(hosts, gang))

    placed = maker.place_together(gang, maker.new_room())

    assert isinstance(placed, tuple)
    assert [placement.host_id for placement in placed] == [1, 1, 0]


def test_a_gang_that_does_not_fit_leaves_the_room_as_it_was() -> None:
    gang = [vm(1, 300), vm(2, 300)]
    maker = matchmaker(cloud([host(0)], gang))
    room = maker.new_room()

    code, text = refused(maker.place_together(gang, room))

    assert code == "no-capacity"
    assert text.startswith("The 2 VMs do not fit together.")
    assert room.free.tolist() == [[400, 8192]]
    assert maker.place_together([], room) == ()


amounts = st.tuples(st.integers(1, 4), st.integers(1, 4))


@given(
    rooms=st.lists(amounts, min_size=1, max_size=3),
    needs=st.lists(st.tuples(amounts, st.sets(st.integers(0, 2))), min_size=2, max_size=4),
)
def test_a_small_gang_is_placed_exactly_when_it_fits(
    rooms: list[tuple[int, int]], needs: list[tuple[tuple[int, int], set[int]]]
) -> None:
    hosts = [host(number, 100 * cpu, 1024 * memory) for number, (cpu, memory) in enumerate(rooms)]
    gang = [
        replace(
            vm(number, 100 * cpu, 1024 * memory),
            sched_requirements=" & ".join(f"ID != {each}" for each in sorted(barred)),
        )
        for number, ((cpu, memory), barred) in enumerate(needs, start=1)
    ]
    possible = any(
        all(chosen not in barred for chosen, (_, barred) in zip(choice, needs, strict=True))
        and all(
            sum(need[side] for chosen, (need, _) in zip(choice, needs, strict=True) if chosen == number) <= amount[side]
            for number, amount in enumerate(rooms)
            for side in (0, 1)
        )
        for choice in product(range(len(rooms)), repeat=len(needs))
    )
    maker = matchmaker(cloud(hosts, gang))
    room = maker.new_room()

    placed = maker.place_together(gang, room)

    assert isinstance(placed, tuple) is possible
    assert (room.free >= 0).all()
    if isinstance(placed, tuple):
        assert [placement.vm_id for placement in placed] == [machine.id for machine in gang]
        taken = np.zeros_like(room.free)
        for placement, machine in zip(placed, gang, strict=True):
            taken[placement.host_id] += (machine.cpu_centi, machine.memory_mib)
        assert (room.free + taken == maker.hosts.free).all()


WANTS = (
    vm(0),
    vm(0, 200, 512),
    replace(vm(0), pci_requests=(PciRequest(vendor="10de"),)),
    replace(vm(0), nics=(Nic(0, None, True),)),
    replace(vm(0), disks=(Disk(0, 30_000, "FILE", 1, True, "SYSTEM", "NONE", "", 0),)),
    replace(vm(0), disks=(Disk(0, 300_000, "FILE", 1, True, "SELF", "NONE", "", 0),)),
    replace(vm(0), sched_rank="FREE_CPU"),
)


@given(
    rooms=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 2)), min_size=1, max_size=4),
    wants=st.sampled_from(range(len(WANTS))),
    size=st.integers(2, 6),
    among=st.none() | st.lists(st.booleans(), min_size=4, max_size=4),
)
def test_like_vms_of_a_gang_go_where_each_would_go_alone_after_the_other(
    rooms: list[tuple[int, int]], wants: int, size: int, among: list[bool] | None
) -> None:
    hosts = [
        host(number, 100 * cpu, free_disk_mib=50_000, devices=[device(f"0{number}:{slot}") for slot in range(devices)])
        for number, (cpu, devices) in enumerate(rooms)
    ]
    gang = [replace(WANTS[wants], id=number) for number in range(1, 1 + size)]
    snapshot = cloud(hosts, gang, stores=[datastore(shared=False), datastore(1, type=DatastoreType.IMAGE)],
                     networks=[network(0, leases=2), network(1, leases=1)])  # fmt: skip
    mask = None if among is None else np.array(among[: len(hosts)])
    maker = matchmaker(snapshot)
    room, alone = maker.new_room(), maker.new_room()

    placed = maker.place_together(gang, room, mask)

    one_by_one = [maker.place(machine, alone, mask, limited=False) for machine in gang]
    if isinstance(placed, Unplaced):
        refusal = next(one for one in one_by_one if isinstance(one, Unplaced))
        assert placed.reason.text == f"The {size} VMs do not fit together. {refusal.reason.text}"
        assert placed.counts == refusal.counts
        assert (room.free == maker.hosts.free).all()
    else:
        assert list(placed) == one_by_one
        assert (room.free == alone.free).all()


def test_a_state_that_waits_is_placed_whatever_it_is_called() -> None:
    for state in (VmState.PENDING, VmState.HOLD, VmState.UNDEPLOYED):
        assert isinstance(place([host(0)], replace(vm(1), state=state)), Placement)
