"""What hosts do is written down as stays, so that energy can be counted afterwards."""

from __future__ import annotations

from msgspec.structs import replace

from one_preempt.core.energy.host_use import stays_to_write
from one_preempt.core.energy.power_rules import PowerRules
from one_preempt.core.model.cluster_state import ClusterState
from one_preempt.core.model.ledger import LedgerChanges
from one_preempt.core.model.plan import Plan
from one_preempt.ports import LeaseStore

SAMPLE_EVERY_S = 300
"""How often loads are looked at, and hosts that came, went or failed without a step of ours."""


class PowerRecorder:
    """Keeps the history of host use. A cycle in which nothing was switched costs a few comparisons.

    What a process that died did not write is written by the first cycle of the next one, as far as it is still seen.
    """

    def __init__(self, store: LeaseStore) -> None:
        self._store = store
        self._sampled_at_s: int | None = None

    def record(self, state: ClusterState, plan: Plan, changes: LedgerChanges, rules: PowerRules) -> None:
        """After the steps of `plan` were issued: write what began and what ended, if anything may have."""
        samples = self._is_time_to_sample(state.now_s)
        switched = bool(changes.power_sequences or plan.power_sequences) or plan.switches_hosts
        if not (samples or switched):
            return
        if samples:
            self._sampled_at_s = state.now_s
        known = state.power
        if switched:
            # With what the plan has begun, and what was just issued.
            known = replace(known, sequences={one.host_id: one for one in self._store.power_sequences()})
        written = stays_to_write(
            state.snapshot.hosts,
            known,
            rules.policy.name if rules.enforced else "",
            {stay.host_id: stay for stay in self._store.lasting_host_use()},
            state.now_s,
            samples_load=samples,
        )
        if written:
            self._store.record_host_use(written)

    def _is_time_to_sample(self, now_s: int) -> bool:
        last_s = self._sampled_at_s
        return last_s is None or not last_s <= now_s < last_s + SAMPLE_EVERY_S
