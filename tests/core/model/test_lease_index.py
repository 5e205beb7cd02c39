"""The index of leases is what going through all of them finds."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from one_preempt.core.model.lease import Lease, LeaseState, LeaseTerms
from one_preempt.core.model.lease_index import LeaseIndex, Trait

_LEASES = st.builds(
    lambda number, state, asks, preempted: Lease(
        id=number,
        terms=LeaseTerms(at_once=asks),
        uid=0,
        gid=0,
        vm_ids=(number,),
        state=state,
        arrived_at_s=0,
        preempted_by=1 if preempted else None,
    ),
    st.integers(0, 8),
    st.sampled_from(LeaseState),
    st.booleans(),
    st.booleans(),
)


@settings(derandomize=True)
@given(st.lists(st.lists(st.tuples(st.integers(0, 8), st.none() | _LEASES), max_size=5), max_size=6))
def test_after_any_changes_it_finds_what_going_through_all_leases_finds(
    rounds: list[list[tuple[int, Lease | None]]],
) -> None:
    leases: dict[int, Lease] = {}
    index = LeaseIndex()
    for given_changes in rounds:
        news = {(lease.id if lease is not None else number): lease for number, lease in given_changes}
        index = index.changed([(leases.get(number), lease) for number, lease in news.items()])
        for number, lease in news.items():
            leases.pop(number, None)
            if lease is not None:
                leases[number] = lease
        for state in LeaseState:
            assert index.under(state) == tuple(sorted(i for i, lease in leases.items() if lease.state is state))
        waiting = (LeaseState.WAITING, LeaseState.PREEMPTED)
        assert index.under(*waiting) == tuple(sorted(i for i, lease in leases.items() if lease.state in waiting))
        asking = sorted(i for i, lease in leases.items() if lease.terms.asks_for_time)
        assert index.under(Trait.ASKS_FOR_TIME) == tuple(asking)
        gone = sorted(i for i, lease in leases.items() if lease.preempted_by is not None)
        assert index.under(Trait.PREEMPTED) == tuple(gone)
