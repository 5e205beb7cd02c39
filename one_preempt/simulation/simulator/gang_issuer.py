"""A gang started in one go: on a simulated cloud nothing lies between its calls, and nobody could be cut off there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from one_preempt.core.model.outcome import Outcome
from one_preempt.core.model.plan import Action
from one_preempt.ports import CallResult
from one_preempt.simulation.simulator.enactor import SimulatedEnactor

_ACCEPTED = CallResult(Outcome.ACCEPTED)


class AcceptedActions(Protocol):
    """A ledger that is told of actions and their answers at once."""

    def record_accepted(self, actions: Sequence[Action], now_s: int) -> None:
        """Write that each of these actions was issued once more, and accepted."""


class SimulatedGangIssuer:
    """Implements `ports.GangIssuer`."""

    def __init__(self, enactor: SimulatedEnactor, store: AcceptedActions) -> None:
        self._enactor = enactor
        self._store = store

    def issue(self, actions: Sequence[Action], now_s: int) -> CallResult | None:
        """Start all these VMs, or none."""
        if not self._enactor.start_together(actions):
            return None
        self._store.record_accepted(actions, now_s)
        return _ACCEPTED
