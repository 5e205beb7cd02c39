"""pyone, unchanged, against the emulator: pools, actions, errors, and whole documents read by its bindings."""

from __future__ import annotations

from collections.abc import Iterator

import pyone
import pytest

from one_preempt.simulation.emulator.process import shipped_cloud
from one_preempt.simulation.emulator.serving import running_emulator
from one_preempt.simulation.simulated_cloud.cloud import SimulatedCloud
from one_preempt.simulation.simulated_cloud.objects import ONEADMIN


@pytest.fixture
def cloud() -> SimulatedCloud:
    return shipped_cloud("recorded")


@pytest.fixture
def url(cloud: SimulatedCloud) -> Iterator[str]:
    with running_emulator(cloud) as url:
        yield url


def test_pyone_reads_every_pool(url: str) -> None:
    one = pyone.OneServer(url, session="oneadmin:opennebula")
    vms = one.vmpool.infoextended(-2, -1, -1, -1).VM
    assert [vm.ID for vm in vms] == sorted((vm.ID for vm in vms), reverse=True)
    assert len(vms) == 19
    assert one.vmpool.info(-2, -1, -1, 4).VM[0].NAME == "be-stopped"
    assert [host.NAME for host in one.hostpool.info().HOST][-1] == "node01"
    assert one.host.info(0).HOST_SHARE.CPU_USAGE == 200
    assert one.clusterpool.info().CLUSTER[0].NAME == "rack-b"
    assert len(one.datastorepool.info().DATASTORE) == 5
    assert one.vnpool.info(-2, -1, -1).VNET[0].USED_LEASES == 15
    assert one.userpool.info().USER[1].NAME == "alice"
    assert one.grouppool.info().GROUP[0].NAME == "project-x"
    assert one.acl.info().ACL[1].STRING == "@1 HOST/* MANAGE #0"
    net = one.vn.info(0)
    assert (net.NAME, net.USED_LEASES, len(net.AR_POOL.AR[0].LEASES.LEASE)) == ("private", 15, 15)
    assert one.vmgroup.info(0).NAME == "web-tier"
    assert one.vmgrouppool.info(-2, -1, -1).VM_GROUP[0].NAME == "web-tier"
    assert one.zone.raftstatus().STATE == 0
    assert one.system.version() == "7.4.0"
    assert one.user.info(-1).NAME == "oneadmin"
    assert one.group.info(-1).NAME == "oneadmin"
    assert (one.group.info(100).NAME, one.group.info(100).VM_QUOTA.VM[0].VMS_USED) == ("project-x", "4")
    with pytest.raises(pyone.OneNoExistsException):
        one.group.info(99)
    alice = pyone.OneServer(url, session="alice:alice")
    assert alice.group.info(100).USERS.ID == [2]
    with pytest.raises(pyone.OneAuthorizationException):
        alice.group.info(1)


def test_pyone_stops_a_vm_and_deploys_it_again(cloud: SimulatedCloud, url: str) -> None:
    one = pyone.OneServer(url, session="oneadmin:opennebula")
    assert one.vm.action("stop", 0) == 0
    cloud.settle()
    assert one.vm.info(0).STATE == pyone.VM_STATE.STOPPED
    assert one.vm.deploy(0, 1, True, -1, "") == 0
    cloud.settle()
    vm = one.vm.info(0)
    assert (vm.LCM_STATE, vm.HISTORY_RECORDS.HISTORY[-1].HID) == (pyone.LCM_STATE.RUNNING, 1)


def test_pyone_writes_a_user_template(url: str) -> None:
    one = pyone.OneServer(url, session="oneadmin:opennebula")
    one.vm.update(11, '<TEMPLATE><LEASE_STATUS>waits &amp; "hopes"</LEASE_STATUS></TEMPLATE>', 1)
    assert one.vm.info(11).USER_TEMPLATE["LEASE_STATUS"] == 'waits & "hopes"'


def test_pyone_adds_a_host_and_sets_quotas(cloud: SimulatedCloud, url: str) -> None:
    one = pyone.OneServer(url, session="oneadmin:opennebula")
    assert one.host.allocate("node07", "dummy", "dummy", 100) == 6
    assert one.user.quota(2, 'VM = [ VMS = "4" ]') == 2
    assert one.group.quota(100, 'VM = [ VMS = "9" ]') == 100
    cloud.settle()
    assert one.host.info(6).STATE == 2
    assert one.user.info(2).VM_QUOTA.VM[0].VMS == "4"


@pytest.mark.parametrize(
    ("session", "arguments", "kind"),
    [
        ("oneadmin:wrong", ("suspend", 0), pyone.OneAuthenticationException),
        ("bob:bob", ("suspend", 0), pyone.OneAuthorizationException),
        ("oneadmin:opennebula", ("suspend", 99), pyone.OneNoExistsException),
        ("oneadmin:opennebula", ("suspend", 1), pyone.OneActionException),
    ],
)
def test_refusals_become_the_exceptions_of_pyone(
    url: str, session: str, arguments: tuple[str, int], kind: type[Exception]
) -> None:
    with pytest.raises(kind):
        pyone.OneServer(url, session=session).vm.action(*arguments)


def test_hostile_attributes_come_back_as_they_were_written(cloud: SimulatedCloud, url: str) -> None:
    one = pyone.OneServer(url, session="oneadmin:opennebula")
    hostile = "]]> <script>&amp;]]></VM_POOL>"
    cloud.vms[0].user_template["NOTE"] = [hostile, "bell \x07 and null \x00", "x" * 1_000_000]
    values = one.vm.info(0).USER_TEMPLATE["NOTE"]
    assert values == [hostile, "bell  and null ", "x" * 1_000_000]
    assert cloud.vm_update(ONEADMIN, 0, 'NOTE = "done"', 1) == 0
