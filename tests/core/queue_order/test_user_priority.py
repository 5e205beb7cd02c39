"""The matchmaker's queue order."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from one_preempt.core.model.lease import Lease, LeaseState, LeaseTerms
from one_preempt.core.model.owner_use import NOTHING_MEASURED
from one_preempt.core.queue_order.user_priority import POLICY, priority_of
from tests.core.matching.small_cloud import vm


def key(lease_id: int, *priorities: str) -> tuple[float, ...]:
    vms = [replace(vm(lease_id + number), user_priority=text) for number, text in enumerate(priorities)]
    lease = Lease(
        id=lease_id,
        terms=LeaseTerms(),
        uid=5,
        gid=1,
        vm_ids=tuple(machine.id for machine in vms),
        state=LeaseState.WAITING,
        arrived_at_s=0,
    )
    return POLICY.key(lease, vms, NOTHING_MEASURED)


def test_the_highest_priority_comes_first_then_the_oldest() -> None:
    keys = {
        10: key(10, "2"),
        11: key(11, "10"),
        12: key(12, ""),
        13: key(13, "-5"),
        14: key(14, "2"),
        15: key(15, "0.5"),
    }

    assert sorted(keys, key=lambda lease_id: keys[lease_id]) == [11, 10, 14, 15, 12, 13]


def test_the_best_member_speaks_for_a_gang() -> None:
    assert key(20, "1", "7", "3") < key(10, "5")


@pytest.mark.parametrize("text", ["high", "", "nan", "inf", "1e999", "\x00", "--5"])
def test_what_is_no_number_counts_nothing(text: str) -> None:
    assert priority_of(replace(vm(1), user_priority=text)) == 0.0
