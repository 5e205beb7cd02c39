from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from one_preempt.adapters.opennebula.host_reader import read_host_pool
from one_preempt.adapters.opennebula.infrastructure_reader import read_cluster_pool
from one_preempt.core.model.host import Host, HostDatastore, HostState, HugePages, NumaCore, PciDevice
from one_preempt.core.model.resources import Resources

RECORDINGS = Path(__file__).resolve().parents[2] / "recordings"
VERSIONS = ("7.4.0", "6.10.0")


def recorded_hosts(version: str, pool: str = "hostpool.info") -> dict[int, Host]:
    folder = RECORDINGS / version
    problems: list[str] = []
    clusters = read_cluster_pool((folder / "clusterpool.info.xml").read_bytes(), problems)
    monitoring = (folder / "hostpool.monitoring.xml").read_bytes()
    hosts = read_host_pool((folder / f"{pool}.xml").read_bytes(), monitoring, clusters, problems)
    assert problems == []
    return hosts


@pytest.mark.parametrize("version", VERSIONS)
def test_states_clusters_and_usage_are_as_recorded(version: str) -> None:
    found = {
        host.id: (host.name, host.state, host.cluster_name, host.free, host.running_vms, host.vm_ids)
        for host in recorded_hosts(version).values()
    }
    whole = Resources(800, 16384)
    assert found == {
        0: ("node01", HostState.MONITORED, "rack-a", Resources(600, 14336), 2, (0, 15)),
        1: ("node02", HostState.MONITORED, "rack-a", Resources(700, 15360), 1, (1,)),
        2: ("node03", HostState.MONITORED, "rack-a", Resources(600, 14336), 2, (2, 10)),
        3: ("node04", HostState.MONITORED, "rack-b", Resources(100, 11264), 4, (5, 6, 7, 12)),
        4: ("node05", HostState.DISABLED, "rack-b", whole, 0, ()),
        5: ("node06", HostState.OFFLINE, "rack-b", Resources(0, 0), 0, ()),
    }
    assert [host.id for host in recorded_hosts(version).values() if host.accepts_vms] == [0, 1, 2, 3]


def test_a_host_in_error_is_read_with_the_others() -> None:
    hosts = recorded_hosts("7.4.0", "hostpool.info.with_error_host")
    assert list(hosts) == [0, 1, 2, 3, 4, 5, 6]
    assert (hosts[6].name, hosts[6].state, hosts[6].capacity) == ("node-bad", HostState.ERROR, Resources(800, 16384))
    assert hosts[6].attributes["TEMPLATE/ERROR"][0].startswith("Fri Nov 20 12:00:49 2026 : Error monitoring")


@pytest.mark.parametrize("version", VERSIONS)
def test_scalars_are_attributes_under_their_path_with_cluster_and_monitoring_merged_in(version: str) -> None:
    attributes = recorded_hosts(version)[0].attributes
    assert attributes["NAME"] == ("node01",)
    assert attributes["HOST_SHARE/MAX_CPU"] == ("800",)
    assert attributes["HOST_SHARE/DATASTORES/FREE_DISK"] == ("20480",)
    assert attributes["TEMPLATE/RACK"] == ("A",)
    assert attributes["TEMPLATE/PARTITION"] == ("gpu",)
    assert attributes["TEMPLATE/RESERVED_CPU"] == ("",)
    assert attributes["CLUSTER_TEMPLATE/LOCATION"] == ("room 1",)
    expected_free_cpu = {"7.4.0": "26", "6.10.0": "425"}[version]
    assert attributes["MONITORING/CAPACITY/FREE_CPU"] == (expected_free_cpu,)
    assert attributes["MONITORING/SYSTEM/NETRX"] == ("50104108822222",)
    assert not [path for path in attributes if "PCI" in path or "NUMA" in path]


def test_a_host_without_a_monitoring_record_has_no_monitoring() -> None:
    hosts = recorded_hosts("7.4.0", "hostpool.info.with_error_host")
    monitored = [host.name for host in hosts.values() if any(path.startswith("MONITORING") for path in host.attributes)]
    assert monitored == ["node01", "node02", "node03", "node04", "node05", "node06"]


def test_pci_devices_are_read_with_who_holds_them() -> None:
    devices = recorded_hosts("7.4.0")[0].pci_devices
    assert len(devices) == 22
    assert devices[0] == PciDevice("0000:02:00:0", "02:00.0", "10de", "0863", "0302", vm_id=-1)
    assert sum(device.vendor == "15b3" for device in devices) == 18
    assert len(recorded_hosts("6.10.0")[0].pci_devices) == 3


@pytest.mark.parametrize("version", VERSIONS)
def test_numa_nodes_tell_which_threads_are_pinned_by_whom(version: str) -> None:
    node0, node1 = recorded_hosts(version)[3].numa_nodes
    assert (node0.id, node1.id) == (0, 1)
    assert [core.id for core in node1.cores] == list(range(8, 16))
    assert node1.cores[0] == NumaCore(8, ((8, 12), (24, -1), (40, -1), (56, -1)), dedicated=True)
    assert [core.id for core in node1.cores if core.dedicated] == [8, 9, 10, 11]
    assert node0.cores[0] == NumaCore(0, ((0, -1), (16, -1), (32, -1), (48, -1)), dedicated=False)
    assert (node1.total_memory_kib, node1.usage_memory_kib, node0.usage_memory_kib) == (8388608, 2097152, 0)
    assert (node0.distance, node1.distance) == ((0, 1), (1, 0))
    assert node0.hugepages == (HugePages(2048, 1024, 0, 1024), HugePages(1048576, 1024, 0, 1024))


