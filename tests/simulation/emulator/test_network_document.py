"""One network and one VM group, asked for alone: what the pools tell of them, and of a network whose addresses are."""

from __future__ import annotations

import pytest
from lxml import etree

from one_preempt.adapters.opennebula.infrastructure_reader import read_network, read_vm_group
from one_preempt.simulation.emulator.methods import METHODS
from one_preempt.simulation.emulator.process import shipped_cloud
from one_preempt.simulation.simulated_cloud.cloud import SimulatedCloud
from one_preempt.simulation.simulated_cloud.errors import ErrorCode, OnedError
from one_preempt.simulation.simulated_cloud.objects import ONEADMIN, Caller


@pytest.fixture
def cloud() -> SimulatedCloud:
    return shipped_cloud("recorded")


def answered(cloud: SimulatedCloud, caller: Caller, method: str, *arguments: object) -> etree._Element:
    return etree.fromstring(str(METHODS[method](cloud, caller, *arguments)))


@pytest.mark.parametrize(
    ("pool", "alone", "read"),
    [("one.vnpool.info", "one.vn.info", read_network), ("one.vmgrouppool.info", "one.vmgroup.info", read_vm_group)],
)
def test_alone_it_is_read_as_it_is_in_the_pool(cloud: SimulatedCloud, pool: str, alone: str, read: object) -> None:
    assert callable(read)
    for listed in answered(cloud, ONEADMIN, pool, -2, -1, -1):
        told = answered(cloud, ONEADMIN, alone, int(str(listed.findtext("ID"))), False)
        assert told.tag == listed.tag
        ours, theirs = read(told), read(listed)
        if alone == "one.vn.info":
            assert (ours.id, ours.size_leases, ours.used_leases) == (theirs.id, theirs.size_leases, theirs.used_leases)
            assert (ours.cluster_ids, ours.permissions) == (theirs.cluster_ids, theirs.permissions)
        else:
            assert ours == theirs


def test_it_tells_the_addresses_and_who_has_them(cloud: SimulatedCloud) -> None:
    told = answered(cloud, ONEADMIN, "one.vn.info", 0, False)
    (addresses,) = told.findall("AR_POOL/AR")
    assert addresses.find("ALLOCATED") is None
    assert (addresses.findtext("IP_END"), addresses.findtext("MAC_END")) == ("192.168.150.209", "02:00:c0:a8:96:d1")
    first = addresses.findall("LEASES/LEASE")[0]
    assert {one.tag: one.text for one in first} == {"IP": "192.168.150.10", "MAC": "02:00:c0:a8:96:0a", "VM": "0"}
    assert addresses.findtext("USED_LEASES") == "15"


def test_who_may_not_use_it_is_refused_and_what_is_not_there_is_told(cloud: SimulatedCloud) -> None:
    alice = cloud.caller(next(user.id for user in cloud.users.values() if user.name == "alice"))
    cloud.acls.clear()
    with pytest.raises(OnedError) as refused:
        METHODS["one.vn.info"](cloud, alice, 0, False)
    assert refused.value.code is ErrorCode.AUTHORIZATION
    for method in ("one.vn.info", "one.vmgroup.info"):
        with pytest.raises(OnedError) as missing:
            METHODS[method](cloud, ONEADMIN, 99, False)
        assert missing.value.code is ErrorCode.NO_EXISTS


def test_leases_of_vms_that_are_not_to_be_seen_are_left_out(cloud: SimulatedCloud) -> None:
    alice = cloud.caller(next(user.id for user in cloud.users.values() if user.name == "alice"))
    cloud.networks[0].permissions.other_u = True
    told = answered(cloud, alice, "one.vn.info", 0, False)
    owned = {str(vm.id) for vm in cloud.vm_pool(alice)}
    shown = {one.findtext("VM") for one in told.iterfind("AR_POOL/AR/LEASES/LEASE")}
    assert shown
    assert shown <= owned
    assert told.findtext("USED_LEASES") == "15"
