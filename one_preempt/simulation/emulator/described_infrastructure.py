"""Clusters, datastores, images, networks, VM groups and VM templates of a description."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import AddressValueError, IPv4Address

from one_preempt.errors import OnePreemptError
from one_preempt.simulation.emulator.description import (
    DatastoreEntry,
    Description,
    HostEntry,
    ImageEntry,
    NetworkEntry,
    RoleEntry,
    TemplateEntry,
)
from one_preempt.simulation.simulated_cloud.cloud import SimulatedCloud
from one_preempt.simulation.simulated_cloud.furnishing import usable_by_group
from one_preempt.simulation.simulated_cloud.objects import Attribute, SimDatastore, TemplateDict, Vector
from one_preempt.simulation.simulated_cloud.states import DatastoreType
from one_preempt.simulation.simulated_cloud.templates import merged

_FIRST_ID = 100
_TYPES = {
    "image": (DatastoreType.IMAGE, "IMAGE_DS"),
    "system": (DatastoreType.SYSTEM, "SYSTEM_DS"),
    "file": (DatastoreType.FILE, "FILE_DS"),
}


def add_infrastructure(cloud: SimulatedCloud, description: Description) -> None:
    """Put in place everything but hosts, people and VMs. Raises `OnePreemptError` for a name that is not there."""
    for cluster in description.clusters:
        cloud.add_cluster(cluster.name, template_of(cluster.template))
    for datastore in description.datastores:
        _add_datastore(cloud, datastore)
    for image in description.images:
        _add_image(cloud, image)
    for network in description.networks:
        _add_network(cloud, network)
    for group in description.vm_groups:
        roles = {role.name: _role(role) for role in group.roles}
        cloud.add_vm_group(group.name, roles, template_of(group.template)).permissions.other_u = group.public
    for pattern in description.vm_templates:
        cloud.add_vm_template(pattern.name, template_of(pattern.template))


def template_of(entries: TemplateEntry) -> TemplateDict:
    """A template as oned keeps it: lists of texts and of vectors of texts."""
    return {
        name.upper(): [_attribute(value) for value in (values if isinstance(values, list) else [values])]
        for name, values in entries.items()
    }


def template_of_version(cloud: SimulatedCloud, entry: DatastoreEntry | HostEntry) -> TemplateDict:
    """The template of an entry that says what 7.x has beside."""
    template = template_of(entry.template)
    return merged(template, template_of(entry.template_of_7)) if cloud.is_series_7 else template


def cluster_id(cloud: SimulatedCloud, name: str, place: str) -> int:
    """The id of the cluster called `name`; `place` says who asks."""
    for cluster in cloud.clusters.values():
        if cluster.name == name:
            return cluster.id
    known = ", ".join(cluster.name for cluster in cloud.clusters.values())
    raise OnePreemptError(f"{place}: there is no cluster {name!r}; there are {known}")


def _attribute(value: str | int | float | dict[str, str | int | float]) -> Attribute:
    if isinstance(value, dict):
        return {key.upper(): str(text) for key, text in value.items()}
    return str(value)


def _add_datastore(cloud: SimulatedCloud, entry: DatastoreEntry) -> None:
    place = f"datastores: {entry.name}"
    if entry.type not in _TYPES:
        raise OnePreemptError(f"{place}: type {entry.type!r} is none of {', '.join(_TYPES)}")
    kind, type_name = _TYPES[entry.type]
    datastore_id = max(max(cloud.datastores, default=-1) + 1, _FIRST_ID) if entry.id is None else entry.id
    if datastore_id in cloud.datastores:
        raise OnePreemptError(f"{place}: another datastore has the id {datastore_id}")
    tm_mad = (cloud.is_series_7 and entry.tm_mad_of_7) or entry.tm_mad
    shipped: TemplateDict = {"DS_MAD": [entry.ds_mad], "TM_MAD": [tm_mad], "TYPE": [type_name]}
    if kind == DatastoreType.SYSTEM:
        del shipped["DS_MAD"]
    template = merged(shipped, template_of_version(cloud, entry))
    store = SimDatastore(
        datastore_id, 0, 0, "oneadmin", "oneadmin", entry.name, usable_by_group(), entry.ds_mad, tm_mad,
        entry.base_path or f"/var/lib/one//datastores/{datastore_id}", kind,
        cluster_ids=_cluster_ids(cloud, entry.clusters, place),
        total_mib=entry.total_mib, free_mib=entry.total_mib - entry.used_mib, used_mib=entry.used_mib,
        template=template,
    )  # fmt: skip
    cloud.datastores[datastore_id] = store
    for number in store.cluster_ids:
        cloud.clusters[number].datastore_ids = sorted([*cloud.clusters[number].datastore_ids, datastore_id])


def _add_image(cloud: SimulatedCloud, entry: ImageEntry) -> None:
    stores = {datastore.name: datastore.id for datastore in cloud.datastores.values()}
    if entry.datastore not in stores:
        raise OnePreemptError(f"images: {entry.name}: there is no datastore {entry.datastore!r}")
    image = cloud.add_image(entry.name, stores[entry.datastore], entry.size_mib, entry.format, entry.source)
    image.path = entry.path
    image.permissions.other_u = entry.public
    image.template = merged(image.template, template_of(entry.template))


def _add_network(cloud: SimulatedCloud, entry: NetworkEntry) -> None:
    place = f"networks: {entry.name}"
    try:
        IPv4Address(entry.first_ip)
    except AddressValueError as error:
        raise OnePreemptError(f"{place}: first_ip {entry.first_ip!r} is no IPv4 address") from error
    clusters = _cluster_ids(cloud, entry.clusters, place)
    network = cloud.add_network(entry.name, entry.size, entry.first_ip, clusters)
    network.bridge, network.vn_mad = entry.bridge, entry.vn_mad
    network.permissions.other_u = entry.public
    unused = ("OUTER_VLAN_ID", "PHYDEV", "VLAN_ID")
    network.template |= {
        "BRIDGE": [entry.bridge],
        "BRIDGE_TYPE": [network.bridge_type],
        "VN_MAD": [entry.vn_mad],
        **{name: [""] for name in unused},
    }


def _role(entry: RoleEntry) -> Vector:
    rules = {
        "POLICY": entry.policy,
        "HOST_AFFINED": entry.host_affined,
        "HOST_ANTI_AFFINED": entry.host_anti_affined,
    }
    return {name: rule for name, rule in rules.items() if rule}


def _cluster_ids(cloud: SimulatedCloud, names: Sequence[str], place: str) -> list[int]:
    return sorted(cluster_id(cloud, name, place) for name in names)
