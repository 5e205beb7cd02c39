"""What the configuration says about a gateway between zones: `gateway`. Values are checked here, once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

import msgspec

from one_preempt.configuration.places import endpoint_fault, store_fault
from one_preempt.configuration.section import AbsolutePath, Section
from one_preempt.configuration.shown_url import without_password

LEDGER_EXAMPLE = "sqlite:////var/lib/one/one_preempt/gateway.db"
ZoneName = Annotated[str, msgspec.Meta(min_length=1, max_length=128)]
Rate = Annotated[float, msgspec.Meta(ge=0, le=1e9)]
Amount = Annotated[float, msgspec.Meta(gt=0, le=1e9)]
Variation = Annotated[float, msgspec.Meta(ge=0, le=1000)]
Hours = Annotated[int, msgspec.Meta(ge=1, le=10_000)]
Span = Annotated[int, msgspec.Meta(ge=10, le=7 * 86_400)]


class StreamSettings(Section, frozen=True):
    """Requests an hour, hours of one processing element that one of them computes, and how much these differ.

    What is null is measured.
    """

    rate_per_h: Rate | None = None
    mean_work_h: Amount | None = None
    variation: Variation | None = None


class ZoneSettings(Section, frozen=True):
    """One zone; what is null is asked of the federation, or measured."""

    name: ZoneName
    endpoint: str | None = None
    auth_file: AbsolutePath | None = None
    elements: Amount | None = None
    speed: Annotated[float, msgspec.Meta(ge=0.001, le=1e6)] | None = None
    local: StreamSettings = StreamSettings()


class GatewaySettings(Section, frozen=True):
    """Which zones there are, how requests are split over them, and where the gateway keeps and says what."""

    zones: list[ZoneSettings] = []
    socket: AbsolutePath = "/run/one_preempt/gateway.sock"
    store_url: str = LEDGER_EXAMPLE
    allocation_policy: str = "pap"
    fall_back: str = "bcf"
    full_zones: Literal["leave_out", "fall_back"] = "leave_out"
    dispatch_policy: str = "rtdp"
    seed: Annotated[int, msgspec.Meta(ge=0, le=2**31)] = 0
    counted: Literal["cpu", "memory"] = "cpu"
    window_h: Hours = 168
    recompute_s: Annotated[int, msgspec.Meta(ge=60, le=7 * 86_400)] = 3600
    patience_s: Span = 180
    requests_in_hand: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 32
    requests_an_hour: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 200
    external: StreamSettings = StreamSettings()


def gateway_faults(gateway: GatewaySettings) -> Iterator[str]:
    """One sentence for each thing that cannot be meant."""
    names = [zone.name for zone in gateway.zones]
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield f"gateway.zones has two entries named '{name}': names must differ"
    places = [zone.endpoint for zone in gateway.zones if zone.endpoint is not None]
    for place in sorted({place for place in places if places.count(place) > 1}):
        yield f"gateway.zones has two entries with the endpoint {place}: it would count twice, and be tried twice"
    for number, zone in enumerate(gateway.zones):
        if not zone.name.isprintable() or zone.name != zone.name.strip():
            yield f"gateway.zones[{number}].name {zone.name!r}: write it on one line, without blanks around"
        if zone.endpoint is not None and (why := endpoint_fault(zone.endpoint)):
            yield f"gateway.zones[{number}].endpoint {why}"
    if why := store_fault(gateway.store_url, LEDGER_EXAMPLE):
        yield f"gateway.store_url {why}"


def gateway_doubts(gateway: GatewaySettings, store_url: str) -> Iterator[str]:
    """What can be used and is probably not meant, if there is a gateway."""
    if not gateway.zones:
        return
    if len(gateway.zones) == 1:
        yield "gateway.zones has one zone: all requests go there"
    if gateway.store_url == store_url:
        yield (
            "gateway.store_url is the database of the daemon: only one of both can write to it, so give the gateway "
            "its own"
        )
    for zone in gateway.zones:
        if zone.endpoint is not None and without_password(zone.endpoint) != zone.endpoint:
            yield f"the endpoint of zone '{zone.name}' holds a password: every user of the gateway's machine is told it"
    for zone in gateway.zones:
        if zone.speed is None and any(other.speed is not None for other in gateway.zones):
            yield (
                f"zone '{zone.name}' has no speed and others have: it counts as what its hosts tell in GHz, and as 1 "
                "if they tell nothing; write speeds for all zones in one unit, or for none"
            )
            break
    if gateway.patience_s < 150:
        yield (
            f"gateway.patience_s is {gateway.patience_s}: a call without an answer may still be carried out after "
            "120 s, and the request could then be made twice"
        )
    if gateway.window_h * 3600 < gateway.recompute_s:
        yield "gateway.window_h is shorter than gateway.recompute_s: requests that ended in between are not counted"
