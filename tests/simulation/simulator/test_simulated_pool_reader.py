"""What the simulator's reader sees is what the live reader sees over XML-RPC, also after any change."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest
from msgspec.structs import replace

from one_preempt.adapters.clock import FixedClock
from one_preempt.adapters.opennebula.credentials import Credentials
from one_preempt.adapters.opennebula.pool_reader import OpenNebulaPoolReader
from one_preempt.adapters.opennebula.transport import OnedTransport
from one_preempt.core.matching.expressions.attributes import (
    Attributes,
    datastore_attributes,
    host_attributes,
    network_attributes,
)
from one_preempt.core.model.pool_snapshot import PoolSnapshot
from one_preempt.simulation.emulator.process import shipped_cloud
from one_preempt.simulation.emulator.serving import running_emulator
from one_preempt.simulation.simulated_cloud.cloud import SimulatedCloud
from one_preempt.simulation.simulated_cloud.durations import Operation
from one_preempt.simulation.simulated_cloud.errors import OnedError
from one_preempt.simulation.simulated_cloud.faults import Fault
from one_preempt.simulation.simulated_cloud.objects import ONEADMIN
from one_preempt.simulation.simulator.pool_reader import SimulatedPoolReader
from one_preempt.simulation.simulator.site import LOCALS, build_cloud
from tests.simulation.simulator.small_stories import TWO_HOSTS

# What no decision can hang on, and the simulator does not keep fresh.
UNTOLD = {
    "MONITORING/TIMESTAMP", "PREV_STATE", "PARENT_NETWORK_ID", "TEMPLATE_ID", "PHYDEV", "VLAN_ID", "VLAN_ID_AUTOMATIC",
    "OUTER_VLAN_ID", "OUTER_VLAN_ID_AUTOMATIC", "AR_POOL/AR/NEXT_INDEX",
}  # fmt: skip


@pytest.fixture
def cloud() -> SimulatedCloud:
    return shipped_cloud("recorded")


@pytest.fixture
def live(cloud: SimulatedCloud) -> Iterator[OpenNebulaPoolReader]:
    with running_emulator(cloud) as url:
        transport = OnedTransport(url, Credentials("oneadmin:opennebula"))
        yield OpenNebulaPoolReader(transport, FixedClock(cloud.now_s))
        transport.close()


def comparable(snapshot: PoolSnapshot) -> dict[str, object]:
    """The snapshot with attributes as expressions see them."""
    return {
        "vms": dict(snapshot.vms),
        "hosts": {
            host.id: (replace(host, attributes={}), told(host_attributes(host))) for host in snapshot.hosts.values()
        },
        "clusters": dict(snapshot.clusters),
        "datastores": {
            store.id: (replace(store, attributes={}), told(datastore_attributes(store)))
            for store in snapshot.datastores.values()
        },
        "networks": {
            network.id: (replace(network, attributes={}), told(network_attributes(network)))
            for network in snapshot.networks.values()
        },
        "vm_groups": dict(snapshot.vm_groups),
        "directory": snapshot.directory,
        "order": [list(pool) for pool in (snapshot.vms, snapshot.hosts, snapshot.datastores, snapshot.directory.users)],
        "rest": (snapshot.version, snapshot.zone_id, snapshot.raft_state, snapshot.problems),
    }


def told(attributes: Attributes) -> dict[str, object]:
    return {path: values for path, values in attributes.items() if path not in UNTOLD}


def assert_alike(simulated: SimulatedPoolReader, live: OpenNebulaPoolReader) -> None:
    seen, expected = comparable(simulated.read()), comparable(live.read())
    for part in expected:
        assert seen[part] == expected[part], part


def test_a_cloud_with_everything_looks_the_same(cloud: SimulatedCloud, live: OpenNebulaPoolReader) -> None:
    assert_alike(SimulatedPoolReader(cloud), live)


TEMPLATE = """
CPU = 0.5
MEMORY = 512
LEASE = [ TYPE = "BE-SUSPENDABLE", NAME = "gang", SIZE = "2" ]
NIC = [ NETWORK_MODE = "auto" ]
SCHED_REQUIREMENTS = "CLUSTER_ID = 0"
"""
PLAIN = 'CPU = 1\nMEMORY = 64\nLEASE = [ TYPE = "BE-SUSPENDABLE", NAME = "plain", SIZE = "3" ]'
ACTIONS = ("stop", "resume", "suspend", "poweroff", "undeploy", "terminate", "hold", "release", "resched")


def disturb(cloud: SimulatedCloud, chance: random.Random) -> None:
    """One thing that an owner, an administrator, a scheduler or fate may do."""
    vm_id, host_id = chance.choice(sorted(cloud.vms)), chance.choice(sorted(cloud.hosts))
    deeds: list[Callable[[], object]] = [
        lambda: cloud.vm_action(ONEADMIN, chance.choice(ACTIONS), vm_id),
        lambda: cloud.vm_action(ONEADMIN, chance.choice(ACTIONS), vm_id),
        lambda: cloud.vm_deploy(ONEADMIN, vm_id, host_id),
        lambda: cloud.vm_deploy(ONEADMIN, vm_id, host_id, extra='NIC=[NIC_ID="0",NETWORK_ID="0"]'),
        lambda: cloud.vm_migrate(ONEADMIN, vm_id, host_id, chance.random() < 0.5),
        lambda: cloud.vm_allocate(cloud.caller(2), TEMPLATE, chance.random() < 0.5),
        lambda: cloud.add_vms(cloud.caller(2), PLAIN, 3, hold=chance.random() < 0.5),
        lambda: cloud.vm_update(ONEADMIN, vm_id, f'LEASE_STATUS = "waits {chance.random()}"', 1),
        lambda: cloud.vm_update(ONEADMIN, max(cloud.vms), 'SCHED_RANK = "FREE_CPU"', 1),
        lambda: cloud.vm_lock(ONEADMIN, vm_id, chance.randint(1, 4)),
        lambda: cloud.vm_unlock(ONEADMIN, vm_id),
        lambda: cloud.vm_chown(ONEADMIN, vm_id, 3, 1),
        lambda: cloud.vm_recover(ONEADMIN, vm_id, chance.randint(0, 4)),
        lambda: cloud.host_status(ONEADMIN, host_id, chance.randint(0, 2)),
        lambda: cloud.host_update(ONEADMIN, host_id, f'RACK = "{chance.random()}"', 1),
        lambda: cloud.user_quota(ONEADMIN, 2, 'VM = [ RUNNING_VMS = "30" ]'),
        lambda: cloud.space.fill(chance.choice(sorted(cloud.datastores)), chance.randint(0, 9999)),
        lambda: cloud.faults.add(Fault(chance.choice(list(Operation)), probability=0.5)),
        lambda: cloud.kill_host(host_id),
        lambda: cloud.revive_host(host_id, guests_survived=chance.random() < 0.5),
        lambda: cloud.add_host(f"new-{chance.random()}"),
        lambda: cloud.advance(chance.choice((0, 1, 7, 60, 300))),
    ]
    with suppress(OnedError):
        chance.choice(deeds)()


@pytest.mark.parametrize("seed", [1, 2])
def test_it_goes_on_to_look_the_same_whatever_happens(
    cloud: SimulatedCloud, live: OpenNebulaPoolReader, seed: int
) -> None:
    simulated, chance = SimulatedPoolReader(cloud), random.Random(seed)
    states: set[str] = set()
    for _ in range(50):
        for _ in range(4):
            disturb(cloud, chance)
        assert_alike(simulated, live)
        states.update(vm.state_name for vm in simulated.read().vms.values())
    assert len(states) > 8


def test_a_vm_asked_for_by_itself_shows_all_its_stays(cloud: SimulatedCloud, live: OpenNebulaPoolReader) -> None:
    cloud.vm_action(ONEADMIN, "stop", 0)
    cloud.settle()
    cloud.vm_deploy(ONEADMIN, 0, 1)
    reader = SimulatedPoolReader(cloud)
    seen = reader.read_vm(0)
    assert seen is not None
    assert len(seen.history) == 2
    for vm_id in (*cloud.vms, 999):
        assert reader.read_vm(vm_id) == live.read_vm(vm_id)


def test_what_did_not_change_is_not_read_again(cloud: SimulatedCloud) -> None:
    reader = SimulatedPoolReader(cloud)
    before = reader.read()
    cloud.vm_action(ONEADMIN, "stop", 0)
    after = reader.read()
    changed = [vm_id for vm_id in after.vms if after.vms[vm_id] is not before.vms[vm_id]]
    assert changed == [0]
    assert before.vms[0].state_name == "RUNNING"
    assert all(after.hosts[host_id] is before.hosts[host_id] for host_id in after.hosts)
    assert after.directory is before.directory


def test_quotas_without_a_limit_are_left_out_where_nobody_asks_for_them() -> None:
    cloud = build_cloud(TWO_HOSTS)
    owner = next(user for user in cloud.users.values() if user.name == LOCALS)
    reader = SimulatedPoolReader(cloud, unlimited_quotas=False)
    before = reader.read().directory
    cloud.add_vms(cloud.caller(owner.id), PLAIN, 2)
    assert reader.read().directory is before
    cloud.user_quota(ONEADMIN, owner.id, 'VM = [ VMS = "7" ]')
    cloud.add_vms(cloud.caller(owner.id), PLAIN, 3)
    after = reader.read().directory
    assert after.users[owner.id] == SimulatedPoolReader(cloud).read().directory.users[owner.id]
    assert after.users[owner.id].vm_quotas[0].used["VMS"] == 5
    assert after.groups == before.groups


@pytest.mark.parametrize("seed", [3, 4])
def test_reading_on_shows_what_a_first_reading_shows_and_names_what_is_new(cloud: SimulatedCloud, seed: int) -> None:
    reader, chance = SimulatedPoolReader(cloud, monitors_hosts=False), random.Random(seed)
    before = reader.read()
    assert before.changed_vm_ids is before.changed_host_ids is None
    for _ in range(150):
        disturb(cloud, chance)
        after = reader.read()
        assert comparable(after) == comparable(SimulatedPoolReader(cloud, monitors_hosts=False).read())
        for old, new, told_ids in (
            (before.vms, after.vms, after.changed_vm_ids),
            (before.hosts, after.hosts, after.changed_host_ids),
        ):
            assert told_ids is not None
            assert {one for one in old.keys() | new.keys() if old.get(one) is not new.get(one)} <= told_ids
            assert len(told_ids) < len(old) + 3
        before = after
