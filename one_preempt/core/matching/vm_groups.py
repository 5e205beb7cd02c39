"""VM groups: which hosts the rules of a VM's role leave.

The rules hold against members that are on a host, against those placed earlier in the same decision, and against those
for whom room is being made on a host. Where
VMs must share a host and none of them runs, the oldest that waits leads: it goes where there is room for all, and
the others follow once it has started. So do members that are to be rescheduled, where no other member stays.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from msgspec import Struct

from one_preempt.core.matching.demands import moves
from one_preempt.core.matching.expressions.attributes import BoolArray
from one_preempt.core.matching.room import Room
from one_preempt.core.model.infrastructure import VmGroup, VmGroupRole
from one_preempt.core.model.pool_snapshot import PoolSnapshot
from one_preempt.core.model.virtual_machine import LockLevel, VirtualMachine, VmState

_AFFINED = "AFFINED"
_ANTI_AFFINED = "ANTI_AFFINED"


class GroupRules(Struct, frozen=True):
    """What the rules say of one VM now.

    `companions` must find room on the same host; `follows` is the VM whose start this one has to wait for.
    """

    mask: BoolArray
    companions: tuple[VirtualMachine, ...] = ()
    follows: int | None = None


def group_rules(vm: VirtualMachine, room: Room) -> GroupRules | None:
    """The rules that concern `vm`, or None where none does."""
    found = role_of(vm, room.snapshot)
    if found is None:
        return None
    rules = rules_of_role(*found, room)
    mask = rules.mask
    others = rules.apart - {vm.id}
    mask[[row for vm_id in others for row in room.rows_of(vm_id)]] = False
    mask[[room.hosts.index_by_id[room.expected_on[vm_id]] for vm_id in others & room.expected_on.keys()]] = False
    waiting: set[int] = set()
    for together in rules.together:
        moving = _moving(vm, room, together)
        hosts = _active_hosts(room, together - moving)
        if not hosts:
            waiting.update(moving or _waiting(room, together))
            hosts = _hosts_to_come_to(vm, room, together)
        if hosts:
            mask &= np.isin(room.hosts.ids, sorted(hosts))
    leader = min(waiting, default=vm.id)
    if leader < vm.id:
        return GroupRules(mask, follows=leader)
    companions = sorted(waiting - {vm.id} - room.placed.keys() - room.expected_on.keys())
    return GroupRules(mask, tuple(room.snapshot.vms[vm_id] for vm_id in companions))


class RoleRules(Struct, frozen=True):
    """What the rules of a role name, whoever is where: VMs it keeps apart from, and sets each of which shares a host.

    `mask` are the hosts that it may be on at all, shape (H,).
    """

    mask: BoolArray
    apart: frozenset[int]
    together: tuple[frozenset[int], ...]


def rules_of_role(group: VmGroup, role: VmGroupRole, room: Room) -> RoleRules:
    """The rules of a role, for the hosts of a room."""
    mask = np.ones(len(room.hosts.ids), dtype=np.bool_)
    if role.host_affined:
        mask &= np.isin(room.hosts.ids, role.host_affined)
    if role.host_anti_affined:
        mask &= ~np.isin(room.hosts.ids, role.host_anti_affined)
    apart = frozenset(vm_id for those in _anti_affined_sets(group, role) for vm_id in those)
    return RoleRules(mask, apart, tuple(_affined_sets(group, role)))


def role_of(vm: VirtualMachine, snapshot: PoolSnapshot) -> tuple[VmGroup, VmGroupRole] | None:
    """The VM's group and its role in it."""
    if vm.vm_group_id is None:
        return None
    group = snapshot.vm_groups.get(vm.vm_group_id)
    if group is None:
        return None
    role = next((role for role in group.roles if role.name == vm.vm_group_role), None)
    return None if role is None else (group, role)


