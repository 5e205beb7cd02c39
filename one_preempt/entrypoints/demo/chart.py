"""From the states in which VMs were seen to what their leases did over time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from one_preempt.entrypoints.demo.stage import ENDED, RUNNING, STOPPED, Stage
from one_preempt.entrypoints.demo.story import Chart, Doing, Stretch

PROMISED = "promised"
_WAITING = frozenset({STOPPED, "PENDING", "HOLD"})


def chart_of(stage: Stage, reserved_from_s: int, reserved_until_s: int) -> Chart:
    """All leases from the first sighting until now, and in a row of its own what was promised to the last of them."""
    members: dict[str, list[int]] = {}
    for vm_id, lease in stage.leases.items():
        members.setdefault(lease, []).append(vm_id)
    stretches = [one for lease, vm_ids in members.items() for one in _stretches(stage, lease, vm_ids)]
    promised = Stretch(PROMISED, reserved_from_s, reserved_until_s, Doing.RESERVED)
    last = list(members)[-1]
    rows = [
        *(one for one in stretches if one.lease != last),
        promised,
        *(one for one in stretches if one.lease == last),
    ]
    return Chart(min(one.start_s for one in stretches), stage.now_s, tuple(rows))


def _stretches(stage: Stage, lease: str, vm_ids: Sequence[int]) -> Iterator[Stretch]:
    """What a lease did between two changes of a state of one of its VMs."""
    changes = sorted({sighting.at_s for vm_id in vm_ids for sighting in stage.seen[vm_id]})
    for start_s, end_s in pairwise([*changes, stage.now_s]):
        states = {_state_at(stage, vm_id, start_s) for vm_id in vm_ids}
        if end_s > start_s and states != {ENDED}:
            yield Stretch(lease, start_s, end_s, _doing(states))


def _state_at(stage: Stage, vm_id: int, at_s: int) -> str:
    return [sighting.state for sighting in stage.seen[vm_id] if sighting.at_s <= at_s][-1]


def _doing(states: set[str]) -> Doing:
    if states == {RUNNING}:
        return Doing.RUNNING
    return Doing.WAITING if states <= _WAITING else Doing.MOVING