def host_text(**parts: str) -> bytes:
    share = (
        "<MEM_USAGE>0</MEM_USAGE><CPU_USAGE>0</CPU_USAGE><TOTAL_MEM>1048576</TOTAL_MEM><TOTAL_CPU>400</TOTAL_CPU>"
        "<MAX_MEM>1048576</MAX_MEM><MAX_CPU>400</MAX_CPU><RUNNING_VMS>0</RUNNING_VMS>"
    )
    return (
        f"<HOST_POOL><HOST><ID>1</ID><NAME>h</NAME><STATE>2</STATE><CLUSTER_ID>0</CLUSTER_ID>"
        f"<HOST_SHARE>{share}{parts.get('share', '')}</HOST_SHARE><VMS/>"
        f"<TEMPLATE>{parts.get('template', '')}</TEMPLATE><MONITORING>{parts.get('monitoring', '')}</MONITORING>"
        f"</HOST></HOST_POOL>"
    ).encode()


def single_host(records: bytes = b"", **parts: str) -> Host:
    problems: list[str] = []
    hosts = read_host_pool(host_text(**parts), records, {}, problems)
    assert problems == []
    return hosts[1]


def test_free_huge_pages_are_those_that_monitoring_saw() -> None:
    nodes = (
        "<NUMA_NODES><NODE><HUGEPAGE><PAGES>10</PAGES><SIZE>2048</SIZE><USAGE>4</USAGE></HUGEPAGE>"
        "<NODE_ID>0</NODE_ID></NODE></NUMA_NODES>"
    )
    assert single_host(share=nodes).numa_nodes[0].hugepages == (HugePages(2048, 10, 4, free_pages=6),)
    seen = (
        b"<MONITORING_DATA><MONITORING><TIMESTAMP>1</TIMESTAMP><ID>1</ID><NUMA_NODE><HUGEPAGE><FREE>3</FREE>"
        b"<SIZE>2048</SIZE></HUGEPAGE><NODE_ID>0</NODE_ID></NUMA_NODE></MONITORING></MONITORING_DATA>"
    )
    assert single_host(seen, share=nodes).numa_nodes[0].hugepages == (HugePages(2048, 10, 4, free_pages=3),)


def test_local_datastores_of_a_host_are_read() -> None:
    host = single_host(
        share="<DATASTORES><FREE_DISK>7</FREE_DISK><DS><ID>100</ID><FREE_MB>5</FREE_MB><TOTAL_MB>9</TOTAL_MB>"
        "<USED_MB>4</USED_MB></DS><DS><ID>101</ID><FREE_MB>6</FREE_MB></DS></DATASTORES>"
    )
    assert host.free_disk_mib == 7
    assert host.datastores == (HostDatastore(100, 5, 9, 4), HostDatastore(101, 6, 0, 0))
    assert host.attributes["HOST_SHARE/DATASTORES/DS/ID"] == ("100", "101")


def test_a_pinned_host_and_an_attribute_given_twice_are_kept() -> None:
    host = single_host(template="<PIN_POLICY>PINNED</PIN_POLICY><TAG>a</TAG><TAG>b</TAG>")
    assert host.pinned_only
    assert host.attributes["TEMPLATE/TAG"] == ("a", "b")


def test_the_newest_of_several_records_counts_and_one_inside_the_document_before_all() -> None:
    records = b"".join(
        b"<MONITORING><TIMESTAMP>%d</TIMESTAMP><ID>1</ID><CAPACITY><FREE_CPU>%d</FREE_CPU></CAPACITY></MONITORING>"
        % (stamp, stamp)
        for stamp in (10, 30, 20)
    )
    pool = b"<MONITORING_DATA>%b</MONITORING_DATA>" % records
    assert single_host(pool).attributes["MONITORING/CAPACITY/FREE_CPU"] == ("30",)
    own = "<TIMESTAMP>5</TIMESTAMP><CAPACITY><FREE_CPU>1</FREE_CPU></CAPACITY>"
    assert single_host(pool, monitoring=own).attributes["MONITORING/CAPACITY/FREE_CPU"] == ("1",)


@pytest.mark.parametrize("version", VERSIONS)
def test_hosts_compare_and_travel_between_processes(version: str) -> None:
    hosts = recorded_hosts(version)
    assert pickle.loads(pickle.dumps(hosts)) == hosts == recorded_hosts(version)


@pytest.mark.parametrize(
    "monitoring",
    [b"<MONITORING_DATA><MONITORING><ID>1", b"no xml", b"<MONITORING_DATA><MONITORING/></MONITORING_DATA>"],
)
def test_broken_monitoring_costs_the_figures_and_not_the_hosts(monitoring: bytes) -> None:
    problems: list[str] = []
    hosts = read_host_pool(host_text(), monitoring, {}, problems)
    assert list(hosts) == [1]
    assert len(problems) == 1
