"""Who may place VMs where: the rules of one.acl.info, and the permissions of datastores and networks.

A rule packs four fields: the upper half of `user` and `resource` says what the lower half is:
one object, a group, everything, a cluster; `resource` also has one bit for each type of object. A VM needs
HOST MANAGE, DATASTORE USE and NET USE. Members of the administrators' group pass every check.
"""

from __future__ import annotations

from enum import IntFlag

import numpy as np
import numpy.typing as npt
from msgspec import Struct, field

from one_preempt.core.matching.expressions.attributes import BoolArray
from one_preempt.core.model.access import ADMINISTRATORS_GID, ONEADMIN_UID, AclRule, Directory
from one_preempt.core.model.infrastructure import Datastore, Network
from one_preempt.core.model.virtual_machine import LockLevel, VirtualMachine

INDIVIDUAL = 0x0000_0001_0000_0000
GROUP = 0x0000_0002_0000_0000
ALL = 0x0000_0004_0000_0000
CLUSTER = 0x0000_0008_0000_0000
_ID_MASK = 0xFFFF_FFFF
# Networks can be locked; datastores cannot.
_LOCK = "LOCK/LOCKED"
_LOCKS_AGAINST_USE = frozenset({str(int(LockLevel.USE)), str(int(LockLevel.ALL))})
_SCOPES = INDIVIDUAL | GROUP | ALL | CLUSTER


class ObjectType(IntFlag):
    """The bits of `resource` that name types of objects; those that a placement needs."""

    VM = 0x0000_0010_0000_0000
    HOST = 0x0000_0020_0000_0000
    NET = 0x0000_0040_0000_0000
    DATASTORE = 0x0000_1000_0000_0000


class Right(IntFlag):
    """The bits of `rights`."""

    USE = 1
    MANAGE = 2
    ADMIN = 4
    CREATE = 8


class Granted(Struct, frozen=True):
    """What the rules grant one user on one type of object: everything, or by id, group and cluster."""

    everything: bool = False
    ids: frozenset[int] = frozenset()
    group_ids: frozenset[int] = frozenset()
    cluster_ids: frozenset[int] = frozenset()

    def covers(self, object_id: int, gid: int, cluster_ids: tuple[int, ...]) -> bool:
        """Is this object covered?"""
        return (
            self.everything
            or object_id in self.ids
            or gid in self.group_ids
            or not self.cluster_ids.isdisjoint(cluster_ids)
        )


class Owner(Struct, frozen=True):
    """On whose behalf a VM is placed: the user with all groups, ascending.

    The administrators' group is among them where the VM belongs to it, whoever owns the VM.
    """

    uid: int
    group_ids: tuple[int, ...]

    @property
    def exempt(self) -> bool:
        """Passes every check."""
        return self.uid == ONEADMIN_UID or ADMINISTRATORS_GID in self.group_ids


class AccessRules:
    """The rules of one zone, asked by owner."""

    def __init__(self, directory: Directory, zone_id: int) -> None:
        self._directory = directory
        self._rules = [rule for rule in directory.acl_rules if _holds_in(rule, zone_id)]
        self._granted: dict[tuple[Owner, ObjectType, Right], Granted] = {}
        self._owners: dict[tuple[int, int], Owner] = {}

    def owner_of(self, vm: VirtualMachine) -> Owner:
        """The VM's owner with all groups of the user; with the VM's group where nothing is known of the user.

        As for oned, a VM that is still in a group that its owner was taken out of gives no right of that group.
        """
        owner = self._owners.get((vm.uid, vm.gid))
        if owner is None:
            user = self._directory.users.get(vm.uid)
            groups = {vm.gid} if user is None else {user.gid, *user.group_ids}
            if vm.gid == ADMINISTRATORS_GID:
                groups.add(vm.gid)
            owner = self._owners[vm.uid, vm.gid] = Owner(vm.uid, tuple(sorted(groups)))
        return owner

    def hosts(self, owner: Owner, host_ids: npt.NDArray[np.int64], cluster_ids: npt.NDArray[np.int64]) -> BoolArray:
        """The hosts on which `owner` may place VMs (MANAGE), as a mask. Hosts have no permissions of their own."""
        granted = self.granted(owner, ObjectType.HOST, Right.MANAGE)
        if owner.exempt or granted.everything:
            return np.ones(len(host_ids), dtype=np.bool_)
        by_id = np.isin(host_ids, sorted(granted.ids))
        return by_id | np.isin(cluster_ids, sorted(granted.cluster_ids))

    def may_use(self, owner: Owner, thing: Datastore | Network) -> bool:
        """May `owner` use this datastore or network, by its permissions or by a rule? A lock against use stops both."""
        permissions = thing.permissions
        if owner.exempt:
            return True
        if thing.attributes.get(_LOCK, ("",))[0] in _LOCKS_AGAINST_USE:
            return False
        if permissions.other_use:
            return True
        if (permissions.owner_use and thing.uid == owner.uid) or (
            permissions.group_use and thing.gid in owner.group_ids
        ):
            return True
        kind = ObjectType.DATASTORE if isinstance(thing, Datastore) else ObjectType.NET
        return self.granted(owner, kind, Right.USE).covers(thing.id, thing.gid, thing.cluster_ids)

    def granted(self, owner: Owner, kind: ObjectType, right: Right) -> Granted:
        """All that the rules grant `owner`."""
        key = (owner, kind, right)
        if key not in self._granted:
            self._granted[key] = self._collect(owner, kind, right)
        return self._granted[key]

    def _collect(self, owner: Owner, kind: ObjectType, right: Right) -> Granted:
        found = _Collected()
        for rule in self._rules:
            if rule.rights & right and rule.resource & kind and _names(rule, owner):
                found.add(rule.resource & _SCOPES, rule.resource & _ID_MASK)
        return Granted(found.everything, frozenset(found.ids), frozenset(found.group_ids), frozenset(found.cluster_ids))


def have_same_owners(one: Directory, other: Directory) -> bool:
    """The same rules, and the same users in the same groups."""
    if one is other:
        return True
    if one.acl_rules is not other.acl_rules or one.users.keys() != other.users.keys():
        return False
    return all(
        user is other.users[uid] or (user.gid, user.group_ids) == (other.users[uid].gid, other.users[uid].group_ids)
        for uid, user in one.users.items()
    )


class _Collected(Struct):
    everything: bool = False
    ids: set[int] = field(default_factory=set)
    group_ids: set[int] = field(default_factory=set)
    cluster_ids: set[int] = field(default_factory=set)

    def add(self, scope: int, object_id: int) -> None:
        if scope == ALL:
            self.everything = True
        elif scope == INDIVIDUAL:
            self.ids.add(object_id)
        elif scope == GROUP:
            self.group_ids.add(object_id)
        elif scope == CLUSTER:
            self.cluster_ids.add(object_id)


def _names(rule: AclRule, owner: Owner) -> bool:
    """Does the rule speak of this user, of one of the groups, or of everybody?"""
    scope, number = rule.user & _SCOPES, rule.user & _ID_MASK
    if scope == ALL:
        return True
    return (scope == INDIVIDUAL and number == owner.uid) or (scope == GROUP and number in owner.group_ids)


def _holds_in(rule: AclRule, zone_id: int) -> bool:
    return rule.zone & _SCOPES == ALL or rule.zone == INDIVIDUAL | zone_id
