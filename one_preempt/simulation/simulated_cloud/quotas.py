"""Quotas of users and groups: what a VM counts, the check, and the books."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from types import MappingProxyType

from msgspec import Struct, field

from one_preempt.simulation.simulated_cloud.change_log import ChangeLogs
from one_preempt.simulation.simulated_cloud.objects import SimGroup, SimQuotas, SimUser, SimVm, SimVmQuota
from one_preempt.simulation.simulated_cloud.states import LcmState, VmState
from one_preempt.simulation.simulated_cloud.templates import text_of, vectors_of

# oned checks in this order and names the first that is exceeded.
METRICS = (
    "VMS", "RUNNING_VMS", "CPU", "RUNNING_CPU", "MEMORY", "RUNNING_MEMORY", "PCI_DEV", "RUNNING_PCI_DEV", "PCI_NIC",
    "RUNNING_PCI_NIC", "SYSTEM_DISK_SIZE",
)  # fmt: skip
_UNLIMITED = (-1.0, -2.0)
_CENTI = frozenset({"CPU", "RUNNING_CPU"})
_ACTIVE = VmState.ACTIVE
_WAITING = frozenset({VmState.PENDING, VmState.HOLD})
_NOT_RUNNING_WHILE_ACTIVE = frozenset(
    {
        LcmState.PROLOG_MIGRATE_POWEROFF,
        LcmState.PROLOG_MIGRATE_POWEROFF_FAILURE,
        LcmState.PROLOG_MIGRATE_SUSPEND,
        LcmState.PROLOG_MIGRATE_SUSPEND_FAILURE,
    }
)


def counts_as_running(vm: SimVm) -> bool:
    """The owner's RUNNING_* quotas are charged: PENDING and HOLD already, SUSPENDED and POWEROFF not."""
    if vm.state == _ACTIVE:
        return vm.lcm_state not in _NOT_RUNNING_WHILE_ACTIVE
    return vm.state in _WAITING


@lru_cache(maxsize=1 << 12)
def _of_bare_vm(cpu: str, memory: str, is_running: bool) -> Mapping[str, int]:
    """What a VM without disks and devices counts: the same for all that are alike."""
    plain = {
        "VMS": 1, "CPU": round(float(cpu) * 100), "MEMORY": int(memory), "PCI_DEV": 0, "PCI_NIC": 0,
        "SYSTEM_DISK_SIZE": 0,
    }  # fmt: skip
    return MappingProxyType(plain | (_running_part(plain) if is_running else {}))


def _running_part(plain: Mapping[str, int]) -> dict[str, int]:
    return {f"RUNNING_{name}": plain[name] for name in ("VMS", "CPU", "MEMORY", "PCI_DEV", "PCI_NIC")}


def plain_request(vm: SimVm) -> dict[str, int]:
    """What the VM counts from its creation to its end, whatever its state."""
    devices = vectors_of(vm.template, "PCI")
    nics = sum(device.get("TYPE") == "NIC" for device in devices)
    return {
        "VMS": 1,
        "CPU": round(float(text_of(vm.template, "CPU", "0")) * 100),
        "MEMORY": int(text_of(vm.template, "MEMORY", "0")),
        "PCI_DEV": len(devices) - nics,
        "PCI_NIC": nics,
        "SYSTEM_DISK_SIZE": sum(
            int(disk.get("SIZE", "0")) for disk in vectors_of(vm.template, "DISK") if on_system_datastore(disk)
        ),
    }


def running_request(vm: SimVm) -> dict[str, int]:
    """What the VM counts while it runs or waits to."""
    return _running_part(plain_request(vm))


def full_request(vm: SimVm) -> Mapping[str, int]:
    """All that the VM counts in its present state."""
    template, is_running = vm.template, counts_as_running(vm)
    if "DISK" not in template and "PCI" not in template:
        return _of_bare_vm(text_of(template, "CPU", "0"), text_of(template, "MEMORY", "0"), is_running)
    plain = plain_request(vm)
    return plain | (_running_part(plain) if is_running else {})


