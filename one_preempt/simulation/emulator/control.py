"""Methods that command the emulator itself, for tests that run it as a process (`--control`).

All live under ``one_preempt.emulator.`` and take the session string of an administrator first:

- ``advance(seconds)`` lets the cloud's time pass and returns the new time in seconds since the epoch;
- ``now()`` returns that time;
- ``fault(kind, method, count, skip, delay_s)`` lets an `EndpointFault` wait; ``clear_faults()`` forgets all faults;
- ``cloud_fault(operation, misbehaviour, vm_id, host_id, count)`` lets driver operations go wrong (-1 = any, always);
- ``fill_datastore(datastore_id, free_mib)`` leaves so much room on a datastore, -1 gives the rest back;
- ``kill_host(host_id)`` lets a machine die, ``revive_host(host_id, guests_survived)`` brings it back;
- ``power(host, order)`` switches a machine: order is on, off or hard-off; or tells whether it has power: status. The
  answer is ``on`` or ``off`` as things are, and a fault where its controller does not answer;
- ``power_times(boot_s, shutdown_s)`` sets how long machines boot (120 at first) and shut down (0 at first);
- ``power_mishap(host_id, mishap)`` lets a machine's power go wrong from now on (a `PowerMishap`), with "" no more;
- ``raft(state)`` lets the front-end be SOLO (0), CANDIDATE (1), FOLLOWER (2) or LEADER (3);
- ``audit()`` returns the cloud's broken accounting as a JSON list, empty where all is well;
- ``overloads()`` returns, as a JSON list, when more was to run on a host than it may use, whatever it was charged for;
- ``log(first)`` returns the logged calls from that number on, as a JSON list of objects.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from itertools import islice

import msgspec

from one_preempt.core.energy.power_model import HostPower
from one_preempt.simulation.emulator.call_log import LoggedCall
from one_preempt.simulation.emulator.endpoint_faults import EndpointFault, EndpointFaults, FaultKind
from one_preempt.simulation.emulator.signatures import PARAMETER_ERROR, UNKNOWN_METHOD
from one_preempt.simulation.emulator.wire import Call, Fault
from one_preempt.simulation.simulated_cloud.cloud import SimulatedCloud
from one_preempt.simulation.simulated_cloud.durations import Operation
from one_preempt.simulation.simulated_cloud.faults import Fault as CloudFault
from one_preempt.simulation.simulated_cloud.faults import Misbehaviour
from one_preempt.simulation.simulated_cloud.host_power import PowerMishap, SimulatedHostPower

CONTROL_PREFIX = "one_preempt.emulator."
LONGEST_DELAY_S = 86_400


class Control:
    """Answers the control methods of one endpoint over its cloud, the faults that wait, and the calls it logged."""

    def __init__(self, cloud: SimulatedCloud, faults: EndpointFaults, calls: Sequence[LoggedCall]) -> None:
        self._cloud = cloud
        self._faults = faults
        self._calls = calls
        self._host_power = SimulatedHostPower(cloud)

    def answer(self, call: Call) -> int | str | bool:
        """The value of the reply. Raises `Fault` for a wrong name or wrong arguments."""
        method = _METHODS.get(call.method.removeprefix(CONTROL_PREFIX))
        if method is None:
            raise Fault(UNKNOWN_METHOD, f"Method '{call.method}' not defined")
        try:
            return method(self, *call.parameters[1:])
        except (TypeError, ValueError, OverflowError) as error:
            raise Fault(PARAMETER_ERROR, f"{call.method}: {error}") from error

    def _advance(self, duration_s: float) -> int:
        if duration_s < 0:
            raise ValueError(f"time does not run back ({duration_s} s)")
        self._cloud.advance(duration_s)
        return int(self._cloud.now_s)

    def _now(self) -> int:
        return int(self._cloud.now_s)

    def _fault(self, kind: str, method: str = "*", count: int = 1, skip: int = 0, delay_s: float = 0.0) -> bool:
        if not 0 <= delay_s <= LONGEST_DELAY_S:
            raise ValueError(f"a delay of {delay_s} s is not within 0 and {LONGEST_DELAY_S} s")
        self._faults.add(EndpointFault(FaultKind(kind), str(method), int(count), int(skip), delay_s))
        return True

    def _clear_faults(self) -> bool:
        self._faults.clear()
        self._cloud.faults.clear()
        return True

    def _cloud_fault(
        self, operation: str, misbehaviour: str = "fail", vm_id: int = -1, host_id: int = -1, count: int = 1
    ) -> bool:
        self._cloud.faults.add(
            CloudFault(
                Operation(operation),
                Misbehaviour(misbehaviour),
                vm_id=None if vm_id == -1 else vm_id,
                host_id=None if host_id == -1 else host_id,
                count=None if count == -1 else count,
            )
        )
        return True

    def _fill_datastore(self, datastore_id: int, free_mib: int) -> int:
        self._cloud.space.fill(self._cloud.datastore(datastore_id).id, free_mib)
        return datastore_id

    def _kill_host(self, host_id: int) -> int:
        self._cloud.kill_host(host_id)
        return host_id

    def _revive_host(self, host_id: int, guests_survived: bool = False) -> int:
        self._cloud.revive_host(host_id, guests_survived)
        return host_id

    def _switch(self, host: str, order: str) -> str:
        power = self._host_power
        match order:
            case "on":
                outcome = power.switch_on(host)
            case "off" | "hard-off":
                outcome = power.switch_off(host, hard=order == "hard-off")
            case "status":
                outcome = power.status(host).outcome
            case _:
                raise ValueError(f"'{order}' is no order: on, off, hard-off or status")
        if not outcome.accepted:
            raise ValueError(outcome.text)
        return power.status(host).status.value

    def _power_times(self, boot_s: int, shutdown_s: int) -> bool:
        if min(boot_s, shutdown_s) < 0:
            raise ValueError("times are not negative")
        self._host_power.power = HostPower(boot_s=boot_s, shutdown_s=shutdown_s)
        return True

    def _power_mishap(self, host_id: int, mishap: str) -> int:
        mishaps = self._host_power.mishaps
        if mishap:
            mishaps[self._cloud.host(host_id).id] = PowerMishap(mishap)
        else:
            mishaps.pop(host_id, None)
        return host_id

    def _raft(self, state: int) -> int:
        if not isinstance(state, int) or state not in range(4):
            raise ValueError(f"there is no raft state {state}")
        self._cloud.raft_state = state
        return state

    def _audit(self) -> str:
        return json.dumps(self._cloud.audit())

    def _overloads(self) -> str:
        return json.dumps([str(noted) for noted in self._cloud.overloads])

    def _log(self, first: int = 0) -> str:
        return msgspec.json.encode(list(islice(self._calls, first, None))).decode()


_METHODS: dict[str, Callable[..., int | str | bool]] = {
    "advance": Control._advance,
    "now": Control._now,
    "fault": Control._fault,
    "clear_faults": Control._clear_faults,
    "cloud_fault": Control._cloud_fault,
    "fill_datastore": Control._fill_datastore,
    "kill_host": Control._kill_host,
    "revive_host": Control._revive_host,
    "power": Control._switch,
    "power_times": Control._power_times,
    "power_mishap": Control._power_mishap,
    "raft": Control._raft,
    "audit": Control._audit,
    "overloads": Control._overloads,
    "log": Control._log,
}
