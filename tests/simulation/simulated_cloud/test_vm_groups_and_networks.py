"""Membership in VM groups, and automatic NICs: who may choose a network, and what a failed deploy leaves behind."""

from __future__ import annotations

import pytest

from one_preempt.simulation.simulated_cloud.errors import ErrorCode, OnedError
from one_preempt.simulation.simulated_cloud.objects import ONEADMIN, Caller, SimVm
from one_preempt.simulation.simulated_cloud.templates import vectors_of
from tests.simulation.simulated_cloud.conftest import Stage

SMALL = 'CPU = "1"\nMEMORY = "64"\n'
AUTO = 'NIC = [ NETWORK_MODE = "auto" ]\n'


def in_role(role: str, group: str = 'VMGROUP_ID = "0"') -> str:
    return SMALL + f'VMGROUP = [ {group}, ROLE = "{role}" ]'


def choose(*networks: int) -> str:
    return "\n".join(
        f'NIC = [ NIC_ID = "{nic}", NETWORK_MODE = "auto", NETWORK_ID = "{network}" ]'
        for nic, network in enumerate(networks)
    )


def used(stage: Stage) -> list[int]:
    return [network.used_leases for network in stage.cloud.networks.values()]


def pending(stage: Stage, nics: int = 1, caller: Caller | None = None) -> SimVm:
    return stage.create(SMALL + AUTO * nics, caller)


def test_a_vm_is_listed_in_its_role_until_it_ends(stage: Stage) -> None:
    group = stage.cloud.add_vm_group("web", {"front": {"POLICY": "ANTI_AFFINED"}, "back": {}})
    first, second = stage.create(in_role("front"), ONEADMIN), stage.create(in_role("front"), ONEADMIN)
    assert group.roles[0].vm_ids == [first.id, second.id]
    stage.cloud.vm_deploy(ONEADMIN, first.id, 0, enforce=True)
    stage.cloud.vm_deploy(ONEADMIN, second.id, 0, enforce=True)  # oned knows no rule of groups when it deploys
    stage.cloud.settle()
    stage.do(first, "stop")
    stage.cloud.settle()
    assert group.roles[0].vm_ids == [first.id, second.id]
    stage.do(first, "terminate")
    stage.cloud.settle()
    assert group.roles[0].vm_ids == [second.id]


@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        (SMALL + 'VMGROUP = [ VMGROUP_ID = "0" ]', "Missing role name in VM Group definition"),
        (in_role("front", 'VMGROUP_ID = "7"'), "Cannot find VM Group to associate the VM"),
        (in_role("front", 'VMGROUP_NAME = "db"'), "Cannot find VM Group to associate the VM"),
        (in_role("middle"), "Role does not exist in VM Group"),
    ],
)
def test_a_role_that_is_not_there_is_refused(stage: Stage, text: str, refusal: str) -> None:
    stage.cloud.add_vm_group("web", {"front": {}})
    with pytest.raises(OnedError) as error:
        stage.create(text, ONEADMIN)
    assert error.value.message == refusal


def test_a_group_by_name_is_the_owners_and_needs_the_right_to_use_it(stage: Stage) -> None:
    group = stage.cloud.add_vm_group("web", {"front": {}})
    with pytest.raises(OnedError, match="Cannot find VM Group"):
        stage.create(in_role("front", 'VMGROUP_NAME = "web"'))
    with pytest.raises(OnedError, match=r"Not authorized to perform .*USE VMGROUP"):
        stage.create(in_role("front"))
    group.permissions.other_u = True
    vm = stage.create(in_role("front", 'VMGROUP_NAME = "web", VMGROUP_UID = "0"'))
    assert (group.roles[0].vm_ids, vectors_of(vm.template, "VMGROUP")[0]["VMGROUP_ID"]) == ([vm.id], "0")


