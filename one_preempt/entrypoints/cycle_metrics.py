"""What is counted of each cycle for metrics: what happened in it at once, what it saw when somebody asks.

A cycle costs what it did and what changed since the one before, not what there is: leases are counted by those that
changed, and those that wait only when the metrics are read.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping

from msgspec import Struct

from one_preempt.adapters.metrics.observed import Observed
from one_preempt.composition import make_instruments
from one_preempt.core.energy.energy_account import PowerOfHost, accounts
from one_preempt.core.energy.host_use import stays_to_write
from one_preempt.core.host_power.phase_transitions import TAKEN_OVER
from one_preempt.core.matching.reasons import CAPACITY
from one_preempt.core.model.cluster_state import ClusterState
from one_preempt.core.model.image_transfer import TransferPhase
from one_preempt.core.model.lease import Lease, LeaseState
from one_preempt.core.model.plan import Plan
from one_preempt.core.model.power_sequence import KnownPower, PowerPhase, PowerSequence
from one_preempt.core.model.reservation import Verdict
from one_preempt.core.phases.reservations.in_danger import IN_DANGER
from one_preempt.scheduling_cycle import CycleReport

# So many codes of reasons have a series of their own; policies of an administrator's own may give any number.
MOST_CODES = 64
OTHER = "other"
MILLI = 1000
_WAITING = (LeaseState.WAITING, LeaseState.PREEMPTED)


class Seen(Struct, frozen=True):
    """What is kept of a cycle until somebody asks: values that nobody changes any more."""

    state: ClusterState
    plan: Plan
    leases: Mapping[tuple[str, str], int]
    refused_leases: Mapping[str, int]


class CycleMetrics:
    """Counts cycles, in the thread that schedules; the page may be asked for in others.

    Raises `MetricsUnavailable` where the library for it is missing.
    """

    def __init__(self, power_of: PowerOfHost) -> None:
        """`power_of`: what hosts draw."""
        self._instruments = make_instruments(self._look)
        self._power_of = power_of
        self.count_call = self._instruments.count_call
        self.page = self._instruments.page
        self._leases = LeaseTally()
        self._switched = SwitchTally()
        # What is usual, and what alerts are made of, has its series before it is met.
        self._waiting_codes, self._refused_codes = KnownCodes(CAPACITY, IN_DANGER), KnownCodes()
        self._seen: Seen | None = None

    def report(self, report: CycleReport, duration_s: float) -> None:
        """A cycle was carried out."""
        plan, state = report.plan, report.state
        if plan is None or state is None:
            # Others switch hosts from now on, and count them.
            self._switched.forget()
            self._see_nothing()
            self._end("standing-by", leads=False)
            return
        result = "refused" if report.is_refused else "decided-again" if report.violations else "done"
        self._instruments.cycle_duration.observe(duration_s)
        if not report.is_refused:
            self._count_plan(plan)
        for action, answer in report.results:
            self._instruments.actions.labels(action.kind, answer.outcome).inc()
        for record in report.image_results:
            self._instruments.image_orders.labels(record.order.kind, record.phase).inc()
        for switched in self._switched.take(state.power.sequences):
            self._instruments.hosts_switched.labels(switched).inc()
        self._leases.take(state)
        self._seen = Seen(state, plan, dict(self._leases.counts), dict(self._leases.refused))
        self._end(result, leads=report.raft_state.leads)

    def failed(self, *, defect: bool = False) -> None:
        """A cycle could not be carried out."""
        self._see_nothing()
        self._end("defect" if defect else "failed", leads=False)

    def _count_plan(self, plan: Plan) -> None:
        """What was decided in this cycle, and is written down."""
        counted = self._instruments
        counted.preemptions_decided.inc(len(plan.preemptions))
        for preemption in plan.preemptions:
            for victim in preemption.victims:
                counted.victims.labels(victim.method).inc()
        for end in plan.ended_preemptions:
            counted.preemptions_ended.labels("fulfilled" if end.fulfilled else "given-up").inc()
        for given in plan.verdicts:
            counted.verdicts.labels(given.verdict).inc()

    def _see_nothing(self) -> None:
        """What was seen is not so any more; what changes until leases are seen again is not known."""
        self._seen = None
        self._leases.forget()

    def _end(self, result: str, *, leads: bool) -> None:
        self._instruments.leads.set(leads)
        self._instruments.cycles.labels(result).inc()
        self._instruments.last_cycle_end.labels(result).set(time.time())
        self._instruments.cycle_ended()

    def _look(self) -> Observed | None:
        """What the last cycle saw, counted; called by whoever writes the page."""
        seen = self._seen
        if seen is None:
            return None
        state, plan = seen.state, seen.plan
        waiting = [(refusal.reason.code, state.leases.get(refusal.lease_id)) for refusal in plan.refusals]
        starts = ((code, wait_start_s(lease)) for code, lease in waiting if lease and lease.state in _WAITING)
        firm = Counter(stay.firm for promised in state.reservations.values() for stay in promised)
        power_w, always_on_power_w = drawn_w(state, self._power_of)
        return Observed(
            paused=state.paused,
            leases=seen.leases,
            refused_leases=self._refused_codes.counted(seen.refused_leases.items()),
            waiting_leases=self._waiting_codes.counted((code, 1) for code, _lease in waiting),
            wait_starts_s=self._waiting_codes.earliest(starts),
            reservations={"firm": firm[True], "promise": firm[False]},
            late_reservations=sum(is_late(lease, state.now_s) for _code, lease in waiting if lease),
            open_preemptions=len(state.preemptions),
            advised_preemptions=len(plan.advised),
            image_orders_under_way=sum(
                record.phase is TransferPhase.UNDER_WAY for record in state.images.transfers.values()
            ),
            hosts=hosts_by_phase(state.power),
            power_w=power_w,
            always_on_power_w=always_on_power_w,
        )


class LeaseTally:
    """How many leases there are of each type in each state, and how many are refused for what; by what changes."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, str]] = Counter()
        self.refused: Counter[str] = Counter()
        self._known: dict[int, Lease] = {}
        self._follows = False

    def take(self, state: ClusterState) -> None:
        """Count the leases of the next state; all of them, where it is not known which changed since the last."""
        changed: Iterable[int] | None = state.changed_lease_ids if self._follows else None
        if changed is None:
            self._known.clear()
            self.counts.clear()
            self.refused.clear()
            changed = state.leases
        for lease_id in changed:
            self._count(self._known.pop(lease_id, None), -1)
            lease = state.leases.get(lease_id)
            if lease is not None:
                self._known[lease_id] = lease
                self._count(lease, 1)
        self._follows = True

    def forget(self) -> None:
        """The next state is counted whole: what changed before it is not known."""
        self._follows = False

    def _count(self, lease: Lease | None, by: int) -> None:
        if lease is None:
            return
        self.counts[lease.terms.type, lease.state] += by
        if lease.state is LeaseState.REFUSED:
            self.refused[lease.refusal_code] += by


