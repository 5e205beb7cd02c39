"""VMs on hosts and their owners in a few words, for tests of what is used."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from one_preempt.core.model.owner_use import OwnerUse
from one_preempt.core.model.pool_snapshot import PoolSnapshot, RaftState
from one_preempt.core.model.virtual_machine import VirtualMachine, VmState
from tests.core.matching.small_cloud import host, running, vm

NOW_S = 1_800_000_000
HOUR_S = 3600
CPU_HOUR = 100 * HOUR_S


def owned(machine: VirtualMachine, gid: int, uid: int) -> VirtualMachine:
    """It is user `uid`'s in group `gid`."""
    return replace(machine, gid=gid, uid=uid, gname=f"group{gid}", uname=f"user{uid}")


def on_host(vm_id: int, since_s: int, *, gid: int = 1, uid: int = 5, cpu_centi: int = 100) -> VirtualMachine:
    """A VM that runs on host 0 since an instant."""
    machine = running(owned(vm(vm_id, cpu_centi), gid, uid), 0)
    return replace(machine, history=(replace(machine.history[0], start_at_s=since_s),))


def stopped(machine: VirtualMachine) -> VirtualMachine:
    """It left its host, and is still there."""
    return replace(machine, state=VmState.STOPPED, lcm_state=0)


def seen(vms: Iterable[VirtualMachine], now_s: int = NOW_S, **more: object) -> PoolSnapshot:
    """A cloud of one host, nothing said of what has changed."""
    plain = PoolSnapshot(now_s, "7.4.0", 0, RaftState.SOLO, {0: host(0, 10_000, 100_000)}, {one.id: one for one in vms})
    return replace(plain, **more)


def row(gid: int, uid: int, used: int, at_s: int = NOW_S) -> OwnerUse:
    """What is written of an owner."""
    return OwnerUse(gid, uid, f"group{gid}", f"user{uid}", used, at_s)