def test_a_chosen_network_gives_its_lease_at_deploy_and_takes_it_back_at_the_end(stage: Stage) -> None:
    network = stage.cloud.add_network("private", size=4)
    vm = stage.create(SMALL + AUTO + 'CONTEXT = [ NETWORK = "YES" ]')
    assert used(stage) == [0]
    stage.cloud.vm_deploy(ONEADMIN, vm.id, 0, extra=choose(network.id))
    (nic,) = vectors_of(vm.template, "NIC")
    assert (nic["NETWORK_ID"], nic["NETWORK_MODE"], nic["IP"]) == ("0", "auto", "192.168.150.10")
    assert vectors_of(vm.template, "CONTEXT")[0]["ETH0_IP"] == "192.168.150.10"
    assert used(stage) == [1]
    stage.cloud.settle()
    stage.do(vm, "stop")
    stage.cloud.settle()
    assert used(stage) == [1]
    stage.cloud.vm_deploy(ONEADMIN, vm.id, 1, extra=choose(network.id))  # not looked at after a stop
    stage.cloud.settle()
    stage.do(vm, "terminate")
    stage.cloud.settle()
    assert used(stage) == [0]


def test_a_nic_that_nobody_chose_for_stays_unconnected(stage: Stage) -> None:
    stage.cloud.add_network("private")
    vm = pending(stage)
    stage.cloud.vm_deploy(ONEADMIN, vm.id, 0)
    assert "NETWORK_ID" not in vectors_of(vm.template, "NIC")[0]


@pytest.mark.parametrize(
    ("extra", "refusal"),
    [
        ('NIC = [ NIC_ID = "5", NETWORK_ID = "0" ]', "NIC_ID 5 not found"),
        (choose(99), "Virtual network with ID: 99 does not exist"),
        (choose(0) + choose(0), "NIC_ID 0 not AUTO"),
    ],
)
def test_a_wrong_choice_is_refused_and_leaves_no_trace(stage: Stage, extra: str, refusal: str) -> None:
    stage.cloud.add_network("private")
    vm = pending(stage)
    with pytest.raises(OnedError) as error:
        stage.cloud.vm_deploy(ONEADMIN, vm.id, 0, extra=extra)
    assert (error.value.message, error.value.code) == (refusal, ErrorCode.ACTION)
    assert (vm.state.name, used(stage)) == ("PENDING", [0])
    assert "NETWORK_ID" not in vectors_of(vm.template, "NIC")[0]


def test_a_deploy_that_fails_at_its_second_network_leaks_the_first_lease(stage: Stage) -> None:
    stage.cloud.add_network("wide", size=4)
    stage.cloud.add_network("narrow", size=1)
    stage.create(SMALL + 'NIC = [ NETWORK_ID = "1" ]', ONEADMIN)
    vm = pending(stage, nics=2)
    with pytest.raises(OnedError, match=r"Cannot get IP/MAC lease from virtual network 1\."):
        stage.cloud.vm_deploy(ONEADMIN, vm.id, 0, extra=choose(0, 1))
    assert used(stage) == [1, 1]
    assert all("NETWORK_ID" not in nic for nic in vectors_of(vm.template, "NIC"))
    stage.do(vm, "terminate")
    stage.cloud.settle()
    assert used(stage) == [1, 1]
    assert stage.cloud.audit() == []


def test_capacity_is_looked_at_before_leases_are_taken(stage: Stage) -> None:
    stage.cloud.add_network("private")
    vm = stage.create('CPU = "100"\nMEMORY = "64"\n' + AUTO)
    with pytest.raises(OnedError, match="Not enough CPU"):
        stage.cloud.vm_deploy(ONEADMIN, vm.id, 0, enforce=True, extra=choose(0))
    assert used(stage) == [0]


def test_others_than_administrators_need_the_network_and_may_not_forge_an_address(stage: Stage) -> None:
    network = stage.cloud.add_network("private")
    network.permissions.other_u = False
    stage.cloud.acls.clear()
    vm = pending(stage, caller=ONEADMIN)
    vm.permissions.other_a = True
    with pytest.raises(OnedError, match="USE NET"):
        stage.cloud.vm_deploy(stage.bob, vm.id, 0, extra=choose(network.id))
    forged = 'NIC = [ NIC_ID = "0", NETWORK_ID = "0", MAC = "02:00:00:00:00:01" ]'
    with pytest.raises(OnedError, match="NIC includes a restricted attribute MAC"):
        stage.cloud.vm_deploy(stage.bob, vm.id, 0, extra=forged)
