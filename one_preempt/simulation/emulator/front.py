"""The front of the simulated cloud: session check, argument check, dispatch, and the log of calls, under one lock."""

from __future__ import annotations

import threading
from collections import deque

from one_preempt.simulation.emulator.call_log import LoggedCall
from one_preempt.simulation.emulator.control import CONTROL_PREFIX, Control
from one_preempt.simulation.emulator.emulated_time import EmulatedTime, VirtualTime
from one_preempt.simulation.emulator.methods import METHODS
from one_preempt.simulation.emulator.signatures import UNKNOWN_METHOD, checked_arguments, checked_session, is_known
from one_preempt.simulation.emulator.wire import Accepted, Call, Fault, Refused
from one_preempt.simulation.simulated_cloud.cloud import SimulatedCloud
from one_preempt.simulation.simulated_cloud.errors import ErrorCode, OnedError
from one_preempt.simulation.simulated_cloud.objects import Caller

_NOT_AUTHENTICATED = "User couldn't be authenticated, aborting call."


class CloudFront:
    """Answers calls from a simulated cloud, and writes them to `calls`.

    `lock` guards the cloud; hold it to touch the cloud beside the front.
    """

    def __init__(
        self,
        cloud: SimulatedCloud,
        calls: deque[LoggedCall],
        time: EmulatedTime | None,
        control: Control | None,
        lock: threading.RLock | None,
    ) -> None:
        self.cloud = cloud
        self.lock = lock or threading.RLock()
        self._calls = calls
        self._time = time or VirtualTime()
        self._control = control

    def answer(self, call: Call) -> Accepted | Refused:
        """The outcome of one call. Raises `Fault` for what oned does not take for a call."""
        controls = self._control is not None and call.method.startswith(CONTROL_PREFIX)
        if not controls and not is_known(call.method, self.cloud.version):
            raise Fault(UNKNOWN_METHOD, f"Method '{call.method}' not defined")
        session = checked_session(call.parameters)
        with self.lock:
            self._time.catch_up(self.cloud)
            try:
                caller = self._authenticated(session)
                if controls:
                    return self._answer_control(caller, call)
                arguments = checked_arguments(call.method, call.parameters, self.cloud.version)
                return self._answer_method(caller, call.method, arguments)
            except OnedError as error:
                return Refused(f"[{call.method}] {error.message}", int(error.code), error.object_id)

    def _authenticated(self, session: str) -> Caller:
        name, colon, password = session.partition(":")
        if not colon:
            raise OnedError(ErrorCode.AUTHENTICATION, _NOT_AUTHENTICATED)
        return self.cloud.authenticate(name, password)

    def _answer_method(self, caller: Caller, method: str, arguments: tuple[int | str | bool, ...]) -> Accepted:
        code, text = 0, ""
        try:
            value = METHODS[method](self.cloud, caller, *arguments)
        except OnedError as error:
            code, text = int(error.code), error.message
            raise
        finally:
            self._calls.append(LoggedCall(int(self.cloud.now_s), caller.name, method, arguments, code, text))
        return Accepted(value)

    def _answer_control(self, caller: Caller, call: Call) -> Accepted:
        assert self._control is not None
        if not caller.is_admin:
            raise OnedError(ErrorCode.AUTHORIZATION, "Only members of oneadmin control the emulator.")
        return Accepted(self._control.answer(call))
