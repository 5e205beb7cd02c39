"""Attempts of earlier cycles: what was refused or failed, and when it may be tried again."""

from __future__ import annotations

from collections.abc import Set
from functools import cached_property

from one_preempt.core.model.cluster_state import ClusterState
from one_preempt.core.model.ledger import ActionRecord
from one_preempt.core.model.modes_and_limits import EnactmentLimits
from one_preempt.core.model.plan import ActionKind


class Attempts:
    """The records of actions that are open, or have failed inside the retry window (`victim_retry_s`)."""

    def __init__(self, state: ClusterState, limits: EnactmentLimits) -> None:
        self._state = state
        self._limits = limits
        self._failed_starts: dict[int, list[ActionRecord]] = {}
        for record in state.failed_actions:
            if record.kind is ActionKind.DEPLOY:
                self._failed_starts.setdefault(record.lease_id, []).append(record)

    def last(self, action_id: str) -> ActionRecord | None:
        """The record of an action: the open one, else the latest one that failed inside the retry window."""
        return self._state.actions.get(action_id) or self._failed.get(action_id)

    @cached_property
    def tried_lease_ids(self) -> Set[int | None]:
        """The leases of whose VMs anything was asked lately; of all others oned has refused none."""
        records = (*self._state.actions.values(), *self._state.failed_actions)
        return {self._state.lease_of_vm.get(record.vm_id) for record in records}

    @property
    def failed_lease_ids(self) -> Set[int]:
        """The leases of which a start has failed inside the retry window."""
        return self._failed_starts.keys()

    def failed_starts(self, lease_id: int) -> list[ActionRecord]:
        """The starts of a lease's VMs that failed inside the retry window."""
        return self._failed_starts.get(lease_id, [])

    def refused_host_id(self, action_id: str) -> int | None:
        """The host on which the last attempt of an action failed: others are tried before it."""
        record = self.last(action_id)
        return record.host_id if record is not None and record.succeeded is False else None

    def must_pause_before(self, action_id: str, pause_s: int | None = None) -> bool:
        """A refused call is not repeated before a pause is over: `pause_s`, or what its number of refusals asks for."""
        record = self.last(action_id)
        if record is None or record.outcome_at_s is None or record.closed_at_s is None:
            return False
        if pause_s is None:
            pause_s = self._limits.pause_s(record.attempts)
        # An instant in the future was written by a clock that has been set back since: it holds nothing up.
        return record.outcome_at_s <= self._state.now_s < record.outcome_at_s + pause_s

    @cached_property
    def _failed(self) -> dict[str, ActionRecord]:
        return {record.id: record for record in self._state.failed_actions}
