"""What is heard on the event bus: recorded messages, lost ones, doubled ones, and noise."""

from __future__ import annotations

import base64
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import zmq
from hypothesis import given, settings
from hypothesis import strategies as st

from one_preempt.adapters.clock import FixedClock
from one_preempt.adapters.events.event_bus import EventBus, EventBusUnavailable
from one_preempt.adapters.events.topics import SUBSCRIPTIONS, StateEvent, parse_topic
from one_preempt.core.model.host import HostState
from one_preempt.core.model.virtual_machine import LcmState, VmState

RECORDINGS = Path(__file__).parents[2] / "recordings"
VERSIONS = ("7.4.0", "6.10.0")
PATIENCE_S = 20
STATES = {"VM": {state.name for state in (*VmState, *LcmState)}, "HOST": {state.name for state in HostState}}


def recorded_topics(version: str) -> list[bytes]:
    lines = (RECORDINGS / version / "event.topics.txt").read_bytes().splitlines()
    return [line[1:-1] for line in lines if line.startswith(b"|")]


def recorded_messages(version: str) -> list[tuple[bytes, bytes]]:
    """Topic and payload as they were on the wire."""
    text = (RECORDINGS / version / "event.vm_state.txt").read_bytes()
    found = re.findall(
        rb"between the bars: \|(.*)\|\n.*\n--- frame 2 decoded:\n(<HOOK_MESSAGE>.*</HOOK_MESSAGE>)", text
    )
    return [(topic, base64.b64encode(document)) for topic, document in found]


@pytest.mark.parametrize("version", VERSIONS)
def test_every_recorded_change_is_heard_once_with_a_state_that_we_know(version: str) -> None:
    topics = [topic for topic in recorded_topics(version) if topic.startswith(SUBSCRIPTIONS)]
    events = [parse_topic(topic) for topic in topics]
    assert len(events) > 100
    for event in events:
        assert event is not None
        assert event.state_name in STATES[event.kind]
    doubled = [
        topic for topic in recorded_topics(version) if topic.startswith((b"EVENT STATE VM", b"EVENT STATE HOST"))
    ]
    assert len(doubled) == len(topics)


def test_the_state_is_named_as_the_scheduler_names_it() -> None:
    assert parse_topic(b"EVENT VM 3/ACTIVE/EPILOG_STOP ") == StateEvent("VM", 3, "EPILOG_STOP")
    assert parse_topic(b"EVENT VM 3/STOPPED/LCM_INIT ") == StateEvent("VM", 3, "STOPPED")
    assert parse_topic(b"EVENT HOST 4/DISABLED/ ") == StateEvent("HOST", 4, "DISABLED")


@settings(derandomize=True, max_examples=500, deadline=None)
@given(st.binary(max_size=60) | st.from_regex(rb"EVENT (VM|HOST) .{0,30}", fullmatch=True))
def test_any_topic_is_an_event_or_nothing(topic: bytes) -> None:
    event = parse_topic(topic)
    assert event is None or (event.kind in STATES and event.object_id >= 0)


@pytest.mark.parametrize("topic", [b"EVENT VM 99999999999999/DONE/ ", b"EVENT VM -1/DONE/ ", b"EVENT VM 1/done/ ", b""])
def test_what_is_no_topic_of_oned_is_dropped(topic: bytes) -> None:
    assert parse_topic(topic) is None


class Bus:
    """A publisher and its one listener."""

    def __init__(self, publisher: zmq.Socket[bytes], listener: EventBus, rung: threading.Semaphore) -> None:
        self.publisher, self.listener, self._rung = publisher, listener, rung

    def publish(self, *frames: bytes) -> None:
        self.publisher.send_multipart(frames)

    def heard(self, within_s: float = PATIENCE_S) -> bool:
        return self._rung.acquire(timeout=within_s)

    def wait_for_subscription(self) -> None:
        left = len(SUBSCRIPTIONS)
        while left:
            assert self.publisher.poll(PATIENCE_S * 1000)
            left -= self.publisher.recv().startswith(b"\x01EVENT ")


