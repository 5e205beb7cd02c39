"""How sharply the cloud is watched: what a look at it tells of the time since the look before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct, field

from one_preempt.core.model.ledger import LeaseRecord
from one_preempt.core.model.virtual_machine import LcmState, VirtualMachine, VmState

# After a longer pause than this, what happened in between is read off oned's own instants.
WATCHED_S = 60

# When a VM began to run must be known to within so many seconds,
SHARP_S = 2
# or to within such a part of what the operation took.
SHARP_PART = 10

_ACTIVE, _RUNS, _RUNNING = VmState.ACTIVE, LcmState.RUNNING, LcmState.RUNNING.name
_DONE = VmState.DONE.name
NOTHING_HEARD: Mapping[tuple[int, str], int] = {}


class Watch(Struct, frozen=True):
    """Looked at now and before (`last_at_s`, None: not known), when VMs were in `states_before`; heard in between.

    `heard` are instants at which VMs were said to reach states, by VM id and name of the state.
    """

    now_s: int
    last_at_s: int | None = None
    heard: Mapping[tuple[int, str], int] = NOTHING_HEARD
    states_before: Mapping[int, str] = field(default_factory=dict)

    @property
    def is_close(self) -> bool:
        """The look before was a moment ago: what is seen now and was not then has happened about now."""
        return self.last_at_s is not None and 0 <= self.now_s - self.last_at_s <= WATCHED_S

    @property
    def between_looks(self) -> dict[tuple[int, str], int]:
        """What was heard that lies between the two looks: then VMs came into states in which they are seen now."""
        since_s, now_s = self.last_at_s or 0, self.now_s
        return {reached: at_s for reached, at_s in self.heard.items() if since_s < at_s < now_s}

    def ran_at_s(self, vm: VirtualMachine, begin_s: int) -> int | None:
        """When a VM that now runs, and did not at `begin_s`, began to; None where that is not known sharply."""
        if vm.state is not _ACTIVE or vm.lcm_state != _RUNS:
            return None
        heard_at_s = self.heard.get((vm.id, _RUNNING))
        if heard_at_s is not None and begin_s <= heard_at_s <= self.now_s:
            return heard_at_s
        if self.last_at_s is None or self.last_at_s > self.now_s:
            return None
        blur_s = self.now_s - max(self.last_at_s, begin_s)
        end_s = self.now_s - blur_s // 2
        return end_s if blur_s <= max(SHARP_S, (end_s - begin_s) // SHARP_PART) else None

    def all_ran_at_s(self, vms: Sequence[VirtualMachine]) -> int | None:
        """Since when all of `vms` ran; None where that was not heard of each one that did not run before."""
        if not self.heard or self.last_at_s is None:
            return None
        began_at_s: int | None = None
        for vm in vms:
            if self.states_before.get(vm.id) == _RUNNING:
                continue
            at_s = self.heard.get((vm.id, _RUNNING))
            if at_s is None or not self.last_at_s <= at_s <= self.now_s:
                return None
            if began_at_s is None or began_at_s < at_s:
                began_at_s = at_s
        return began_at_s

    def saw_it_not_run(self, record: LeaseRecord) -> bool:
        """Were all VMs of a lease seen a moment ago, one of them not running?"""
        if not self.is_close:
            return False
        states = {self.states_before.get(vm_id, "") for vm_id in record.vm_ids}
        return "" not in states and states != {_RUNNING}

    def has_just_lost_one(self, record: LeaseRecord, present: Sequence[VirtualMachine]) -> bool:
        """Is one of its VMs gone, of which `present` are left, that was there at the look before?"""
        if len(present) == len(record.vm_ids):
            return False
        gone = set(record.vm_ids).difference([vm.id for vm in present])
        return any(self.states_before.get(vm_id, _DONE) != _DONE for vm_id in gone)
