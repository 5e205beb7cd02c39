"""VMs that need PCI devices or cores of their own wake hosts that have some: oned lists those of OFFLINE hosts."""

from __future__ import annotations

import pytest

from one_preempt.adapters.opennebula.host_reader import read_host_pool
from one_preempt.core.model.host import HostState
from one_preempt.core.model.power_sequence import PowerGoal, PowerOrder
from one_preempt.core.phases.power.needed_hosts import LOOKED_AT
from one_preempt.policy_registry import ENERGY_POLICIES
from one_preempt.simulation.simulated_cloud.furnishing import numa_nodes
from one_preempt.simulation.simulator.site import EXTERNALS
from tests.adapters.opennebula.conftest import RECORDINGS
from tests.power.power_play import ALL_IDLE_SLEEP, PowerPlay, with_policy

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


def submit_gang(play: PowerPlay, number: int, *asks: str, cpu: int = 1) -> list[int]:
    """One lease of so many VMs, as many that ask for one thing as for the next."""
    name = f"gang{len(play.cloud.vms)}"
    lease = f'LEASE = [ TYPE = "BE-SUSPENDABLE", NAME = "{name}", SIZE = "{number}", DURATION = "01:00:00" ]\n'
    templates = [f'CPU = "{cpu}"\nVCPU = "{cpu}"\nMEMORY = "512"\n{more}{lease}' for more in asks]
    owner, each = play.user(EXTERNALS), number // len(asks)
    return [vm_id for template in templates for vm_id in play.cloud.add_vms(owner, template, each, hold=True)]


def give_devices(play: PowerPlay, per_host: dict[int, int]) -> None:
    """So many devices alike to each of these hosts, and none to others."""
    for host in play.cloud.hosts.values():
        addresses = [f"0000:{slot:02x}:00:0" for slot in range(2, 2 + per_host.get(host.id, 0))]
        host.share.pci_devices = [
            {"VMID": "-1", **DEVICE, "ADDRESS": address, "SHORT_ADDRESS": f"{address[5:10]}.0"} for address in addresses
        ]


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


@pytest.mark.parametrize("policy", ALL_IDLE_SLEEP)
def test_a_vm_that_is_too_large_for_all_that_are_on_wakes_one_that_is_large_enough(policy: str) -> None:
    play = PowerPlay(rules=with_policy(policy))
    play.cloud.hosts[GRAPHICS].physical_cpu *= 2
    small = submit(play, 'SCHED_REQUIREMENTS = "ID = 0"\n')
    play.until(lambda: play.host_of(small) == 0 and play.asleep() == [1, 2])
    large = submit(play, "", cpu=4)
    play.until(lambda: play.host_of(large) == GRAPHICS)


@pytest.mark.parametrize(
    ("per_host", "boots"),
    [({0: 1, 2: 1}, 2), ({1: 2}, 1), ({0: 1, 1: 1, 2: 1}, 2)],
    ids=["one on each of two hosts", "both on one host", "more hosts than it needs"],
)
@pytest.mark.parametrize("policy", sorted(ENERGY_POLICIES.all()))
def test_a_gang_wakes_as_many_hosts_as_have_its_devices_and_they_stay_on_for_it(
    policy: str, per_host: dict[int, int], boots: int
) -> None:
    play = play_with()
    give_devices(play, per_host)
    play.until(lambda: len(play.asleep()) == 3)
    play.rules = with_policy(policy)
    play.start_daemon()
    gang = submit_gang(play, 2, ASKS)
    play.until(lambda: all(play.host_of(vm) is not None for vm in gang))
    assert {play.host_of(vm) for vm in gang} <= per_host.keys()
    if policy == "look-ahead":
        assert play.machines.boots == boots


def test_a_gang_that_wants_pinned_cores_wakes_as_many_hosts_as_have_them() -> None:
    play = play_with(pinned=True)
    play.until(lambda: len(play.asleep()) == 3)
    gang = submit_gang(play, 3, PINNED.format(cores=1))
    play.until(lambda: all(play.host_of(vm) is not None for vm in gang))
    assert play.machines.boots == 2, "one host has two cores, the others one each"


