"""Which actions of a plan are to be issued now, by what their records say of earlier attempts."""

from __future__ import annotations

from one_preempt.core.model.cluster_state import ClusterState
from one_preempt.core.model.ledger import ActionRecord
from one_preempt.core.model.plan import Action, Plan
from one_preempt.core.reconciliation.observation import Progress, observe_action


def ready_actions(plan: Plan, state: ClusterState) -> list[Action]:
    """The actions that wait for nothing and are not under way already, in the plan's order."""
    ready = []
    for action in plan.actions:
        record = state.actions.get(action.id)
        if not action.after and (record is None or is_unissued(record, state)):
            ready.append(action)
    return ready


def is_unissued(record: ActionRecord, state: ClusterState) -> bool:
    """Nothing was sent for this record, or nothing came of it."""
    if record.attempts == 0:
        return True
    return observe_action(record, state.snapshot.vms.get(record.vm_id), state.now_s) is Progress.TO_ISSUE
