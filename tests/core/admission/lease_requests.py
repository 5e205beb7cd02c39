"""VMs with LEASE attributes, and what admission makes of them, in few words."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from math import inf

from msgspec.structs import replace

from one_preempt.core.admission.admit import Admission, admit
from one_preempt.core.admission.rules import AdmissionRules, GroupRights
from one_preempt.core.model.access import Directory
from one_preempt.core.model.lease import Lease, LeaseType
from one_preempt.core.model.ledger import LeaseRecord, Ledger
from one_preempt.core.model.pool_snapshot import PoolSnapshot, RaftState
from one_preempt.core.model.reservation import Verdict
from one_preempt.core.model.virtual_machine import LcmState, VirtualMachine, VmState
from one_preempt.core.reconciliation.concerned import Concerned
from one_preempt.core.reconciliation.counted_on import CountedOn

NOW_S = 1_796_115_600  # 2026-12-01T09:00:00Z
HOUR_S = 3600
USERS = GroupRights("all", group="users", may_claim=tuple(LeaseType))
GENEROUS = AdmissionRules(rights=(USERS,))


def vm(vm_id: int, lease: Mapping[str, str] | None, state: VmState = VmState.PENDING) -> VirtualMachine:
    """A VM of user 5 (ann) in group 100 (users)."""
    return VirtualMachine(
        id=vm_id,
        name=f"vm-{vm_id}",
        uid=5,
        gid=100,
        uname="ann",
        gname="users",
        state=state,
        lcm_state=LcmState.RUNNING if state is VmState.ACTIVE else LcmState.LCM_INIT,
        resched=False,
        submitted_at_s=NOW_S - 1000 + vm_id,
        ended_at_s=0,
        cpu_centi=100,
        memory_mib=1024,
        user_template={} if lease is None else {"LEASE": (dict(lease),)},
    )


class Counted(CountedOn):
    """Others count on these leases to leave, and are promised hosts of every lease from an instant on."""

    def __init__(self, snapshot: PoolSnapshot, lease_ids: Collection[int], promised_at_s: float) -> None:
        super().__init__(snapshot, Ledger(), NOW_S)
        self._ids, self._promised_at_s = lease_ids, promised_at_s

    def __contains__(self, lease_id: object) -> bool:
        return lease_id in self._ids

    def promised_at_s(self, lease_id: int) -> float:
        return self._promised_at_s


def admitted(
    *vms: VirtualMachine,
    rules: AdmissionRules = GENEROUS,
    records: Mapping[int, LeaseRecord] | None = None,
    now_s: int = NOW_S,
    counted_on: Collection[int] = (),
    promised_at_s: float = inf,
    unreadable_vm_ids: frozenset[int] = frozenset(),
    directory: Directory | None = None,
) -> Admission:
    recorded = records or {}
    by_id = {one.id: one for one in vms}
    snapshot = PoolSnapshot(
        now_s, "7.4.0", 0, RaftState.SOLO, {}, by_id,
        unreadable_vm_ids=unreadable_vm_ids, directory=directory or Directory(),
    )  # fmt: skip
    everything = Concerned(tuple(sorted(recorded)), tuple(sorted(by_id)))
    return admit(snapshot, recorded, rules, now_s, everything, Counted(snapshot, counted_on, promised_at_s))


def only_lease(admission: Admission) -> Lease:
    (lease,) = admission.leases
    return lease


def standing(lease: Mapping[str, str], verdict: Verdict, rules: AdmissionRules = GENEROUS) -> dict[int, LeaseRecord]:
    """The record of VM 1, admitted at NOW_S and judged."""
    (record,) = admitted(vm(1, lease), rules=rules).records
    return {1: replace(record, verdict=verdict, verdict_text="" if verdict is Verdict.NONE else f"is {verdict}")}


def changed_to(
    lease: Mapping[str, str] | None,
    records: Mapping[int, LeaseRecord],
    *,
    state: VmState = VmState.HOLD,
    rules: AdmissionRules = GENEROUS,
    later_s: int = 0,
) -> Admission:
    """What becomes of VM 1 once its owner wrote another attribute."""
    return admitted(vm(1, lease, state), rules=rules, records=records, now_s=NOW_S + later_s)
