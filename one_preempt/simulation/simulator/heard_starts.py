"""What a scheduler over the simulated cloud hears of it: when VMs began to run."""

from __future__ import annotations

from collections.abc import Mapping

from one_preempt.simulation.simulated_cloud.cloud import SimulatedCloud
from one_preempt.simulation.simulated_cloud.cloud_state import SharedChange, StateChange
from one_preempt.simulation.simulated_cloud.states import LcmState, VmState

_ACTIVE, _RUNNING, _RUNNING_NAME = VmState.ACTIVE, LcmState.RUNNING, LcmState.RUNNING.name


class HeardStarts:
    """Implements `ports.EventSource` on a `SimulatedCloud`: hears of VMs that run at the instant of the last cycle.

    These are the ones that the simulator need not have looked at again; all others are seen when they run.
    """

    def __init__(self, cloud: SimulatedCloud) -> None:
        self._clock = cloud.clock
        self._taken_at_ms: int | None = None
        self._instants: dict[tuple[int, str], int] = {}
        cloud.on_transition(self._observe, passing=False, shared=self._observe_shared)

    def take_instants(self) -> Mapping[tuple[int, str], int]:
        """When VMs last began to run, by (VM id, "RUNNING"), since the last call."""
        taken, self._instants = self._instants, {}
        self._taken_at_ms = self._clock.now_ms
        return taken

    def _observe(self, change: StateChange) -> None:
        if change.new_lcm_state == _RUNNING and change.at_ms == self._taken_at_ms and change.new_state == _ACTIVE:
            self._instants[change.object_id, _RUNNING_NAME] = change.at_ms // 1000

    def _observe_shared(self, change: SharedChange) -> None:
        if change.new_lcm_state == _RUNNING and change.at_ms == self._taken_at_ms and change.new_state == _ACTIVE:
            began = [(vm_id, _RUNNING_NAME) for vm_id in change.vm_ids]
            self._instants.update(dict.fromkeys(began, change.at_ms // 1000))
