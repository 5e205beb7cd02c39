from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from one_preempt.adapters.opennebula.virtual_machine_reader import (
    cpu_centi,
    read_virtual_machine,
    read_vm_pool,
    untraced_in_vm_pool,
)
from one_preempt.core.model.resources import Resources
from one_preempt.core.model.virtual_machine import (
    Disk,
    HistoryAction,
    HistoryRecord,
    LcmState,
    LockLevel,
    Nic,
    NumaNodeRequest,
    PciRequest,
    ScheduledAction,
    Topology,
    VirtualMachine,
)

RECORDINGS = Path(__file__).resolve().parents[2] / "recordings"
VERSIONS = ("7.4.0", "6.10.0")
# What the READMEs of the recordings say: id, name of the file, state, host holding its capacity.
RECORDED = {
    0: ("running", "RUNNING", 0),
    1: ("suspended", "SUSPENDED", 1),
    2: ("poweroff", "POWEROFF", 2),
    3: ("stopped", "STOPPED", None),
    4: ("undeployed", "UNDEPLOYED", None),
    5: ("migrated", "RUNNING", 3),
    6: ("livemig", "RUNNING", 3),
    7: ("resched", "RUNNING", 3),
    8: ("done", "DONE", None),
    9: ("stop_resumed", "PENDING", None),
    10: ("locked", "RUNNING", 2),
    11: ("hold", "HOLD", None),
    12: ("numa", "RUNNING", 3),
    13: ("numa2", "HOLD", None),
    14: ("bigauto", "PENDING", None),
    15: ("bootfail", "BOOT_FAILURE", 0),
    16: ("pending", "PENDING", None),
    17: ("pending_bad", "PENDING", None),
    18: ("nodisk", "PENDING", None),
    19: ("sched", "HOLD", None),
}


def pool(version: str, name: str) -> dict[int, VirtualMachine]:
    problems: list[str] = []
    machines = read_vm_pool((RECORDINGS / version / f"{name}.xml").read_bytes(), problems)
    assert problems == []
    return machines


def alone(version: str, name: str) -> VirtualMachine:
    return read_virtual_machine(etree.parse(RECORDINGS / version / f"vm.info.{name}.xml").getroot())


def machine_with(template: str, user_template: str = "", rest: str = "") -> VirtualMachine:
    document = etree.fromstring(
        "<VM><ID>7</ID><UID>2</UID><GID>1</GID><UNAME>u</UNAME><GNAME>g</GNAME><NAME>n</NAME><PERMISSIONS/>"
        "<STATE>1</STATE><LCM_STATE>0</LCM_STATE><RESCHED>0</RESCHED><STIME>5</STIME><ETIME>0</ETIME>"
        f"<TEMPLATE><CPU>1</CPU><MEMORY>64</MEMORY>{template}</TEMPLATE>"
        f"<USER_TEMPLATE>{user_template}</USER_TEMPLATE>{rest}</VM>"
    )
    for sorted_by_oned in (*document.iterchildren("TEMPLATE"), *document.iterchildren("USER_TEMPLATE")):
        sorted_by_oned[:] = sorted(sorted_by_oned, key=lambda attribute: str(attribute.tag))
    return read_virtual_machine(document)


@pytest.mark.parametrize("version", VERSIONS)
def test_every_recorded_vm_is_in_its_state_and_on_its_host(version: str) -> None:
    machines = pool(version, "vmpool.infoextended.state_all_including_done")
    assert list(machines) == sorted(RECORDED)
    found = {vm.id: (vm.state_name, vm.host_id) for vm in machines.values()}
    assert found == {vm_id: (state, host) for vm_id, (_, state, host) in RECORDED.items()}
    assert all(vm.extended for vm in machines.values())


