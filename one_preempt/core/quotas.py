"""Whether an owner's quotas let a stopped VM run again; PENDING and HOLD ones count as running already.

oned has the last word; asking it only when the answer can be yes keeps a lease that is over its quota from
being started in vain, cycle after cycle. Before 6.10.3 oned deploys a stopped VM over its owner's quota, without
counting it: there this is the only check.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from one_preempt.core.model.access import ADMINISTRATORS_GID, ONEADMIN_UID, Directory, Group, User
from one_preempt.core.model.resources import NO_RESOURCES, Resources
from one_preempt.core.model.virtual_machine import VirtualMachine, VmState

DEFAULT_LIMIT = -1
UNLIMITED = -2
CENTI = 100
_COUNT_ANEW = frozenset({VmState.STOPPED, VmState.UNDEPLOYED, VmState.SUSPENDED})


def owners_counted_anew(vms: Iterable[VirtualMachine]) -> frozenset[tuple[int, int]]:
    """The user and group ids whose running quotas do not count all of these now, and will once they have started."""
    return frozenset([(vm.uid, vm.gid) for vm in vms if vm.state in _COUNT_ANEW])


# A running quota that is limited: its name, what is used, and the limit.
_Limit = tuple[str, float, float]
_NAMES = ("RUNNING_CPU", "RUNNING_MEMORY", "RUNNING_VMS")


class QuotaBook:
    """Running quotas with what this cycle has already promised on top."""

    def __init__(self, directory: Directory) -> None:
        self._directory = directory
        self._promised: dict[tuple[str, int], tuple[int, Resources]] = {}
        # Found once somebody asks: hundreds that wait have one owner, and mostly nothing limits it.
        self._limits: dict[tuple[str, int], tuple[_Limit, ...]] = {}

    def limit_any(self, owners: Iterable[tuple[int, int]]) -> bool:
        """Some running quota is limited for any of these: a user id and a group id each."""
        return any(self._limits_of("user", uid) or self._limits_of("group", gid) for uid, gid in owners)

    def obstacle(self, vms: Sequence[VirtualMachine]) -> str | None:
        """Which running quota stands against starting all of `vms`, in a few words; None when none does."""
        anew = [vm for vm in vms if vm.state in _COUNT_ANEW]
        owners = {(vm.uid, vm.gid) for vm in anew}
        if not self.limit_any(owners):
            return None
        for uid in sorted({uid for uid, _ in owners}):
            limits, own = self._limits_of("user", uid), [vm for vm in anew if vm.uid == uid]
            exceeded = limits and self._exceeded(("user", uid), limits, own)
            if exceeded:
                return f"the {exceeded} quota of user '{own[0].uname}'"
        for gid in sorted({gid for _, gid in owners}):
            limits, own = self._limits_of("group", gid), [vm for vm in anew if vm.gid == gid]
            exceeded = limits and self._exceeded(("group", gid), limits, own)
            if exceeded:
                return f"the {exceeded} quota of group '{own[0].gname}'"
        return None

    def promise(self, vms: Iterable[VirtualMachine]) -> None:
        """Count `vms` as started."""
        for vm in vms:
            if vm.state in _COUNT_ANEW:
                for key in (("user", vm.uid), ("group", vm.gid)):
                    count, resources = self._promised.get(key, (0, NO_RESOURCES))
                    self._promised[key] = (count + 1, resources + vm.resources)

    def _exceeded(self, owner: tuple[str, int], limits: Iterable[_Limit], vms: Sequence[VirtualMachine]) -> str | None:
        """Which of the limits of an owner they would exceed that all are its own."""
        count, resources = self._promised.get(owner, (0, NO_RESOURCES))
        wanted = {
            "RUNNING_VMS": float(count + len(vms)),
            "RUNNING_CPU": (resources.cpu_centi + sum(vm.cpu_centi for vm in vms)) / CENTI,
            "RUNNING_MEMORY": float(resources.memory_mib + sum(vm.memory_mib for vm in vms)),
        }
        return next((name for name, used, limit in limits if _is_beyond(used, wanted[name], limit)), None)

    def _limits_of(self, who: str, owner_id: int) -> tuple[_Limit, ...]:
        known = self._limits.get((who, owner_id))
        if known is None:
            known = self._limits[who, owner_id] = tuple(_limits(self._directory, who, owner_id))
        return known


def _is_beyond(used: float, wanted: float, limit: float) -> bool:
    """As oned adds and compares, in single precision: what just fills a fractional limit may be too much, or not."""
    with np.errstate(over="ignore"):
        return bool(np.float32(used) + np.float32(wanted) > np.float32(limit))


def _limits(directory: Directory, who: str, owner_id: int) -> Iterator[_Limit]:
    """What is limited, in the order in which it is looked at. User 0 and group 0 have no quotas."""
    if who == "user":
        holder: User | Group | None = directory.users.get(owner_id) if owner_id != ONEADMIN_UID else None
        defaults = directory.default_user_vm_quotas
    else:
        holder = directory.groups.get(owner_id) if owner_id != ADMINISTRATORS_GID else None
        defaults = directory.default_group_vm_quotas
    for quota in holder.vm_quotas if holder is not None else ():
        # Where a quota is for clusters, which one counts is known once a host is chosen; oned decides then.
        for name in _NAMES if not quota.cluster_ids else ():
            limit = quota.limits.get(name, float(DEFAULT_LIMIT))
            if limit == DEFAULT_LIMIT:
                limit = next((entry.limits.get(name, float(UNLIMITED)) for entry in defaults), float(UNLIMITED))
            if limit >= 0:
                yield name, quota.used.get(name, 0.0), limit
