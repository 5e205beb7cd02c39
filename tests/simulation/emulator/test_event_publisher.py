"""The emulator's event bus against the recorded messages, and the small calls beside it: hooks and leadership."""

from __future__ import annotations

import base64
import threading
import xmlrpc.client
from pathlib import Path

import pytest
import zmq
from lxml import etree

from one_preempt.errors import OnePreemptError
from one_preempt.simulation.emulator.emulated_time import WallTime
from one_preempt.simulation.emulator.event_bus import publishing
from one_preempt.simulation.emulator.process import shipped_cloud
from one_preempt.simulation.emulator.serving import running_emulator
from one_preempt.simulation.simulated_cloud.cloud import SimulatedCloud
from one_preempt.simulation.simulated_cloud.objects import ONEADMIN

RECORDINGS = Path(__file__).parents[2] / "recordings"
PATIENCE_MS = 20_000
ANYWHERE = "tcp://127.0.0.1:*"


@pytest.fixture
def cloud() -> SimulatedCloud:
    built = shipped_cloud("demo")
    built.settle()
    return built


class Listener:
    """Hears all that is published, from the first message on."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], endpoint: str) -> None:
        self.socket = context.socket(zmq.SUB)
        self.socket.setsockopt(zmq.LINGER, 0)
        self.socket.setsockopt(zmq.SUBSCRIBE, b"EVENT ")
        self.socket.connect(endpoint)

    def next(self) -> tuple[str, etree._Element]:
        assert self.socket.poll(PATIENCE_MS), "nothing was published"
        topic, payload = self.socket.recv_multipart()
        return topic.decode(), etree.fromstring(base64.b64decode(payload, validate=True))


def changes(cloud: SimulatedCloud, listener: Listener, lock: threading.RLock) -> list[tuple[str, etree._Element]]:
    """The messages about one new VM (as if its id were 0) and a host; made once the listener is there."""
    for _ in range(1000):
        with lock:
            cloud.vm_allocate(ONEADMIN, "CPU=1\nMEMORY=1", hold=True)
        if listener.socket.poll(20):
            break
    with lock:
        vm_id = cloud.vm_allocate(ONEADMIN, "CPU=1\nMEMORY=1", hold=True)
        cloud.vm_deploy(ONEADMIN, vm_id, min(cloud.hosts))
        cloud.settle()
        cloud.host_status(ONEADMIN, max(cloud.hosts), 1)
    found = []
    topic = ""
    while not topic.startswith("EVENT STATE HOST"):
        topic, root = listener.next()
        if root.findtext("RESOURCE_ID") == str(vm_id) or "HOST" in topic:
            found.append((topic.replace(f" {vm_id}/", " 0/").replace(f"/{vm_id} ", "/0 "), root))
    return found


def test_a_vm_on_its_way_to_running_is_published_as_recorded(cloud: SimulatedCloud) -> None:
    """The recorded topics of VM 0: from HOLD until it runs."""
    lock = threading.RLock()
    with zmq.Context() as context, publishing(cloud, ANYWHERE, lock) as endpoint:
        listener = Listener(context, endpoint)
        found = changes(cloud, listener, lock)
        listener.socket.close()
    lines = (RECORDINGS / "7.4.0/event.topics.txt").read_text().splitlines()
    recorded = [line.strip("|") for line in lines if " VM 0/" in line or (" VM/" in line and "/0 |" in line)]
    until_running = recorded[: recorded.index("EVENT STATE VM/ACTIVE/RUNNING/0 ") + 1]
    topics = [topic for topic, _root in found]
    assert topics[: len(until_running)] == until_running
    host_id = max(cloud.hosts)
    assert topics[len(until_running) :] == [
        f"EVENT HOST {host_id}/DISABLED/ ",
        f"EVENT STATE HOST/DISABLED//{host_id} ",
    ]
    for topic, root in found:
        kind = "VM" if "VM" in topic else "HOST"
        assert root.findtext("HOOK_OBJECT") == kind
        assert root.findtext("RESOURCE_ID") == root.findtext(f"{kind}/ID")


def test_events_come_when_they_are_due_though_nobody_calls(cloud: SimulatedCloud) -> None:
    lock = threading.RLock()
    wall = WallTime(speed=1000)
    with zmq.Context() as context, publishing(cloud, ANYWHERE, lock, wall) as endpoint:
        listener = Listener(context, endpoint)
        for _ in range(1000):
            with lock:
                vm_id = cloud.vm_allocate(ONEADMIN, "CPU=0.01\nMEMORY=1", hold=True)
            if listener.socket.poll(20):
                break
        with lock:
            cloud.vm_deploy(ONEADMIN, vm_id, min(cloud.hosts))
        topic = ""
        while topic != f"EVENT VM {vm_id}/ACTIVE/RUNNING ":
            topic, _root = listener.next()
        listener.socket.close()


def test_an_address_that_cannot_be_bound_is_told(cloud: SimulatedCloud) -> None:
    with pytest.raises(OnePreemptError, match="cannot publish there"), publishing(cloud, "nowhere", threading.RLock()):
        pass


def test_the_front_end_can_lose_its_leadership_and_win_it_back(cloud: SimulatedCloud) -> None:
    session = "oneadmin:opennebula"
    with running_emulator(cloud, control=True) as url, xmlrpc.client.ServerProxy(url) as proxy:
        states = []
        for state in (2, 1, 3, 0):
            proxy.one_preempt.emulator.raft(session, state)
            answer = proxy.one.zone.raftstatus(session)
            assert isinstance(answer, list)
            states.append(etree.fromstring(str(answer[1])).findtext("STATE"))
        assert states == ["2", "1", "3", "0"]
        with pytest.raises(xmlrpc.client.Fault, match="no raft state"):
            proxy.one_preempt.emulator.raft(session, 4)


def test_only_administrators_see_and_make_hooks(cloud: SimulatedCloud) -> None:
    hook = (
        "<T><NAME>a</NAME><TYPE>state</TYPE><RESOURCE>HOST</RESOURCE><STATE>MONITORED</STATE><COMMAND>x</COMMAND></T>"
    )
    with running_emulator(cloud) as url, xmlrpc.client.ServerProxy(url) as proxy:
        replies = [proxy.one.hook.allocate(session, hook) for session in ("oneadmin:opennebula", "external1:external1")]
        again = proxy.one.hook.allocate("oneadmin:opennebula", hook)
        nameless = proxy.one.hook.allocate("oneadmin:opennebula", "<T><TYPE>api</TYPE></T>")
        missing = proxy.one.hook.delete("oneadmin:opennebula", 9)
    outcomes = [reply[:1] + reply[2:3] for reply in (*replies, again, nameless, missing) if isinstance(reply, list)]
    assert outcomes == [[True, 0], [False, 0x200], [False, 0x4000], [False, 0x4000], [False, 0x400]]
