"""How long a lease may stay on its host beside what others were promised there."""

from __future__ import annotations

from math import inf

import pytest
from msgspec.structs import replace

from one_preempt.core.model.lease import LeaseTerms, LeaseType
from one_preempt.core.model.ledger import LeaseRecord, Ledger, OpenPreemption
from one_preempt.core.model.plan import Placement, Preemption
from one_preempt.core.model.reservation import Reservation
from one_preempt.core.reconciliation.promised_room import PromisedRoom
from tests.core.recounted_cluster import NOW_S, cluster, host, running, waiting


def record(lease_id: int, lease_type: LeaseType = LeaseType.BE_SUSPENDABLE, *, began: bool = True) -> LeaseRecord:
    """A lease of one VM that runs for an hour from now on, or waits."""
    terms = LeaseTerms(type=lease_type, duration_s=3600)
    made = LeaseRecord(lease_id, terms, 5, 100, (lease_id,), True, False, NOW_S, NOW_S)
    return replace(made, run_began_at_s=NOW_S if began else None)


def slot(lease_id: int, from_s: int, until_s: int) -> tuple[Reservation, ...]:
    return (Reservation(lease_id, NOW_S + from_s, NOW_S + until_s, (0,), firm=True),)


@pytest.mark.parametrize(
    ("beside", "lease_type", "slots", "from_s"),
    [
        (0, LeaseType.BE_SUSPENDABLE, {5: (600, 900)}, inf),
        (0, LeaseType.BE_SUSPENDABLE, {5: (600, 900), 6: (900, 1200)}, inf),
        (0, LeaseType.BE_SUSPENDABLE, {5: (600, 900), 6: (800, 1200)}, 800),
        # Who is beside it may ask for a longer DURATION as well.
        (1, LeaseType.BE_SUSPENDABLE, {5: (5000, 9000)}, 5000),
        (1, LeaseType.DC_NON_PREEMPTABLE, {5: (5000, 9000)}, inf),
        (1, LeaseType.DC_NON_PREEMPTABLE, {5: (3000, 9000)}, 3000),
    ],
)
def test_it_may_stay_where_both_have_room(
    beside: int, lease_type: LeaseType, slots: dict[int, tuple[int, int]], from_s: float
) -> None:
    """A host of three CPUs; each is promised two of them, and it has one."""
    vms = [running(1, 0), *(running(2 + n, 0) for n in range(beside))]
    coming = [waiting(lease_id, cpus=2) for lease_id in slots]
    snapshot = cluster([host(0, vms, cpus=3, gib=8)], [*vms, *coming]).snapshot
    leases = {1: record(1), **{vm.id: record(vm.id, lease_type) for vm in vms[1:]}}
    leases |= {lease_id: record(lease_id, began=False) for lease_id in slots}
    ledger = Ledger(leases=leases, reservations={lease_id: slot(lease_id, *span) for lease_id, span in slots.items()})
    assert PromisedRoom(snapshot, ledger, NOW_S).taken_from_s(1) == (from_s if from_s == inf else NOW_S + from_s)


def test_room_that_is_being_made_counts_as_taken() -> None:
    vms = [running(1, 0), waiting(5, cpus=2), waiting(7)]
    snapshot = cluster([host(0, vms[:1], cpus=3, gib=8)], vms).snapshot
    ledger = Ledger(leases={1: record(1), 5: record(5, began=False)}, reservations={5: slot(5, 600, 900)})
    assert PromisedRoom(snapshot, ledger, NOW_S).taken_from_s(1) == inf
    made = Preemption("7@1", 7, (), (Placement(7, 0),), "moml", 1, optimal=True, bound_ms=1, decided_at_s=NOW_S)
    ledger = replace(ledger, preemptions=(OpenPreemption(made, NOW_S),))
    assert PromisedRoom(snapshot, ledger, NOW_S).taken_from_s(1) == NOW_S + 600
