"""One step of a power sequence, carried out on the simulated cloud: look at the host again, then call once."""

from __future__ import annotations

from one_preempt.core.model.outcome import Outcome
from one_preempt.core.model.power_sequence import HostPowerStep, PowerStepKind
from one_preempt.ports import CHANGED_HANDS, CallResult
from one_preempt.simulation.simulated_cloud.cloud import SimulatedCloud
from one_preempt.simulation.simulated_cloud.errors import OnedError
from one_preempt.simulation.simulated_cloud.objects import ONEADMIN
from one_preempt.simulation.simulated_cloud.states import HostStatus

_STATUSES = {
    PowerStepKind.DISABLE: HostStatus.DISABLED,
    PowerStepKind.PUT_OFFLINE: HostStatus.OFFLINE,
    PowerStepKind.ENABLE: HostStatus.ENABLED,
}


class SimulatedHostEnactor:
    """Implements `ports.HostEnactor` on a `SimulatedCloud`, as oneadmin, with the checks of the live one."""

    def __init__(self, cloud: SimulatedCloud) -> None:
        self._cloud = cloud

    def perform(self, step: HostPowerStep) -> CallResult:
        """Carry out `step`, unless its host is not as the plan expects it."""
        changed = self._changed_hands(step)
        if changed:
            return CallResult(Outcome.DROPPED, CHANGED_HANDS, changed)
        status = _STATUSES.get(step.kind)
        try:
            if status is not None:
                self._cloud.host_status(ONEADMIN, step.host_id, status)
        except OnedError as error:
            return CallResult(Outcome.REFUSED, error.code.name, str(error))
        return CallResult(Outcome.ACCEPTED)

    def _changed_hands(self, step: HostPowerStep) -> str:
        """Why the host is not ours to switch any more, '' where it is as expected."""
        host = self._cloud.hosts.get(step.host_id)
        if host is None:
            return f"host {step.host_name} does not exist any more"
        if step.expected_states and int(host.state) not in map(int, step.expected_states):
            expected = " or ".join(state.name for state in step.expected_states)
            return f"host {host.name} is {host.state.name}, expected was {expected}"
        if step.must_be_empty and host.vm_ids:
            return f"VM {host.vm_ids[0]} is on host {host.name}, which was to be empty"
        return ""
