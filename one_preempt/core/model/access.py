"""Users, groups, quotas and access rules as oned reports them."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

ADMINISTRATORS_GID = 0
ONEADMIN_UID = 0


class Quota(Struct, frozen=True):
    """VM quota of a user or group in one cluster (-1 or '': all clusters): limits and use by name.

    Names are oned's (CPU, MEMORY, VMS, RUNNING_CPU, ...); a limit of -1 means the default, -2 unlimited.
    """

    cluster_ids: tuple[int, ...]
    limits: Mapping[str, float]
    used: Mapping[str, float]


class User(Struct, frozen=True):
    """One user with all its groups."""

    id: int
    name: str
    gid: int
    gname: str
    group_ids: tuple[int, ...]
    enabled: bool = True
    vm_quotas: tuple[Quota, ...] = ()


class Group(Struct, frozen=True):
    """One group."""

    id: int
    name: str
    user_ids: tuple[int, ...] = ()
    vm_quotas: tuple[Quota, ...] = ()


class AclRule(Struct, frozen=True):
    """One rule of one.acl.info: four bit fields as oned packs them in hexadecimal (see `core/matching/access.py`)."""

    id: int
    user: int
    resource: int
    rights: int
    zone: int


class Directory(Struct, frozen=True):
    """Who exists and who may do what. The default quotas stand in where a limit is -1."""

    users: Mapping[int, User] = field(default_factory=dict)
    groups: Mapping[int, Group] = field(default_factory=dict)
    acl_rules: tuple[AclRule, ...] = ()
    default_user_vm_quotas: tuple[Quota, ...] = ()
    default_group_vm_quotas: tuple[Quota, ...] = ()
