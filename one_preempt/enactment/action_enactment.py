"""The actions of a plan are put to oned: each attempt is written down before its call, each answer after."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby, repeat
from operator import attrgetter

from one_preempt.core.model.cluster_state import ClusterState
from one_preempt.core.model.outcome import NOTHING_DONE, Outcome
from one_preempt.core.model.plan import Action, ActionKind, Plan
from one_preempt.core.reconciliation.observation import VICTIM_KINDS
from one_preempt.core.reconciliation.ready_actions import ready_actions
from one_preempt.ports import CallResult, Clock, Enactor, GangIssuer, LeaseStore

# How many calls are sent before leadership is looked at again.
BATCH = 25
# One call without an answer may be the fault of one VM, and must not keep the others' from being made.
UNANSWERED_AT_MOST = 2

# None: whoever made the call died before its answer.
_NO_ANSWER = frozenset({Outcome.UNKNOWN, None})
_lease_id = attrgetter("lease_id")


class ActionEnactment:
    """Makes the calls of a cycle, as long as this front-end leads and oned answers."""

    def __init__(
        self,
        enactor: Enactor,
        gangs: GangIssuer | None,
        store: LeaseStore,
        clock: Clock,
        still_leads: Callable[[], bool],
    ) -> None:
        """`gangs`: issues the actions of a lease in one step, where there is such."""
        self._enactor, self._gangs, self._store, self._clock = enactor, gangs, store, clock
        self._still_leads = still_leads

    def enact(self, plan: Plan, state: ClusterState) -> list[tuple[Action, CallResult]]:
        """Issue what is ready, in order; each attempt is written before, each answer after."""
        results: list[tuple[Action, CallResult]] = []
        ready = _unanswered_last(ready_actions(plan, state), state)
        if self._gangs is None:
            self._issue_each(ready, results)
            return results
        for _, several in groupby(ready, key=_lease_id):
            gang = list(several)
            answer = self._gangs.issue(gang, self._clock.now_s()) if self._still_leads() else None
            if answer is not None:
                results += zip(gang, repeat(answer))
            elif not self._issue_each(gang, results):
                break
        return results

    def _issue_each(self, actions: Sequence[Action], results: list[tuple[Action, CallResult]]) -> bool:
        """One after the other; False where none should follow them in this cycle.

        Where the first start of a lease comes to nothing the others wait: its VM may have been ended since, and then
        they would begin in part.
        """
        unanswered = sum(result.outcome is Outcome.UNKNOWN for _, result in results)
        begun: dict[int, bool] = {}
        for action in actions:
            starts = action.kind is ActionKind.DEPLOY
            if starts and not begun.get(action.lease_id, True):
                continue
            if len(results) % BATCH == 0 and not self._still_leads():
                return False
            if _sends_out(action) and self._store.is_paused():
                continue
            results.append((action, self._issue(action)))
            if starts:
                begun.setdefault(action.lease_id, results[-1][1].outcome not in NOTHING_DONE)
            if results[-1][1].outcome is Outcome.UNKNOWN:
                unanswered += 1
                # Where oned does not answer the rest would wait for as long, one by one, and whatever was sent to it
                # may be carried out much later. Observe afresh first.
                if unanswered == UNANSWERED_AT_MOST or not self._still_leads():
                    return False
        return True

    def _issue(self, action: Action) -> CallResult:
        self._store.begin_attempt(action, self._clock.now_s())
        result = self._enactor.perform(action)
        self._store.record_result(action.id, result, self._clock.now_s())
        return result


def _unanswered_last(ready: Sequence[Action], state: ClusterState) -> Sequence[Action]:
    """The same with the leases at the end of which a call was not answered last time.

    It may be that nothing can be heard of a VM for hours; two of that kind would keep all others from their turn.
    """
    records = (state.actions.get(action.id) for action in ready)
    silent = {one.lease_id for one in records if one is not None and one.attempts and one.outcome in _NO_ANSWER}
    return sorted(ready, key=lambda action: action.lease_id in silent) if silent else ready


def _sends_out(action: Action) -> bool:
    """A victim's step. The preemptor's start is placement: it goes on where the room is free already."""
    return action.preemption_id is not None and action.kind in VICTIM_KINDS
