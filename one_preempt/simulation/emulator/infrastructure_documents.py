"""Documents of clusters, datastores, images, VM groups and templates; `network_document` has those of networks."""

from __future__ import annotations

from collections.abc import Iterable

from one_preempt.simulation.emulator.permissions_document import head
from one_preempt.simulation.emulator.xml_writing import Vector, cdata, element, ids, plain, template, vector
from one_preempt.simulation.simulated_cloud.objects import (
    SimCluster,
    SimDatastore,
    SimImage,
    SimRole,
    SimVmGroup,
    SimVmTemplate,
)


def cluster(group: SimCluster) -> str:
    """CLUSTER."""
    return element(
        "CLUSTER",
        plain("ID", group.id),
        plain("NAME", group.name),
        ids("HOSTS", group.host_ids),
        ids("DATASTORES", group.datastore_ids),
        ids("VNETS", group.network_ids),
        template("TEMPLATE", group.template),
    )


def datastore(store: SimDatastore) -> str:
    """DATASTORE."""
    return element(
        "DATASTORE",
        head(store),
        cdata("DS_MAD", store.ds_mad),
        cdata("TM_MAD", store.tm_mad),
        cdata("BASE_PATH", store.base_path),
        f"<TYPE>{store.type:d}</TYPE><DISK_TYPE>{store.disk_type:d}</DISK_TYPE><STATE>{store.state:d}</STATE>",
        ids("CLUSTERS", store.cluster_ids),
        f"<TOTAL_MB>{store.total_mib}</TOTAL_MB><FREE_MB>{store.free_mib}</FREE_MB><USED_MB>{store.used_mib}</USED_MB>",
        ids("IMAGES", store.image_ids),
        template("TEMPLATE", store.template),
    )


def image(picture: SimImage, version: str) -> str:
    """IMAGE, without snapshots, clones and backups."""
    changed = "" if version.startswith("6.") else plain("MODTIME", picture.regtime_s)
    snapshots = {"ALLOW_ORPHANS": "NO", "CURRENT_BASE": "-1", "NEXT_SNAPSHOT": "0"}
    return element(
        "IMAGE",
        head(picture),
        f"<TYPE>{picture.type:d}</TYPE><DISK_TYPE>{picture.disk_type:d}</DISK_TYPE>",
        f"<PERSISTENT>{picture.persistent:d}</PERSISTENT><REGTIME>{picture.regtime_s}</REGTIME>",
        changed,
        cdata("SOURCE", picture.source),
        cdata("PATH", picture.path),
        cdata("FORMAT", picture.format),
        cdata("FS", ""),
        f"<SIZE>{picture.size_mib}</SIZE><STATE>{picture.state:d}</STATE><PREV_STATE>{picture.state:d}</PREV_STATE>",
        f"<RUNNING_VMS>{picture.running_vms}</RUNNING_VMS><CLONING_OPS>0</CLONING_OPS><CLONING_ID>-1</CLONING_ID>",
        f"<TARGET_SNAPSHOT>-1</TARGET_SNAPSHOT><DATASTORE_ID>{picture.datastore_id}</DATASTORE_ID>",
        plain("DATASTORE", picture.datastore),
        ids("VMS", picture.vm_ids),
        "<CLONES></CLONES><APP_CLONES></APP_CLONES>",
        template("TEMPLATE", picture.template),
        vector("SNAPSHOTS", snapshots),
        "<BACKUP_INCREMENTS></BACKUP_INCREMENTS><BACKUP_DISK_IDS></BACKUP_DISK_IDS>",
    )


def vm_group(group: SimVmGroup) -> str:
    """VM_GROUP."""
    return element(
        "VM_GROUP",
        head(group),
        element("ROLES", *(vector("ROLE", _role(role)) for role in group.roles)),
        template("TEMPLATE", group.template),
    )


def vm_template(pattern: SimVmTemplate) -> str:
    """VMTEMPLATE."""
    return element(
        "VMTEMPLATE", head(pattern), plain("REGTIME", pattern.regtime_s), template("TEMPLATE", pattern.template)
    )


def vm_update_lists(vm_ids: Iterable[int]) -> str:
    """The four lists that say which VMs know the last change of a network or security group."""
    return (
        ids("UPDATED_VMS", vm_ids) + "<OUTDATED_VMS></OUTDATED_VMS><UPDATING_VMS></UPDATING_VMS><ERROR_VMS></ERROR_VMS>"
    )


def _role(role: SimRole) -> Vector:
    entries = {**role.vector, "ID": str(role.id), "NAME": role.name}
    if role.vm_ids:
        entries["VMS"] = ",".join(map(str, role.vm_ids))
    return entries
