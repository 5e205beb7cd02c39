"""A cloud made from a recording answers with the recorded bytes, and then lives on."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
from lxml import etree

from one_preempt.errors import OnePreemptError
from one_preempt.simulation.emulator.address_owners import ON_HOLD
from one_preempt.simulation.emulator.from_recording import recorded_cloud
from one_preempt.simulation.emulator.methods import METHODS
from one_preempt.simulation.emulator.signatures import checked_arguments
from one_preempt.simulation.simulated_cloud.errors import OnedError
from one_preempt.simulation.simulated_cloud.objects import ONEADMIN
from one_preempt.simulation.simulated_cloud.states import LcmState, VmState

RECORDINGS = Path(__file__).parents[2] / "recordings"
# Calls that are not about what a recording keeps: figures that go on, hashes, hooks, constants.
NOT_COMPARED = ("hostpool.monitoring", "host.info", "userpool", "user.info", "system.config", "hook", "vdc", "zonepool")


@pytest.mark.parametrize("version", ["7.4.0", "6.10.0"])
def test_pools_and_vms_are_answered_byte_for_byte(version: str) -> None:
    folder = RECORDINGS / version
    cloud = recorded_cloud(folder)
    compared = 0
    for row in json.loads((folder / "calls.json").read_text()):
        name = row["file"]
        if name.startswith((*NOT_COMPARED, "securitygrouppool")):
            continue
        caller = cloud.caller(2) if ".as_alice." in name else ONEADMIN
        arguments = checked_arguments(row["method"], ("session", *row["params"]), version)
        answer = METHODS[row["method"]](cloud, caller, *arguments)
        assert answer == (folder / name).read_text().strip(), name
        compared += 1
    assert compared > 50
    assert cloud.audit() == []


def test_the_recorded_cloud_lives_on() -> None:
    cloud = recorded_cloud(RECORDINGS / "7.4.0")
    cloud.vm_deploy(ONEADMIN, 16, 1, enforce=True)
    cloud.vm_action(ONEADMIN, "stop", 0)
    cloud.vm_action(ONEADMIN, "resume", 1)
    cloud.host_status(ONEADMIN, 5, 0)
    cloud.settle()
    assert [cloud.vms[vm_id].state for vm_id in (16, 0, 1)] == [VmState.ACTIVE, VmState.STOPPED, VmState.ACTIVE]
    assert cloud.vms[16].lcm_state == LcmState.RUNNING
    assert cloud.hosts[5].share.max_cpu == 800
    assert cloud.audit() == []


def test_users_log_in_with_their_names() -> None:
    cloud = recorded_cloud(RECORDINGS / "6.10.0")
    assert cloud.authenticate("alice", "alice").uid == 2


def test_a_folder_without_vms_or_with_a_cut_document_is_refused_by_name(tmp_path: Path) -> None:
    shutil.copy(RECORDINGS / "7.4.0" / "hostpool.info.xml", tmp_path)
    with pytest.raises(OnePreemptError, match=r"there is no vmpool\.infoextended in it"):
        recorded_cloud(tmp_path)
    whole = (RECORDINGS / "7.4.0" / "vmpool.infoextended.xml").read_text()
    (tmp_path / "vmpool.infoextended.xml").write_text(whole[: len(whole) // 2])
    with pytest.raises(OnePreemptError, match=r"vmpool\.infoextended is cut or broken"):
        recorded_cloud(tmp_path)
    (tmp_path / "vmpool.infoextended.xml").write_text("<VM_POOL><VM><ID>seven</ID></VM></VM_POOL>")
    with pytest.raises(OnePreemptError, match="has not oned's form"):
        recorded_cloud(tmp_path)
    (tmp_path / "vmpool.infoextended.xml").write_text(whole.replace("OWNER_U>", "OWNER_X>"))
    with pytest.raises(OnePreemptError, match="has not oned's form"):
        recorded_cloud(tmp_path)


def test_a_vm_that_came_between_the_reading_of_two_pools_is_no_obstacle(tmp_path: Path) -> None:
    for name in ("hostpool.info", "clusterpool.info", "datastorepool.info", "vmpool.infoextended"):
        shutil.copy(RECORDINGS / "7.4.0" / f"{name}.xml", tmp_path)
    pool = (tmp_path / "vmpool.infoextended.xml").read_text()
    (tmp_path / "vmpool.infoextended.xml").write_text(pool.replace("<VM><ID>0</ID>", "<VM><ID>77</ID>"))
    cloud = recorded_cloud(tmp_path)
    charged = cloud.hosts[0].share.cpu_usage
    cloud.vm_deploy(ONEADMIN, 16, 0)
    cloud.settle()
    listed = etree.fromstring(str(METHODS["one.hostpool.info"](cloud, ONEADMIN)))
    assert [vm.text for vm in listed.iterfind("HOST[ID='0']/VMS/ID")].count("0") == 0
    assert cloud.hosts[0].share.cpu_usage > charged


def test_hosts_and_vms_alone_make_a_cloud(tmp_path: Path) -> None:
    _hosts_and_vms(tmp_path)
    cloud = recorded_cloud(tmp_path)
    assert len(cloud.hosts) == 6
    assert len(cloud.vms) == 19
    assert cloud.authenticate("oneadmin", "opennebula").is_admin
    assert {host.cluster_id for host in cloud.hosts.values()} <= set(cloud.clusters)
    with pytest.raises(OnedError, match="datastore"):
        cloud.vm_deploy(ONEADMIN, 16, 0)
    cloud.advance(3600)


def test_addresses_are_taken_though_a_recording_without_secrets_does_not_say_by_whom(tmp_path: Path) -> None:
    _hosts_and_vms(tmp_path)
    networks = (RECORDINGS / "7.4.0" / "vnpool.info.xml").read_text()
    anonymous = re.sub("<ALLOCATED>.*?</ALLOCATED>", "", networks)
    (tmp_path / "vnpool.info.xml").write_text(anonymous.replace("<USED_LEASES>15<", "<USED_LEASES>17<"))
    cloud = recorded_cloud(tmp_path)
    assert cloud.networks[0].used_leases == 17
    assert sorted(cloud.networks[0].address_ranges[0].leases.values())[:3] == [ON_HOLD, ON_HOLD, 0]
    cloud.vm_action(ONEADMIN, "terminate-hard", 0)
    cloud.settle()
    assert cloud.networks[0].used_leases == 16
    listed = str(METHODS["one.vnpool.info"](cloud, ONEADMIN, -2, -1, -1))
    assert f" {0x10_FFFF_FFFF}" in listed
    assert "<ID>-1</ID>" not in listed


def test_an_address_of_a_virtual_router_stays_its_own(tmp_path: Path) -> None:
    _hosts_and_vms(tmp_path)
    networks = (RECORDINGS / "7.4.0" / "vnpool.info.xml").read_text()
    of_a_router = networks.replace("<ALLOCATED><![CDATA[ 0 ", f"<ALLOCATED><![CDATA[ 150 {0x20_0000_0005} 0 ")
    (tmp_path / "vnpool.info.xml").write_text(of_a_router.replace("<USED_LEASES>15<", "<USED_LEASES>16<"))
    listed = str(METHODS["one.vnpool.info"](recorded_cloud(tmp_path), ONEADMIN, -2, -1, -1))
    assert f" 150 {0x20_0000_0005}]]>" in listed
    assert "<USED_LEASES>16<" in listed
    assert f"<ID>{0x20_0000_0005 & ~0x10_0000_0000}</ID>" not in listed


def test_clusters_without_datastores_take_no_vms(tmp_path: Path) -> None:
    _hosts_and_vms(tmp_path)
    shutil.copy(RECORDINGS / "7.4.0" / "clusterpool.info.xml", tmp_path)
    with pytest.raises(OnedError, match="datastore"):
        recorded_cloud(tmp_path).vm_deploy(ONEADMIN, 16, 0)


def _hosts_and_vms(folder: Path) -> None:
    for name in ("hostpool.info.xml", "vmpool.infoextended.xml"):
        shutil.copy(RECORDINGS / "7.4.0" / name, folder)
