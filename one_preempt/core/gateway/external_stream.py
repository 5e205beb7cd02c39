"""The stream of external requests, from the gateway's own ledger."""

from __future__ import annotations

import math
from collections.abc import Sequence

from one_preempt.core.gateway.requests import GatewayRequest
from one_preempt.core.gateway.streams import LEAST_SAMPLES, Stream
from one_preempt.core.gateway.vm_runs import SECONDS_PER_HOUR

LEAST_WINDOW_S = SECONDS_PER_HOUR


def external_stream(requests: Sequence[GatewayRequest], now_s: int, window_s: int) -> Stream:
    """How often requests came within the window, and what they compute.

    A young ledger counts from its first request on, for an hour at least. Work is that of requests that have ended;
    where these are too few to tell anything, VMs times the DURATION that was asked, each as one element of speed 1.
    """
    sent = [request for request in requests if request.is_sent and request.opened_at_s > now_s - window_s]
    if not sent:
        return Stream(0.0, None, None, 0, "no request is on record")
    since_s = max(LEAST_WINDOW_S, min(window_s, now_s - min(request.opened_at_s for request in requests)))
    told = f"{len(sent)} came in {since_s / SECONDS_PER_HOUR:.4g} h"
    worked = [request.work for request in sent if request.work is not None]
    if len(worked) >= LEAST_SAMPLES:
        return _stream(len(sent) / since_s, worked, f"{told}; work of {len(worked)} that ended")
    asked = [float(request.size * request.duration_s) for request in sent if request.duration_s]
    if len(asked) >= LEAST_SAMPLES:
        return _stream(
            len(sent) / since_s, asked, f"{told}; DURATION of {len(asked)}, because only {len(worked)} have ended"
        )
    return Stream(len(sent) / since_s, None, None, 0, f"{told}; {len(worked)} have ended, {len(asked)} had a DURATION")


def _stream(rate_per_s: float, works: Sequence[float], told: str) -> Stream:
    mean = math.fsum(works) / len(works)
    return Stream(rate_per_s, mean, math.fsum(work**2 for work in works) / len(works), len(works), told)
