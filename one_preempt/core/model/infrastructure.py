"""Clusters, datastores, networks and VM groups as oned reports them."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

from msgspec import Struct, field

CACHING_DRIVER = "local"
"""The transfer driver that has caches of images on hosts, from OpenNebula 7.0 on."""


class DatastoreType(IntEnum):
    """DATASTORE/TYPE."""

    IMAGE = 0
    SYSTEM = 1
    FILE = 2
    BACKUP = 3


class Permissions(Struct, frozen=True):
    """USE of owner, group and others; a placement asks for nothing more."""

    owner_use: bool = True
    group_use: bool = False
    other_use: bool = False


class Cluster(Struct, frozen=True):
    """One cluster; `attributes` are its template's texts by name."""

    id: int
    name: str
    host_ids: tuple[int, ...] = ()
    datastore_ids: tuple[int, ...] = ()
    network_ids: tuple[int, ...] = ()
    attributes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


class Datastore(Struct, frozen=True):
    """One datastore; space in MiB. `attributes`: {path below DATASTORE: values}, as for hosts."""

    id: int
    name: str
    uid: int
    gid: int
    permissions: Permissions
    type: DatastoreType
    enabled: bool
    shared: bool
    cluster_ids: tuple[int, ...]
    total_mib: int
    free_mib: int
    used_mib: int
    limit_mib: int | None
    tm_mad: str
    attributes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def is_cached_on_hosts(self) -> bool:
        """Its images are looked for in the caches that the driver `local` (7.x) keeps on hosts."""
        enabled = self.attributes.get("TEMPLATE/CACHE_ENABLE", ("",))[0]
        return self.tm_mad == CACHING_DRIVER and enabled.upper() == "YES"


class Network(Struct, frozen=True):
    """One virtual network; `size_leases` adds up its address ranges."""

    id: int
    name: str
    uid: int
    gid: int
    permissions: Permissions
    cluster_ids: tuple[int, ...]
    size_leases: int
    used_leases: int
    attributes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


class VmGroupRole(Struct, frozen=True):
    """One role of a VM group: its members and how they stand to each other and to hosts."""

    id: int
    name: str
    policy: str
    vm_ids: tuple[int, ...]
    host_affined: tuple[int, ...] = ()
    host_anti_affined: tuple[int, ...] = ()


class VmGroup(Struct, frozen=True):
    """One VM group; `affined` and `anti_affined` are the rules between roles, each a set of role names."""

    id: int
    name: str
    roles: tuple[VmGroupRole, ...]
    affined: tuple[tuple[str, ...], ...] = ()
    anti_affined: tuple[tuple[str, ...], ...] = ()
