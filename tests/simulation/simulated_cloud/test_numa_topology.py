"""TOPOLOGY at creation, and the threads, memory and huge pages that pinned VMs get and give back."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from one_preempt.simulation.simulated_cloud.errors import OnedError
from one_preempt.simulation.simulated_cloud.furnishing import numa_nodes
from one_preempt.simulation.simulated_cloud.objects import ONEADMIN, SimHost, SimVm
from one_preempt.simulation.simulated_cloud.templates import vectors_of
from tests.simulation.simulated_cloud.conftest import Stage


def template(topology: str, vcpu: int = 4, memory: int = 2048, more: str = "") -> str:
    return f'CPU = "1"\nVCPU = "{vcpu}"\nMEMORY = "{memory}"\nTOPOLOGY = [ {topology} ]\n{more}'


def deployed(stage: Stage, host: SimHost, text: str, enforce: bool = True) -> SimVm:
    vm = stage.create(text, ONEADMIN)
    stage.cloud.vm_deploy(ONEADMIN, vm.id, host.id, enforce)
    stage.cloud.settle()
    return vm


def threads_of(host: SimHost, vm: SimVm) -> list[int]:
    return [
        thread
        for node in host.share.numa_nodes
        for core in node.cores
        for thread, holders in core.cpus.items()
        for holder in holders
        if holder == vm.id
    ]


def guest_nodes(vm: SimVm) -> list[tuple[str, str, str]]:
    nodes = vectors_of(vm.template, "NUMA_NODE")
    return [(node["NODE_ID"], node["MEMORY_NODE_ID"], node["CPUS"]) for node in nodes]


def test_threads_of_a_guest_core_share_a_core_of_the_host(stage: Stage) -> None:
    host = stage.cloud.add_host("numa", numa_nodes=numa_nodes(1, 4))
    vm = deployed(stage, host, template('PIN_POLICY = "THREAD", THREADS = "2"'))
    assert guest_nodes(vm) == [("0", "0", "0,4,1,5")]
    (topology,) = vectors_of(vm.template, "TOPOLOGY")
    assert (topology["SOCKETS"], topology["CORES"], topology["THREADS"]) == ("1", "2", "2")
    assert not any(core.dedicated for core in host.share.numa_nodes[0].cores)


def test_a_host_without_threads_offers_none(stage: Stage) -> None:
    host = stage.cloud.add_host("numa", numa_nodes=numa_nodes(1, 4, threads_per_core=1))
    vm = stage.create(template('PIN_POLICY = "THREAD", THREADS = "2"'), ONEADMIN)
    with pytest.raises(OnedError, match="Cannot allocate NUMA topology"):
        stage.cloud.vm_deploy(ONEADMIN, vm.id, host.id)
    assert deployed(stage, host, template('PIN_POLICY = "THREAD"')).template["TOPOLOGY"] == [
        {"PIN_POLICY": "THREAD", "SOCKETS": "1", "CORES": "4", "THREADS": "1"}
    ]


def test_several_vms_share_a_thread_where_the_host_says_so(stage: Stage) -> None:
    host = stage.cloud.add_host("numa", numa_nodes=numa_nodes(1, 1))
    text = template('PIN_POLICY = "SHARED"', vcpu=2, memory=256)
    first = deployed(stage, host, text)
    second = stage.create(text, ONEADMIN)
    with pytest.raises(OnedError, match="Cannot allocate NUMA topology"):
        stage.cloud.vm_deploy(ONEADMIN, second.id, host.id)
    stage.cloud.host_update(ONEADMIN, host.id, 'VMS_THREAD = "2"', 1)
    stage.cloud.vm_deploy(ONEADMIN, second.id, host.id)
    assert host.share.vms_thread == 2
    (core,) = host.share.numa_nodes[0].cores
    assert core.cpus == {0: [first.id, second.id], 1: [first.id, second.id]}


def test_reserved_threads_are_left_alone(stage: Stage) -> None:
    host = stage.cloud.add_host("numa", numa_nodes=numa_nodes(1, 2))
    stage.cloud.host_update(ONEADMIN, host.id, 'ISOLCPUS = "0,2"', 1)
    vm = stage.create(template('PIN_POLICY = "CORE"', vcpu=2), ONEADMIN)
    with pytest.raises(OnedError, match="Cannot allocate NUMA topology"):
        stage.cloud.vm_deploy(ONEADMIN, vm.id, host.id)
    stage.cloud.host_update(ONEADMIN, host.id, 'ISOLCPUS = ""', 1)
    stage.cloud.vm_deploy(ONEADMIN, vm.id, host.id)
    assert threads_of(host, vm) == [0, 1]


def test_guest_nodes_spread_over_host_nodes_with_their_memory(stage: Stage) -> None:
    host = stage.cloud.add_host("numa", numa_nodes=numa_nodes(2, 2, memory_mib=1024))
    vm = deployed(stage, host, template('PIN_POLICY = "THREAD", SOCKETS = "2"', vcpu=4, memory=2048))
    assert [node for node, _, _ in guest_nodes(vm)] == ["1", "0"]
    assert [node.memory_usage_kib for node in host.share.numa_nodes] == [1 << 20, 1 << 20]
    stage.do(vm, "stop")
    stage.cloud.settle()
    assert [node.memory_usage_kib for node in host.share.numa_nodes] == [0, 0]
    assert threads_of(host, vm) == []
    assert stage.cloud.audit() == []


def test_the_check_looks_at_each_guest_node_alone(stage: Stage) -> None:
    """Two guest nodes that fit one after the other but not together pass the check and get nothing."""
    host = stage.cloud.add_host("numa", numa_nodes=numa_nodes(1, 2))
    vm = deployed(stage, host, template('PIN_POLICY = "CORE", SOCKETS = "2"', vcpu=4))
    assert threads_of(host, vm) == []
    assert vm.lcm_state.name == "RUNNING"
    assert stage.cloud.audit() == []


def test_huge_pages_are_counted_with_and_without_pinning(stage: Stage) -> None:
    host = stage.cloud.add_host("numa", numa_nodes=numa_nodes(2, 2))
    pages = [node.hugepages[0] for node in host.share.numa_nodes]
    pages[0].usage = 800
    pinned = deployed(stage, host, template('PIN_POLICY = "CORE", HUGEPAGE_SIZE = "2"', vcpu=1, memory=1024))
    loose = deployed(stage, host, template('HUGEPAGE_SIZE = "2"', vcpu=1, memory=512))
    assert [entry.usage for entry in pages] == [800, 512 + 256]
    assert guest_nodes(loose) == [("1", "1", "2,6,3,7")]
    third = stage.create(template('HUGEPAGE_SIZE = "2"', vcpu=1, memory=1024), ONEADMIN)
    with pytest.raises(OnedError, match="Cannot allocate NUMA topology"):
        stage.cloud.vm_deploy(ONEADMIN, third.id, host.id, enforce=True)
    for vm in (pinned, loose):
        stage.do(vm, "terminate")
    stage.cloud.settle()
    assert [entry.usage for entry in pages] == [800, 0]


def test_affinity_takes_memory_of_the_named_node_and_no_threads(stage: Stage) -> None:
    host = stage.cloud.add_host("numa", numa_nodes=numa_nodes(2, 2, memory_mib=2048))
    vm = deployed(stage, host, template('NODE_AFFINITY = "0"'))
    assert guest_nodes(vm) == [("0", "0", "0,4,1,5")]
    assert threads_of(host, vm) == []
    second = stage.create(template('NODE_AFFINITY = "0"'), ONEADMIN)
    with pytest.raises(OnedError, match="Cannot allocate NUMA topology"):
        stage.cloud.vm_deploy(ONEADMIN, second.id, host.id, enforce=True)
    assert "!(PIN_POLICY = PINNED)" in str(vm.template["AUTOMATIC_REQUIREMENTS"])


@pytest.mark.parametrize(("version", "node"), [("7.4.0", "1"), ("6.10.0", "0")])
def test_threads_lie_near_the_device_as_the_version_weighs_it(
    make_stage: Callable[[str], Stage], version: str, node: str
) -> None:
    """6.x takes the node that has the device; 7.x only where the guest's node has the same number."""
    stage = make_stage(version)
    gpu = {"ADDRESS": "0000:02:00:0", "SHORT_ADDRESS": "02:00.0", "VENDOR": "10de", "NUMA_NODE": "0"}
    host = stage.cloud.add_host("numa", numa_nodes=numa_nodes(2, 4), pci_devices=[gpu])
    two = 'NUMA_NODE = [ TOTAL_CPUS = "1", MEMORY = "1024" ]\nNUMA_NODE = [ TOTAL_CPUS = "3", MEMORY = "1024" ]\n'
    vm = deployed(stage, host, template('PIN_POLICY = "CORE"', more=two + 'PCI = [ VENDOR = "10de" ]'))
    assert [chosen for chosen, _, _ in guest_nodes(vm)] == ["0", node]


