"""Publish what happens in a simulated cloud as oned's hook manager does: ZeroMQ, two messages a change.

Recorded ones: `tests/recordings/7.4.0/event.topics.txt` and `event.vm_state.txt` beside it.
"""

from __future__ import annotations

import base64
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import zmq

from one_preempt.errors import OnePreemptError
from one_preempt.simulation.emulator.emulated_time import EmulatedTime
from one_preempt.simulation.emulator.host_document import host
from one_preempt.simulation.emulator.vm_document import vm_full
from one_preempt.simulation.emulator.xml_writing import element, plain
from one_preempt.simulation.simulated_cloud.cloud import SimulatedCloud
from one_preempt.simulation.simulated_cloud.cloud_state import StateChange
from one_preempt.simulation.simulated_cloud.states import HostState, LcmState, VmState

_TICK_S = 0.1


class EventPublisher:
    """Publishes the changes of one cloud at `endpoint`; called under the lock that guards the cloud."""

    def __init__(self, cloud: SimulatedCloud, publisher: zmq.Socket[bytes]) -> None:
        self._cloud = cloud
        self._publisher = publisher

    def publish(self, change: StateChange) -> None:
        """The two messages of a change."""
        topics, document = self._vm(change) if change.kind == "VM" else self._host(change)
        payload = base64.b64encode(element("HOOK_MESSAGE", plain("HOOK_TYPE", "STATE"), document).encode())
        for topic in topics:
            self._publisher.send_multipart([topic.encode(), payload])

    def _vm(self, change: StateChange) -> tuple[tuple[str, str], str]:
        vm = self._cloud.vms[change.object_id]
        state, lcm_state = VmState(change.new_state).name, LcmState(change.new_lcm_state or 0).name
        topics = f"EVENT VM {vm.id}/{state}/{lcm_state} ", f"EVENT STATE VM/{state}/{lcm_state}/{vm.id} "
        heads = (
            plain("HOOK_OBJECT", "VM"),
            plain("STATE", state),
            plain("LCM_STATE", lcm_state),
            plain("RESOURCE_ID", vm.id),
            plain("REMOTE_HOST", vm.history[-1].hostname if vm.history else ""),
        )
        return topics, "".join(heads) + vm_full(vm, self._cloud.version, in_pool=False)

    def _host(self, change: StateChange) -> tuple[tuple[str, str], str]:
        machine = self._cloud.hosts[change.object_id]
        state = HostState(change.new_state).name
        topics = f"EVENT HOST {machine.id}/{state}/ ", f"EVENT STATE HOST/{state}//{machine.id} "
        heads = (
            plain("HOOK_OBJECT", "HOST"),
            plain("STATE", state),
            plain("REMOTE_HOST", machine.name),
            plain("RESOURCE_ID", machine.id),
        )
        return topics, "".join(heads) + host(machine, self._cloud.version, monitored=False)


@contextmanager
def publishing(
    cloud: SimulatedCloud, endpoint: str, lock: threading.RLock, time: EmulatedTime | None = None
) -> Iterator[str]:
    """Publish the changes of `cloud` meanwhile; gives the endpoint, with the port that was free where it ends in *.

    `time` is asked to catch up again and again, so that events come when they are due and not with the next call.
    Raises `OnePreemptError` where the endpoint cannot be bound.
    """
    with zmq.Context() as context, context.socket(zmq.PUB) as publisher:
        publisher.setsockopt(zmq.LINGER, 0)
        try:
            publisher.bind(endpoint)
        except zmq.ZMQError as error:
            raise OnePreemptError(f"{endpoint}: cannot publish there: {error.strerror}") from None
        with lock:
            cloud.on_transition(EventPublisher(cloud, publisher).publish)
        with _ticking(cloud, lock, time):
            yield publisher.getsockopt_string(zmq.LAST_ENDPOINT)


@contextmanager
def _ticking(cloud: SimulatedCloud, lock: threading.RLock, time: EmulatedTime | None) -> Iterator[None]:
    if time is None:
        yield
        return
    stop = threading.Event()

    def tick() -> None:
        while not stop.wait(_TICK_S):
            with lock:
                time.catch_up(cloud)

    thread = threading.Thread(target=tick, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
