"""May an owner have VMs on a host? By the rules of one.acl.info alone: a host has no permissions of its own.

A rule packs four fields. The upper half of `user`, `resource` and `zone` says what the lower half is the id of; one bit
of `resource` stands for hosts. Placing takes MANAGE.
"""

from __future__ import annotations

from collections.abc import Set

from one_preempt.core.model.access import ADMINISTRATORS_GID, ONEADMIN_UID, AclRule
from one_preempt.core.model.host import Host
from one_preempt.core.model.pool_snapshot import PoolSnapshot
from one_preempt.core.model.virtual_machine import VirtualMachine

_ONE, _GROUP, _EVERYTHING, _CLUSTER = 1 << 32, 1 << 33, 1 << 34, 1 << 35
_HOSTS = 1 << 37
_MANAGE = 2
_WHAT_ID = _ONE | _GROUP | _EVERYTHING | _CLUSTER


def may_place_on(snapshot: PoolSnapshot, vm: VirtualMachine, host: Host) -> bool:
    """Some rule lets the owner of a VM place it there, or he needs none.

    Where nothing is known of the owner, or no rule was read at all, nothing is held against it.
    """
    user, rules = snapshot.directory.users.get(vm.uid), snapshot.directory.acl_rules
    if user is None or not rules or ADMINISTRATORS_GID in (vm.gid, user.gid, *user.group_ids):
        return True
    if vm.uid == ONEADMIN_UID:
        return True
    names = {_ONE + user.id, _GROUP + user.gid, *(_GROUP + gid for gid in user.group_ids)}
    return any(_covers(one, host) and _is_about(one, names, snapshot.zone_id) for one in rules)


def _is_about(rule: AclRule, names: Set[int], zone_id: int) -> bool:
    """It is for whoever has these names, himself and his groups, or for everybody; and holds in this zone."""
    if not rule.zone & _EVERYTHING and rule.zone != _ONE + zone_id:
        return False
    return bool(rule.user & _EVERYTHING) or rule.user in names


def _covers(rule: AclRule, host: Host) -> bool:
    if not rule.rights & _MANAGE or not rule.resource & _HOSTS:
        return False
    what, one_id = rule.resource & _WHAT_ID, rule.resource & (_ONE - 1)
    return what == _EVERYTHING or (what, one_id) in ((_ONE, host.id), (_CLUSTER, host.cluster_id))
