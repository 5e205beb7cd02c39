"""The rules of the story's VM group, held against where the daemon has just put its members."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from typing import Any

from tests.stories.world import World

DAEMON = "oneadmin"
DEPLOY = "one.vm.deploy"


def broken_rules(world: World, roles: dict[int, str], calls: list[dict[str, Any]]) -> list[str]:
    """What is wrong with the daemon's deploys among `calls`; `roles` maps members of the group to their roles.

    A VM of the role `front` goes where no other of them is, one of `back` where the others are; with the rule of the
    group they also keep apart from each other.
    """
    deployed = {
        call["arguments"][0]: call["arguments"][1]
        for call in calls
        if call["user"] == DAEMON and call["method"] == DEPLOY and not call["code"] and call["arguments"][0] in roles
    }
    if not deployed:
        return []
    found = []
    for vm_id, host_id in deployed.items():
        if host_id not in allowed_hosts(world, roles, vm_id, {host_id}):
            found.append(f"VM {vm_id} of the role {roles[vm_id]} was deployed on host {host_id} against the rules")
    return found


def allowed_hosts(world: World, roles: dict[int, str], vm_id: int, hosts: set[int]) -> set[int]:
    """Those of `hosts` where the rules let the VM be, as the other members are now."""
    others = {other: places for other, places in _places(world, roles).items() if other != vm_id}
    alike = {other: places for other, places in others.items() if roles[other] == roles[vm_id]}
    allowed = set(hosts)
    if roles[vm_id] == "front":
        allowed -= {host for places in alike.values() for host in places}
    else:
        states = world.states()
        together = {host for other, places in alike.items() if states[other].startswith("3/") for host in places}
        allowed &= together or allowed
    if roles_kept_apart(world):
        allowed -= {host for other in others.keys() - alike.keys() for host in others[other]}
    return allowed


def roles_kept_apart(world: World) -> bool:
    """The group has the rule that its roles share no host."""
    pool = ElementTree.fromstring(world.emulator.must("root", "one.vmgrouppool.info", -2, -1, -1))
    return bool(pool.findtext("VM_GROUP/TEMPLATE/ANTI_AFFINED"))


def _places(world: World, roles: dict[int, str]) -> dict[int, set[int]]:
    """The hosts that hold capacity for each member; two while it moves."""
    places: dict[int, set[int]] = {}
    pool = ElementTree.fromstring(world.emulator.must("root", "one.hostpool.info"))
    for host in pool:
        for vm in host.findall("VMS/ID"):
            if int(vm.text or -1) in roles:
                places.setdefault(int(vm.text or -1), set()).add(int(host.findtext("ID", "-1")))
    return places
