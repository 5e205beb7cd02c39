"""Clusters, datastores, networks and VM groups as values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from lxml.etree import _Element

from one_preempt.adapters.opennebula.xml_document import (
    amount,
    first_texts_of,
    ids_in,
    numbers_in,
    optional_number,
    read_objects,
    scalar_paths,
    texts_of,
    whole_number,
)
from one_preempt.core.model.infrastructure import (
    Cluster,
    Datastore,
    DatastoreType,
    Network,
    Permissions,
    VmGroup,
    VmGroupRole,
)

# Lists that grow with the number of VMs and that no requirement can name.
_NOT_ATTRIBUTES = frozenset({
    "PERMISSIONS", "IMAGES", "VROUTERS", "UPDATED_VMS", "OUTDATED_VMS", "UPDATING_VMS", "ERROR_VMS", "ALLOCATED",
    "LEASES",
})  # fmt: skip


class _Identified(Protocol):
    @property
    def id(self) -> int: ...


T = TypeVar("T", bound=_Identified)


def read_cluster_pool(document: bytes, problems: list[str]) -> dict[int, Cluster]:
    """The clusters of one.clusterpool.info by ascending id."""
    return _by_id(document, "CLUSTER_POOL", "CLUSTER", read_cluster, problems)


def read_datastore_pool(document: bytes, problems: list[str]) -> dict[int, Datastore]:
    """The datastores of one.datastorepool.info, of all types, by ascending id."""
    return _by_id(document, "DATASTORE_POOL", "DATASTORE", read_datastore, problems)


def read_network_pool(document: bytes, problems: list[str]) -> dict[int, Network]:
    """The networks of one.vnpool.info by ascending id."""
    return _by_id(document, "VNET_POOL", "VNET", read_network, problems)


def read_vm_group_pool(document: bytes, problems: list[str]) -> dict[int, VmGroup]:
    """The VM groups of one.vmgrouppool.info by ascending id."""
    return _by_id(document, "VM_GROUP_POOL", "VM_GROUP", read_vm_group, problems)


def _by_id(
    document: bytes, pool: str, tag: str, read_one: Callable[[_Element], T], problems: list[str]
) -> dict[int, T]:
    found = read_objects(document, pool, tag, read_one, problems) if document else []
    return {item.id: item for item in sorted(found, key=lambda item: item.id)}


def read_cluster(element: _Element) -> Cluster:
    """One CLUSTER element. `KeyError` or `ValueError` where it lacks what every one has."""
    texts = first_texts_of(element)
    return Cluster(
        id=amount(texts["ID"]),
        name=texts["NAME"],
        host_ids=ids_in(element.find("HOSTS")),
        datastore_ids=ids_in(element.find("DATASTORES")),
        network_ids=ids_in(element.find("VNETS")),
        attributes=_attributes(element.find("TEMPLATE")),
    )


def read_datastore(element: _Element) -> Datastore:
    """One DATASTORE element. `KeyError` or `ValueError` where it lacks what every one has."""
    texts = first_texts_of(element)
    attributes = _attributes(element)
    return Datastore(
        id=amount(texts["ID"]),
        name=texts["NAME"],
        uid=whole_number(texts["UID"]),
        gid=whole_number(texts["GID"]),
        permissions=_permissions(element.find("PERMISSIONS")),
        type=DatastoreType(whole_number(texts["TYPE"])),
        enabled=texts["STATE"] == "0",
        shared=_first(attributes, "TEMPLATE/SHARED").upper() == "YES",
        cluster_ids=ids_in(element.find("CLUSTERS")),
        total_mib=whole_number(texts["TOTAL_MB"]),
        free_mib=whole_number(texts["FREE_MB"]),
        used_mib=whole_number(texts["USED_MB"]),
        limit_mib=optional_number(_first(attributes, "TEMPLATE/LIMIT_MB")),
        tm_mad=texts.get("TM_MAD", ""),
        attributes=attributes,
    )


def read_network(element: _Element) -> Network:
    """One VNET element. `KeyError` or `ValueError` where it lacks what every one has."""
    texts = first_texts_of(element)
    return Network(
        id=amount(texts["ID"]),
        name=texts["NAME"],
        uid=whole_number(texts["UID"]),
        gid=whole_number(texts["GID"]),
        permissions=_permissions(element.find("PERMISSIONS")),
        cluster_ids=ids_in(element.find("CLUSTERS")),
        size_leases=sum(amount(size.text or "0") for size in element.findall("AR_POOL/AR/SIZE")),
        used_leases=amount(texts.get("USED_LEASES") or "0"),
        attributes=_attributes(element),
    )


def read_vm_group(element: _Element) -> VmGroup:
    """One VM_GROUP element. `KeyError` or `ValueError` where it lacks what every one has."""
    texts = first_texts_of(element)
    return VmGroup(
        id=amount(texts["ID"]),
        name=texts["NAME"],
        roles=tuple(_role(texts_of(role)) for role in element.findall("ROLES/ROLE")),
        affined=_role_sets(element, "AFFINED"),
        anti_affined=_role_sets(element, "ANTI_AFFINED"),
    )


def _role(texts: dict[str, str]) -> VmGroupRole:
    return VmGroupRole(
        id=whole_number(texts["ID"]),
        name=texts["NAME"],
        policy=texts.get("POLICY", "").upper(),
        vm_ids=numbers_in(texts.get("VMS", "")),
        host_affined=numbers_in(texts.get("HOST_AFFINED", "")),
        host_anti_affined=numbers_in(texts.get("HOST_ANTI_AFFINED", "")),
    )


def _role_sets(element: _Element, name: str) -> tuple[tuple[str, ...], ...]:
    rules = (rule.text or "" for rule in element.findall(f"TEMPLATE/{name}"))
    return tuple(tuple(role.strip() for role in rule.split(",") if role.strip()) for rule in rules)


def _permissions(element: _Element | None) -> Permissions:
    texts = {} if element is None else texts_of(element)
    return Permissions(*(texts.get(f"{who}_U") == "1" for who in ("OWNER", "GROUP", "OTHER")))


def _attributes(element: _Element | None) -> dict[str, tuple[str, ...]]:
    attributes: dict[str, tuple[str, ...]] = {}
    if element is not None:
        scalar_paths(element, "", attributes, _NOT_ATTRIBUTES)
    return attributes


def _first(attributes: dict[str, tuple[str, ...]], path: str) -> str:
    return attributes.get(path, ("",))[0]
