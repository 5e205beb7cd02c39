"""The NUMA part of a host's document, written and read back."""

from __future__ import annotations

from lxml import etree

from one_preempt.simulation.emulator import recorded_hosts
from one_preempt.simulation.emulator.host_document import host
from one_preempt.simulation.simulated_cloud.cloud import SimulatedCloud
from one_preempt.simulation.simulated_cloud.furnishing import numa_nodes


def test_shared_dedicated_and_reserved_threads_are_written_as_oned_does_and_read_back() -> None:
    machine = SimulatedCloud().add_host("numa", numa_nodes=numa_nodes(1, 3))
    machine.share.vms_thread = 2
    shared, dedicated, reserved = machine.share.numa_nodes[0].cores
    shared.cpus[0] = [12, 7]
    dedicated.cpus[1], dedicated.dedicated = [9], True
    reserved.reserved = {5}
    document = etree.fromstring(host(machine, "7.4.0", monitored=False))
    cores = document.findall("HOST_SHARE/NUMA_NODES/NODE/CORE")
    assert [(core.findtext("CPUS"), core.findtext("FREE"), core.findtext("DEDICATED")) for core in cores] == [
        ("0:7,0:12,3:-1", "2", "NO"),
        ("1:9,4:-1", "0", "YES"),
        ("2:-1,5:-2", "2", "NO"),
    ]
    shared.cpus[0].sort()
    assert recorded_hosts.host(document, None).share.numa_nodes[0].cores == [shared, dedicated, reserved]
