"""Fair share: who has used least of a share is next, and nothing that a user writes moves anybody else."""

from __future__ import annotations

from collections import defaultdict

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from one_preempt.core.model.lease import Lease, LeaseState, LeaseTerms
from one_preempt.core.model.owner_use import NOTHING_MEASURED, MeasuredUse, OwnerUse
from one_preempt.core.model.virtual_machine import VirtualMachine
from one_preempt.core.queue_order.fair_share import POLICY, FairShare, standings
from tests.core.matching.small_cloud import vm
from tests.core.owner_use.small_use import CPU_HOUR, NOW_S, owned, row

WAITING = dict[int, tuple[Lease, list[VirtualMachine]]]


def waiting(lease_id: int, gid: int, uid: int, *priorities: str) -> tuple[Lease, list[VirtualMachine]]:
    vms = [
        replace(owned(vm(lease_id + number), gid, uid), user_priority=text)
        for number, text in enumerate(priorities or ("",))
    ]
    ids = tuple(one.id for one in vms)
    return Lease(lease_id, LeaseTerms(size=len(vms)), uid, gid, ids, LeaseState.WAITING, NOW_S), vms


def in_order(order: FairShare, use: MeasuredUse, *leases: tuple[Lease, list[VirtualMachine]]) -> list[int]:
    keys = {lease.id: order.key(lease, vms, use) for lease, vms in leases}
    return sorted(keys, key=lambda lease_id: keys[lease_id])


def used(*rows: OwnerUse) -> MeasuredUse:
    return MeasuredUse.of(rows)


def test_the_group_that_has_used_least_comes_first_whoever_asks_in_it() -> None:
    use = used(row(1, 5, 10 * CPU_HOUR), row(2, 6, 4 * CPU_HOUR), row(2, 7, 5 * CPU_HOUR))
    leases = (waiting(1, 1, 5), waiting(2, 1, 8), waiting(3, 2, 6), waiting(4, 2, 7))
    # User 8 has used nothing, but the others in his group have.
    assert in_order(POLICY, use, *leases) == [3, 4, 2, 1]


def test_a_group_with_three_shares_may_have_used_three_times_as_much() -> None:
    use = used(row(1, 5, 9 * CPU_HOUR), row(2, 6, 4 * CPU_HOUR))
    leases = (waiting(1, 1, 5), waiting(2, 2, 6))
    assert in_order(POLICY, use, *leases) == [2, 1]
    assert in_order(FairShare(shares_milli={"group1": 3000}), use, *leases) == [1, 2]
    assert in_order(FairShare(shares_milli={"1": 3000}), use, *leases) == [1, 2]
    assert in_order(FairShare(shares_milli={"group1": 3000, "group2": 2000}), use, *leases) == [2, 1]


def test_among_ones_own_leases_the_highest_priority_comes_first_then_the_oldest() -> None:
    use = used(row(1, 5, CPU_HOUR))
    own = (waiting(10, 1, 5), waiting(11, 1, 5, "7"), waiting(12, 1, 5), waiting(13, 1, 5, "1", "9"))
    assert in_order(POLICY, use, *own) == [13, 11, 10, 12]


def test_a_priority_moves_nobody_elses_lease() -> None:
    mine, other = waiting(1, 1, 5), waiting(2, 1, 6, "1000000")
    use = used(row(1, 5, CPU_HOUR), row(1, 6, CPU_HOUR + 1))
    assert in_order(POLICY, use, mine, other) == [1, 2]
    # Nor among those who have used the same.
    assert in_order(POLICY, NOTHING_MEASURED, mine, other) == [1, 2]
    assert in_order(POLICY, NOTHING_MEASURED, waiting(1, 1, 6), waiting(2, 1, 5, "-9")) == [2, 1]


def test_whoever_has_two_groups_has_used_in_each_what_he_did_there() -> None:
    use = used(row(1, 5, CPU_HOUR), row(2, 5, 5 * CPU_HOUR), row(2, 6, CPU_HOUR))
    assert in_order(POLICY, use, waiting(1, 2, 5), waiting(2, 2, 6), waiting(3, 1, 5)) == [3, 2, 1]


def test_one_vm_in_an_idle_group_brings_the_others_of_its_lease_nowhere() -> None:
    lease, vms = waiting(1, 1, 5, "", "", "")
    use = used(row(1, 5, 9 * CPU_HOUR), row(2, 6, CPU_HOUR))
    for moved in range(3):
        mixed = [owned(one, 3, 5) if number == moved else one for number, one in enumerate(vms)]
        assert in_order(POLICY, use, (lease, mixed), waiting(10, 2, 6)) == [10, 1]
    # Where all of them are in it, their use will be that group's.
    assert in_order(POLICY, use, (lease, [owned(one, 3, 5) for one in vms]), waiting(10, 2, 6)) == [1, 10]


ROWS = st.dictionaries(st.tuples(st.integers(0, 3), st.integers(0, 4)), st.integers(0, 4), max_size=10)
ASKING = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4), st.sampled_from(("", "3", "-1", "x"))), max_size=14)
SHARES = st.dictionaries(st.sampled_from([f"group{gid}" for gid in range(4)]), st.integers(1, 4), max_size=4)


@given(ROWS, ASKING, SHARES)
@settings(max_examples=400, deadline=None, derandomize=True)
def test_nobody_waits_behind_one_who_has_used_more_of_a_share(
    hours: dict[tuple[int, int], int], asking: list[tuple[int, int, str]], shares: dict[str, int]
) -> None:
    leases = [waiting(number, gid, uid, text) for number, (gid, uid, text) in enumerate(asking)]
    use = used(*(row(*owner, amount * CPU_HOUR) for owner, amount in hours.items()))
    order = FairShare(shares_milli={name: 1000 * share for name, share in shares.items()})
    places = in_order(order, use, *leases)
    of_group: dict[int, int] = defaultdict(int)
    for (gid, _), amount in hours.items():
        of_group[gid] += amount
    counted = []
    for lease_id in places:
        lease = leases[lease_id][0]
        share = shares.get(f"group{lease.gid}", 1)
        counted.append((of_group[lease.gid] / share, lease.gid, hours.get((lease.gid, lease.uid), 0), lease.uid))
    # Recounted in hours; and the leases of an owner stand together.
    assert counted == sorted(counted)


@given(ROWS, SHARES)
@settings(max_examples=200, deadline=None, derandomize=True)
def test_what_is_shown_of_the_order_is_the_order(hours: dict[tuple[int, int], int], shares: dict[str, int]) -> None:
    use = used(*(row(*owner, amount * CPU_HOUR) for owner, amount in hours.items()))
    order = FairShare(shares_milli={name: 1000 * share for name, share in shares.items()})
    shown = [(group.gid, user.uid) for group in standings(use, order) for user in group.users]
    leases = {number: waiting(number, *owner) for number, owner in enumerate(hours)}
    owners = [(leases[one][0].gid, leases[one][0].uid) for one in in_order(order, use, *leases.values())]
    assert shown == owners
