"""Faults of the endpoint itself, on demand: what a client meets when the network or the front end is ill.

A fault waits for calls of one method (or of any) and strikes a given number of them. The cloud behind the
endpoint stays sound; only `LOST_REPLY`, `SLOW` and `TRUNCATED` let the call take effect.
"""

from __future__ import annotations

import threading
from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

ANY_METHOD = "*"


class FaultKind(StrEnum):
    """What the client sees."""

    HANG = "hang"  # the connection stays open and silent for `delay_s`, then closes
    SLOW = "slow"  # the right answer after `delay_s`
    CLOSE = "close"  # the connection closes without a byte
    HTML = "html"  # 200 with a web page, as a proxy or a captive portal answers
    SERVER_ERROR = "500"  # status 500 with a line of text
    TRUNCATED = "truncated"  # the first half of the right answer, then the connection closes
    LOST_REPLY = "lost_reply"  # the call takes effect and the connection closes without a byte


class EndpointFault(Struct, frozen=True):
    """`count` calls of `method` meet the fault after `skip` of them were let through unharmed."""

    kind: FaultKind
    method: str = ANY_METHOD
    count: int = 1
    skip: int = 0
    delay_s: float = 0.0

    def matches(self, method: str) -> bool:
        """Whether a call of `method` counts for this fault."""
        return self.method in (ANY_METHOD, method)


class EndpointFaults:
    """The faults that wait, in the order in which they were set. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: list[EndpointFault] = []

    def add(self, fault: EndpointFault) -> None:
        """Let `fault` wait for its calls."""
        with self._lock:
            self._waiting.append(fault)

    def clear(self) -> None:
        """Forget every waiting fault."""
        with self._lock:
            self._waiting.clear()

    def strike(self, method: str) -> EndpointFault | None:
        """The fault that this call meets, if any; its count goes down by one."""
        with self._lock:
            for position, fault in enumerate(self._waiting):
                if not fault.matches(method):
                    continue
                if fault.skip > 0:
                    self._waiting[position] = replace(fault, skip=fault.skip - 1)
                    continue
                if fault.count > 1:
                    self._waiting[position] = replace(fault, count=fault.count - 1)
                else:
                    del self._waiting[position]
                return fault
        return None