@pytest.mark.parametrize("version", VERSIONS)
def test_vms_that_are_done_are_not_in_the_pool_that_a_cycle_reads(version: str) -> None:
    assert list(pool(version, "vmpool.infoextended")) == [vm_id for vm_id in RECORDED if vm_id != 8]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_vm_alone_has_the_same_terms_as_in_the_pool(version: str) -> None:
    machines = pool(version, "vmpool.infoextended.state_all_including_done")
    for vm_id, (name, _, _) in RECORDED.items():
        vm = alone(version, name)
        assert vm.id == vm_id
        in_pool = machines[vm_id]
        for field in ("name", "uid", "gid", "resources", "automatic_requirements", "disks", "nics", "user_template"):
            assert getattr(vm, field) == getattr(in_pool, field), (name, field)
        assert vm.history[-1:] == in_pool.history[-1:]


@pytest.mark.parametrize("version", VERSIONS)
def test_every_recorded_pool_answer_is_read_without_a_problem(version: str) -> None:
    names = sorted(file.stem for file in (RECORDINGS / version).glob("vmpool.info*.xml"))
    assert len(names) > 20
    for name in names:
        root = etree.parse(RECORDINGS / version / f"{name}.xml").getroot()
        assert list(pool(version, name)) == sorted(int(vm.findtext("ID", "")) for vm in root), name


@pytest.mark.parametrize("version", VERSIONS)
def test_the_short_body_is_told_apart_and_agrees_where_it_says_something(version: str) -> None:
    short, full = pool(version, "vmpool.info"), pool(version, "vmpool.infoextended")
    assert list(short) == list(full)
    for vm_id, vm in short.items():
        assert not vm.extended
        assert vm.automatic_requirements == ""
        assert (vm.state_name, vm.host_id, vm.resources) == (
            full[vm_id].state_name, full[vm_id].host_id, full[vm_id].resources,
        )  # fmt: skip
        assert vm.sched_requirements == full[vm_id].sched_requirements


def test_a_running_vm_of_7_4_is_read_field_by_field() -> None:
    vm = pool("7.4.0", "vmpool.infoextended")[0]
    assert (vm.name, vm.uid, vm.gid, vm.uname, vm.gname) == ("be-running", 2, 100, "alice", "project-x")
    assert vm.resources == Resources(cpu_centi=100, memory_mib=1024)
    assert (vm.submitted_at_s, vm.ended_at_s, vm.resched) == (1795175389, 0, False)
    assert vm.automatic_requirements == (
        "(CLUSTER_ID = 0 | CLUSTER_ID = 100 | CLUSTER_ID = 101) & !(PIN_POLICY = PINNED)"
    )
    clusters = '("CLUSTERS/ID" @> 0 | "CLUSTERS/ID" @> 100 | "CLUSTERS/ID" @> 101)'
    assert vm.automatic_datastore_requirements == clusters
    assert vm.automatic_nic_requirements == clusters
    assert (vm.sched_requirements, vm.sched_rank) == ('RACK="A"', "FREE_CPU")
    assert (vm.template_id, vm.vm_group_id, vm.virtual_router_id, vm.service_id) == (0, None, None, "")
    assert vm.disks == (Disk(0, 1024, "FILE", 101, True, "SYSTEM", "NONE", "dummy", 0, 0, 1024),)
    assert vm.nics == (Nic(id=0, network_id=0, automatic=False),)
    assert (vm.lock_level, vm.lock_owner_uid) == (LockLevel.NONE, None)
    assert (vm.topology, vm.numa_nodes, vm.pci_requests, vm.scheduled_actions) == (None, (), (), ())
    assert vm.user_template["LEASE_TYPE"] == ("BE-SUSPENDABLE",)


def test_a_migrated_vm_keeps_both_stays_with_all_their_times() -> None:
    assert alone("7.4.0", "migrated").history == (
        HistoryRecord(
            sequence=0, host_id=1, hostname="node02", cluster_id=100, datastore_id=100,
            action=HistoryAction.MIGRATE, start_at_s=1795175393, end_at_s=1795175396,
            prolog_start_at_s=1795175393, prolog_end_at_s=1795175394, running_start_at_s=1795175394,
            running_end_at_s=1795175396, epilog_end_at_s=0, tm_mad="dummy", action_uid=0,
        ),
        HistoryRecord(
            sequence=1, host_id=3, hostname="node04", cluster_id=101, datastore_id=100, action=HistoryAction.NONE,
            start_at_s=1795175395, end_at_s=0, prolog_start_at_s=1795175396, prolog_end_at_s=1795175396,
            running_start_at_s=1795175396, running_end_at_s=0, epilog_end_at_s=0, tm_mad="dummy",
        ),
    )  # fmt: skip


