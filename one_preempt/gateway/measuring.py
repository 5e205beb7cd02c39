"""From looks at the zones to shares: what `gateway run` does at intervals, and `gateway rates --explain` at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from one_preempt.core.gateway.external_stream import external_stream
from one_preempt.core.gateway.requests import GatewayRequest
from one_preempt.core.gateway.shares import Allocation, FullZones, Question, ZoneLoad, allocated, common_speeds
from one_preempt.core.gateway.streams import GivenStream, ZoneMeasure, measured, with_given
from one_preempt.core.gateway.vm_runs import Counted, VmRun, by_token
from one_preempt.core.workload_allocation.policy import AllocationPolicy
from one_preempt.gateway_ports import SeenZone

OFFLINE_UNCOUNTED = (
    "hosts that are OFFLINE do not tell what they have, and do not count: if they sleep until they are needed, write "
    "the elements of this zone into gateway.zones"
)


class ZoneGiven(Struct, frozen=True):
    """What the configuration says of a zone; None is measured."""

    name: str
    elements: float | None = None
    speed: float | None = None
    local: GivenStream = GivenStream()


class MeasuringRules(Struct, frozen=True):
    """How zones are measured and shares computed."""

    zones: tuple[ZoneGiven, ...]
    counted: Counted
    window_s: int
    allocation: AllocationPolicy
    fall_back: AllocationPolicy
    full_zones: FullZones
    external: GivenStream = GivenStream()


class Look(Struct, frozen=True):
    """What one look at a zone gave: a measure, and the VMs of external requests by their numbers."""

    measure: ZoneMeasure
    external: Mapping[int, Sequence[VmRun]]
    problems: tuple[str, ...]


def looked(
    name: str,
    seen: SeenZone,
    tokens: Mapping[str, int],
    rules: MeasuringRules,
    now_s: int,
    former: ZoneMeasure | None = None,
) -> Look:
    """From what was seen of the zone of this name; `tokens` tells external VMs from those of its own users.

    A zone without a host that takes VMs, as it is disabled, or as all sleep, is as fast as by its `former` measure.
    """
    local, external = by_token(seen.runs, tokens)
    runs = [run for of_request in external.values() for run in of_request]
    measure = measured(seen.hosts, local, rules.counted, now_s, rules.window_s, runs)
    given = next((zone.elements for zone in rules.zones if zone.name == name), None)
    uncounted = (OFFLINE_UNCOUNTED,) if seen.hosts_offline and given is None else ()
    measure = replace(measure, is_disabled=seen.is_disabled)
    if not seen.hosts and former is not None:
        measure = replace(measure, speed_ghz=former.speed_ghz)
    return Look(measure, external, (*seen.problems, *uncounted))


def question(
    measures: Mapping[str, ZoneMeasure],
    away: Mapping[str, str],
    requests: Sequence[GatewayRequest],
    rules: MeasuringRules,
    now_s: int,
) -> Question:
    """What the policies are asked; `away` says of zones without a measure why they have none."""
    speeds = common_speeds(
        {zone.name: measures[zone.name].speed_ghz for zone in rules.zones if zone.name in measures},
        {zone.name: zone.speed for zone in rules.zones if zone.speed is not None},
    )
    loads = []
    for zone in rules.zones:
        measure = measures.get(zone.name)
        if measure is None:
            loads.append(ZoneLoad(zone.name, 1.0, why_not=away.get(zone.name, "it was not measured yet")))
            continue
        if zone.elements is not None:
            measure = replace(measure, elements=zone.elements, standing=0.0)
        local = with_given(measure.local, zone.local)
        loads.append(
            ZoneLoad(zone.name, speeds[zone.name], measure, local, "it is disabled" if measure.is_disabled else "")
        )
    external = with_given(external_stream(requests, now_s, rules.window_s), rules.external)
    return Question(tuple(loads), external)


def shares(asked: Question, rules: MeasuringRules, now_s: int) -> Allocation:
    """The shares that are in force from now on. Raises `NoShares`."""
    return allocated(rules.allocation, rules.fall_back, asked, rules.full_zones, now_s)