@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        (template('PIN_POLICY = "CORE", NODE_AFFINITY = "0"'), "NUMA node affinity cannot be set for pinned VMs"),
        (
            template('SOCKETS = "2"'),
            "Non-pinned VMs with a virtual topology needs to set  SOCKETS, CORES and THREADS numbers.",
        ),
        (
            template('SOCKETS = "1", CORES = "1", THREADS = "1"'),
            "Total threads per core and socket needs to match VCPU",
        ),
        (
            template('PIN_POLICY = "CORE", CORES = "3", THREADS = "1"'),
            "Total threads per core and socket needs to match VCPU",
        ),
        (template('PIN_POLICY = "CORE", CORES = "3"'), "VCPU is not multiple of the total number of cores"),
        (template('PIN_POLICY = "CORE", CORES = "1"', vcpu=3), "Computed number of threads is not power of 2"),
        (template('PIN_POLICY = "CORE", SOCKETS = "3"'), "VCPU is not multiple of the number of NUMA nodes"),
        (
            template('PIN_POLICY = "CORE", SOCKETS = "2"', memory=1025),
            "MEMORY is not multiple of the number of NUMA nodes",
        ),
        (
            template('PIN_POLICY = "CORE"', more='NUMA_NODE = [ TOTAL_CPUS = "3", MEMORY = "2048" ]'),
            "Total CPUS of NUMA nodes is different from VM VCPU",
        ),
        (
            template('PIN_POLICY = "CORE"', more='NUMA_NODE = [ TOTAL_CPUS = "4", MEMORY = "1" ]'),
            "Total MEMORY of NUMA nodes is different from VM MEMORY",
        ),
        (
            template('PIN_POLICY = "CORE"', more='NUMA_NODE = [ TOTAL_CPUS = "4" ]'),
            "NUMA_NODE capacity cannot be MEMORY or CPU only",
        ),
        (
            template('PIN_POLICY = "CORE"', more='VCPU_MAX = "8"'),
            "VM with TOPOLOGY does not support CPU hotplug (VCPU_MAX)",
        ),
    ],
)
def test_a_topology_that_does_not_add_up_is_refused(stage: Stage, text: str, refusal: str) -> None:
    with pytest.raises(OnedError) as error:
        stage.create(text, ONEADMIN)
    assert error.value.message == refusal


def test_pinning_is_for_administrators(stage: Stage) -> None:
    with pytest.raises(OnedError, match="VM Template includes a restricted attribute PIN_POLICY"):
        stage.create(template('PIN_POLICY = "CORE"'))
