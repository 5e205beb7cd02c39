"""Transitions of VMs at the instants at which they were heard of: nearer than those at which they were seen."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from one_preempt.core.model.ledger import LedgerChanges


def as_heard(
    changes: LedgerChanges, instants: Mapping[tuple[int, str], int], after_s: int, now_s: int
) -> LedgerChanges:
    """The changes with each transition at its instant, where that lies between the last reading and this one.

    `instants` are by VM id and the name of the new state; the last reading was at `after_s`, this one at `now_s`.
    """
    if not instants or not changes.transitions:
        return changes
    transitions = []
    for transition in changes.transitions:
        heard_at_s = instants.get((transition.vm_id, transition.to_state))
        timely = heard_at_s is not None and after_s < heard_at_s < now_s
        transitions.append(replace(transition, observed_at_s=heard_at_s) if timely else transition)
    return replace(changes, transitions=tuple(transitions))
