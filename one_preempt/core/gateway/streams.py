"""Streams of requests: how often they come, and the first two moments of what one of them computes."""

from __future__ import annotations

import math
from collections.abc import Sequence

from msgspec import Struct

from one_preempt.core.gateway.vm_runs import SECONDS_PER_HOUR, Counted, ServedRequest, VmRun, requests_in

LEAST_SAMPLES = 10
"""So few requests tell nothing of a mean."""


class Stream(Struct, frozen=True):
    """Requests that come to one place.

    Attributes:
        rate_per_s: How many come in a second.
        mean_work: What one computes, in element-seconds; None where that is not known.
        mean_work_squared: The second moment of that.
        samples: From how many requests the moments are; 0 where they were configured.
        known_from: In words for people where the figures are from.
    """

    rate_per_s: float
    mean_work: float | None
    mean_work_squared: float | None
    samples: int = 0
    known_from: str = ""


class GivenStream(Struct, frozen=True):
    """What the administrator says of a stream; None is left to be measured.

    `mean_work_h` is in element-hours; `variation` is the coefficient of variation of the work.
    """

    rate_per_h: float | None = None
    mean_work_h: float | None = None
    variation: float | None = None


class HostRoom(Struct, frozen=True):
    """What a host that takes VMs has; `speed_ghz` is None where it does not tell."""

    cores: float
    memory_gib: float
    speed_ghz: float | None = None

    def elements(self, counted: Counted) -> float:
        """How many processing elements it has."""
        return self.cores if counted is Counted.CPU else self.memory_gib


class ZoneMeasure(Struct, frozen=True):
    """What was measured of one zone.

    Attributes:
        measured_at_s: When.
        window_s: How long before that counts.
        elements: Processing elements of its hosts.
        standing: So many of them were taken, in the mean, by VMs that run for longer than the window.
        speed_ghz: Mean speed of an element; None where no host tells.
        local: The requests of its own users that came in the window.
        is_disabled: Nothing can be created there now.
    """

    measured_at_s: int
    window_s: int
    elements: float
    standing: float
    speed_ghz: float | None
    local: Stream
    is_disabled: bool = False


def measured(
    hosts: Sequence[HostRoom],
    local_runs: Sequence[VmRun],
    counted: Counted,
    now_s: int,
    window_s: int,
    external_runs: Sequence[VmRun] = (),
) -> ZoneMeasure:
    """A zone from its hosts, and the runs of its own users' VMs; those of external requests may stand there, too."""
    from_s = now_s - window_s
    elements = math.fsum(host.elements(counted) for host in hosts)
    standing = math.fsum(
        run.elements(counted) * run.ran_between_s(from_s, now_s) / window_s
        for run in (*local_runs, *external_runs)
        if run.is_standing(from_s, now_s)
    )
    coming = [run for run in local_runs if not run.is_standing(from_s, now_s)]
    return ZoneMeasure(
        measured_at_s=now_s,
        window_s=window_s,
        elements=elements,
        standing=standing,
        speed_ghz=_mean_speed_ghz(hosts, counted),
        local=observed_stream(requests_in(coming, counted, now_s), from_s, window_s),
    )


def observed_stream(requests: Sequence[ServedRequest], from_s: int, window_s: int) -> Stream:
    """The rate of those that came in the window; the moments of those that have ended.

    Where so few have ended that they tell nothing, what all have computed so far counts: it is too little rather than
    too much.
    """
    came = sum(request.arrived_at_s > from_s for request in requests)
    ended = [request.work for request in requests if request.has_ended]
    whole = len(ended) >= LEAST_SAMPLES
    works = ended if whole else [request.work for request in requests]
    told = f"{came} came in {window_s / SECONDS_PER_HOUR:g} h; work of {len(works)}"
    if not works:
        return Stream(came / window_s, None, None, 0, "none came")
    return Stream(
        rate_per_s=came / window_s,
        mean_work=math.fsum(works) / len(works),
        mean_work_squared=math.fsum(work**2 for work in works) / len(works),
        samples=len(works),
        known_from=f"{told} that ended" if whole else f"{told} so far, because only {len(ended)} have ended",
    )


def with_given(stream: Stream, given: GivenStream) -> Stream:
    """The stream, where something of it is configured with that instead."""
    if given.rate_per_h is None and given.mean_work_h is None and given.variation is None:
        return stream
    mean, squared = stream.mean_work, stream.mean_work_squared
    variation = given.variation
    if variation is None and mean and squared is not None:
        variation = math.sqrt(max(0.0, squared / mean**2 - 1))
    if given.mean_work_h is not None:
        mean = given.mean_work_h * SECONDS_PER_HOUR
    if mean is not None:
        squared = (1 + (variation or 0.0) ** 2) * mean**2
    rate_per_s = stream.rate_per_s if given.rate_per_h is None else given.rate_per_h / SECONDS_PER_HOUR
    whole = given.rate_per_h is not None and given.mean_work_h is not None
    told = "as configured" if whole else f"{stream.known_from}; the rest as configured"
    return Stream(rate_per_s, mean, squared, stream.samples if given.mean_work_h is None else 0, told)


def _mean_speed_ghz(hosts: Sequence[HostRoom], counted: Counted) -> float | None:
    telling = [(host.elements(counted), host.speed_ghz) for host in hosts if host.speed_ghz is not None]
    weight = math.fsum(elements for elements, _speed in telling)
    if not weight:
        return None
    return math.fsum(elements * speed for elements, speed in telling) / weight
