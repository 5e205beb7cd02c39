"""What a scheduler over the simulated cloud hears of it: when VMs began to run."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import repeat

from one_preempt.core.model.time import MS_PER_S
from one_preempt.simulation.simulated_cloud.cloud import SimulatedCloud
from one_preempt.simulation.simulated_cloud.cloud_state import SharedChange, StateChange
from one_preempt.simulation.simulated_cloud.states import LcmState, VmState

_ACTIVE, _RUNNING, _RUNNING_NAME = VmState.ACTIVE, LcmState.RUNNING, LcmState.RUNNING.name


class HeardStarts:
    """Implements `ports.EventSource` on a `SimulatedCloud`: hears of each VM that begins to run.

    A simulated scheduler looks when something happens, which may be hours after the last time: without this it would
    take a guest's memory being read back for part of its run, as a daemon does that was down meanwhile.
    """

    def __init__(self, cloud: SimulatedCloud) -> None:
        self._instants: dict[tuple[int, str], int] = {}
        cloud.on_transition(self._observe, passing=False, shared=self._observe_shared)

    def take_instants(self) -> Mapping[tuple[int, str], int]:
        """When VMs last began to run, by (VM id, "RUNNING"), since the last call."""
        taken, self._instants = self._instants, {}
        return taken

    def _observe(self, change: StateChange) -> None:
        if change.new_lcm_state == _RUNNING and change.new_state == _ACTIVE:
            self._instants[change.object_id, _RUNNING_NAME] = _rounded_up_s(change.at_ms)

    def _observe_shared(self, change: SharedChange) -> None:
        if change.new_lcm_state == _RUNNING and change.new_state == _ACTIVE:
            began = zip(change.vm_ids, repeat(_RUNNING_NAME))
            self._instants.update(dict.fromkeys(began, _rounded_up_s(change.at_ms)))


def _rounded_up_s(at_ms: int) -> int:
    """No run is counted longer than it was: rounded down, each would add to what was served up to a second."""
    return -(-at_ms // MS_PER_S)
