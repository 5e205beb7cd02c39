"""The recount of one plan after the other, which keeps what it has counted of the cluster."""

from __future__ import annotations

from one_preempt.core.model.cluster_state import ClusterState
from one_preempt.core.model.plan import Plan
from one_preempt.core.model.recount_rules import AS_SHIPPED, RecountRules
from one_preempt.core.verify import Violation, verify
from one_preempt.core.verify.books import Books, contradictions

FROM_SCRATCH_EVERY = 100


class Recounter:
    """Verifies the plans of one cycle after the other, and keeps the books in between.

    Each plan is checked in full. The books are kept by what is said to have changed since the state before, which must
    have been verified here too; of every so many plans they are made from scratch, and held against those that were
    kept. So is the state itself, which was made of the same changes.
    """

    def __init__(self, rules: RecountRules = AS_SHIPPED, from_scratch_every: int = FROM_SCRATCH_EVERY) -> None:
        self._rules, self._from_scratch_every = rules, from_scratch_every
        self._since_scratch = 0
        self._books: Books | None = None

    def verify(self, state: ClusterState, plan: Plan) -> tuple[Violation, ...]:
        """All rules that `plan` breaks in `state`, and what was not as it was said to be."""
        books, self._books = self._books, None
        vm_ids, lease_ids = state.snapshot.changed_vm_ids, state.changed_lease_ids
        if books is None or vm_ids is None or lease_ids is None or books.own_uid != state.snapshot.own_uid:
            books, self._since_scratch = Books(state), 0
        else:
            books.enter(state, vm_ids, lease_ids)
            self._since_scratch += 1
        wrong: tuple[str, ...] = ()
        if self._since_scratch >= self._from_scratch_every:
            self._since_scratch = 0
            wrong = (*books.differences(state), *contradictions(state))
        self._books = books
        found = verify(state, plan, books, self._rules)
        return (*[Violation("changes-untold", text) for text in wrong], *found) if wrong else found
