"""The whole way with what is scarcer than CPU: devices, pinned cores, networks, quotas, room for saved memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.stories.clouds import GPU
from tests.stories.requests_told import AUTOMATIC_NIC, DEVICE
from tests.stories.storyteller import NO_LIMITS, SYSTEM_DATASTORE
from tests.stories.world import World, description

SUSPENDABLE = {"TYPE": "BE-SUSPENDABLE"}
PINNED = 'VCPU="2"\nTOPOLOGY=[PIN_POLICY="CORE"]\n'
Begin = Callable[..., World]


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Begin]:
    """Begins a world of one roomy host, changed by what it is given, and other things beside."""
    worlds: list[World] = []

    def start(host: dict[str, Any] | None = None, **more: Any) -> World:
        node = {"name": "node", "cpu": 8, "memory_mib": 8192, **(host or {})}
        worlds.append(World.begin(tmp_path, description([node], **more)))
        return worlds[0]

    yield start
    for world in worlds:
        world.close()


def given(world: World, user: str, more: str, lease: dict[str, Any] | None = None) -> int:
    """A VM that only an administrator may ask for, given to the user."""
    vm_id = world.submit("root", more=more, lease=lease, hold=True)
    world.emulator.must("root", "one.vm.chown", vm_id, *world.user_ids[user])
    world.emulator.must("root", "one.vm.action", "release", vm_id)
    return vm_id


def test_a_lease_shuts_down_for_who_needs_its_device_and_returns(begin: Begin) -> None:
    world = begin({"devices": True}, devices={"7.4.0": [{"ADDRESS": "0000:02:00:0", **GPU}]})
    lease = given(world, "eva", DEVICE, {**SUSPENDABLE, "SHUTDOWN_OK": "YES"})
    world.until(lambda: world.is_running(lease))
    request = given(world, "lea", DEVICE)
    world.until(lambda: world.is_running(request))
    assert world.state(lease) == "9/0", "a guest with a device cannot be saved, so it is shut down"
    assert world.action("lea", "terminate", request)
    world.until(lambda: world.is_running(lease))
    assert world.emulator.audit() == []


def test_a_guest_with_a_device_that_must_not_shut_down_stays(begin: Begin) -> None:
    world = begin({"devices": True}, devices={"7.4.0": [{"ADDRESS": "0000:02:00:0", **GPU}]})
    lease = given(world, "eva", DEVICE, SUSPENDABLE)
    world.until(lambda: world.is_running(lease))
    request = given(world, "lea", DEVICE)
    world.cycles(4)
    assert world.is_running(lease)
    assert world.state(request) == "1/0"


def test_pinned_vms_go_to_pinned_hosts_as_far_as_cores_go(begin: Begin) -> None:
    numa = {"nodes": 2, "cores_per_node": 2, "memory_mib_per_node": 4096, "threads_per_core": 2}
    world = begin({"template": {"PIN_POLICY": "PINNED"}, "numa": numa})
    pinned = [given(world, "eva", PINNED, SUSPENDABLE) for _ in range(3)]
    plain = world.submit("eva")
    world.cycles(5)
    assert [world.state(vm_id) for vm_id in (*pinned, plain)] == ["3/3", "3/3", "2/0", "1/0"]
    assert world.action("eva", "terminate", pinned[0])
    world.until(lambda: world.is_running(pinned[2]))
    assert world.emulator.audit() == []


def test_each_automatic_nic_gets_a_network_of_its_own_that_has_a_lease(begin: Begin) -> None:
    networks = [
        {"name": name, "clusters": ["main"], "public": True, "size": size, "first_ip": f"10.0.{size}.1"}
        for name, size in (("narrow", 1), ("wide", 9), ("broad", 9))
    ]
    world = begin(networks=networks)
    vms = [world.submit("eva", lease=SUSPENDABLE, more=AUTOMATIC_NIC * 2) for _ in range(3)]
    world.until(lambda: all(map(world.is_running, vms)))
    for vm_id in vms:
        chosen = [nic.findtext("NETWORK") for nic in world.vm(vm_id).iterfind("TEMPLATE/NIC")]
        assert len(set(chosen)) == 2
        assert None not in chosen


def test_a_lease_waits_for_its_quota_and_returns_once_it_is_lifted(begin: Begin) -> None:
    world = begin({"cpu": 1})
    lease = world.submit("eva", lease=SUSPENDABLE)
    world.until(lambda: world.is_running(lease))
    request = world.submit("lea")
    world.until(lambda: world.is_running(request))
    world.set_quota("eva", {"RUNNING_VMS": 0})
    world.cycle()
    assert world.action("lea", "terminate", request)
    world.cycles(6)
    assert not world.is_running(lease)
    refused = [call for call in world.emulator.log() if call["user"] == "oneadmin" and call["code"]]
    assert not refused, "the quota can be read, so nothing is asked for in vain"
    world.set_quota("eva", NO_LIMITS)
    world.until(lambda: world.is_running(lease), cycles=8)


def test_a_stop_that_finds_no_room_for_the_memory_is_given_up_and_tried_again(begin: Begin) -> None:
    world = begin({"cpu": 1})
    lease = world.submit("eva", memory=1024, lease=SUSPENDABLE)
    world.until(lambda: world.is_running(lease))
    world.emulator.control("fill_datastore", SYSTEM_DATASTORE, 100)
    request = world.submit("lea")
    world.cycles(8)
    assert world.is_running(lease), "a save without room leaves the guest running"
    assert not world.is_running(request)
    world.emulator.control("fill_datastore", SYSTEM_DATASTORE, -1)
    world.until(lambda: world.is_running(request))
    assert world.state(lease) == "4/0"
