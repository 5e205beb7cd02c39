"""One cycle: observe, reconcile, decide, verify, store, enact. The same code serves every mode."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from one_preempt.clock_leaps import ClockLeaps
from one_preempt.core.admission.rules import AdmissionRules
from one_preempt.core.decide import decide
from one_preempt.core.fallback_plan import fallback_plan
from one_preempt.core.held_rooms import held_rooms
from one_preempt.core.host_power.observe_power import observe_power
from one_preempt.core.memory.decision_memory import DecisionMemory
from one_preempt.core.memory.quiet_changes import NOTHING_QUIET, Quiet, quiet_changes
from one_preempt.core.model.cluster_state import ClusterState, Discrepancy
from one_preempt.core.model.image_transfer import ImageOrder, TransferRecord
from one_preempt.core.model.ledger import ActionRecord, Ledger, LedgerChanges
from one_preempt.core.model.modes_and_limits import Verification
from one_preempt.core.model.outcome import Outcome
from one_preempt.core.model.plan import Action, Plan
from one_preempt.core.model.pool_snapshot import PoolSnapshot, RaftState
from one_preempt.core.model.power_standing import PowerStanding
from one_preempt.core.owner_use.measuring import with_use
from one_preempt.core.policies import Policies
from one_preempt.core.reconcile import Reconciliation, reconcile
from one_preempt.core.reconciliation.ready_actions import is_unissued
from one_preempt.core.reconciliation.settled_actions import CANCELLED
from one_preempt.core.verify import Violation, verify
from one_preempt.core.verify.recounter import Recounter
from one_preempt.enactment.action_enactment import ActionEnactment
from one_preempt.enactment.power_enactment import PowerResults
from one_preempt.leadership import Leadership
from one_preempt.ports import CallResult
from one_preempt.surroundings import Surroundings

WITHDRAWN = "WITHDRAWN"
PRUNE_EVERY_S = 86_400
# Of plans that neither preempt, nor promise room firmly, nor switch hosts.
RECOUNT_EVERY = 100

_ALL_ACCEPTED = frozenset({Outcome.ACCEPTED})


class CycleReport(Struct, frozen=True):
    """What one cycle saw, decided and did. `plan` is None where this front-end is not the one to act.

    With `violations` the first plan was refused by its recount; `plan` is then what is sound of one that was decided
    again. `is_refused`: nothing was, and nothing was done. What is `quiet` is no reason for a cycle. `clock_leapt_s`:
    so far has the clock leapt ahead since the last report. `clock_ahead_s`: so far is it ahead of oned's time, below 0
    behind it; 0 where they agree. `image_orders` were put in this cycle, `image_results` are those of which was heard
    that they are done or have failed.
    """

    raft_state: RaftState
    plan: Plan | None = None
    state: ClusterState | None = None
    violations: tuple[Violation, ...] = ()
    results: tuple[tuple[Action, CallResult], ...] = ()
    is_refused: bool = False
    power_results: PowerResults = ()
    image_orders: tuple[ImageOrder, ...] = ()
    image_results: tuple[TransferRecord, ...] = ()
    quiet: Quiet = NOTHING_QUIET
    clock_leapt_s: int = 0
    clock_ahead_s: int = 0

    @property
    def discrepancies(self) -> tuple[Discrepancy, ...]:
        """What was not as the ledger had it."""
        return self.state.discrepancies if self.state is not None else ()


class SchedulingCycle:
    """The scheduler with its surroundings plugged in."""

    def __init__(
        self,
        around: Surroundings,
        policies: Policies,
        rules: AdmissionRules,
        keep_log_s: int | None = None,
        verification: Verification = Verification.FULL,
    ) -> None:
        """`keep_log_s`: how long the logs go back; None keeps all."""
        self._reader, self._store = around.reader, around.store
        let_go = [one.step_down for one in (around.power, around.images) if one is not None]
        self._leadership = Leadership(around.reader, around.store, let_go, acts=around.enactor is not None)
        self._enactment = (
            ActionEnactment(around.enactor, around.gangs, around.store, around.clock, self._leadership.is_still_here)
            if around.enactor is not None
            else None
        )
        self._clock, self._held_capacity, self._events = around.clock, around.held_capacity, around.events
        self._power, self._recorder = around.power, around.recorder
        self._images = around.images
        self._policies = policies
        self._use_rules = policies.queue_order.measures
        self._leaps, self._clock_ahead_s = ClockLeaps(around.clock_gained_s, policies), around.clock_ahead_s
        self._rules = rules
        self._keep_log_s = keep_log_s
        self._verification = verification
        self._since_recount = 0
        self._pruned_at_s = 0
        self._observed_at_s = 0
        self._decided_by = policies
        self._last: ClusterState | None = None
        self._memory: DecisionMemory | None = None
        self._recounter = Recounter(policies.recount_rules)

    def run(self) -> CycleReport:
        """One cycle. Raises `CloudUnavailable` where the cloud cannot be observed; nothing is changed then."""
        # What an interrupted cycle leaves is not relied upon: readings tell what changed since the one before them.
        last, self._last = self._last, None
        memory, self._memory = self._memory or DecisionMemory(), None
        self._leaps.look(self._clock.now_s())
        instants = self._events.take_instants() if self._events is not None else {}
        # A front-end that follows hands every reading on to the one that leads: it is asked for that alone.
        if (following := self._leadership.begin_cycle()) is not None:
            return self._stand_by(following)
        snapshot = self._leadership.told(self._reader.read)
        if self._leadership.is_elsewhere(snapshot.raft_state):
            return self._stand_by(snapshot.raft_state)
        if self._clock_ahead_s is not None:
            self._leaps.compare(self._clock_ahead_s())
        self._leadership.take_up()
        reconciled = self._reconcile(snapshot, instants, last, memory)
        state = reconciled.state
        policies = self._leaps.policies_at(state.now_s)
        if policies is not self._decided_by:
            # What is remembered was found under other policies.
            memory, self._decided_by = DecisionMemory(), policies
        plan = decide(state, policies, memory)
        violations = self._recount(state, plan)
        if violations:
            # What is remembered of a plan that is carried out in part, or not at all, is not relied upon.
            self._recounter = Recounter(self._policies.recount_rules)
            again = fallback_plan(state, policies)
            if again is None:
                return CycleReport(snapshot.raft_state, plan, state, violations, is_refused=True)
            state, plan = again
        else:
            self._last, self._memory = state, memory
        self._hold_promised_room(state, plan)
        self._withdraw_unwanted(state, plan)
        self._record_as_intended(plan)
        results = self._enactment.enact(plan, state) if self._enactment is not None else []
        still_leads = self._leadership.is_still_here
        powered = self._power.enact(plan, still_leads) if self._power is not None else ()
        ordered = self._images.enact(plan, still_leads) if self._images is not None else ()
        if self._recorder is not None:
            self._recorder.record(state, plan, reconciled.changes, self._policies.power)
        self._prune(state)
        if self._leadership.is_lost_in_silence:
            self._last = self._memory = None
        self._leadership.step_down_in_silence(was_called=bool(results or powered))
        quiet = NOTHING_QUIET if violations else self._quiet(state, plan, results, reconciled.changes, memory)
        return CycleReport(
            raft_state=snapshot.raft_state,
            plan=plan,
            state=state,
            violations=violations,
            results=tuple(results),
            power_results=powered,
            image_orders=ordered,
            image_results=self._images.ended if self._images is not None else (),
            quiet=quiet,
            clock_leapt_s=self._leaps.take_untold_s(),
            clock_ahead_s=self._leaps.ahead_s,
        )

    @property
    def memory(self) -> DecisionMemory | None:
        """What the last decision left for the next; None where nothing of it is relied upon."""
        return self._memory

    def _stand_by(self, raft_state: RaftState) -> CycleReport:
        """Another front-end schedules: what this one promised does not count any more."""
        try:
            if self._held_capacity is not None:
                self._held_capacity.replace(())
        finally:
            self._leadership.step_down()
        return CycleReport(raft_state)

    def _reconcile(
        self,
        snapshot: PoolSnapshot,
        instants: Mapping[tuple[int, str], int],
        last: ClusterState | None,
        memory: DecisionMemory,
    ) -> Reconciliation:
        """What was observed, held against the ledger, in which its changes stand before anything is decided."""
        if self._power is not None:
            self._power.take_reports()
        if self._images is not None:
            self._images.take_reports()
        now_s = self._clock.now_s()
        ledger = self._store.load(now_s)
        last_at_s = self._observed_at_s or None
        reconciled = reconcile(snapshot, ledger, self._rules, now_s, last_at_s, instants, last)
        reconciled = self._with_power(reconciled, ledger, now_s, memory)
        if self._use_rules is not None:
            # By a clock that has leapt ahead all that was used before would be as good as forgotten.
            may_measure = not self._leaps.is_doubted(now_s)
            reconciled = with_use(reconciled, ledger.owner_use, self._use_rules, last, may_measure=may_measure)
        if not reconciled.changes.is_empty:
            self._store.apply(reconciled.changes)
        self._observed_at_s = now_s
        return reconciled

    def _hold_promised_room(self, state: ClusterState, plan: Plan) -> None:
        """Make promised room known before anything relies on it."""
        if self._held_capacity is not None:
            self._held_capacity.replace(held_rooms(state, plan, self._policies.limits.preemption_timeout_s))

    def _record_as_intended(self, plan: Plan) -> None:
        """Write the plan into the ledger before anything of it is done."""
        if self._power is not None and plan.power_sequences:
            self._power.forgive(plan)
        self._store.record_plan(plan)

    def _with_power(
        self, reconciled: Reconciliation, ledger: Ledger, now_s: int, memory: DecisionMemory
    ) -> Reconciliation:
        """The same with the power of hosts as it is observed, where it concerns anybody."""
        rules = self._policies.power
        if not (ledger.power_sequences or ledger.power_orders or rules.handed_over):
            return reconciled
        readings = self._power.readings if self._power is not None else {}
        observed = observe_power(reconciled.state.snapshot, ledger, readings, rules, now_s, memory.power_watch)
        standings: tuple[PowerStanding, ...] = ()
        if self._power is not None and observed.changed:
            standings = self._power.tell_boots(ledger.power_sequences, observed.changed)
        told = (*reconciled.state.discrepancies, *observed.discrepancies)
        return Reconciliation(
            replace(reconciled.state, power=observed.known, discrepancies=told),
            replace(reconciled.changes, power_sequences=observed.changed, power_standings=standings),
        )

    def _recount(self, state: ClusterState, plan: Plan) -> tuple[Violation, ...]:
        """What is wrong with a plan, where it is one of those that are verified."""
        if self._verification is Verification.FULL:
            return self._recounter.verify(state, plan)
        if self._verification is Verification.NONE:
            return ()
        self._since_recount += 1
        if self._since_recount == RECOUNT_EVERY or plan.preemptions or plan.switches_hosts or _promises_firmly(plan):
            self._since_recount = 0
            return verify(state, plan, rules=self._policies.recount_rules)
        return ()

    def _prune(self, state: ClusterState) -> None:
        """Once a day, drop what is older than the logs are to go back, and what is known of hosts that are gone.

        Where that is too much for one cycle the next ones go on with it.
        """
        now_s = state.now_s
        if self._keep_log_s is None or self._leaps.is_doubted(now_s):
            return
        if abs(now_s - self._pruned_at_s) >= PRUNE_EVERY_S:
            former_s, self._pruned_at_s = self._pruned_at_s, now_s
            existing_host_ids = state.snapshot.hosts.keys() | state.snapshot.unreadable_host_ids
            if not self._store.prune(now_s - self._keep_log_s, existing_host_ids):
                self._pruned_at_s = former_s
            if self._images is not None:
                self._images.forget_hosts(existing_host_ids)

    def _withdraw_unwanted(self, state: ClusterState, plan: Plan) -> None:
        """Close intents that were never carried out and are not wanted any more.

        One that was sent and not answered stays open for a while: oned may carry it out yet. So does one that an
        administrator's command has written down and is about to send.
        """
        if not state.actions:
            return
        now_s = state.now_s
        given_up_at_s = now_s - self._policies.limits.preemption_timeout_s
        wanted = {action.id for action in plan.actions}
        withdrawn = tuple(
            replace(record, closed_at_s=now_s, succeeded=False, outcome=Outcome.DROPPED, error_code=WITHDRAWN)
            for action_id, record in sorted(state.actions.items())
            if action_id not in wanted
            and is_unissued(record, state)
            and (_is_ours_alone(record) or not given_up_at_s < (record.outcome_at_s or record.intended_at_s) <= now_s)
        )
        if withdrawn:
            self._store.apply(LedgerChanges(closed_actions=withdrawn))

    def _quiet(
        self,
        state: ClusterState,
        plan: Plan,
        results: Sequence[tuple[Action, CallResult]],
        changes: LedgerChanges,
        memory: DecisionMemory,
    ) -> Quiet:
        """What need not be looked at; of starts it has to be heard when they run, for the ledger."""
        if self._events is None or len(results) < len(plan.actions):
            return NOTHING_QUIET
        if not _ALL_ACCEPTED.issuperset([result.outcome for _, result in results]):
            return NOTHING_QUIET
        return quiet_changes(state, plan, self._policies, memory, learned=bool(changes.observed_overheads))


def _promises_firmly(plan: Plan) -> bool:
    return any(reservation.firm for booking in plan.bookings for reservation in booking.reservations)


def _is_ours_alone(record: ActionRecord) -> bool:
    """Nobody but this process would send it, and it was not sent."""
    return record.attempts == 0 and record.reason_code != CANCELLED
