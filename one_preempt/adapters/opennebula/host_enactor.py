"""One step of a power sequence, carried out by XML-RPC: look at the host again, then set its status once."""

from __future__ import annotations

from functools import cached_property
from threading import Lock
from typing import Any

from one_preempt.adapters.opennebula.host_reader import HostReader
from one_preempt.adapters.opennebula.oned_errors import NoExistsError, OnedError
from one_preempt.adapters.opennebula.pyone_server import pyone_server
from one_preempt.adapters.opennebula.transport import OnedTransport
from one_preempt.adapters.opennebula.xml_document import UnreadableDocument, parse_document
from one_preempt.core.model.host import Host
from one_preempt.core.model.outcome import Outcome
from one_preempt.core.model.power_sequence import HostPowerStep, PowerStepKind
from one_preempt.ports import CHANGED_HANDS, CallResult, CloudUnavailable

ENABLED, DISABLED, OFFLINE = 0, 1, 2  # one.host.status
_STATUSES = {
    PowerStepKind.ENABLE: ENABLED,
    PowerStepKind.DISABLE: DISABLED,
    PowerStepKind.PUT_OFFLINE: OFFLINE,
}
NO_ANSWER = "NO_ANSWER"
_NOT_DECRYPTED = False


class LastLook:
    """The same look at a host, from several threads in turn; the connection is its own."""

    def __init__(self, transport: OnedTransport) -> None:
        self._enactor = OpenNebulaHostEnactor(transport)
        self._lock = Lock()

    def __call__(self, step: HostPowerStep) -> str:
        """Why a step for power control is not to be carried out now, '' where nothing stands against it."""
        with self._lock:
            checked = self._enactor.perform(step)
        return "" if checked.outcome is Outcome.ACCEPTED else checked.error_text or checked.error_code


class OpenNebulaHostEnactor:
    """Implements `ports.HostEnactor`."""

    def __init__(self, transport: OnedTransport) -> None:
        self._transport = transport

    def perform(self, step: HostPowerStep) -> CallResult:
        """Carry out `step`, unless its host is not as the plan expects it; a step for power control is only checked."""
        try:
            changed = self._changed_hands(step)
            if changed:
                return CallResult(Outcome.DROPPED, CHANGED_HANDS, changed)
            if step.kind in _STATUSES:
                self._server.host.status(step.host_id, _STATUSES[step.kind])
        except CloudUnavailable as error:
            return CallResult(Outcome.UNKNOWN, NO_ANSWER, str(error))
        except OnedError as error:
            return CallResult(Outcome.REFUSED, error.code_name, error.text)
        return CallResult(Outcome.ACCEPTED)

    @cached_property
    def _server(self) -> Any:
        return pyone_server(self._transport)

    def _changed_hands(self, step: HostPowerStep) -> str:
        """Why the host is not ours to switch any more, '' where it is as expected."""
        host = self._read(step.host_id)
        if host is None:
            return f"host {step.host_name} does not exist any more"
        if host.name != step.host_name:
            return f"host {step.host_id} is named {host.name} now, expected was {step.host_name}"
        if step.expected_states and host.state not in step.expected_states:
            expected = " or ".join(state.name for state in step.expected_states)
            return f"host {host.name} is {host.state.name}, expected was {expected}"
        if step.must_be_empty and host.vm_ids:
            return f"VM {host.vm_ids[0]} is on host {host.name}, which was to be empty"
        return ""

    def _read(self, host_id: int) -> Host | None:
        try:
            document = self._transport.document("one.host.info", host_id, _NOT_DECRYPTED)
            element = parse_document(document, [], f"host {host_id}")
            return HostReader({}, {}, with_devices=False, with_numa_nodes=False).read(element)
        except NoExistsError:
            return None
        except (KeyError, ValueError, UnreadableDocument) as error:
            raise CloudUnavailable(f"one.host.info: host {host_id} cannot be read: {error}") from None
