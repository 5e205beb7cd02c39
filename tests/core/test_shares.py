"""How much others of an entry have reserved at most, against counting it second by second."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from one_preempt.core.model.lease import Lease
from one_preempt.core.model.reservation import Reservation
from one_preempt.core.model.resources import Resources
from one_preempt.core.phases.draft import PlanDraft
from one_preempt.core.phases.reservations.shares import most_reserved, within_share_from_s
from tests.core.recounted_cluster import lease

SPANS = st.lists(
    st.tuples(st.integers(0, 12), st.one_of(st.none(), st.integers(1, 8)), st.integers(1, 4), st.booleans()), max_size=6
)


def draft_of(spans: list[tuple[int, int | None, int, bool]], not_accepted: frozenset[int] = frozenset()) -> PlanDraft:
    """A lease for each span, from 1 on: start, length, CPUs, and whether it is of the entry that is asked about."""
    leases: dict[int, Lease] = {}
    reservations = {}
    for lease_id, (start_s, length_s, cpus, is_one) in enumerate(spans, start=1):
        known = replace(
            lease(lease_id), total=Resources(100 * cpus, 10 * cpus), rights_name="some" if is_one else "others"
        )
        end_s = None if length_s is None else start_s + length_s
        leases[lease_id] = known
        reservations[lease_id] = (Reservation(lease_id, start_s, end_s, (0,), firm=True),)
    hosts = SimpleNamespace(capacity=np.array([[1000, 100]]), accepts_vms=np.array([True]))
    state = SimpleNamespace(leases=leases, reservations=reservations, hosts=hosts)
    return cast(
        "PlanDraft", SimpleNamespace(state=state, bookings={}, is_accepted=lambda one: one.id not in not_accepted)
    )


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


def test_what_was_accepted_for_nobody_is_nobodys_share() -> None:
    """The queue's expectations stand among the reservations, too, and cost their owners nothing."""
    both = draft_of([(0, None, 4, True), (0, None, 3, True)], not_accepted=frozenset({2}))
    assert most_reserved(both, replace(lease(99), rights_name="some"), 0, 5) == Resources(400, 40)


@given(SPANS, st.integers(0, 12), st.integers(1, 8), st.integers(1, 6))
def test_the_first_time_within_the_share_is_found(
    spans: list[tuple[int, int | None, int, bool]], not_before_s: int, whole_s: int, cpus: int
) -> None:
    """Half of ten CPUs may be reserved; from second 20 on nothing changes any more."""
    draft = draft_of(spans)
    asking = replace(lease(99), rights_name="some", max_share_percent=50, total=Resources(100 * cpus, 10 * cpus))
    starts = (
        start_s
        for start_s in range(not_before_s, 30)
        if most_reserved(draft, asking, start_s, start_s + whole_s).cpu_centi + 100 * cpus <= 500
    )
    assert within_share_from_s(draft, asking, whole_s, not_before_s) == next(starts, None)
