"""The ledger in memory: for a dry run and for the simulator. The same semantics as the database, no disk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from one_preempt.adapters.lease_store.intents import (
    OVERHEADS_KEPT,
    RETRY_WINDOW_S,
    VICTIM_KINDS,
    VICTIM_WINDOW_S,
    answered,
    attempted,
    distinct_actions,
    intended_again,
    unknown_action,
)
from one_preempt.core.model.ledger import (
    ActionRecord,
    HostCapacity,
    LeaseRecord,
    Ledger,
    LedgerChanges,
    OpenPreemption,
    Outcome,
    Transition,
)
from one_preempt.core.model.plan import Action, Plan
from one_preempt.ports import CallResult


class MemoryLeaseStore:
    """A `LeaseStore` that forgets when it is closed. Starts empty, or where `ledger` stands."""

    def __init__(self, ledger: Ledger | None = None) -> None:
        start = ledger or Ledger()
        self._leases: dict[int, LeaseRecord] = dict(start.leases)
        self._preemptions = {opened.preemption.id: opened for opened in start.preemptions}
        self._actions: dict[str, ActionRecord] = {record.id: record for record in start.failed_actions}
        self._actions.update(start.open_actions)
        self._vm_states: dict[int, str] = dict(start.vm_states)
        self._host_capacities: dict[int, HostCapacity] = dict(start.host_capacities)
        self._victims_out_at_s: list[int] = list(start.victims_last_hour)
        self._transitions: list[Transition] = []
        self._paused = start.paused
        self._reservations = dict(start.reservations)
        self._overheads = list(start.observed_overheads)

    def acquire_writer(self) -> None:
        """Nobody else can write to this process's memory."""

    def release_writer(self) -> None:
        """Nobody else waits for it."""

    def load(self, now_s: int) -> Ledger:
        """What the cycle needs to know."""
        leases = {record.id: record for _, record in sorted(self._leases.items()) if record.ended_at_s is None}
        members = {vm_id for record in leases.values() for vm_id in record.vm_ids}
        failed = [record for record in self._actions.values() if _failed_since(record, now_s - RETRY_WINDOW_S)]
        open_actions = {record.id: record for _, record in sorted(self._actions.items()) if record.closed_at_s is None}
        return Ledger(
            leases=leases,
            preemptions=tuple(sorted(self._preemptions.values(), key=lambda o: (o.opened_at_s, o.preemption.id))),
            open_actions=open_actions,
            failed_actions=tuple(sorted(failed, key=lambda record: (record.closed_at_s or 0, record.id))),
            vm_states={vm_id: self._vm_states[vm_id] for vm_id in sorted(self._vm_states) if vm_id in members},
            host_capacities=dict(sorted(self._host_capacities.items())),
            victims_last_hour=tuple(sorted(at for at in self._victims_out_at_s if at >= now_s - VICTIM_WINDOW_S)),
            paused=self._paused,
            reservations=dict(sorted(self._reservations.items())),
            observed_overheads=tuple(self._overheads),
        )

    def apply(self, changes: LedgerChanges) -> None:
        """Write what reconciliation found out."""
        for lease in (*changes.admitted, *changes.updated):
            self._leases[lease.id] = lease
            if lease.ended_at_s is not None:
                self._reservations.pop(lease.id, None)
        for closed in changes.closed_actions:
            known = self._actions.get(closed.id)
            self._actions[closed.id] = replace(closed, attempts=known.attempts) if known else closed
        for transition in changes.transitions:
            self._transitions.append(transition)
            self._vm_states[transition.vm_id] = transition.to_state
        for capacity in changes.host_capacities:
            self._host_capacities[capacity.host_id] = capacity
        for observed in changes.observed_overheads:
            alike = [
                one for one in self._overheads if (one.kind, one.datastore_id) == (observed.kind, observed.datastore_id)
            ]
            if len(alike) == OVERHEADS_KEPT:
                self._overheads.remove(alike[0])
            self._overheads.append(observed)

    def record_plan(self, plan: Plan) -> None:
        """Write the plan as intended. Advised preemptions are not remembered: nothing follows from them."""
        for action in distinct_actions(plan).values():
            record = intended_again(self._actions.get(action.id), action, plan.made_at_s)
            if record is not None:
                self._actions[record.id] = record
        for preemption in plan.preemptions:
            known = self._preemptions.get(preemption.id)
            opened_at_s = known.opened_at_s if known else plan.made_at_s
            self._preemptions[preemption.id] = OpenPreemption(preemption, opened_at_s)
        for end in plan.ended_preemptions:
            self._preemptions.pop(end.preemption_id, None)
        for booking in plan.bookings:
            self._reservations.pop(booking.lease_id, None)
            if booking.reservations:
                self._reservations[booking.lease_id] = booking.reservations
        for given in plan.verdicts:
            if given.lease_id in self._leases:
                lease = self._leases[given.lease_id]
                self._leases[lease.id] = replace(lease, verdict=given.verdict, verdict_text=given.text)

    def begin_attempt(self, action: Action, now_s: int) -> None:
        """Write that `action` is about to be issued."""
        self._actions[action.id] = attempted(self._known(action.id))

    def record_result(self, action_id: str, result: CallResult, now_s: int) -> None:
        """Write what was answered."""
        record = self._known(action_id)
        self._actions[action_id] = answered(record, result, now_s)
        if record.preemption_id and record.kind in VICTIM_KINDS and result.outcome is Outcome.ACCEPTED:
            self._victims_out_at_s.append(now_s)

    def is_paused(self) -> bool:
        """Whether preempting and power actions are stopped."""
        return self._paused

    def set_paused(self, paused: bool, now_s: int) -> None:
        """Stop or start preempting and power actions."""
        self._paused = paused

    def leases(self, include_ended: bool = False) -> Sequence[LeaseRecord]:
        """Recorded leases, oldest first."""
        chosen = [record for record in self._leases.values() if include_ended or record.ended_at_s is None]
        return tuple(sorted(chosen, key=lambda record: (record.arrived_at_s, record.id)))

    def actions(self, lease_id: int | None = None, limit: int = 200) -> Sequence[ActionRecord]:
        """The log of actions, newest first."""
        chosen = [record for record in self._actions.values() if lease_id in (None, record.lease_id)]
        return tuple(sorted(chosen, key=lambda record: (record.intended_at_s, record.id), reverse=True)[:limit])

    def transitions(self, vm_id: int | None = None, limit: int = 200) -> Sequence[Transition]:
        """The log of observed transitions, newest first."""
        chosen = (record for record in reversed(self._transitions) if vm_id in (None, record.vm_id))
        return tuple(chosen)[:limit]

    def prune(self, before_s: int) -> int:
        """Forget what was over before `before_s`; the number of records forgotten."""
        size = len(self._leases) + len(self._actions) + len(self._transitions)
        self._leases = {i: r for i, r in self._leases.items() if r.ended_at_s is None or r.ended_at_s >= before_s}
        self._actions = {i: r for i, r in self._actions.items() if r.closed_at_s is None or r.closed_at_s >= before_s}
        self._transitions = [record for record in self._transitions if record.observed_at_s >= before_s]
        self._victims_out_at_s = [at for at in self._victims_out_at_s if at >= before_s]
        return size - len(self._leases) - len(self._actions) - len(self._transitions)

    def close(self) -> None:
        """Nothing to let go of."""

    def _known(self, action_id: str) -> ActionRecord:
        if action_id not in self._actions:
            raise unknown_action(action_id)
        return self._actions[action_id]


def _failed_since(record: ActionRecord, since_s: int) -> bool:
    return record.succeeded is False and record.closed_at_s is not None and record.closed_at_s >= since_s
