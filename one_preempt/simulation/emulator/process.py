"""The emulator as a process: build the cloud, serve it, say where, until somebody ends it."""

from __future__ import annotations

import signal
import sys
import threading
import time
from contextlib import ExitStack
from importlib.resources import as_file, files
from pathlib import Path

import msgspec

from one_preempt.errors import OnePreemptError
from one_preempt.simulation.emulator.described_cloud import DEFAULT_START_S, described_cloud
from one_preempt.simulation.emulator.description import read_description
from one_preempt.simulation.emulator.emulated_time import VirtualTime, WallTime
from one_preempt.simulation.emulator.from_recording import recorded_cloud
from one_preempt.simulation.emulator.serving import endpoint_server
from one_preempt.simulation.simulated_cloud.cloud import SimulatedCloud

DEFAULT_CLOUD = "demo"
_TIME_FOR_STORIES_S = 86_400


def run_emulator(
    description: Path | None,
    recording: Path | None,
    host: str,
    port: int,
    speed: float,
    virtual_time: bool,
    control: bool,
    events: str | None,
) -> None:
    """Serve a cloud until SIGINT or SIGTERM, after one line ``listening on URL`` on standard output.

    Without `description` and `recording` it is the demonstration cloud. The cloud's time follows the wall clock
    `speed` times as fast, or with `virtual_time` stands still until the control method moves it. `events` is where
    changes of state are published, as ZeroMQ names it. Raises `OnePreemptError` where the cloud cannot be built or
    an address is not free.
    """
    cloud = served_cloud(description, recording)
    emulated_time = VirtualTime() if virtual_time else WallTime(speed)
    lock = threading.RLock()
    try:
        server = endpoint_server(cloud, host=host, port=port, time=emulated_time, control=control, lock=lock)
    except OSError as error:
        raise OnePreemptError(f"{host}:{port}: cannot listen there: {error.strerror}; choose another port") from error
    with server, ExitStack() as stack:
        if events is not None:
            from one_preempt.simulation.emulator.event_bus import publishing

            stack.enter_context(publishing(cloud, events, lock, None if virtual_time else emulated_time))
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        sys.stdout.write(f"listening on {server.url}\n")
        sys.stdout.flush()
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            server.stopping.set()


def shipped_cloud(name: str, version: str | None = None, starts_at_s: int = DEFAULT_START_S) -> SimulatedCloud:
    """A cloud that comes with the program: ``demo``, or ``recorded``; in another version of oned where one is given."""
    with as_file(files("one_preempt.simulation.emulator") / "clouds" / f"{name}.yaml") as path:
        description = read_description(path)
    if version is not None:
        description = msgspec.structs.replace(description, version=version)
    return described_cloud(description, starts_at_s)


def served_cloud(description: Path | None = None, recording: Path | None = None) -> SimulatedCloud:
    """The cloud asked for, the demonstration's without either, brought up to the present unless it says when it is."""
    if description is not None and recording is not None:
        raise OnePreemptError("an emulated cloud comes from a description or from a recording, not from both")
    if recording is not None:
        return recorded_cloud(recording)
    now_s = int(time.time())
    past_s = now_s - _TIME_FOR_STORIES_S
    if description is None:
        cloud = shipped_cloud(DEFAULT_CLOUD, starts_at_s=past_s)
    else:
        described = read_description(description)
        cloud = described_cloud(described, past_s)
        if described.starts_at_s is not None:
            return cloud
    cloud.run_until(now_s)
    return cloud
