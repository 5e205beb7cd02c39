"""Who holds a host's capacity, and the history records that tell of it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from lxml import etree

from one_preempt.simulation.simulated_cloud.durations import Operation
from one_preempt.simulation.simulated_cloud.errors import OnedError
from one_preempt.simulation.simulated_cloud.faults import Fault
from one_preempt.simulation.simulated_cloud.furnishing import numa_nodes
from one_preempt.simulation.simulated_cloud.objects import ONEADMIN
from one_preempt.simulation.simulated_cloud.states import DatastoreType

if TYPE_CHECKING:
    from tests.simulation.simulated_cloud.conftest import Stage

RECORDINGS = Path(__file__).parents[2] / "recordings" / "7.4.0"
FREE = {"PENDING", "HOLD", "STOPPED", "UNDEPLOYED", "DONE"}
ON_BOTH = {"MIGRATE", "SAVE_MIGRATE"}
ON_TARGET = {
    "PROLOG_MIGRATE", "BOOT_MIGRATE", "PROLOG_MIGRATE_POWEROFF", "PROLOG_MIGRATE_SUSPEND", "PROLOG_MIGRATE_UNKNOWN",
    "PROLOG_MIGRATE_FAILURE", "BOOT_MIGRATE_FAILURE", "PROLOG_MIGRATE_POWEROFF_FAILURE",
    "PROLOG_MIGRATE_SUSPEND_FAILURE", "PROLOG_MIGRATE_UNKNOWN_FAILURE",
}  # fmt: skip
GPU = {"ADDRESS": "0000:02:00:0", "SHORT_ADDRESS": "02:00.0", "VENDOR": "10de", "DEVICE": "0863", "CLASS": "0302"}
PINNED = 'CPU = "2"\nVCPU = "4"\nMEMORY = "2048"\nTOPOLOGY = [ PIN_POLICY = "CORE", CORES = "2", THREADS = "2" ]\n'
WANTS_GPU = 'CPU = "1"\nMEMORY = "512"\nPCI = [ VENDOR = "10de", CLASS = "0302" ]\n'


def test_each_state_holds_capacity_where_the_table_says(stage: Stage, any_state: str) -> None:
    stage.bring(any_state)
    if any_state in FREE:
        expected = [0, 0, 0]
    elif any_state in ON_BOTH:
        expected = [1, 1, 0]
    else:
        expected = [0, 1, 0] if any_state in ON_TARGET else [1, 0, 0]
    shares = [host.share for host in stage.hosts]
    assert [share.running_vms for share in shares] == expected
    assert [share.cpu_usage for share in shares] == [100 * held for held in expected]
    assert [share.mem_usage for share in shares] == [1024 * 1024 * held for held in expected]
    assert [len(host.vm_ids) for host in stage.hosts] == expected
    assert stage.cloud.audit() == []


@pytest.mark.parametrize(
    ("words", "recorded"),
    [
        (["deploy"], "running"),
        (["deploy", "suspend"], "suspended"),
        (["deploy", "poweroff"], "poweroff"),
        (["deploy", "stop"], "stopped"),
        (["deploy", "undeploy"], "undeployed"),
        (["deploy", "stop", "resume"], "stop_resumed"),
        (["deploy", "migrate"], "migrated"),
        (["deploy", "live"], "livemig"),
        (["deploy", "terminate-hard"], "done"),
    ],
)
def test_history_records_are_filled_as_recorded(stage: Stage, words: list[str], recorded: str) -> None:
    vm = stage.create()
    for word in words:
        stage.do(vm, word)
        stage.cloud.settle()
    document = etree.parse(RECORDINGS / f"vm.info.{recorded}.xml")
    records = document.findall(".//HISTORY")
    assert len(vm.history) == len(records)
    for ours, theirs in zip(vm.history, records, strict=True):
        assert ours.action == int(theirs.findtext("ACTION", ""))
        assert (ours.uid == -1) == (theirs.findtext("UID") == "-1")
        for field in ("stime", "etime", "pstime", "petime", "rstime", "retime", "estime", "eetime"):
            told = int(theirs.findtext(field.upper(), ""))
            assert bool(getattr(ours, f"{field}_s")) == bool(told), field


def test_resume_on_the_same_host_begins_a_record_of_its_own(stage: Stage) -> None:
    vm = stage.bring("SUSPENDED")
    stage.do(vm, "resume")
    stage.cloud.settle()
    first, second = vm.history
    assert (first.action, second.action) == (10, 0)
    assert first.etime_s == second.stime_s == second.rstime_s
    assert (second.host_id, second.pstime_s, second.etime_s, second.retime_s) == (first.host_id, 0, 0, 0)


def test_deploy_without_enforce_overcommits_and_is_noted(stage: Stage) -> None:
    big = stage.create('CPU = "9"\nMEMORY = "1024"\n')
    with pytest.raises(OnedError, match=r"does not fit in host \[0\]. Not enough CPU: 900/800"):
        stage.cloud.vm_deploy(ONEADMIN, big.id, 0, enforce=True)
    assert stage.cloud.overcommits == []
    stage.cloud.vm_deploy(ONEADMIN, big.id, 0)
    assert [(note.host_id, note.vm_id, note.cpu_usage, note.max_cpu) for note in stage.cloud.overcommits] == [
        (0, big.id, 900, 800)
    ]
    wide = stage.create('CPU = "1"\nMEMORY = "20000"\n')
    with pytest.raises(OnedError, match="Not enough memory: 20480000/16777216"):
        stage.cloud.vm_deploy(ONEADMIN, wide.id, 1, enforce=True)


def test_what_rests_on_a_host_does_not_run_there_until_it_is_resumed(stage: Stage) -> None:
    first = stage.create('CPU = "6"\nMEMORY = "1024"\n')
    stage.cloud.vm_deploy(ONEADMIN, first.id, 0, enforce=True)
    stage.cloud.settle()
    stage.do(first, "suspend")
    stage.cloud.settle()
    second = stage.create('CPU = "6"\nMEMORY = "1024"\n')
    stage.cloud.vm_deploy(ONEADMIN, second.id, 0)
    stage.cloud.settle()
    assert [note.cpu_usage for note in stage.cloud.overcommits] == [1200]
    assert stage.cloud.overloads == []
    stage.do(first, "resume")
    assert [(note.host_id, note.vm_id, note.cpu_usage, note.max_cpu) for note in stage.cloud.overloads] == [
        (0, first.id, 1200, 800)
    ]


def test_a_device_is_given_once_and_comes_back(stage: Stage) -> None:
    host = stage.cloud.add_host("gpu", pci_devices=[GPU])
    first, second = stage.create(WANTS_GPU, ONEADMIN), stage.create(WANTS_GPU, ONEADMIN)
    stage.cloud.vm_deploy(ONEADMIN, first.id, host.id, enforce=True)
    assert host.share.pci_devices[0]["VMID"] == str(first.id)
    with pytest.raises(OnedError, match="Unavailable PCI device"):
        stage.cloud.vm_deploy(ONEADMIN, second.id, host.id, enforce=True)
    stage.cloud.vm_deploy(ONEADMIN, second.id, host.id)
    assert host.share.pci_devices[0]["VMID"] == str(first.id)
    stage.cloud.settle()
    with pytest.raises(OnedError, match="use poweroff or poweroff-hard flag"):
        stage.cloud.vm_migrate(ONEADMIN, first.id, 0, live=False)
    stage.cloud.vm_action(ONEADMIN, "undeploy", first.id)
    stage.cloud.settle()
    assert host.share.pci_devices[0]["VMID"] == "-1"
    assert stage.cloud.audit() == []


def test_a_pinned_vm_takes_whole_cores_and_is_always_checked(stage: Stage) -> None:
    host = stage.cloud.add_host("numa", numa_nodes=numa_nodes(2, 8, 4))
    vm = stage.create(PINNED, ONEADMIN)
    assert vm.template["CPU"] == ["4"]
    with pytest.raises(OnedError, match="Cannot allocate NUMA topology"):
        stage.cloud.vm_deploy(ONEADMIN, vm.id, 0)
    stage.cloud.vm_deploy(ONEADMIN, vm.id, host.id)
    stage.cloud.settle()
    node = host.share.numa_nodes[1]
    assert vm.template["NUMA_NODE"] == [
        {"MEMORY": "2097152", "TOTAL_CPUS": "4", "CPUS": "8,9,10,11", "NODE_ID": "1", "MEMORY_NODE_ID": "1"}
    ]
    assert [core.dedicated for core in node.cores] == [True] * 4 + [False] * 4
    with pytest.raises(OnedError, match="cannot be live-migrated"):
        stage.cloud.vm_migrate(ONEADMIN, vm.id, 0, live=True)
    stage.cloud.vm_action(ONEADMIN, "stop", vm.id)
    stage.cloud.settle()
    assert (node.memory_usage_kib, [core.dedicated for core in node.cores]) == (0, [False] * 8)
    stage.cloud.vm_deploy(ONEADMIN, vm.id, host.id)
    stage.cloud.settle()
    assert vm.lcm_state.name == "RUNNING"
    assert stage.cloud.audit() == []


def test_a_stop_without_room_for_the_memory_leaves_the_guest_running(stage: Stage) -> None:
    vm = stage.bring("RUNNING")
    stage.system.free_mib = 1023
    stage.do(vm, "stop")
    stage.cloud.settle()
    assert (vm.lcm_state.name, vm.history[-1].action) == ("RUNNING", 0)
    stage.system.free_mib = 1024
    stage.do(vm, "stop")
    stage.cloud.settle()
    assert (vm.state.name, stage.system.free_mib) == ("STOPPED", 0)
    stage.do(vm, "deploy")
    stage.cloud.settle()
    assert stage.system.free_mib == 1024


def test_disks_need_room_too_and_give_it_back(stage: Stage) -> None:
    image = stage.cloud.add_image("os", stage.cloud.add_datastore("images", DatastoreType.IMAGE).id, size_mib=500)
    vm = stage.create(f'CPU = "1"\nMEMORY = "100"\nDISK = [ IMAGE_ID = {image.id} ]\nDISK = [ TYPE = fs, SIZE = 60 ]\n')
    stage.system.free_mib = 559
    stage.do(vm, "deploy")
    stage.cloud.settle()
    assert (vm.lcm_state.name, stage.system.free_mib) == ("PROLOG_FAILURE", 559)
    stage.system.free_mib = 700
    stage.cloud.vm_recover(ONEADMIN, vm.id, 2)
    stage.cloud.settle()
    assert (vm.lcm_state.name, stage.system.free_mib) == ("RUNNING", 140)
    stage.do(vm, "stop")
    stage.cloud.settle()
    assert (vm.state.name, stage.system.free_mib) == ("STOPPED", 40)
    stage.do(vm, "terminate")
    stage.cloud.settle()
    assert (vm.state.name, stage.system.free_mib, stage.system.used_mib) == ("DONE", 700, 0)


def test_the_recount_finds_what_was_tampered_with(stage: Stage) -> None:
    vm = stage.bring("RUNNING")
    stage.hosts[0].share.cpu_usage += 1
    stage.hosts[1].vm_ids.append(vm.id)
    stage.cloud.users[stage.alice.uid].quotas.vm[0].used["RUNNING_VMS"] = 7
    found = " / ".join(stage.cloud.audit())
    assert "host 0 says (101, 1048576, 1)" in found
    assert "host 1 lists VMs [0], but [] are on it" in found
    assert f"user {stage.alice.uid}: RUNNING_VMS used 7, counted 1" in found


def test_a_failed_epilog_keeps_the_capacity(stage: Stage) -> None:
    vm = stage.bring("RUNNING")
    stage.cloud.faults.add(Fault(Operation.EPILOG_STOP, count=2))
    stage.do(vm, "stop")
    stage.cloud.settle()
    assert (vm.lcm_state.name, stage.hosts[0].share.cpu_usage) == ("EPILOG_STOP_FAILURE", 100)
