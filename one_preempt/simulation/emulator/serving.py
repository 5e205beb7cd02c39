"""Serve a simulated cloud: in a thread of a test, or until the process ends."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from one_preempt.simulation.emulator.call_log import new_call_log
from one_preempt.simulation.emulator.control import Control
from one_preempt.simulation.emulator.emulated_time import EmulatedTime
from one_preempt.simulation.emulator.endpoint_faults import EndpointFaults
from one_preempt.simulation.emulator.front import CloudFront
from one_preempt.simulation.emulator.server import DEFAULT_LIMITS, LOOPBACK, EndpointServer, Limits
from one_preempt.simulation.simulated_cloud.cloud import SimulatedCloud


def endpoint_server(
    cloud: SimulatedCloud,
    *,
    host: str = LOOPBACK,
    port: int = 0,
    time: EmulatedTime | None = None,
    faults: EndpointFaults | None = None,
    control: bool = False,
    lock: threading.RLock | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> EndpointServer:
    """A bound server that is not yet serving; port 0 takes a free one. Raises `OSError` where it cannot bind."""
    faults = faults or EndpointFaults()
    calls = new_call_log()
    front = CloudFront(cloud, calls, time, Control(cloud, faults, calls) if control else None, lock)
    return EndpointServer((host, port), front.answer, faults, limits)


@contextmanager
def running_emulator(
    cloud: SimulatedCloud,
    *,
    faults: EndpointFaults | None = None,
    control: bool = False,
    lock: threading.RLock | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> Iterator[str]:
    """Serve `cloud` from a thread on loopback and give the endpoint's URL.

    The cloud's time moves only by `SimulatedCloud.advance`; a test that does so while clients call passes `lock` and
    holds it.
    """
    server = endpoint_server(cloud, faults=faults, control=control, lock=lock, limits=limits)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server.url
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