def on_system_datastore(disk: Mapping[str, str]) -> bool:
    """The disk takes its space on the system datastore: volatile, or cloned or linked there."""
    if "IMAGE_ID" not in disk:
        return disk.get("TYPE", "") in ("FS", "SWAP", "fs", "swap")
    target = "CLONE_TARGET" if disk.get("CLONE", "YES") == "YES" else "LN_TARGET"
    return disk.get(target) == "SYSTEM"


class QuotaHolder(Struct, frozen=True):
    """The "user" or "group" of that id, with its quotas."""

    kind: str
    id: int
    quotas: SimQuotas


class QuotaObjection(Struct, frozen=True):
    """A limit of a holder that would be exceeded, in oned's words."""

    holder: QuotaHolder
    words: str


class QuotaBooks(Struct):
    """The quotas of the cloud. User 0 and group 0 have none."""

    users: dict[int, SimUser] = field(default_factory=dict)
    groups: dict[int, SimGroup] = field(default_factory=dict)
    changes: ChangeLogs = field(default_factory=ChangeLogs)

    def objection(self, uid: int, gid: int, request: Mapping[str, int]) -> str:
        """Which limit the request would exceed, in oned's words, or an empty string."""
        return next((objection.words for objection in self.objections(uid, gid, request)), "")

    def objections(self, uid: int, gid: int, request: Mapping[str, int]) -> list[QuotaObjection]:
        """The first limit that the request would exceed of each holder."""
        found = ((holder, _exceeded(holder, request)) for holder in self._holders(uid, gid))
        return [QuotaObjection(holder, words) for holder, words in found if words]

    def add(self, uid: int, gid: int, request: Mapping[str, int], times: int = 1) -> None:
        """Book `request` so many times, or with -1 give it back."""
        self._book(self._holders(uid, gid), request, times)

    def leave_out(self, holders: Iterable[QuotaHolder], request: Mapping[str, int]) -> None:
        """Take back what these were just charged with."""
        self._book(holders, request, -1)

    def _book(self, holders: Iterable[QuotaHolder], request: Mapping[str, int], times: int) -> None:
        for holder in holders:
            self.changes.holder(holder.kind == "user", holder.id)
            used = whole_cloud_quota(holder.quotas).used
            for metric, amount in request.items():
                if amount:
                    used[metric] = used.get(metric, 0) + times * amount

    def _holders(self, uid: int, gid: int) -> list[QuotaHolder]:
        holders = []
        if uid != 0 and uid in self.users:
            holders.append(QuotaHolder("user", uid, self.users[uid].quotas))
        if gid != 0 and gid in self.groups:
            holders.append(QuotaHolder("group", gid, self.groups[gid].quotas))
        return holders


def _exceeded(holder: QuotaHolder, request: Mapping[str, int]) -> str:
    """Which limit of the holder the request would exceed, in oned's words, or an empty string."""
    if not any(quota.limits for quota in holder.quotas.vm):
        return ""
    quota = next((quota for quota in holder.quotas.vm if not quota.cluster_ids), SimVmQuota())
    for metric in METRICS:
        limit = quota.limits.get(metric, -1.0)
        asked = quota.used.get(metric, 0) + request.get(metric, 0)
        scale = 100 if metric in _CENTI else 1
        if metric in request and limit not in _UNLIMITED and asked > limit * scale:
            return f"{holder.kind} [{holder.id}] limit of {limit:g} reached for {metric} quota in VM"
    return ""


def whole_cloud_quota(quotas: SimQuotas) -> SimVmQuota:
    """The entry over the whole cloud, made where there is none yet."""
    for quota in quotas.vm:
        if not quota.cluster_ids:
            return quota
    quotas.vm.append(SimVmQuota())
    return quotas.vm[-1]
