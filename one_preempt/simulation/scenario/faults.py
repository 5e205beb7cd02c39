"""What goes wrong in a scenario: hosts that die and come back, and drivers that fail, hang or drag."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated

import msgspec

from one_preempt.configuration.section import NotNegative, Positive, Section
from one_preempt.simulation.simulated_cloud.durations import Operation
from one_preempt.simulation.simulated_cloud.faults import Fault, Misbehaviour
from one_preempt.simulation.simulator.timed_fault import DriverFails, HostDies, HostReturns, TimedFault

_KINDS = "host_dies, host_returns and operation"


class FaultEntry(Section, frozen=True):
    """One mishap, `at_s` after the start. Hosts are counted from 0, in the order of `site.hosts`.

    A driver's `operation` misbehaves the next `count` times (None: always) on `host` (None: on any), each time with
    `probability`; slow: it takes `factor` times as long.
    """

    at_s: NotNegative = 0
    host_dies: NotNegative | None = None
    host_returns: NotNegative | None = None
    guests_survived: bool = False
    operation: Operation | None = None
    misbehaviour: Misbehaviour = Misbehaviour.FAIL
    host: NotNegative | None = None
    count: Positive | None = 1
    probability: Annotated[float, msgspec.Meta(ge=0, le=1)] = 1.0
    factor: Annotated[float, msgspec.Meta(ge=1, le=1e6)] = 10.0


def mistakes_in(entries: Sequence[FaultEntry], hosts: int) -> Iterator[str]:
    """Entries that say not one thing, or name a host that a site of so many does not have: the key and the mend."""
    for number, entry in enumerate(entries):
        if [entry.host_dies, entry.host_returns, entry.operation].count(None) != 2:
            yield f"faults[{number}] needs one of {_KINDS}: write a fault for each"
        named = next((host for host in (entry.host_dies, entry.host_returns, entry.host) if host is not None), 0)
        if named >= hosts:
            yield f"faults[{number}] names host {named}, and there are hosts 0 to {hosts - 1}"


def timed_fault(entry: FaultEntry) -> TimedFault:
    """The mishap of an entry without mistake."""
    if entry.host_dies is not None:
        return HostDies(entry.at_s, entry.host_dies)
    if entry.host_returns is not None:
        return HostReturns(entry.at_s, entry.host_returns, entry.guests_survived)
    assert entry.operation is not None
    fault = Fault(
        entry.operation, entry.misbehaviour, host_id=entry.host, count=entry.count, probability=entry.probability,
        factor=entry.factor,
    )  # fmt: skip
    return DriverFails(entry.at_s, fault)
