"""By which methods leases lately would not leave their hosts: they are not asked to leave so again for a while."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set

from one_preempt.core.model.cluster_state import ClusterState
from one_preempt.core.model.lease import Lease, PreemptionMethod
from one_preempt.core.model.ledger import ActionRecord
from one_preempt.core.model.modes_and_limits import PreemptionLimits
from one_preempt.core.model.plan import METHOD_ACTIONS
from one_preempt.core.reconciliation.lease_records import preemptor_of
from one_preempt.core.reconciliation.observation import MOVING_KINDS

_METHOD_OF_ACTION = {kind: method for method, kind in METHOD_ACTIONS.items()}


def methods_in_vain(state: ClusterState, limits: PreemptionLimits) -> Mapping[int, Set[PreemptionMethod]]:
    """By lease id, the methods by which one of its VMs was to leave within `victim_retry_s`, and stayed."""
    found: dict[int, set[PreemptionMethod]] = {}
    for record in _failed_lately(state, limits):
        if record.kind in _METHOD_OF_ACTION:
            found.setdefault(record.lease_id, set()).add(_METHOD_OF_ACTION[record.kind])
    return found


def moved_in_vain_for(state: ClusterState, limits: PreemptionLimits, preemptor: Lease) -> bool:
    """Somebody was to be moved to make room for `preemptor` lately, and stayed where he was."""
    return any(
        record.kind in MOVING_KINDS and record.preemption_id is not None and preemptor_of(record) == preemptor.id
        for record in _failed_lately(state, limits)
    )


def _failed_lately(state: ClusterState, limits: PreemptionLimits) -> Iterator[ActionRecord]:
    since_s = state.now_s - limits.victim_retry_s
    return (
        record
        for record in state.failed_actions
        if record.attempts > 0 and record.closed_at_s is not None and since_s <= record.closed_at_s <= state.now_s
    )
