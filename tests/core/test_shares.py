"""How much others of an entry have reserved at most, against counting it second by second."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import cast

from hypothesis import given
from hypothesis import strategies as st

from one_preempt.core.model.lease import Lease
from one_preempt.core.model.reservation import Reservation
from one_preempt.core.model.resources import Resources
from one_preempt.core.phases.draft import PlanDraft
from one_preempt.core.phases.shares import most_reserved
from tests.core.recounted_cluster import lease

SPANS = st.lists(
    st.tuples(st.integers(0, 12), st.one_of(st.none(), st.integers(1, 8)), st.integers(1, 4), st.booleans()), max_size=6
)


def draft_of(spans: list[tuple[int, int | None, int, bool]]) -> PlanDraft:
    """A lease for each span: start, length, CPUs, and whether it is of the entry that is asked about."""
    leases: dict[int, Lease] = {}
    reservations = {}
    for lease_id, (start_s, length_s, cpus, is_one) in enumerate(spans, start=1):
        known = replace(
            lease(lease_id), total=Resources(100 * cpus, 10 * cpus), rights_name="some" if is_one else "others"
        )
        end_s = None if length_s is None else start_s + length_s
        leases[lease_id] = known
        reservations[lease_id] = (Reservation(lease_id, start_s, end_s, (0,), firm=True),)
    state = SimpleNamespace(leases=leases, reservations=reservations)
    return cast("PlanDraft", SimpleNamespace(state=state, bookings={}, is_accepted=lambda _: True))


@given(SPANS, st.integers(0, 12), st.one_of(st.none(), st.integers(1, 8)))
def test_the_most_that_is_reserved_is_found(
    spans: list[tuple[int, int | None, int, bool]], start_s: int, length_s: int | None
) -> None:
    asking = replace(lease(99), rights_name="some")
    end_s = None if length_s is None else start_s + length_s
    by_second = [
        sum(
            cpus
            for from_s, lasts_s, cpus, is_one in spans
            if is_one and from_s <= at_s and (lasts_s is None or at_s < from_s + lasts_s)
        )
        for at_s in range(start_s, 30 if end_s is None else end_s)
    ]
    most = max(by_second)
    assert most_reserved(draft_of(spans), asking, start_s, end_s) == Resources(100 * most, 10 * most)