@pytest.mark.parametrize("version", VERSIONS)
def test_what_makes_single_recorded_vms_special_is_kept(version: str) -> None:
    machines = pool(version, "vmpool.infoextended.state_all_including_done")
    assert [vm.id for vm in machines.values() if vm.resched] == [7]
    assert [(vm.id, vm.lock_level, vm.lock_owner_uid) for vm in machines.values() if vm.lock_level] == [
        (10, LockLevel.USE, 0)
    ]
    assert [vm.id for vm in machines.values() if vm.ended_at_s] == [8]
    stop_resumed = machines[9].last_history
    assert stop_resumed is not None
    assert (stop_resumed.action, stop_resumed.host_id) == (HistoryAction.STOP, 1)
    assert machines[9].may_be_deployed
    assert machines[14].nics == (Nic(0, None, automatic=True, sched_requirements='NAME="private"'),)
    assert machines[18].disks == () == machines[18].nics
    assert machines[18].resources == Resources(50, 256)
    assert {vm.id: vm.user_template["WEIRD"] for vm in machines.values() if "WEIRD" in vm.user_template} == {
        18: ('a < b & c > "d"',)
    }
    assert {vm.id: vm.user_priority for vm in machines.values() if vm.user_priority} == {0: "50"}


@pytest.mark.parametrize("version", VERSIONS)
def test_pinned_vms_keep_topology_numa_nodes_and_group(version: str) -> None:
    machines = pool(version, "vmpool.infoextended")
    assert machines[12].topology == Topology(4, 1, "CORE", None, None)
    assert machines[12].numa_nodes == (NumaNodeRequest(1, 4, 2097152, 1),)
    assert machines[12].is_pinned
    assert machines[13].topology == Topology(2, 2, "CORE", None, None)
    assert machines[13].numa_nodes == (NumaNodeRequest(None, 4, 2097152, None),)
    assert [(machines[i].vm_group_id, machines[i].vm_group_role) for i in (12, 13)] == [(0, "front"), (0, "back")]


@pytest.mark.parametrize("version", VERSIONS)
def test_scheduled_actions_are_seen_in_the_pool_and_known_in_the_single_document(version: str) -> None:
    assert pool(version, "vmpool.infoextended")[19].scheduled_actions == (ScheduledAction("", ""),)
    assert alone(version, "sched").scheduled_actions == (ScheduledAction("suspend", "1900000000"),)


def test_kinds_of_pci_devices_are_kept_in_lower_case_and_addresses_as_they_are_written() -> None:
    vm = machine_with(
        "<PCI><VENDOR>10DE</VENDOR><DEVICE>0863</DEVICE><CLASS>0302</CLASS></PCI>"
        "<PCI><SHORT_ADDRESS>81:00.A</SHORT_ADDRESS><ADDRESS>0000:81:00:A</ADDRESS><TYPE>NIC</TYPE>"
        "<NIC_ID>1</NIC_ID><NETWORK_MODE>auto</NETWORK_MODE></PCI>"
    )
    assert vm.pci_requests == (
        PciRequest("10de", "0863", "0302"),
        PciRequest(short_address="81:00.A", address="0000:81:00:A"),
    )
    assert vm.nics == (Nic(1, None, automatic=True),)


