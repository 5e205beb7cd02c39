from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from one_preempt.core.admission.lease_attribute import MAX_DURATION_S, parse_lease_attribute
from one_preempt.core.model.lease import LeaseTerms
from one_preempt.core.model.written_time import duration_text, utc_text


def test_times_are_written_as_people_know_them() -> None:
    assert utc_text(1_796_115_600) == "2026-12-01T09:00:00Z"
    assert [duration_text(seconds) for seconds in (0, 61, 7200, 129_600)] == [
        "00:00:00",
        "00:01:01",
        "02:00:00",
        "1.12:00:00",
    ]


@settings(derandomize=True)
@given(st.integers(31_536_000, 7_000_000_000), st.integers(1, MAX_DURATION_S))
def test_what_is_written_can_be_put_into_a_lease_attribute(at_s: int, duration_s: int) -> None:
    attribute = {"TYPE": "BE-SUSPENDABLE", "START": utc_text(at_s), "DURATION": duration_text(duration_s)}
    terms = parse_lease_attribute((attribute,))
    assert isinstance(terms, LeaseTerms)
    assert (terms.start_at_s, terms.duration_s) == (at_s, duration_s)
