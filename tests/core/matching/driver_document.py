"""Reads the document that oned gives to a scheduler driver, and answers it as `rank` would be asked to."""

from __future__ import annotations

from collections.abc import Mapping

from lxml import etree

from one_preempt.adapters.opennebula.snapshot_assembly import assemble_snapshot
from one_preempt.core.host_selection import custom, fixed, load_aware, packing, striping
from one_preempt.core.matching.host_table import host_table
from one_preempt.core.matching.options import MatchOptions, datastore_rank, network_rank
from one_preempt.core.matching.placement import Matchmaker
from one_preempt.core.matching.reasons import Unplaced
from one_preempt.core.model.pool_snapshot import PoolSnapshot
from one_preempt.core.model.prematch import Prematch
from one_preempt.core.model.virtual_machine import LcmState, VirtualMachine, VmState
from one_preempt.core.queue_order.user_priority import priority_of

HOST_SELECTIONS = (packing.POLICY, striping.POLICY, load_aware.POLICY, custom.POLICY, fixed.POLICY)
SIDE_POLICIES = ("packing", "striping", "custom", "fixed")
POOLS = {
    "VM_POOL": "vmpool.infoextended",
    "HOST_POOL": "hostpool.info",
    "DATASTORE_POOL": "datastorepool.info",
    "VNET_POOL": "vnpool.info",
    "VM_GROUP_POOL": "vmgrouppool.info",
}

ActionTuple = tuple[int, str, int, int, tuple[tuple[int, int], ...]]


def read_document(text: str) -> tuple[PoolSnapshot, dict[int, Prematch]]:
    """The snapshot, and what oned matched for each VM."""
    root = etree.fromstring(text.encode())
    for template in (*root.iterfind("VM_POOL/VM/TEMPLATE"), *root.iterfind("VM_POOL/VM/USER_TEMPLATE")):
        # The pools of XML-RPC are sorted, and only so they are read; these documents are not.
        template[:] = sorted(template, key=lambda element: str(element.tag))
    documents = {
        call: etree.tostring(element) for tag, call in POOLS.items() if (element := root.find(tag)) is not None
    }
    monitoring = etree.Element("MONITORING_DATA")
    monitoring.extend(root.findall("HOST_POOL/HOST/MONITORING"))
    documents["hostpool.monitoring"] = etree.tostring(monitoring)
    snapshot = assemble_snapshot(documents, observed_at_s=0)
    prematched = {
        int(vm.findtext("ID", "")): Prematch(
            host_ids=_ids(vm.findall("HOSTS/ID")),
            datastore_ids=_ids(vm.findall("DATASTORES/ID")),
            network_ids={int(nic.findtext("ID", "")): _ids(nic.findall("VNETS/ID")) for nic in vm.findall("NIC")},
        )
        for vm in root.findall("REQUIREMENTS/VM")
    }
    return snapshot, prematched


def options_of(conf: Mapping[str, int | float | str]) -> MatchOptions:
    """The options that a rank.conf stands for."""
    return MatchOptions(
        max_vm=0,
        max_dispatch=0,
        max_host=int(conf["max_host"]),
        host_selection=HOST_SELECTIONS[int(conf["sched"])],
        datastore_rank=datastore_rank(SIDE_POLICIES[int(conf["ds"])]),
        network_rank=network_rank(SIDE_POLICIES[int(conf["nic"])]),
        different_networks=conf["diff"] == "YES",
        memory_system_ds_scale=float(conf["scale"]),
        check_access=False,
    )


def answer(text: str, conf: Mapping[str, int | float | str]) -> tuple[set[ActionTuple], dict[int, Unplaced]]:
    """What this scheduler would do: (VM, operation, host, datastore, networks), and why others wait."""
    snapshot, prematched = read_document(text)
    matchmaker = Matchmaker(snapshot, host_table(snapshot.hosts), options_of(conf), prematched)
    room = matchmaker.new_room()
    actions: set[ActionTuple] = set()
    refused: dict[int, Unplaced] = {}
    waiting = [vm for vm in snapshot.vms.values() if _to_be_placed(vm)]
    for vm in sorted(waiting, key=lambda vm: (-priority_of(vm), vm.id)):
        placed = matchmaker.place(vm, room)
        if isinstance(placed, Unplaced):
            refused[vm.id] = placed
        else:
            operation = "migrate" if vm.resched else "deploy"
            assert placed.datastore_id is not None
            actions.add((vm.id, operation, placed.host_id, placed.datastore_id, placed.nics))
    return actions, refused


def expected(plan: str) -> set[ActionTuple]:
    """The actions of a recorded plan."""
    return {
        (
            int(action.findtext("VM_ID", "")),
            action.findtext("OPERATION", ""),
            int(action.findtext("HOST_ID", "")),
            int(action.findtext("DS_ID", "")),
            tuple(
                sorted(
                    (int(nic.findtext("NIC_ID", "")), int(nic.findtext("NETWORK_ID", "")))
                    for nic in action.findall("NIC")
                )
            ),
        )
        for action in etree.fromstring(plan.encode()).findall("ACTION")
    }


def _to_be_placed(vm: VirtualMachine) -> bool:
    if vm.state is VmState.PENDING:
        return True
    return vm.resched and (vm.state is VmState.POWEROFF or vm.lcm_state in (LcmState.RUNNING, LcmState.UNKNOWN))


def _ids(elements: list[etree._Element]) -> frozenset[int]:
    return frozenset(int(element.text or "-1") for element in elements)
