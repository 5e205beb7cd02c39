"""Transfers and links for tests, written short or drawn."""

from __future__ import annotations

from hypothesis import strategies as st

from one_preempt.core.image_staging.link import Link, link_from
from one_preempt.core.image_staging.transfer import Span, StagedTransfer, Transfer

NOW_MS = 1000


def transfer(
    id: int, duration_ms: int, deadline_ms: int | None, ready_ms: int = 0, owner: int | None = None
) -> Transfer:
    return Transfer(id, "image", (id,), duration_ms, ready_ms, deadline_ms, id if owner is None else owner)


def slots(staged: tuple[StagedTransfer, ...]) -> dict[int, tuple[int, int]]:
    """Begin and end of each by its id."""
    return {one.transfer.id: (one.begin_ms, one.end_ms) for one in staged}


@st.composite
def links(draw: st.DrawFn) -> Link:
    spans = draw(st.lists(st.tuples(st.integers(NOW_MS - 5, NOW_MS + 40), st.integers(1, 8)), max_size=4))
    return link_from(NOW_MS, [Span(begin, begin + length) for begin, length in spans])


def reserved_transfers(most: int = 5, latest_ready_ms: int = NOW_MS) -> st.SearchStrategy[list[Transfer]]:
    drawn = st.tuples(
        st.integers(1, 9),
        st.integers(NOW_MS, NOW_MS + 45),
        st.integers(NOW_MS - 5, latest_ready_ms),
        st.integers(0, 2),
    )
    return st.lists(drawn, min_size=1, max_size=most).map(
        lambda found: [
            transfer(number, duration, deadline, ready, owner)
            for number, (duration, deadline, ready, owner) in enumerate(found)
        ]
    )
