"""Driver documents for tests: the recorded one, and small ones in which each VM and host is written out."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterable, Mapping
from pathlib import Path

from lxml import etree

from one_preempt.entrypoints.driver.driver_process import Messages, answer
from one_preempt.entrypoints.driver.place import decide

RECORDED = Path(__file__).parents[1] / "recordings" / "7.4.0"
RECORDED_LINE = (RECORDED / "place.stdin.base64.txt").read_bytes()
EMPTY_PLAN = "<PLAN><ID>-1</ID></PLAN>"


def recorded() -> etree._Element:
    return etree.fromstring(base64.b64decode(RECORDED_LINE))


def line(document: etree._Element | bytes) -> bytes:
    """What oned would write for a document."""
    xml = document if isinstance(document, bytes) else etree.tostring(document)
    return base64.b64encode(xml) + b"\n"


def placed(stdin: bytes) -> tuple[str, list[str]]:
    """The plan of `place` and its messages, in this process."""
    said = io.StringIO()
    plan = answer(-1, decide, io.BytesIO(stdin), Messages(said))
    return plan, said.getvalue().splitlines()


def places(plan: str) -> dict[int, tuple[str, int]]:
    """Operation and host by VM."""
    root = etree.fromstring(plan)
    return {
        int(action.findtext("VM_ID", "")): (action.findtext("OPERATION", ""), int(action.findtext("HOST_ID", "")))
        for action in root.findall("ACTION")
    }


def vm(
    vm_id: int, *, cpu: str = "1", memory: int = 128, template: str = "", user_template: str = "", more: str = ""
) -> str:
    return (
        f"<VM><ID>{vm_id}</ID><UID>2</UID><GID>100</GID><UNAME>ann</UNAME><GNAME>users</GNAME><NAME>vm{vm_id}</NAME>"
        "<PERMISSIONS><OWNER_U>1</OWNER_U></PERMISSIONS><STATE>1</STATE><LCM_STATE>0</LCM_STATE><RESCHED>0</RESCHED>"
        f"<STIME>1</STIME><ETIME>0</ETIME>{more}<TEMPLATE><CPU>{cpu}</CPU><MEMORY>{memory}</MEMORY>{template}</TEMPLATE>"
        f"<USER_TEMPLATE>{user_template}</USER_TEMPLATE><HISTORY_RECORDS/></VM>"
    )


def host(
    host_id: int, *, max_cpu: int = 400, cpu_usage: int = 0, template: str = "", vm_ids: Iterable[int] = ()
) -> str:
    vms = "".join(f"<ID>{vm_id}</ID>" for vm_id in vm_ids)
    return (
        f"<HOST><ID>{host_id}</ID><NAME>node{host_id}</NAME><STATE>2</STATE><CLUSTER_ID>0</CLUSTER_ID>"
        f"<HOST_SHARE><MEM_USAGE>0</MEM_USAGE><CPU_USAGE>{cpu_usage}</CPU_USAGE><TOTAL_MEM>8388608</TOTAL_MEM>"
        f"<TOTAL_CPU>{max_cpu}</TOTAL_CPU><MAX_MEM>8388608</MAX_MEM><MAX_CPU>{max_cpu}</MAX_CPU>"
        f"<RUNNING_VMS>0</RUNNING_VMS></HOST_SHARE><VMS>{vms}</VMS><TEMPLATE>{template}</TEMPLATE></HOST>"
    )


DATASTORE = (
    "<DATASTORE><ID>100</ID><UID>0</UID><GID>0</GID><NAME>system</NAME><TM_MAD>shared</TM_MAD><TYPE>1</TYPE>"
    "<STATE>0</STATE><CLUSTERS><ID>0</ID></CLUSTERS><TOTAL_MB>1000000</TOTAL_MB><FREE_MB>1000000</FREE_MB>"
    "<USED_MB>1</USED_MB><TEMPLATE><SHARED>YES</SHARED></TEMPLATE></DATASTORE>"
)


def document(vms: Mapping[int, str], hosts: Mapping[int, str], *, listed: Iterable[int] | None = None) -> bytes:
    """The document with these VMs and hosts; REQUIREMENTS list every host for the VMs `listed`, all as a rule."""
    ids = "".join(f"<ID>{host_id}</ID>" for host_id in hosts)
    requirements = "".join(
        f"<VM><ID>{vm_id}</ID><HOSTS>{ids}</HOSTS><DATASTORES><ID>100</ID></DATASTORES></VM>"
        for vm_id in (vms if listed is None else listed)
    )
    return (
        f"<SCHEDULER_DRIVER_ACTION><VM_POOL>{''.join(vms.values())}</VM_POOL>"
        f"<HOST_POOL>{''.join(hosts.values())}</HOST_POOL><DATASTORE_POOL>{DATASTORE}</DATASTORE_POOL>"
        "<VNET_POOL></VNET_POOL><VM_GROUP_POOL/><CLUSTER_POOL></CLUSTER_POOL>"
        f"<REQUIREMENTS>{requirements}</REQUIREMENTS></SCHEDULER_DRIVER_ACTION>"
    ).encode()
