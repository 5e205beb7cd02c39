"""The first frame of a message on the event bus, which says it all: what changed its state, and to which one.

The second frame repeats it with the whole document; it is not looked at, the pools are read instead.
"""

from __future__ import annotations

import re

from msgspec import Struct

# Every change is published under two topics; these two prefixes bring each once. API calls stay away.
SUBSCRIPTIONS = (b"EVENT VM ", b"EVENT HOST ")
_TOPIC = re.compile(rb"EVENT (VM|HOST) ([0-9]{1,9})/([A-Z_]{1,40})/([A-Z_]{0,40}) ?")
_ACTIVE = "ACTIVE"


class StateEvent(Struct, frozen=True):
    """A VM or host entered a state, named as `VirtualMachine.state_name` and `HostState` name it."""

    kind: str
    object_id: int
    state_name: str


def parse_topic(topic: bytes) -> StateEvent | None:
    """The event that a topic names, or None where it is none."""
    found = _TOPIC.fullmatch(topic)
    if found is None:
        return None
    kind, object_id, state, lcm_state = (part.decode() for part in found.groups())
    return StateEvent(kind, int(object_id), lcm_state if state == _ACTIVE and lcm_state else state)
