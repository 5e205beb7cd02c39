"""Whatever comes on a hook's standard input is understood, or refused in one line. `make fuzz` tries 100,000."""

from __future__ import annotations

import base64
import os

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from one_preempt.entrypoints.hook import BrokenInput, changed_object

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "600"))
DOCUMENTS = st.from_regex(rb"\s?<(VM|HOST|X)>\s?<ID>[0-9]{0,12}</ID>.{0,20}</(VM|HOST)>\s?", fullmatch=True)


@settings(
    max_examples=EXAMPLES, derandomize=EXAMPLES <= 600, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
@given(text=st.binary(max_size=300) | (st.binary(max_size=300) | DOCUMENTS).map(base64.b64encode))
@example(base64.b64encode(b"<VM><ID>" + b"9" * 100_000 + b"</ID></VM>"))
@example(base64.b64encode(b" " * 1_000_000))
@example(b"=" * 100_000)
def test_any_input_is_understood_or_refused(text: bytes) -> None:
    try:
        kind, object_id = changed_object(text)
    except BrokenInput as error:
        refusal = str(error)
    else:
        refusal = ""
    assert "\n" not in refusal
    assert refusal or (kind in ("VM", "HOST") and 0 <= object_id < 2**31)
