"""Whether an owner's quotas let a stopped VM run again (FACTS 3.3: PENDING and HOLD count as running already).

oned has the last word; asking it only when the answer can be yes keeps a lease that is over its quota from
being started in vain, cycle after cycle.
"""

from __future__ import annotations

from collections.abc import Iterable

from one_preempt.core.model.access import ADMINISTRATORS_GID, ONEADMIN_UID, Directory, Quota
from one_preempt.core.model.resources import NO_RESOURCES, Resources
from one_preempt.core.model.virtual_machine import VirtualMachine, VmState

DEFAULT_LIMIT = -1
UNLIMITED = -2
CENTI = 100
_COUNT_ANEW = frozenset({VmState.STOPPED, VmState.UNDEPLOYED, VmState.SUSPENDED})


def counts_anew(vm: VirtualMachine) -> bool:
    """Its quotas do not count it as running now, and will when it starts."""
    return vm.state in _COUNT_ANEW


class QuotaBook:
    """Running quotas with what this cycle has already promised on top."""

    def __init__(self, directory: Directory) -> None:
        self._directory = directory
        self._promised: dict[tuple[str, int], tuple[int, Resources]] = {}

    def obstacle(self, vms: Iterable[VirtualMachine]) -> str | None:
        """Which running quota stands against starting all of `vms`, in a few words; None when none does."""
        anew = [vm for vm in vms if counts_anew(vm)]
        if not anew:
            return None
        for who, owner_id, quotas, defaults in self._quotas_of(anew):
            if not quotas:
                continue
            mine = [vm for vm in anew if owner_id == (vm.uid if who == "user" else vm.gid)]
            count, resources = self._promised.get((who, owner_id), (0, NO_RESOURCES))
            wanted = {
                "RUNNING_VMS": float(count + len(mine)),
                "RUNNING_CPU": (resources.cpu_centi + sum(vm.cpu_centi for vm in mine)) / CENTI,
                "RUNNING_MEMORY": float(resources.memory_mib + sum(vm.memory_mib for vm in mine)),
            }
            for quota in quotas:
                exceeded = _exceeded(quota, defaults, wanted)
                if exceeded:
                    return f"the {exceeded} quota of {who} {owner_id}"
        return None

    def promise(self, vms: Iterable[VirtualMachine]) -> None:
        """Count `vms` as started."""
        for vm in vms:
            if counts_anew(vm):
                for key in (("user", vm.uid), ("group", vm.gid)):
                    count, resources = self._promised.get(key, (0, NO_RESOURCES))
                    self._promised[key] = (count + 1, resources + vm.resources)

    def _quotas_of(self, vms: list[VirtualMachine]) -> Iterable[tuple[str, int, tuple[Quota, ...], tuple[Quota, ...]]]:
        directory = self._directory
        for uid in sorted({vm.uid for vm in vms if vm.uid != ONEADMIN_UID}):
            user = directory.users.get(uid)
            if user is not None:
                yield "user", uid, user.vm_quotas, directory.default_user_vm_quotas
        for gid in sorted({vm.gid for vm in vms if vm.gid != ADMINISTRATORS_GID}):
            group = directory.groups.get(gid)
            if group is not None:
                yield "group", gid, group.vm_quotas, directory.default_group_vm_quotas


def _exceeded(quota: Quota, defaults: tuple[Quota, ...], wanted: dict[str, float]) -> str | None:
    if quota.cluster_ids:
        # Which cluster counts is known once a host is chosen; oned decides then.
        return None
    for name, amount in sorted(wanted.items()):
        limit = quota.limits.get(name, float(DEFAULT_LIMIT))
        if limit == DEFAULT_LIMIT:
            limit = next((entry.limits.get(name, float(UNLIMITED)) for entry in defaults), float(UNLIMITED))
        if limit >= 0 and quota.used.get(name, 0.0) + amount > limit:
            return name
    return None