@pytest.mark.parametrize("policy", ALL_IDLE_SLEEP)
@pytest.mark.parametrize(
    ("more", "cpu", "number"),
    [(ASKS, 1, 3), ("", 1, 7), ("", 3, 1), ('SCHED_REQUIREMENTS = "NAME = \\"node2\\""\n', 1, 3)],
    ids=["too few devices", "too many VMs", "a VM larger than any host", "too many for the host they may be on"],
)
def test_who_asks_for_more_than_there_is_wakes_nobody_and_holds_nobody_up(
    policy: str, more: str, cpu: int, number: int
) -> None:
    """Woken in vain they would sleep again, and be woken again, for as long as it waits."""
    play = play_with()
    give_devices(play, {0: 1, 1: 1})
    play.until(lambda: len(play.asleep()) == 3)
    play.rules = with_policy(policy)
    play.start_daemon()
    for _ in range(LOOKED_AT):
        submit_gang(play, number, more, cpu=cpu)
    play.pass_time(1800)
    assert play.machines.boots == 0
    vm = submit(play, "")
    play.until(lambda: play.host_of(vm) is not None)
    assert play.machines.boots == 1


@pytest.mark.parametrize("policy", ALL_IDLE_SLEEP)
@pytest.mark.parametrize("local", [False, True], ids=["shared", "on the hosts' own disks"])
def test_who_waits_for_space_on_a_datastore_wakes_nobody_until_there_is_some(policy: str, *, local: bool) -> None:
    play = play_with()
    (system,) = [one for one in play.cloud.datastores.values() if one.name == "shared"]
    if local:
        system.template["SHARED"] = ["NO"]
        for host in play.cloud.hosts.values():
            host.share.disks["FREE_DISK"] = "500"
    else:
        play.cloud.space.fill(system.id, 500)
    play.until(lambda: len(play.asleep()) == 3)
    play.rules = with_policy(policy)
    play.start_daemon()
    vm = submit(play, 'DISK = [ TYPE = "fs", FORMAT = "raw", SIZE = "1000" ]\n')
    play.pass_time(1800)
    assert play.machines.boots == 0
    if local:
        play.cloud.hosts[2].share.disks["FREE_DISK"] = "5000"
        play.start_daemon()
    else:
        play.cloud.space.fill(system.id, -1)
    play.until(lambda: play.host_of(vm) is not None)
    assert play.machines.boots == 1
    assert play.host_of(vm) == 2 or not local


def test_one_of_a_gang_that_asks_for_other_devices_than_the_rest_starts_where_hosts_are_on() -> None:
    play = play_with()
    give_devices(play, {0: 1, 1: 1})
    play.until(lambda: len(play.asleep()) == 3)
    gang = submit_gang(play, 2, ASKS, "")
    play.pass_time(300)
    assert play.machines.boots == 0, "how many of VMs that differ devices serve together is not counted"
    for host in range(3):
        play.store.order_power(PowerOrder(host, PowerGoal.ON, play.cloud.clock.now_s()))
    play.until(lambda: all(play.host_of(vm) is not None for vm in gang))


@pytest.mark.parametrize("policy", ALL_IDLE_SLEEP)
def test_what_its_owner_keeps_on_hold_wakes_nobody_and_adds_to_no_queue(policy: str) -> None:
    play = play_with()
    play.until(lambda: len(play.asleep()) == 3)
    play.rules = with_policy(policy)
    play.start_daemon()
    for _ in range(3):
        play.cloud.add_vms(play.user(EXTERNALS), 'CPU = "2"\nMEMORY = "512"\n', 1, hold=True)
    play.pass_time(900)
    assert play.machines.boots == 0
    there = submit(play, "", cpu=2)
    play.until(lambda: play.host_of(there) is not None)
    play.pass_time(900)
    assert play.machines.boots == 1
