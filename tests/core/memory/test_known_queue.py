"""The queue that is kept is the queue that would be found anew."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from one_preempt.core.memory.known_queue import KnownQueue
from one_preempt.core.memory.lease_concerns import Concern, LeaseConcerns
from one_preempt.core.model.cluster_state import ClusterState
from one_preempt.core.model.lease_lifecycle import VmPhase, phase_of
from one_preempt.core.model.virtual_machine import LockLevel, VmState
from one_preempt.core.observed_room import needed_s
from one_preempt.core.overhead.learned import learn
from one_preempt.core.overhead.rates import OverheadRates
from one_preempt.core.policies import Policies
from one_preempt.core.preemption.moml import POLICY as MOML
from one_preempt.core.queue_order.user_priority import POLICY as BY_PRIORITY
from one_preempt.core.queue_turn import startable
from tests.core.drawn_leases import histories

POLICIES = Policies(preemption=MOML, queue_order=BY_PRIORITY)
BOOTS_S = st.lists(st.sampled_from((0, 7)), min_size=5, max_size=5)


@given(histories(), BOOTS_S)
@settings(max_examples=200, deadline=None, derandomize=True)
def test_what_is_kept_is_what_would_be_found_anew(states: list[ClusterState], boots_s: list[int]) -> None:
    concerns, kept = LeaseConcerns(), KnownQueue()
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
        assert list(places) == list(KnownQueue().in_order(waiting, vms, POLICIES, rates))
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
    for place in KnownQueue().in_order(concerns.all(Concern.QUEUE), state.snapshot.vms, POLICIES, rates):
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
    places = KnownQueue().in_order(waiting, states[-1].snapshot.vms, POLICIES, learn((), OverheadRates()))
    preempting = [place.lease.preempts for place in places]
    assert preempting == sorted(preempting, reverse=True)