def are_tied(vms: Sequence[VirtualMachine], snapshot: PoolSnapshot) -> bool:
    """Several VMs that their VM group has share one host."""
    found = role_of(vms[0], snapshot) if len(vms) > 1 else None
    return found is not None and any({vm.id for vm in vms} <= together for together in _affined_sets(*found))


def is_unreadable(vm: VirtualMachine, snapshot: PoolSnapshot) -> bool:
    """It is of a VM group that is not told: which hosts it may go to is not known."""
    return vm.vm_group_id is not None and vm.vm_group_id not in snapshot.vm_groups


def _affined_sets(group: VmGroup, role: VmGroupRole) -> Iterable[frozenset[int]]:
    """VMs that must share a host with those of `role`: its own, and those of roles affined to it."""
    if role.policy == _AFFINED:
        yield frozenset(role.vm_ids)
    joined = _joined_roles(group.affined, role.name)
    if joined:
        yield frozenset(vm_id for other in group.roles if other.name in joined for vm_id in other.vm_ids)


def _anti_affined_sets(group: VmGroup, role: VmGroupRole) -> Iterable[frozenset[int]]:
    """VMs that must not share a host with those of `role`."""
    if role.policy == _ANTI_AFFINED:
        yield frozenset(role.vm_ids)
    # One look at all roles, however many rules their owner writes.
    apart = {name for rule in group.anti_affined if role.name in rule for name in rule} - {role.name}
    if apart:
        yield frozenset(vm_id for other in group.roles if other.name in apart for vm_id in other.vm_ids)


def _joined_roles(rules: tuple[tuple[str, ...], ...], name: str) -> frozenset[str]:
    """The roles that overlapping affinity rules tie to `name`, itself included; empty where none does."""
    rules_of: dict[str, list[frozenset[str]]] = {}
    for rule in frozenset(map(frozenset, rules)):
        for role in rule:
            rules_of.setdefault(role, []).append(rule)
    joined, found = set[str](), {name} & rules_of.keys()
    while found:
        # Each role brings its rules once, however long a chain their owner makes of them.
        joined |= found
        met = {rule for role in found for rule in rules_of.pop(role)}
        found = set().union(*met) - joined
    return frozenset(joined)


def _active_hosts(room: Room, vm_ids: Iterable[int]) -> set[int]:
    """Where members of an affined set run, or go to: those that are only suspended there do not count."""
    found: set[int] = set()
    for vm_id in vm_ids:
        vm = room.snapshot.vms.get(vm_id)
        runs = vm is not None and (vm.state is VmState.ACTIVE or vm_id in room.waking)
        if vm is not None and runs and vm.host_id is not None and vm_id not in room.gone:
            found.add(room.placed[vm_id].host_id if vm_id in room.placed else vm.host_id)
    return found


def _hosts_to_come_to(vm: VirtualMachine, room: Room, vm_ids: frozenset[int]) -> set[int]:
    """Where members were placed in this decision, and where room is kept until others than `vm` come."""
    expected = vm_ids & room.expected_on.keys() - room.placed.keys() - {vm.id}
    placed = {room.placed[vm_id].host_id for vm_id in vm_ids if vm_id in room.placed}
    return placed | {room.expected_on[vm_id] for vm_id in expected}


def _moving(vm: VirtualMachine, room: Room, vm_ids: Iterable[int]) -> frozenset[int]:
    """Where `vm` itself moves: it and all members that are to leave their hosts as well."""
    if not moves(vm):
        return frozenset()
    members = (room.snapshot.vms.get(vm_id) for vm_id in vm_ids)
    marked = {member.id for member in members if member is not None and moves(member) and member.resched}
    return frozenset(marked | {vm.id})


def _waiting(room: Room, vm_ids: Iterable[int]) -> Iterator[int]:
    """The members that wait to be placed."""
    for vm_id in vm_ids:
        vm = room.snapshot.vms.get(vm_id)
        if vm is not None and vm.state is VmState.PENDING and vm.lock_level is LockLevel.NONE:
            yield vm_id
