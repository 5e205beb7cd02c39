"""Looks at the zones: who is there, what became of requests, and, at intervals, what shares there are to be.

It changes nothing in a zone. What it finds out is written into the ledger; what it does not get to, the next round
does. Users give cause for looks, and a look reads all VMs of a zone: so there are only so many.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from one_preempt.core.gateway.requests import (
    Attempt,
    GatewayRequest,
    RequestState,
    changed_balances,
)
from one_preempt.core.gateway.settling import settled
from one_preempt.core.gateway.shares import NoShares
from one_preempt.core.gateway.vm_runs import VmRun, served_together
from one_preempt.gateway.desk import GatewayDesk
from one_preempt.gateway.measuring import Look, MeasuringRules, looked, question, shares
from one_preempt.gateway.said_once import SaidOnce, Say
from one_preempt.gateway.zone_presence import ZonePresence
from one_preempt.gateway.zones_taken_out import MEND_OF_LEFT, left_in_zones
from one_preempt.gateway_ports import GatewayLedger, ZoneWatcher
from one_preempt.ports import Clock

LOOK_EVERY_S = 60
"""Between two measurements a zone is looked at no more often, whatever cause users give for it. Fixed: a look reads all
VMs of a zone, and who waits for it has waited for `gateway.patience_s` before."""
COMPUTE_AGAIN_S = 300
"""Measuring that failed is tried again then, if it is not due before; `gateway.recompute_s` is what can be set."""


class UpkeepRules(Struct, frozen=True):
    """How zones are measured, how often, and for how long what is over stays on record.

    `patience_s` after the last sign of a command its VMs are looked for.
    """

    measuring: MeasuringRules
    patience_s: int
    recompute_s: int
    keep_s: int


class Upkeep:
    """One round after the other, in one thread.

    `say` takes sentences for the log; each is said once as it begins.
    """

    def __init__(
        self,
        ledger: GatewayLedger,
        desk: GatewayDesk,
        zones: Mapping[str, ZoneWatcher],
        clock: Clock,
        rules: UpkeepRules,
        say: Say,
    ) -> None:
        self._ledger = ledger
        self._desk = desk
        self._clock = clock
        self._rules = rules
        self._said = SaidOnce(say)
        self._zones = ZonePresence(zones, desk, self._said)
        self._computed_at_s: int | None = None
        self._doubted: set[str] = set()
        self._answers, self._looks = _Pace(), _Pace()
        self._looked_for: dict[int, int] = {}

    def round(self) -> None:
        """Whatever is due. Raises `OnePreemptError` where the ledger cannot be used; zones that fail are told only."""
        self._ledger.acquire_writer()
        self._look_whether_doubted_are_there()
        self.settle()
        now_s = self._clock.now_s()
        if self._computed_at_s is None or not 0 <= now_s - self._computed_at_s < self._rules.recompute_s:
            # Where it fails, as the ledger cannot be written, say, it is not tried in every round: it reads all zones.
            self._computed_at_s = now_s - max(0, self._rules.recompute_s - COMPUTE_AGAIN_S)
            self.recompute()
            self._computed_at_s = now_s

    def _look_whether_doubted_are_there(self) -> None:
        self._doubted |= {zone for zone in self._desk.take_doubted() if zone in self._zones}
        now_s = self._clock.now_s()
        for zone in sorted(self._doubted):
            if self._answers.lets(zone, now_s):
                self._doubted.discard(zone)
                self._zones.asked(zone, lambda watcher: watcher.version())

    def settle(self) -> None:
        """Look for requests whose commands have not said for too long what became of them.

        Each is looked for once after its command's last sign: one of which some VMs are there is its owner's affair,
        and is looked for again when the zones are measured.
        """
        now_s = self._clock.now_s()
        overdue = self._overdue(now_s)
        numbers = {request.number for requests in overdue.values() for request in requests}
        self._looked_for = {number: sign_s for number, sign_s in self._looked_for.items() if number in numbers}
        for zone, requests in overdue.items():
            anew = [one for one in requests if self._looked_for.get(one.number) != one.attempts[-1].last_sign_s]
            if anew and zone in self._zones and self._looks.lets(zone, now_s):
                self._look_for(zone, anew, {request.token for request in anew}, now_s)

    def _overdue(self, now_s: int) -> dict[str, list[GatewayRequest]]:
        """By their zones the requests of which something should have been heard by now."""
        overdue: defaultdict[str, list[GatewayRequest]] = defaultdict(list)
        for request in self._ledger.unsettled():
            last = request.attempts[-1]
            if last.last_sign_s > now_s:
                self._begin_to_wait_anew(request, last, now_s)
            elif now_s - last.last_sign_s > self._rules.patience_s:
                overdue[last.zone].append(request)
        return overdue

    def _begin_to_wait_anew(self, request: GatewayRequest, last: Attempt, now_s: int) -> None:
        """After the clock was set back: nobody could continue or cancel it until the clock is there again."""
        waiting = replace(request, attempts=(*request.attempts[:-1], last.no_later_than(now_s)))
        with self._desk.lock:
            if self._ledger.request(request.number) == request:
                self._ledger.record(waiting, {})

    def _look_for(
        self, zone: str, requests: Sequence[GatewayRequest], tokens: Collection[str], now_s: int
    ) -> Mapping[str, Sequence[int]] | None:
        """What the zone has of `tokens`, and what follows for these requests; None where it gives no answer."""
        found = self._zones.asked(zone, lambda watcher: watcher.vms_with(tokens))
        if found is None:
            return None
        for request in requests:
            self._looked_for[request.number] = request.attempts[-1].last_sign_s
            self._settle_one(request, tuple(found.get(request.token, ())), now_s)
        return found

    def _settle_one(self, request: GatewayRequest, vm_ids: tuple[int, ...], now_s: int) -> None:
        outcome = settled(request, vm_ids, now_s)
        with self._desk.lock:
            # Its command may have come back meanwhile; then it knows better.
            if outcome != request and self._ledger.request(request.number) == request:
                self._ledger.record(outcome, changed_balances(request, outcome))
                if outcome.state is not request.state:
                    self._said.say(f"request {request.number} of {request.user}: {outcome.state.value}, {outcome.text}")

    def recompute(self) -> None:
        """Measure the zones, write down what became of external requests, and compute shares."""
        now_s, measuring, former = self._clock.now_s(), self._rules.measuring, self._ledger.allocation()
        # Read before the tokens are: one that is placed from now on would count as ended, its token being unknown.
        placed = self._ledger.placed()
        tokens = self._ledger.tokens()
        looks = self._measure(tokens, now_s)
        measures = {zone: measure for zone, measure in self._ledger.measures().items() if zone in self._zones}
        speeds = {zone.name: zone.speed for zone in question(measures, self._zones.away, (), measuring, now_s).zones}
        cancelled = [one for one in self._ledger.opened_since(now_s - measuring.window_s) if one.is_cancelled_in_zone]
        for zone, look in looks.items():
            theirs = [request for request in (*placed, *cancelled) if request.zone == zone]
            self._follow_up(zone, theirs, tokens, look, speeds[zone], now_s)
        for zone in left_in_zones(self._ledger, tuple(self._zones)):
            self._said.once(f"zone {zone} is no longer configured, and requests are left there: {MEND_OF_LEFT}")
        requests = self._ledger.opened_since(now_s - measuring.window_s)
        try:
            allocation = shares(question(measures, self._zones.away, requests, measuring, now_s), measuring, now_s)
        except NoShares as error:
            self._said.once(f"{error}; the former shares stay in force")
        else:
            self._ledger.record_allocation(allocation)
            if allocation.instead_of:
                self._said.once(f"{allocation.instead_of}; {allocation.answer.policy} answers instead")
            told = ", ".join(f"{zone} {share:.1%}" for zone, share in allocation.answer.shares.items())
            self._said.if_new("shares", f"shares by {allocation.answer.policy}: {told}")
        # By the time of the measuring before: a clock that leaps ahead for a while lets nothing be forgotten.
        by_s = now_s if former is None else min(now_s, former.made_at_s)
        with self._desk.lock:
            self._ledger.prune(by_s - max(self._rules.keep_s, measuring.window_s))

    def _measure(self, tokens: Mapping[str, int], now_s: int) -> dict[str, Look]:
        """What the zones that answer are like now; it is written down."""
        measuring, looks, former = self._rules.measuring, {}, self._ledger.measures()
        for zone in self._zones:
            seen = self._zones.asked(zone, lambda watcher: watcher.seen(now_s - measuring.window_s))
            if seen is None:
                continue
            looks[zone] = looked(zone, seen, tokens, measuring, now_s, former.get(zone))
            self._ledger.record_measure(zone, looks[zone].measure)
            for problem in looks[zone].problems:
                self._said.once(f"zone {zone}: {problem}")
        return looks

    def _follow_up(
        self,
        zone: str,
        ending: Sequence[GatewayRequest],
        tokens: Mapping[str, int],
        look: Look,
        speed: float,
        now_s: int,
    ) -> None:
        """Who of the zone's requests has ended, and who is there though nobody has said so.

        `ending` are those that were placed, and those that were cancelled, whose VMs computed something until then. All
        tokens on record are looked for: VMs of a request that was given up may have come after that.
        """
        if not tokens:
            return
        overdue = self._overdue(now_s).get(zone, [])
        living = self._look_for(zone, overdue, tokens, now_s)
        if living is None:
            return
        for request in ending:
            runs = look.external.get(request.number, ())
            # VMs that never ran are in no accounting. Of others that tells, too, if they cannot be read any more, or if
            # their owner has taken the mark away.
            if request.token not in living and not any(run.is_living for run in runs):
                self._end(request, runs, speed, now_s)
            else:
                self._settle_one(request, tuple(living.get(request.token, ())), now_s)
        known = {request.token for request in (*ending, *overdue)}
        for token in sorted(living.keys() - known):
            given_up = self._ledger.request(tokens[token])
            if given_up is not None and given_up.state is RequestState.ABANDONED and given_up.zone == zone:
                self._settle_one(given_up, tuple(living[token]), now_s)

    def _end(self, request: GatewayRequest, runs: Sequence[VmRun], speed: float, now_s: int) -> None:
        work = served_together(runs, self._rules.measuring.counted, now_s).work * speed if runs else None
        ended = replace(request, work=work)
        if request.state is RequestState.PLACED:
            ended = ended.over(RequestState.ENDED, request.text, now_s)
        with self._desk.lock:
            if ended != request and self._ledger.request(request.number) == request:
                self._ledger.record(ended, {})


class _Pace:
    """Lets a question to a zone through once in `LOOK_EVERY_S`; a clock that was set back delays none for longer."""

    def __init__(self) -> None:
        self._last_s: dict[str, int] = {}

    def lets(self, zone: str, now_s: int) -> bool:
        """Whether it may be asked now; then the next question has to wait."""
        last_s = self._last_s.get(zone)
        if last_s is not None and 0 <= now_s - last_s < LOOK_EVERY_S:
            return False
        self._last_s[zone] = now_s
        return True