def test_what_oned_adds_for_services_routers_and_huge_pages_is_kept() -> None:
    vm = machine_with(
        "<VROUTER_ID>4</VROUTER_ID><TOPOLOGY><PIN_POLICY>thread</PIN_POLICY><HUGEPAGE_SIZE>2</HUGEPAGE_SIZE>"
        "<NODE_AFFINITY>1</NODE_AFFINITY></TOPOLOGY><DISK><DISK_ID>0</DISK_ID><SIZE>10</SIZE><TYPE>fs</TYPE></DISK>",
        "<SERVICE_ID>12</SERVICE_ID><RANK>FREE_CPU</RANK><SCHED_DS_REQUIREMENTS>ID=1</SCHED_DS_REQUIREMENTS>"
        "<SCHED_DS_RANK>FREE_MB</SCHED_DS_RANK>",
        "<LOCK><LOCKED>3</LOCKED><OWNER>2</OWNER></LOCK>",
    )
    assert (vm.virtual_router_id, vm.service_id, vm.sched_rank) == (4, "12", "FREE_CPU")
    assert (vm.sched_datastore_requirements, vm.sched_datastore_rank) == ("ID=1", "FREE_MB")
    assert vm.topology == Topology(0, 0, "THREAD", 2, 1)
    assert vm.disks[0].clone is None
    assert (vm.lock_level, vm.lock_owner_uid) == (LockLevel.ADMIN, 2)


def test_vector_attributes_and_repeated_ones_keep_their_shape() -> None:
    vm = machine_with("", "<LEASE><TYPE>A</TYPE><NAME>x</NAME></LEASE><TAG>1</TAG><TAG>2</TAG>")
    assert vm.user_template == {"LEASE": ({"TYPE": "A", "NAME": "x"},), "TAG": ("1", "2")}


def test_a_requirement_that_is_no_text_is_no_requirement() -> None:
    assert machine_with("", "<SCHED_REQUIREMENTS><A>1</A></SCHED_REQUIREMENTS>").sched_requirements == ""


def test_secrets_of_a_vm_are_not_kept() -> None:
    vm = machine_with("<CONTEXT><PASSWORD>canary</PASSWORD></CONTEXT><GRAPHICS><PASSWD>canary</PASSWD></GRAPHICS>")
    assert "canary" not in repr(vm)


def test_an_lcm_state_that_is_newer_than_we_are_stays_a_number() -> None:
    text = etree.tostring(etree.parse(RECORDINGS / "7.4.0" / "vm.info.running.xml"))
    vm = read_virtual_machine(etree.fromstring(text.replace(b"<LCM_STATE>3<", b"<LCM_STATE>99<")))
    assert vm.state_name == "LCM_STATE 99"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1", 100),
        ("0.5", 50),
        ("0.29", 29),
        ("0.57", 57),
        ("1.005", 100),
        ("0.07", 7),
        ("16777.217", 1677721),
        ("4", 400),
    ],
)
def test_cpu_is_counted_in_single_precision_as_oned_does(text: str, expected: int) -> None:
    assert cpu_centi(text) == expected


@given(st.integers(1, 100_000))
def test_cpu_agrees_with_arithmetic_on_four_bytes(hundredths: int) -> None:
    def single(number: float) -> float:
        return float(struct.unpack("f", struct.pack("f", number))[0])

    assert cpu_centi(str(hundredths / 100)) == int(single(single(hundredths / 100) * 100))


@pytest.mark.parametrize(
    ("lcm_state", "untraced"),
    [(LcmState.RUNNING, set()), (LcmState.PROLOG_MIGRATE, {5}), (LcmState.SAVE_MIGRATE, set())],
)
def test_of_a_vm_that_cannot_be_read_its_state_tells_whether_other_hosts_may_be_needed(
    lcm_state: LcmState, untraced: set[int]
) -> None:
    pool = (
        f"<VM_POOL><VM><ID>5</ID><STATE>3</STATE><LCM_STATE>{int(lcm_state)}</LCM_STATE>"
        "<USER_TEMPLATE><STATE>1</STATE></USER_TEMPLATE><STATE>1</STATE></VM><VM><ID>6</ID></VM></VM_POOL>"
    )
    assert untraced_in_vm_pool(pool.encode(), {5}) == untraced
    assert untraced_in_vm_pool(pool.encode(), {6}) == {6}
    twice = pool.replace("<VM><ID>6", "<VM><ID>5</ID><STATE>1</STATE></VM><VM><ID>6")
    assert untraced_in_vm_pool(twice.encode(), {5}) == {5}
