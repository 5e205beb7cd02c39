"""The queue that is kept is the queue that would be found anew."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import field
from msgspec.structs import replace

from one_preempt.core.memory.lease_concerns import Concern, LeaseConcerns
from one_preempt.core.memory.remembered_queue import RememberedQueue
from one_preempt.core.model.cluster_state import ClusterState
from one_preempt.core.model.lease import Lease, LeaseState, LeaseTerms
from one_preempt.core.model.lease_lifecycle import VmPhase, phase_of
from one_preempt.core.model.owner_use import NOTHING_MEASURED, MeasuredUse
from one_preempt.core.model.virtual_machine import LockLevel, VirtualMachine, VmState
from one_preempt.core.observed_room import needed_s
from one_preempt.core.overhead.learned import learn
from one_preempt.core.overhead.rates import OverheadRates
from one_preempt.core.policies import Policies
from one_preempt.core.preemption.moml import POLICY as MOML
from one_preempt.core.queue_order.fair_share import POLICY as FAIR_SHARE
from one_preempt.core.queue_order.fair_share import FairShare
from one_preempt.core.queue_order.user_priority import POLICY as BY_PRIORITY
from one_preempt.core.queue_turn import startable
from tests.core.drawn_leases import histories
from tests.core.matching.small_cloud import vm
from tests.core.owner_use.small_use import owned, row, seen

POLICIES = Policies(preemption=MOML, queue_order=BY_PRIORITY)
BOOTS_S = st.lists(st.sampled_from((0, 7)), min_size=5, max_size=5)


@given(histories(), BOOTS_S)
@settings(max_examples=200, deadline=None, derandomize=True)
def test_what_is_kept_is_what_would_be_found_anew(states: list[ClusterState], boots_s: list[int]) -> None:
    concerns, kept = LeaseConcerns(), RememberedQueue()
    for state, boot_s in zip(states, boots_s, strict=False):
        concerns.observe(state)
        waiting, vms = concerns.all(Concern.QUEUE), state.snapshot.vms
        rates = learn((), OverheadRates(boot_ms=1000 * boot_s))
        for lease in waiting.values():
            to_start = startable(lease, [vms[vm_id] for vm_id in lease.vm_ids])
            known = kept.request_of(lease, to_start, POLICIES, rates)
            assert known is None or known.duration_s == needed_s(POLICIES, rates, lease, to_start)

        places = kept.in_order(waiting, vms, POLICIES, rates, concerns.queue_number)

        assert kept.in_order(waiting, vms, POLICIES, rates, concerns.queue_number) is places
        assert list(places) == list(RememberedQueue().in_order(waiting, vms, POLICIES, rates))
        assert {place.lease.id for place in places} == waiting.keys()
        for place in places:
            asking = place.request.demand.vms
            known = kept.request_of(place.lease, asking, POLICIES, rates)
            assert known is not None
            assert known.duration_s == needed_s(POLICIES, rates, place.lease, asking)
            assert asking == () or kept.request_of(place.lease, asking[1:], POLICIES, rates) is None
        assert [place.key for place in places] == sorted(place.key for place in places)


@given(histories())
@settings(max_examples=100, deadline=None, derandomize=True)
def test_a_place_says_who_is_to_start_and_whether_anything_but_room_may_be_missing(states: list[ClusterState]) -> None:
    state = states[-1]
    concerns = LeaseConcerns()
    concerns.observe(state)
    rates = learn((), OverheadRates())
    for place in RememberedQueue().in_order(concerns.all(Concern.QUEUE), state.snapshot.vms, POLICIES, rates):
        members = [state.snapshot.vms[vm_id] for vm_id in place.lease.vm_ids]
        off_hosts = [vm for vm in members if phase_of(vm) in (VmPhase.WAITING, VmPhase.OUT)]
        somebodys_wish = not place.lease.explicit and any(vm.state is VmState.HOLD for vm in off_hosts)
        expected = [] if somebodys_wish else off_hosts
        assert list(place.request.demand.vms) == expected
        assert place.is_locked == any(vm.lock_level is not LockLevel.NONE for vm in expected)
        assert place.counted_anew == {(vm.uid, vm.gid) for vm in expected if vm.state is VmState.STOPPED}


@given(histories())
@settings(max_examples=50, deadline=None, derandomize=True)
def test_what_may_preempt_stands_before_all_that_may_not(states: list[ClusterState]) -> None:
    concerns = LeaseConcerns()
    concerns.observe(states[-1])
    waiting = concerns.all(Concern.QUEUE)
    places = RememberedQueue().in_order(waiting, states[-1].snapshot.vms, POLICIES, learn((), OverheadRates()))
    preempting = [place.lease.preempts for place in places]
    assert preempting == sorted(preempting, reverse=True)


# The leases of drawn clouds are one owner's: others are made of them by their ids.
USES = st.lists(
    st.sampled_from((
        NOTHING_MEASURED,
        MeasuredUse.of([row(1, 0, 500), row(1, 1, 900), row(2, 0, 700)]),
        MeasuredUse.of([row(1, 0, 900), row(1, 1, 100), row(2, 0, 100)]),
    )),
    min_size=5,
    max_size=5,
)  # fmt: skip


@given(histories(), USES)
@settings(max_examples=200, deadline=None, derandomize=True)
def test_a_queue_by_what_owners_have_used_is_the_same_whatever_was_kept(
    states: list[ClusterState], uses: list[MeasuredUse]
) -> None:
    policies = replace(POLICIES, queue_order=FAIR_SHARE)
    rates = learn((), OverheadRates())
    concerns, kept = LeaseConcerns(), RememberedQueue()
    others: dict[int, tuple[Lease, Lease]] = {}
    for state, use in zip(states, uses, strict=False):
        leases = {}
        for lease_id, lease in state.leases.items():
            known = others.get(lease_id)
            if known is None or known[0] is not lease:
                known = others[lease_id] = lease, replace(lease, gid=1 + lease_id % 2, uid=lease_id // 3 % 2)
            leases[lease_id] = known[1]
        vms = {
            vm_id: owned(state.snapshot.vms[vm_id], lease.gid, lease.uid)
            for lease in leases.values()
            for vm_id in lease.vm_ids
        }
        concerns.observe(replace(state, leases=leases))
        waiting = concerns.all(Concern.QUEUE)
        places = kept.in_order(waiting, vms, policies, rates, concerns.queue_number, use)
        assert kept.in_order(waiting, vms, policies, rates, concerns.queue_number, use) is places
        assert list(places) == list(RememberedQueue().in_order(waiting, vms, policies, rates, None, use))
        owners = [
            (not lease.preempts, use.by_group.get(lease.gid, 0), use.by_owner.get((lease.gid, lease.uid), 0))
            for lease in (one.lease for one in places)
        ]
        assert owners == sorted(owners)


def test_with_ten_thousand_waiting_the_queue_is_put_into_order_once_a_measurement() -> None:
    counted = CountedOrder()
    policies = replace(POLICIES, queue_order=counted)
    rates = learn((), OverheadRates())
    vms = seen([owned(vm(number), 1 + number % 3, number % 50) for number in range(10_000)]).vms
    waiting = {
        number: Lease(number, LeaseTerms(), one.uid, one.gid, (number,), LeaseState.WAITING, 0)
        for number, one in vms.items()
    }
    kept = RememberedQueue()
    uses = [MeasuredUse.of([row(1, 0, amount), row(2, 1, 500)]) for amount in (100, 200, 200, 900)]
    counts = []
    for use in uses:
        for _ in range(20):
            kept.in_order(waiting, vms, policies, rates, 1, use)
        counts.append(counted.keys)
    # What was measured anew and is the same moves nobody.
    assert counts == [10_000, 20_000, 20_000, 30_000]


class CountedOrder(FairShare, frozen=True):
    """Counts how often it is asked for a key."""

    counts: Counter[str] = field(default_factory=Counter)

    @property
    def keys(self) -> int:
        return self.counts["keys"]

    def key(self, lease: Lease, vms: Sequence[VirtualMachine], use: MeasuredUse) -> tuple[float, ...]:
        self.counts["keys"] += 1
        return super().key(lease, vms, use)
