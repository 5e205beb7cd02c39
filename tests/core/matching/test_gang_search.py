"""The search for hosts that hold a gang: it finds what there is, and no template makes it look for long."""

from __future__ import annotations

from itertools import chain, product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from one_preempt.core.matching import gang as gang_search
from one_preempt.core.matching import single_placement
from one_preempt.core.matching.devices import assign_devices
from one_preempt.core.matching.reasons import Unplaced
from one_preempt.core.matching.room import Room
from one_preempt.core.model.host import Host
from one_preempt.core.model.virtual_machine import Nic, PciRequest, VirtualMachine
from tests.core.matching.small_cloud import cloud, device, host, matchmaker, network, vm


def with_devices(number: int, count: int, cpu_centi: int = 400) -> Host:
    return host(number, cpu_centi, 65536, devices=[device(f"{slot:02x}:00.0") for slot in range(count)])


def wants(machine: VirtualMachine, devices: int, vendor: str = "10de") -> VirtualMachine:
    return replace(machine, pci_requests=(PciRequest(vendor=vendor),) * devices)


def count_looks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    looks: list[int] = []

    def counted(*arguments: object) -> object:
        looks.append(1)
        return assign_devices(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(single_placement, "assign_devices", counted)
    return looks


@given(
    offers=st.lists(st.tuples(st.integers(1, 4), st.integers(0, 2)), min_size=1, max_size=3),
    needs=st.lists(st.tuples(st.integers(1, 3), st.integers(0, 2)), min_size=2, max_size=4),
)
def test_a_gang_with_devices_is_placed_exactly_when_it_fits(
    offers: list[tuple[int, int]], needs: list[tuple[int, int]]
) -> None:
    hosts = [with_devices(number, devices, 100 * cpu) for number, (cpu, devices) in enumerate(offers)]
    gang = [wants(vm(number, 100 * cpu), devices) for number, (cpu, devices) in enumerate(needs, start=1)]
    possible = any(
        all(
            sum(need[side] for chosen, need in zip(choice, needs, strict=True) if chosen == number) <= offer[side]
            for number, offer in enumerate(offers)
            for side in (0, 1)
        )
        for choice in product(range(len(offers)), repeat=len(needs))
    )
    maker = matchmaker(cloud(hosts, gang))

    assert isinstance(maker.place_together(gang, maker.new_room()), tuple) is possible


@pytest.mark.parametrize("rare", [0, 1])
def test_a_host_without_the_devices_is_looked_at_once_a_search(monkeypatch: pytest.MonkeyPatch, rare: int) -> None:
    hosts = [with_devices(number, 1) for number in range(60)]
    hosts[7] = replace(hosts[7], pci_devices=(device("0a:00.0", vendor="beef"),) * rare)
    gang = [vm(1, 200), wants(vm(2), 1, "beef"), wants(vm(3), 1, "beef")]
    looks = count_looks(monkeypatch)
    maker = matchmaker(cloud(hosts, gang))
    room = maker.new_room()

    assert isinstance(maker.place_together(gang, room), Unplaced)
    assert len(looks) < 10 * len(hosts)
    assert not room.placed


def test_a_search_is_given_up_after_so_many_hosts_in_vain(monkeypatch: pytest.MonkeyPatch) -> None:
    hosts = [host(number) for number in range(20)]
    gang = [vm(1, 200), replace(vm(2), nics=(Nic(0, None, True),)), replace(vm(3), nics=(Nic(0, None, True),))]
    maker = matchmaker(cloud(hosts, gang, networks=[network(1, leases=1)]))
    room = maker.new_room()
    monkeypatch.setattr(gang_search, "SEARCH_TRIALS", 30)
    trials: list[gang_search.Trials] = []

    def made(room: Room, make: type[gang_search.Trials] = gang_search.Trials) -> gang_search.Trials:
        trials.append(make(room))
        return trials[-1]

    monkeypatch.setattr(gang_search, "Trials", made)

    assert isinstance(maker.place_together(gang, room), Unplaced)
    assert [one.left for one in trials] == [0]
    assert not room.placed
    assert room.free_leases(1) == 1


def test_hundreds_of_nics_are_given_networks_once_a_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    greedy = replace(vm(1), nics=tuple(Nic(number, None, True) for number in range(200)))
    hosts = [host(number, cluster_id=number % 2) for number in range(30)]
    networks = [network(number, cluster_ids=(0, 1)) for number in (1, 2)]
    maker = matchmaker(cloud(hosts, [greedy], networks=networks))
    asked: list[int] = []
    choose = maker._networks.choose

    def counted(machine: VirtualMachine, on: Host, room: Room) -> object:
        asked.append(on.cluster_id)
        return choose(machine, on, room)

    monkeypatch.setattr(maker._networks, "choose", counted)

    refusal = maker.place(greedy, maker.new_room())

    assert isinstance(refusal, Unplaced)
    assert refusal.counts["no-network"] == 15
    assert asked == [0]


def unlike_gang(first_id: int, uid: int, devices: int) -> list[VirtualMachine]:
    """Largest first, each on its best host: the one without a device takes the room beside the device."""
    gang = vm(first_id, 200), wants(vm(first_id + 1), 1), wants(vm(first_id + 2), devices)
    return [replace(one, uid=uid) for one in gang]


def test_an_owner_of_many_gangs_that_are_searched_for_in_vain_keeps_nobody_waiting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What waits is searched for anew in each cycle, and of unlike gangs an owner has as many as his quota allows."""
    looks = count_looks(monkeypatch)
    monkeypatch.setattr(gang_search, "STEPS_AN_OWNER", 20)
    monkeypatch.setattr(gang_search, "STEPS_FOR_ALL", 60)
    hosts = [with_devices(0, 1, 200), with_devices(1, 0, 200), with_devices(2, 1, 50)]

    def work(gangs: int) -> int:
        in_vain = [unlike_gang(10 * number, 7 + number % 4, devices=1) for number in range(gangs)]
        another = unlike_gang(9000, 99, devices=0)
        maker, before = matchmaker(cloud(hosts, [*chain.from_iterable(in_vain), *another])), len(looks)
        for gang in in_vain:
            assert isinstance(maker.place_together(gang, maker.new_room()), Unplaced)
        looked = len(looks) - before
        # Whoever has not searched yet does.
        assert isinstance(maker.place_together(another, maker.new_room()), tuple)
        return looked

    assert work(200) - work(100) < 100 * 4
