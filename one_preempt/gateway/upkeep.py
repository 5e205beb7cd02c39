"""Looks at the zones: who is there, what became of requests, and, at intervals, what shares there are to be.

It changes nothing in a zone. What it finds out is written into the ledger; what it does not get to, the next round
does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec.structs import replace

from one_preempt.core.gateway.requests import (
    LONGEST_TEXT,
    UNSETTLED,
    Attempt,
    AttemptOutcome,
    GatewayRequest,
    RequestState,
    changed_balances,
)
from one_preempt.core.gateway.shares import NoShares
from one_preempt.core.gateway.vm_runs import VmRun, served_together
from one_preempt.core.model.plain_words import plain_words
from one_preempt.errors import OnePreemptError
from one_preempt.gateway.desk import GatewayDesk
from one_preempt.gateway.measuring import Look, MeasuringRules, looked, question, shares
from one_preempt.gateway_ports import GatewayLedger, ZoneWatcher
from one_preempt.ports import Clock

SET_ASIDE_S = 300
"""A zone that was seen to be away has its turn after others for so long."""

Say = Callable[[str], None]


class Upkeep:
    """One round after the other, in one thread.

    `say` takes sentences for the log; each is said once as it begins. `alive` is called before each zone is asked, for
    that may take minutes.
    """

    def __init__(
        self,
        ledger: GatewayLedger,
        desk: GatewayDesk,
        zones: Mapping[str, ZoneWatcher],
        clock: Clock,
        rules: MeasuringRules,
        patience_s: int,
        recompute_s: int,
        keep_s: int,
        say: Say,
        alive: Callable[[], None],
    ) -> None:
        self._ledger = ledger
        self._desk = desk
        self._zones = zones
        self._clock = clock
        self._rules = rules
        self._patience_s = patience_s
        self._recompute_s = recompute_s
        self._keep_s = max(keep_s, rules.window_s)
        self._say = say
        self._alive = alive
        self._away: dict[str, str] = {}
        self._computed_at_s: int | None = None
        self._said: set[str] = set()
        self._said_of_shares = ""

    def round(self) -> None:
        """Whatever is due. Raises `OnePreemptError` where the ledger cannot be used; zones that fail are told only."""
        self._ledger.acquire_writer()
        for zone in sorted(self._desk.take_doubted() & self._zones.keys()):
            self._look_whether_there(zone)
        self.settle()
        now_s = self._clock.now_s()
        if self._computed_at_s is None or not 0 <= now_s - self._computed_at_s < self._recompute_s:
            self.recompute()
            self._computed_at_s = now_s

    def settle(self) -> None:
        """Look for requests whose commands have not said for too long what became of them."""
        now_s = self._clock.now_s()
        overdue: dict[str, list[GatewayRequest]] = {}
        for request in self._ledger.unsettled():
            last = request.attempts[-1] if request.attempts else None
            if last is not None and last.last_sign_s > now_s:
                self._begin_to_wait_anew(request, last, now_s)
            elif last is not None and now_s - last.last_sign_s > self._patience_s:
                overdue.setdefault(last.zone, []).append(request)
        for zone, requests in overdue.items():
            if zone not in self._zones:
                self._say_once(f"zone {zone} is not configured any more: request {requests[0].number} stays as it is")
                continue
            self._alive()
            try:
                found = self._zones[zone].vms_with({request.token for request in requests})
            except OnePreemptError as error:
                self._is_away(zone, error)
                continue
            self._is_there(zone)
            for request in requests:
                self._settle_one(request, tuple(found.get(request.token, ())), now_s)

    def _begin_to_wait_anew(self, request: GatewayRequest, last: Attempt, now_s: int) -> None:
        """After the clock was set back: nobody could continue or cancel it until the clock is there again."""
        waiting = replace(request, attempts=(*request.attempts[:-1], last.no_later_than(now_s)))
        with self._desk.lock:
            if self._ledger.request(request.number) == request:
                self._ledger.record(waiting, {})

    def _settle_one(self, request: GatewayRequest, vm_ids: tuple[int, ...], now_s: int) -> None:
        settled = _settled(request, vm_ids, now_s)
        with self._desk.lock:
            # Its command may have come back meanwhile; then it knows better.
            if settled != request and self._ledger.request(request.number) == request:
                self._ledger.record(settled, changed_balances(request, settled))
                if settled.state is not request.state:
                    self._say(f"request {request.number} of {request.user}: {settled.state.value}, {settled.text}")

    def recompute(self) -> None:
        """Measure the zones, write down what external requests did, and compute shares."""
        now_s = self._clock.now_s()
        tokens = self._ledger.tokens()
        looks: dict[str, Look] = {}
        for zone, watcher in self._zones.items():
            self._alive()
            try:
                looks[zone] = looked(watcher.seen(now_s - self._rules.window_s), tokens, self._rules, now_s)
            except OnePreemptError as error:
                self._is_away(zone, error)
                continue
            self._is_there(zone)
            self._ledger.record_measure(zone, looks[zone].measure)
            for problem in looks[zone].problems:
                self._say_once(f"zone {zone}: {problem}")
        measures = {zone: measure for zone, measure in self._ledger.measures().items() if zone in self._zones}
        asked = question(measures, self._away, (), self._rules, now_s)
        speeds = {zone.name: zone.speed for zone in asked.zones}
        for zone, look in looks.items():
            self._record_work(zone, look, speeds[zone], now_s)
        requests = self._ledger.opened_since(now_s - self._rules.window_s)
        try:
            allocation = shares(question(measures, self._away, requests, self._rules, now_s), self._rules, now_s)
        except NoShares as error:
            self._say_once(f"{error}; the former shares stay in force")
        else:
            self._ledger.record_allocation(allocation)
            if allocation.instead_of:
                self._say_once(f"{allocation.instead_of}; {allocation.answer.policy} answers instead")
            told = ", ".join(f"{zone} {share:.1%}" for zone, share in allocation.answer.shares.items())
            self._say_if_new(f"shares by {allocation.answer.policy}: {told}")
        with self._desk.lock:
            self._ledger.prune(now_s - self._keep_s)

    def _record_work(self, zone: str, look: Look, speed: float, now_s: int) -> None:
        """What placed requests have computed; those of which no VM is left have ended."""
        placed = [request for request in self._ledger.placed() if request.zone == zone]
        if not placed:
            return
        self._alive()
        try:
            # VMs that never ran are in no accounting.
            living = self._zones[zone].vms_with({request.token for request in placed})
        except OnePreemptError as error:
            self._is_away(zone, error)
            return
        for request in placed:
            if request.token not in living:
                self._end(request, look.external.get(request.number, ()), speed, now_s)

    def _end(self, request: GatewayRequest, runs: Sequence[VmRun], speed: float, now_s: int) -> None:
        work = served_together(runs, self._rules.counted, now_s).work * speed if runs else None
        ended = replace(request, state=RequestState.ENDED, work=work, ended_at_s=now_s)
        with self._desk.lock:
            if self._ledger.request(request.number) == request:
                self._ledger.record(ended, {})

    def _look_whether_there(self, zone: str) -> None:
        self._alive()
        try:
            self._zones[zone].vms_with(())
        except OnePreemptError as error:
            self._is_away(zone, error)
        else:
            self._is_there(zone)

    def _is_away(self, zone: str, error: OnePreemptError) -> None:
        self._away[zone] = plain_words(str(error), LONGEST_TEXT)
        self._desk.set_aside(zone, self._clock.now_s() + SET_ASIDE_S)
        self._say_once(f"zone {zone}: {error}")

    def _is_there(self, zone: str) -> None:
        if self._away.pop(zone, None) is not None:
            self._desk.set_aside(zone, 0)
            self._said = {text for text in self._said if not text.startswith(f"zone {zone}:")}
            self._say(f"zone {zone} answers again")

    def _say_if_new(self, shares_told: str) -> None:
        if shares_told != self._said_of_shares:
            self._said_of_shares = shares_told
            self._say(shares_told)

    def _say_once(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            self._say(text)


def _settled(request: GatewayRequest, vm_ids: tuple[int, ...], now_s: int) -> GatewayRequest:
    """What is to be said of a request of which these VMs were found in the zone that has it."""
    assert request.state in UNSETTLED, "others have their outcome"
    if len(vm_ids) >= request.size:
        text = "its VMs were found there"
        if len(vm_ids) > request.size:
            text = f"{len(vm_ids)} VMs were found there, {request.size} were asked: end the others"
        placed = request.answered(AttemptOutcome.PLACED, text, now_s)
        return replace(placed, state=RequestState.PLACED, vm_ids=vm_ids, text=text)
    if vm_ids:
        text = f"{len(vm_ids)} of {request.size} VMs are there: continue it (gateway submit --continue), or cancel it"
        return replace(request, vm_ids=vm_ids, text=text)
    text = "its command ended, and nothing of it is there"
    gone = request.answered(AttemptOutcome.NOTHING_THERE, text, now_s)
    return replace(gone, state=RequestState.ABANDONED, charges={}, text=text, ended_at_s=now_s)
