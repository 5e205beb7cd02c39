"""What goes wrong in a scenario: hosts that die and come back, and drivers that fail, hang or drag."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated

import msgspec
from msgspec import UNSET, UnsetType

from one_preempt.configuration.section import NotNegative, Positive, Section
from one_preempt.simulation.simulated_cloud.durations import Operation
from one_preempt.simulation.simulated_cloud.faults import Fault, Misbehaviour
from one_preempt.simulation.simulator.timed_fault import DriverFails, HostDies, HostReturns, TimedFault

# What a fault of each kind may say, apart from `at_s`.
_KEYS = {
    "host_dies": (),
    "host_returns": ("guests_survived",),
    "operation": ("misbehaviour", "host", "count", "probability", "factor"),
}


class FaultEntry(Section, frozen=True):
    """One mishap, `at_s` after the start. Hosts are counted from 0, in the order of `site.hosts`.

    A driver's `operation` misbehaves (if nothing is said, it fails) the next `count` times (once; None: always) on
    `host` (on any), each time with `probability` (1); slow: it takes `factor` times as long (10).
    """

    at_s: NotNegative = 0
    host_dies: NotNegative | UnsetType = UNSET
    host_returns: NotNegative | UnsetType = UNSET
    guests_survived: bool | UnsetType = UNSET
    operation: Operation | UnsetType = UNSET
    misbehaviour: Misbehaviour | UnsetType = UNSET
    host: NotNegative | UnsetType | None = UNSET
    count: Positive | UnsetType | None = UNSET
    probability: Annotated[float, msgspec.Meta(ge=0, le=1)] | UnsetType = UNSET
    factor: Annotated[float, msgspec.Meta(ge=1, le=1e6)] | UnsetType = UNSET


def mistakes_in(entries: Sequence[FaultEntry], hosts: int) -> Iterator[str]:
    """Entries that say not one thing, or what belongs to another kind, or name a host that a site of so many does not
    have: the key and the mend."""
    for number, entry in enumerate(entries):
        said = [key for key in entry.__struct_fields__ if key != "at_s" and getattr(entry, key) is not UNSET]
        kinds = [key for key in said if key in _KEYS]
        if len(kinds) != 1:
            yield f"faults[{number}] needs one of host_dies, host_returns and operation: write a fault for each"
            continue
        (kind,) = kinds
        for key in (key for key in said if key not in (kind, *_KEYS[kind])):
            owner = next(other for other, keys in _KEYS.items() if key in keys)
            yield f"faults[{number}].{key} belongs to a fault with {owner}, and this one has {kind}: leave {key} out"
        if entry.factor is not UNSET and entry.misbehaviour is not Misbehaviour.SLOW:
            yield f"faults[{number}].factor belongs to misbehaviour: slow: write that, or leave factor out"
        named = next((host for host in (entry.host_dies, entry.host_returns, entry.host) if isinstance(host, int)), 0)
        if named >= hosts:
            yield f"faults[{number}] names host {named}, and there are hosts 0 to {hosts - 1}"


def timed_fault(entry: FaultEntry) -> TimedFault:
    """The mishap of an entry without mistake."""
    if entry.host_dies is not UNSET:
        return HostDies(entry.at_s, entry.host_dies)
    if entry.host_returns is not UNSET:
        return HostReturns(entry.at_s, entry.host_returns, entry.guests_survived is True)
    assert entry.operation is not UNSET
    fault = Fault(entry.operation, host_id=entry.host if isinstance(entry.host, int) else None)
    if entry.misbehaviour is not UNSET:
        fault.misbehaviour = entry.misbehaviour
    if entry.count is not UNSET:
        fault.count = entry.count
    if entry.probability is not UNSET:
        fault.probability = entry.probability
    if entry.factor is not UNSET:
        fault.factor = entry.factor
    return DriverFails(entry.at_s, fault)
