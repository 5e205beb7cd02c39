"""Listen to OpenNebula's event bus (ZeroMQ PUB/SUB) in a thread of its own.

Messages may be lost, doubled, or come from anybody who reaches the port: they wake and they time, nothing else.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress

import zmq

from one_preempt.adapters.events.topics import SUBSCRIPTIONS, parse_topic
from one_preempt.errors import OnePreemptError
from one_preempt.ports import Clock

MAX_FRAME_BYTES = 16 << 20
MAX_INSTANTS = 100_000
QUIET_S = 60.0


class EventBusUnavailable(OnePreemptError):
    """The bus cannot be listened to; the message names the endpoint."""


class EventBus:
    """Implements `ports.EventSource`. `on_event` is called in the bus's own thread for every event."""

    def __init__(self, endpoint: str, clock: Clock, on_event: Callable[[], None], quiet_s: float = QUIET_S) -> None:
        """After `quiet_s` without a message the connection is made anew: ZeroMQ gives it up after a frame too long."""
        self._endpoint = endpoint
        self._clock = clock
        self._on_event = on_event
        self._quiet_ms = int(quiet_s * 1000)
        self._lock = threading.Lock()
        self._instants: dict[tuple[int, str], int] = {}

    def take_instants(self) -> Mapping[tuple[int, str], int]:
        """When VMs were last heard to enter a state, by (VM id, state name), since the last call."""
        with self._lock:
            taken, self._instants = self._instants, {}
        return taken

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Listen meanwhile, through restarts of the other end. Raises `EventBusUnavailable` for a wrong endpoint."""
        with zmq.Context() as context, context.socket(zmq.SUB) as subscriber:
            subscriber.setsockopt(zmq.LINGER, 0)
            subscriber.setsockopt(zmq.MAXMSGSIZE, MAX_FRAME_BYTES)
            for prefix in SUBSCRIPTIONS:
                subscriber.setsockopt(zmq.SUBSCRIBE, prefix)
            try:
                _connect(subscriber, self._endpoint)
            except zmq.ZMQError as error:
                text = f"cannot listen to {self._endpoint[:200]}: {error.strerror}; see events.endpoint"
                raise EventBusUnavailable(text) from None
            stop = os.eventfd(0)
            thread = threading.Thread(target=self._listen, args=(subscriber, stop), daemon=True)
            thread.start()
            try:
                yield
            finally:
                os.eventfd_write(stop, 1)
                thread.join()
                os.close(stop)

    def _listen(self, subscriber: zmq.Socket[bytes], stop: int) -> None:
        poller = zmq.Poller()
        poller.register(subscriber, zmq.POLLIN)
        poller.register(stop, zmq.POLLIN)
        while stop not in (ready := dict(poller.poll(self._quiet_ms))):
            if ready:
                self._hear(subscriber.recv_multipart()[0])
            else:
                with suppress(zmq.ZMQError):
                    subscriber.disconnect(self._endpoint)
                subscriber.connect(self._endpoint)

    def _hear(self, topic: bytes) -> None:
        event = parse_topic(topic)
        if event is None:
            return
        if event.kind == "VM":
            with self._lock:
                if len(self._instants) < MAX_INSTANTS:
                    self._instants[event.object_id, event.state_name] = self._clock.now_s()
        self._on_event()


def is_published_at(endpoint: str, within_s: float) -> bool:
    """Does a publisher answer there within that time? Whether it is OpenNebula's, and says anything, is not known."""
    with zmq.Context() as context, context.socket(zmq.SUB) as subscriber:
        subscriber.setsockopt(zmq.LINGER, 0)
        with subscriber.get_monitor_socket(zmq.EVENT_HANDSHAKE_SUCCEEDED) as answers:
            _connect(subscriber, endpoint)
            answered = answers.poll(int(within_s * 1000)) != 0
            subscriber.disable_monitor()
        return answered


def _connect(subscriber: zmq.Socket[bytes], endpoint: str) -> None:
    """Raises `zmq.ZMQError` where that is no endpoint."""
    # Names would be looked up as IPv6 alone with this, and oned publishes on IPv4: it is for addresses in brackets.
    subscriber.setsockopt(zmq.IPV6, int("[" in endpoint))
    subscriber.connect(endpoint)
