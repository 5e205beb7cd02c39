"""Clouds drawn at random that change from decision to decision: leases come, go, and turn into other objects."""

from __future__ import annotations

from hypothesis import strategies as st
from msgspec.structs import replace

from one_preempt.core.matching.host_table import host_table
from one_preempt.core.model.cluster_state import ClusterState
from one_preempt.core.model.lease import Lease, LeaseState, LeaseTerms, LeaseType
from one_preempt.core.model.pool_snapshot import PoolSnapshot, RaftState
from one_preempt.core.model.reservation import Verdict
from one_preempt.core.model.virtual_machine import LcmState, LockLevel, VirtualMachine, VmState
from tests.core.matching.small_cloud import vm

VMS_A_LEASE = 3
_STATES = (VmState.PENDING, VmState.HOLD, VmState.ACTIVE, VmState.STOPPED, VmState.SUSPENDED)
_OLDEST = st.sampled_from(range(0, 10 * VMS_A_LEASE, VMS_A_LEASE))


@st.composite
def leases(draw: st.DrawFn, lease_id: int) -> tuple[Lease, list[VirtualMachine]]:
    """A lease and its VMs, in states that need not go together."""
    size = draw(st.integers(1, VMS_A_LEASE))
    members = [
        replace(
            vm(lease_id + number),
            state=draw(st.sampled_from(_STATES)),
            lcm_state=draw(st.sampled_from((LcmState.LCM_INIT, LcmState.RUNNING))),
            resched=draw(st.booleans()),
            user_priority=draw(st.sampled_from(("", "1", "-2"))),
            lock_level=draw(st.sampled_from((LockLevel.NONE, LockLevel.USE))),
        )
        for number in range(size)
    ]
    terms = LeaseTerms(
        type=draw(st.sampled_from(LeaseType)),
        size=size,
        duration_s=draw(st.sampled_from((None, 60, 600))),
        deadline_at_s=draw(st.sampled_from((None, 5000))),
        max_suspensions=draw(st.sampled_from((None, 1))),
    )
    lease = Lease(
        id=lease_id,
        terms=terms,
        uid=5,
        gid=1,
        vm_ids=tuple(member.id for member in members),
        state=draw(st.sampled_from(LeaseState)),
        arrived_at_s=0,
        explicit=draw(st.booleans()),
        may_preempt=draw(st.booleans()),
        preemptions=draw(st.integers(0, 1)),
        verdict=draw(st.sampled_from((Verdict.NONE, Verdict.ACCEPTED))),
        run_began_at_s=draw(st.sampled_from((None, 10))),
        preempted_by=draw(st.sampled_from((None, 99))),
    )
    return lease, members


@st.composite
def histories(draw: st.DrawFn) -> list[ClusterState]:
    """The states of one cloud in turn, each told what changed since the one before, or not."""
    told = draw(st.booleans())
    states: list[ClusterState] = []
    known: dict[int, Lease] = {}
    vms: dict[int, VirtualMachine] = {}
    for now_s in range(draw(st.integers(1, 5))):
        before = dict(known)
        for lease_id in draw(st.sets(_OLDEST, max_size=6)):
            known.pop(lease_id, None)
            if draw(st.booleans()):
                known[lease_id], members = draw(leases(lease_id))
                vms.update((member.id, member) for member in members)
        states.append(_state(now_s, known, vms))
        if told:
            ids = before.keys() | known.keys()
            changed = frozenset(one for one in ids if before.get(one) is not known.get(one))
            states[-1] = replace(states[-1], changed_lease_ids=changed)
    return states


def _state(now_s: int, known: dict[int, Lease], vms: dict[int, VirtualMachine]) -> ClusterState:
    existing = {vm_id: vms[vm_id] for lease in known.values() for vm_id in lease.vm_ids}
    return ClusterState(
        now_s=now_s,
        snapshot=PoolSnapshot(
            observed_at_s=now_s, version="7.4.0", zone_id=0, raft_state=RaftState.SOLO, hosts={}, vms=existing
        ),
        hosts=host_table({}),
        leases=dict(known),
        lease_of_vm={vm_id: lease.id for lease in known.values() for vm_id in lease.vm_ids},
    )
