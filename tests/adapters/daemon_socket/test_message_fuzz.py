"""Any line at the daemon's socket is a message, or refused with a reason. `make fuzz` tries 100,000."""

from __future__ import annotations

import json
import os

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from one_preempt.adapters.daemon_socket.messages import HOOK_TYPES, Message, MessageError, parse_message

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "600"))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.sampled_from([*Message, *HOOK_TYPES]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["version", "kind", "type", "id"]) | st.text(max_size=4), inner, max_size=4)
    ),
)
NEARLY_RIGHT = st.fixed_dictionaries(
    {"version": st.just(1), "kind": st.sampled_from(list(Message)), "type": VALUES, "id": VALUES}
)


@settings(
    max_examples=EXAMPLES, derandomize=EXAMPLES <= 600, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
@given(st.binary(max_size=200) | (VALUES | NEARLY_RIGHT).map(lambda value: json.dumps(value).encode()))
def test_any_line_is_a_message_or_refused(line: bytes) -> None:
    try:
        assert parse_message(line) in Message
    except MessageError as error:
        assert str(error)  # noqa: PT017 - either way is right
