"""Which leases concern which phase of a decision, kept from one decision to the next.

A phase would otherwise walk over all leases to find the few that it is about. A lease is looked at again when it is
another object than before; one that is the same has the very VMs that it had then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from itertools import compress

from msgspec import Struct

from one_preempt.core.model.cluster_state import ClusterState
from one_preempt.core.model.lease import Lease, LeaseState
from one_preempt.core.model.reservation import Verdict
from one_preempt.core.model.virtual_machine import SAVING_STATES, LockLevel, VirtualMachine, VmState
from one_preempt.core.observed_room import has_promised_start
from one_preempt.core.victims import is_guarded

WAITING_STATES = frozenset({LeaseState.WAITING, LeaseState.PREEMPTED, LeaseState.RETURNING, LeaseState.STARTING})
RETURNING_STATES = frozenset({LeaseState.PREEMPTED, LeaseState.RETURNING})
_HALF_STARTED_STATES = frozenset({LeaseState.STARTING, LeaseState.RETURNING, LeaseState.FAILED})
_HELD_STATES = WAITING_STATES | {LeaseState.REFUSED, LeaseState.INCOMPLETE}
_PENDING, _AT_REST, _UNLOCKED = VmState.PENDING, VmState.SUSPENDED, LockLevel.NONE
_ACCEPTED, _UNANSWERED, _RUNNING = Verdict.ACCEPTED, Verdict.NONE, LeaseState.RUNNING


class Concern(Enum):
    """What a phase may have to do with a lease, by the lease and its VMs alone."""

    __hash__ = object.__hash__  # Enum's own is written in Python

    QUEUE = "it wants room: for all of its VMs, or for the rest of them"
    PREEMPTS = "it wants room, and may take that of others"
    TIME = "it asks for a time, was answered, or was suspended so often that the next start is promised"
    PROMISED = "it waits for a start that a reservation decides about"
    PROMISED_MATCHED = "it was promised such a start, or has slots; and asks for devices, cores or by a VM group"
    ANY_TIME = "it has a deadline, or must not be suspended again: then its start is promised and not exact"
    HALF_STARTED = "a gang of which some have room, and some may not have been started"
    TO_HOLD = "a VM of it may have to be put on HOLD"
    TIME_GOES_ON = "VMs of it run since an instant that is known"
    RUNS_TO_DEADLINE = "it runs, and was promised to be done in time"
    SUSPENDED = "it was sent out, and a VM of it is at rest where it was"
    MARKED = "a VM of it is to move elsewhere"
    SAVED = "the memory of a VM of it is being written"


(
    _QUEUE, _PREEMPTS, _TIME, _PROMISED, _PROMISED_MATCHED, _ANY_TIME, _HALF_STARTED, _TO_HOLD, _TIME_GOES_ON,
    _RUNS_TO_DEADLINE, _SUSPENDED, _MARKED, _SAVED,
) = Concern  # fmt: skip


def _concerns_of(lease: Lease, vms: Sequence[VirtualMachine]) -> frozenset[Concern]:
    """What concerns a lease that has these VMs."""
    terms, verdict = lease.terms, lease.verdict
    waits, has_deadline = lease.state in WAITING_STATES, lease.promised_deadline_at_s is not None
    has_start = has_promised_start(lease, accepted=verdict is _ACCEPTED)
    began = lease.run_began_at_s is not None
    is_held = lease.explicit and lease.state in _HELD_STATES
    # Few are marked, or in such a state at all; and those only while they are active.
    moved = [vm for vm in vms if vm.resched or vm.lcm_state in SAVING_STATES]
    answers = {
        _QUEUE: waits,
        _PREEMPTS: waits and lease.preempts,
        _TIME: terms.asks_for_time or verdict is not _UNANSWERED or is_guarded(lease),
        _PROMISED: waits and has_start,
        # What was promised to be done in time may have other slots to come while it runs in one of them, and whoever
        # was deployed by hand has his start to come, as have the others of his gang whatever becomes of him.
        _PROMISED_MATCHED: (has_start or has_deadline) and any(vm.needs_matching for vm in vms),
        _ANY_TIME: terms.deadline_at_s is not None or terms.max_suspensions is not None,
        _HALF_STARTED: terms.size > 1 and lease.state in _HALF_STARTED_STATES,
        _TO_HOLD: is_held and bool([vm for vm in vms if vm.state is _PENDING and vm.lock_level is _UNLOCKED]),
        _TIME_GOES_ON: began,
        _RUNS_TO_DEADLINE: has_deadline and began and lease.state is _RUNNING,
        _SUSPENDED: lease.preempted_by is not None and any(vm.state is _AT_REST for vm in vms),
        _MARKED: bool(moved) and any(vm.resched for vm in moved),
        _SAVED: bool(moved) and any(vm.is_being_saved for vm in moved),
    }
    return frozenset(compress(answers, answers.values()))


class _Known(Struct, frozen=True):
    lease: Lease
    concerns: frozenset[Concern]


_NOTHING: frozenset[Concern] = frozenset()


class LeaseConcerns:
    """The leases of one cloud by what concerns them. Every state that is decided upon is observed in turn."""

    def __init__(self) -> None:
        self._known: dict[int, _Known] = {}
        self._concerned: dict[Concern, dict[int, Lease]] = {concern: {} for concern in Concern}
        # Another one after each change of those that want room.
        self.queue_number = 0

    def observe(self, state: ClusterState) -> frozenset[int]:
        """Look at what is new or has changed, and forget what is gone; returns the ids of all of these."""
        known, leases, vms = self._known, state.leases, state.snapshot.vms
        # What is told to have changed is that since the last state that was decided upon.
        told = state.changed_lease_ids if known else None
        changed = []
        for lease_id in (leases.keys() | known.keys()) if told is None else told:
            lease, before = leases.get(lease_id), known.get(lease_id)
            if lease is not None and (before is None or before.lease is not lease):
                concerns = _concerns_of(lease, [vms[vm_id] for vm_id in lease.vm_ids])
                known[lease_id] = _Known(lease, concerns)
                self._enter(lease, concerns, _NOTHING if before is None else before.concerns)
            elif lease is None and before is not None:
                self._enter(known.pop(lease_id).lease, _NOTHING, before.concerns)
            else:
                continue
            changed.append(lease_id)
        return frozenset(changed)

    def all(self, concern: Concern) -> Mapping[int, Lease]:
        """The leases that are concerned, by id, in no order; not to be changed."""
        return self._concerned[concern]

    def ordered(self, concern: Concern) -> list[Lease]:
        """The leases that are concerned, in ascending id."""
        concerned = self._concerned[concern]
        return [concerned[lease_id] for lease_id in sorted(concerned)] if concerned else []

    def _enter(self, lease: Lease, concerns: frozenset[Concern], before: frozenset[Concern]) -> None:
        """`before`: what concerned the lease until now."""
        for concern in before - concerns:
            del self._concerned[concern][lease.id]
        for concern in concerns:
            self._concerned[concern][lease.id] = lease
        if _QUEUE in concerns or _QUEUE in before:
            self.queue_number += 1
