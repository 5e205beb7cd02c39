"""The state of a VM in one word, by which the calls say what is legal."""

from __future__ import annotations

from one_preempt.simulation.simulated_cloud.objects import SimVm
from one_preempt.simulation.simulated_cloud.states import LcmState, VmState

_ACTIVE = VmState.ACTIVE
_STATE_NAMES = {state: state.name for state in VmState}
_LCM_NAMES = {state: state.name for state in LcmState}


def state_name(vm: SimVm) -> str:
    """The state that decides what is legal, as oned names it: the LCM state while ACTIVE, else the state."""
    return _LCM_NAMES[vm.lcm_state] if vm.state == _ACTIVE else _STATE_NAMES[vm.state]
