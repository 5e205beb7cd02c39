"""Small clusters and plans for the tests of the recount, written by hand."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

import numpy as np
from msgspec.structs import replace

from one_preempt.core.model.cluster_state import ClusterState, HostTable
from one_preempt.core.model.host import Host, HostState, PciDevice
from one_preempt.core.model.lease import Lease, LeaseState, LeaseTerms, LeaseType
from one_preempt.core.model.plan import Action, ActionKind, Plan, Preemption, Reason
from one_preempt.core.model.pool_snapshot import PoolSnapshot, RaftState
from one_preempt.core.model.reservation import Reservation, Verdict
from one_preempt.core.model.virtual_machine import HistoryRecord, LcmState, VirtualMachine, VmState
from one_preempt.core.verify import verify

NOW_S = 1_800_000_000
WHY = Reason("fits", "has room")


def host(host_id: int, used_by: Iterable[VirtualMachine] = (), *, cpus: int = 2, gib: int = 4, gpus: int = 0) -> Host:
    vms = list(used_by)
    return Host(
        id=host_id,
        name=f"host-{host_id}",
        state=HostState.MONITORED,
        cluster_id=0,
        cluster_name="default",
        max_cpu_centi=cpus * 100,
        cpu_usage_centi=sum(vm.cpu_centi for vm in vms),
        max_memory_kib=gib << 20,
        memory_usage_kib=sum(vm.memory_mib << 10 for vm in vms),
        total_cpu_centi=cpus * 100,
        total_memory_kib=gib << 20,
        running_vms=len(vms),
        vm_ids=tuple(vm.id for vm in vms),
        pci_devices=tuple(PciDevice(f"0000:0{n}:00:0", f"0{n}:00.0", "10de", "1eb8", "0302", -1) for n in range(gpus)),
    )


def waiting(vm_id: int, *, cpus: int = 1, gib: int = 1, state: VmState = VmState.PENDING) -> VirtualMachine:
    return VirtualMachine(
        id=vm_id,
        name=f"vm-{vm_id}",
        uid=5,
        gid=100,
        uname="ann",
        gname="users",
        state=state,
        lcm_state=LcmState.LCM_INIT,
        resched=False,
        submitted_at_s=NOW_S,
        ended_at_s=0,
        cpu_centi=cpus * 100,
        memory_mib=gib << 10,
    )


def running(vm_id: int, host_id: int, *, cpus: int = 1, gib: int = 1) -> VirtualMachine:
    stay = HistoryRecord(0, host_id, f"host-{host_id}", 0, 0, 0, NOW_S, 0, 0, 0, NOW_S, 0, 0)
    vm = waiting(vm_id, cpus=cpus, gib=gib, state=VmState.ACTIVE)
    return replace(vm, lcm_state=LcmState.RUNNING, history=(stay,))


def lease(lease_id: int, *vm_ids: int, lease_type: LeaseType = LeaseType.DC_NON_PREEMPTABLE, **more: bool) -> Lease:
    terms = LeaseTerms(type=lease_type, size=max(1, len(vm_ids)))
    members = vm_ids or (lease_id,)
    return Lease(lease_id, terms, 5, 100, members, LeaseState.WAITING, NOW_S, **more)  # type: ignore[arg-type]


class Stay(Protocol):
    """A host that a lease of one VM has or wants from a second until another one, None: for ever."""

    @property
    def host_id(self) -> int: ...
    @property
    def from_s(self) -> int: ...
    @property
    def until_s(self) -> int | None: ...


def accepted(lease_id: int, stay: Stay, *, deadline_s: int | None = None) -> Lease:
    """A lease with a DEADLINE may start when it likes; one without has an exact START."""
    terms = LeaseTerms(
        type=LeaseType.DC_NON_PREEMPTABLE,
        duration_s=None if stay.until_s is None else stay.until_s - stay.from_s,
        start_at_s=NOW_S + stay.from_s if deadline_s is None else None,
        deadline_at_s=None if deadline_s is None else NOW_S + deadline_s,
    )
    waits = Lease(lease_id, terms, 5, 100, (lease_id,), LeaseState.WAITING, NOW_S, explicit=True)
    return replace(waits, verdict=Verdict.ACCEPTED)


def begun(lease_id: int, stay: Stay) -> Lease:
    """A lease that runs since now, and was promised nothing."""
    runs = accepted(lease_id, stay)
    return replace(runs, verdict=Verdict.NONE, state=LeaseState.RUNNING, run_began_at_s=NOW_S)


def reservation(lease_id: int, *stays: Stay) -> Reservation:
    """Firm, from the same second until the same one on all of the hosts."""
    from_s, until_s = stays[0].from_s, stays[0].until_s
    end_at_s = None if until_s is None else NOW_S + until_s
    return Reservation(lease_id, NOW_S + from_s, end_at_s, tuple(stay.host_id for stay in stays), firm=True)


def cluster(hosts: Sequence[Host], vms: Sequence[VirtualMachine], leases: Sequence[Lease] = ()) -> ClusterState:
    """A state in which every VM without a lease of `leases` is a plain one."""
    in_leases = {vm_id for one in leases for vm_id in one.vm_ids}
    all_leases = [*leases, *(lease(vm.id) for vm in vms if vm.id not in in_leases)]
    none = np.zeros((0, 2), dtype=np.int64)
    return ClusterState(
        now_s=NOW_S,
        snapshot=PoolSnapshot(
            observed_at_s=NOW_S,
            version="7.4.0",
            zone_id=0,
            raft_state=RaftState.SOLO,
            hosts={one.id: one for one in hosts},
            vms={vm.id: vm for vm in vms},
        ),
        # Unread by the recount, so that a mistake in it cannot hide one of the decision.
        hosts=HostTable(np.zeros(0, dtype=np.int64), none, none, np.zeros(0, dtype=np.bool_), {}),
        leases={one.id: one for one in all_leases},
        lease_of_vm={vm_id: one.id for one in all_leases for vm_id in one.vm_ids},
    )


def deploy(vm_id: int, host_id: int, *after: str, lease_id: int | None = None) -> Action:
    return Action(f"deploy/{vm_id}", ActionKind.DEPLOY, vm_id, lease_id or vm_id, WHY, host_id=host_id, after=after)


def plan(*actions: Action, preemptions: tuple[Preemption, ...] = ()) -> Plan:
    return Plan(made_at_s=NOW_S, policy="moml", actions=actions, preemptions=preemptions)


def codes(state: ClusterState, made: Plan) -> list[str]:
    return [violation.code for violation in verify(state, made)]


def with_vm(state: ClusterState, vm: VirtualMachine) -> ClusterState:
    return replace(state, snapshot=replace(state.snapshot, vms={**state.snapshot.vms, vm.id: vm}))


def with_lease(state: ClusterState, changed: Lease) -> ClusterState:
    return replace(state, leases={**state.leases, changed.id: changed})
