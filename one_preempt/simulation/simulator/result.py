"""What a simulation leaves: one record a request, enough to compute every figure from."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum

import msgspec
from msgspec import Struct


class Fate(StrEnum):
    """How a request ended.

    COMPLETED: all its VMs had their time. CUT_SHORT: somebody or something ended it before. REJECTED: it was told that
    it is not served, and went away. UNFINISHED: it was still there when the simulation ended.
    """

    COMPLETED = "completed"
    CUT_SHORT = "cut-short"
    REJECTED = "rejected"
    UNFINISHED = "unfinished"


class Interruption(Struct, frozen=True):
    """Its VMs did not run: from when the first one stopped until all ran again (None: never).

    `by_request_id` preempted it (None: nobody did). `moved`: it was on its way to other hosts meanwhile, and not put
    to rest. `terminated`: it was ended, and not put to rest.
    """

    from_ms: int
    until_ms: int | None
    by_request_id: int | None
    moved: bool
    terminated: bool = False


class RequestRecord(Struct, frozen=True):
    """What became of one request. Instants in milliseconds since the start of the workload; None: it never came.

    `started_at_ms` is when all its VMs ran for the first time, `ended_at_ms` when the last one was gone.
    `served_vm_ms` adds up the time that its VMs ran; what a restarted VM had run before counts here too.
    """

    request_id: int
    lease_id: int
    virtual_machines: int
    submitted_at_ms: int
    started_at_ms: int | None
    ended_at_ms: int | None
    fate: Fate
    interruptions: tuple[Interruption, ...]
    served_vm_ms: int
    rejection: str = ""

    @property
    def suspensions(self) -> int:
        """How often it was put to rest for others, to run again: neither moved nor terminated."""
        return sum(one.by_request_id is not None and not one.moved and not one.terminated for one in self.interruptions)


class SimulationResult(Struct, frozen=True):
    """The records by request id, and what it took."""

    records: tuple[RequestRecord, ...]
    cycles: int
    ended_at_ms: int

    @property
    def makespan_ms(self) -> int:
        """When the last request ended of those that ever ran; 0 where none did."""
        return max((one.ended_at_ms or 0 for one in self.records if one.started_at_ms is not None), default=0)

    def json_lines(self) -> Iterator[bytes]:
        """One line a record; the same simulation writes the same bytes."""
        for record in self.records:
            yield msgspec.json.encode(record) + b"\n"
