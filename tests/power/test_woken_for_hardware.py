"""VMs that need PCI devices or cores of their own wake hosts that have some: oned lists those of OFFLINE hosts."""

from __future__ import annotations

import pytest

from one_preempt.adapters.opennebula.host_reader import read_host_pool
from one_preempt.core.model.host import HostState
from one_preempt.simulation.simulated_cloud.furnishing import numa_nodes
from tests.adapters.opennebula.conftest import RECORDINGS
from tests.power.power_play import PowerPlay

DEVICE = {"ADDRESS": "0000:02:00:0", "SHORT_ADDRESS": "02:00.0", "VENDOR": "10de", "DEVICE": "0863", "CLASS": "0302"}
ASKS = 'PCI = [ VENDOR = "10de", DEVICE = "0863", CLASS = "0302" ]\n'
PINNED = 'TOPOLOGY = [ PIN_POLICY = "CORE", CORES = "{cores}", SOCKETS = "1", THREADS = "1" ]\n'
GRAPHICS = 1


def play_with(*, pinned: bool = False) -> PowerPlay:
    """Three hosts, the second of which alone has a device; `pinned`: all are for pinned VMs, and it alone has cores."""
    play = PowerPlay()
    for host in play.cloud.hosts.values():
        cores = 2 if host.id == GRAPHICS else 1
        if pinned:
            host.template["PIN_POLICY"] = ["PINNED"]
            host.share.numa_nodes = numa_nodes(1, cores, threads_per_core=1)
    play.cloud.hosts[GRAPHICS].share.pci_devices = [{"VMID": "-1", **DEVICE}]
    return play


def submit(play: PowerPlay, more: str, cpu: int = 1) -> int:
    template = f'CPU = "{cpu}"\nVCPU = "{cpu}"\nMEMORY = "512"\n{more}'
    (vm_id,) = play.cloud.add_vms(play.user("oneadmin"), template, 1)
    return vm_id


def test_hosts_that_are_offline_list_their_devices_and_cores() -> None:
    for version in ("6.10.0", "7.4.0"):
        hosts = read_host_pool((RECORDINGS / version / "hostpool.info.xml").read_bytes(), b"", {}, [])
        (offline,) = (host for host in hosts.values() if host.state is HostState.OFFLINE)
        on = hosts[0]
        assert (offline.max_cpu_centi, offline.max_memory_kib) == (0, 0)
        assert len(offline.pci_devices) == len(on.pci_devices) > 0
        assert [len(node.cores) for node in offline.numa_nodes] == [len(node.cores) for node in on.numa_nodes] != []


@pytest.mark.parametrize(("more", "cpu"), [(ASKS, 1), (PINNED.format(cores=2), 2)])
def test_the_host_that_has_what_is_asked_for_is_woken_and_no_other(more: str, cpu: int) -> None:
    play = play_with(pinned="PIN" in more)
    play.until(lambda: len(play.asleep()) == 3)
    vm = submit(play, more, cpu)
    play.until(lambda: play.host_of(vm) == GRAPHICS)
    assert play.machines.boots == 1


@pytest.mark.parametrize("more", [ASKS.replace("0863", "beef"), PINNED.format(cores=1) + ASKS + ASKS])
def test_what_no_host_has_wakes_nobody(more: str) -> None:
    play = play_with(pinned="PIN" in more)
    play.until(lambda: len(play.asleep()) == 3)
    submit(play, more)
    play.pass_time(900)
    assert play.machines.boots == 0


def test_what_waits_for_something_else_than_room_wakes_nobody() -> None:
    play = play_with()
    play.until(lambda: len(play.asleep()) == 3)
    submit(play, 'SCHED_REQUIREMENTS = "NAME = \\"nowhere\\""')
    play.pass_time(900)
    assert play.machines.boots == 0


def test_one_that_sleeps_is_woken_where_the_device_of_the_one_that_is_on_is_taken() -> None:
    play = play_with()
    play.cloud.hosts[2].share.pci_devices = [{"VMID": "-1", **DEVICE}]
    first = submit(play, ASKS)
    play.until(lambda: play.host_of(first) is not None and len(play.asleep()) == 2)
    second = submit(play, ASKS)
    play.until(lambda: play.host_of(second) is not None)
    assert {play.host_of(first), play.host_of(second)} == {GRAPHICS, 2}
    assert play.machines.boots == 1