@contextmanager
def running_bus(clock: FixedClock, quiet_s: float = 60, at: str = "127.0.0.1") -> Iterator[Bus]:
    rung = threading.Semaphore(0)
    with zmq.Context() as context, context.socket(zmq.XPUB) as publisher:
        publisher.setsockopt(zmq.LINGER, 0)
        publisher.setsockopt(zmq.IPV6, int("[" in at))
        publisher.bind(f"tcp://{at}:*")
        listener = EventBus(publisher.getsockopt_string(zmq.LAST_ENDPOINT), clock, rung.release, quiet_s)
        with listener.listening():
            bus = Bus(publisher, listener, rung)
            bus.wait_for_subscription()
            yield bus


@pytest.mark.parametrize("version", VERSIONS)
def test_recorded_messages_wake_and_time(version: str) -> None:
    clock = FixedClock(1000)
    with running_bus(clock) as bus:
        messages = recorded_messages(version)
        assert len(messages) == 4
        for topic, payload in messages:
            bus.publish(topic, payload)
        assert [bus.heard() for topic, _payload in messages if topic.startswith(SUBSCRIPTIONS)] == [True, True]
        assert bus.listener.take_instants() == {(0, "RUNNING"): 1000, (1, "SUSPENDED"): 1000}
        assert bus.listener.take_instants() == {}


def test_a_doubled_message_counts_with_its_last_instant() -> None:
    clock = FixedClock(1000)
    with running_bus(clock) as bus:
        bus.publish(b"EVENT VM 5/STOPPED/LCM_INIT ", b"")
        assert bus.heard()
        clock.set(1007)
        bus.publish(b"EVENT VM 5/STOPPED/LCM_INIT ", b"")
        assert bus.heard()
        assert bus.listener.take_instants() == {(5, "STOPPED"): 1007}


def test_a_bus_at_an_address_of_ipv6_is_heard() -> None:
    with running_bus(FixedClock(1), at="[::1]") as bus:
        bus.publish(b"EVENT HOST 2/MONITORED/ ")
        assert bus.heard()


NOISE: list[tuple[bytes, ...]] = [
    (b"EVENT VM ",),
    (b"EVENT VM \xff\xfe", b"\x00"),
    (b"EVENT VM 1/" + b"A" * 5000, b"x"),
    (b"EVENT VM 1/RUNNING",),
    (b"EVENT HOST x/MONITORED/ ", b"y", b"z"),
]


@pytest.mark.parametrize("frames", NOISE, ids=range(len(NOISE)))
def test_noise_is_passed_over(frames: tuple[bytes, ...]) -> None:
    with running_bus(FixedClock(1)) as bus:
        bus.publish(*frames)
        bus.publish(b"EVENT HOST 2/MONITORED/ ")
        assert bus.heard()
        assert not bus.listener.take_instants()


def test_a_message_without_end_is_not_taken_in_and_the_bus_is_heard_again() -> None:
    with running_bus(FixedClock(1), quiet_s=0.2) as bus:
        bus.publish(b"EVENT VM 1/DONE/LCM_INIT ", b"x" * (17 << 20))
        bus.wait_for_subscription()
        while not bus.heard(within_s=0.1):  # it may be connecting anew once more
            bus.publish(b"EVENT VM 2/DONE/LCM_INIT ", b"")
        assert bus.listener.take_instants() == {(2, "DONE"): 1}


def test_a_publisher_that_comes_later_or_never_is_no_failure() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        endpoint = f"tcp://127.0.0.1:{free.getsockname()[1]}"
    rung = threading.Event()
    listener = EventBus(endpoint, FixedClock(1), rung.set)
    with listener.listening():
        assert listener.take_instants() == {}
    assert not rung.is_set()


@pytest.mark.parametrize("endpoint", ["localhost:2101", "tcp://", "nonsense://x", ""])
def test_a_wrong_endpoint_is_told_in_one_line(endpoint: str) -> None:
    with (
        pytest.raises(EventBusUnavailable, match=r"see events\.endpoint"),
        EventBus(endpoint, FixedClock(1), lambda: None).listening(),
    ):
        pass