class SwitchTally:
    """Which hosts have come up, fallen asleep or failed since the last look; what they were before nobody counts."""

    def __init__(self) -> None:
        self._before: Mapping[int, PowerSequence] | None = None

    def take(self, sequences: Mapping[int, PowerSequence]) -> list[str]:
        """One of `SWITCH_RESULTS` for each that did."""
        before, self._before = self._before, sequences
        if before is None or before is sequences:
            return []
        changed = ((before.get(host_id), after) for host_id, after in sequences.items())
        results = (_switched(was, after) for was, after in changed if was is not None and was.phase != after.phase)
        return [result for result in results if result]

    def forget(self) -> None:
        """What happens until the next look is not ours."""
        self._before = None


def _switched(was: PowerSequence, after: PowerSequence) -> str:
    """What came of switching a host, now that it is in another phase; '' where that is not over, or was nothing."""
    if after.is_deleted:
        return ""
    match after.phase:
        case PowerPhase.ASLEEP:
            return "off"
        case PowerPhase.FAILED:
            return "failed"
        case PowerPhase.AWAKE if was.is_coming and was.began_at_s and after.reason_code != TAKEN_OVER:
            return "on"
    return ""


class KnownCodes:
    """The codes that are known before, or were met: each has a series from then on, down to 0. `MOST_CODES` at most."""

    def __init__(self, *known: str) -> None:
        self._known = set(known)

    def counted(self, amounts: Iterable[tuple[str, int]]) -> dict[str, int]:
        """The sums by code."""
        sums: Counter[str] = Counter()
        for code, amount in amounts:
            sums[self._word(code)] += amount
        return dict.fromkeys(self._known, 0) | sums

    def earliest(self, instants: Iterable[tuple[str, int]]) -> dict[str, int]:
        """The first instant of each code that is among them."""
        found: dict[str, int] = {}
        for code, at_s in instants:
            word = self._word(code)
            found[word] = min(at_s, found.get(word, at_s))
        return found

    def _word(self, code: str) -> str:
        if code not in self._known:
            if len(self._known) >= MOST_CODES:
                return OTHER
            self._known.add(code)
        return code


def wait_start_s(lease: Lease) -> int:
    """Since when a lease that waits does: it arrived then, or was preempted."""
    return max(lease.arrived_at_s, lease.last_preempted_at_s or 0)


def is_late(lease: Lease, now_s: int) -> bool:
    """It waits, and was promised to be done by now, or to begin, which it never did."""
    if lease.verdict is not Verdict.ACCEPTED:
        return False
    terms = lease.terms
    if terms.deadline_at_s is not None:
        return terms.deadline_at_s < now_s
    has_run = lease.served_s > 0 or lease.last_preempted_at_s is not None
    return terms.start_at_s is not None and terms.start_at_s < now_s and not has_run


def hosts_by_phase(power: KnownPower) -> dict[str, int]:
    """Where the hosts stand that are handed over, or in our hand still."""
    in_hand = {one.host_id: one.phase for one in power.sequences.values() if one.is_ours and not one.is_deleted}
    awake = len(power.bounds.handed_over.difference(in_hand))
    return Counter(in_hand.values()) + Counter({PowerPhase.AWAKE: awake})


def drawn_w(state: ClusterState, power_of: PowerOfHost) -> tuple[float, float] | tuple[None, None]:
    """What the hosts that are handed over draw now by their models, and what they would draw were all of them on.

    Counted as `host energy` counts a stay that begins now, over one second.
    """
    stays = stays_to_write(state.snapshot.hosts, state.power, "", {}, state.now_s, samples_load=True)
    if not stays:
        return None, None
    of_hosts = accounts(stays, (), power_of, state.now_s, state.now_s + 1)
    return sum(one.taken_mj for one in of_hosts) / MILLI, sum(one.always_on_mj for one in of_hosts) / MILLI
