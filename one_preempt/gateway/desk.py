"""Answers users' commands: which zone has the turn, what became of it, and what there is on record.

A request and the zone whose turn it is are written before they are told. What users say of their own requests is
believed as far as it concerns these alone; what a zone has is seen there by `upkeep.py`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Set
from functools import singledispatchmethod

from msgspec import Struct
from msgspec.structs import replace

from one_preempt.core.dispatch.policy import DispatchPolicy
from one_preempt.core.gateway.requests import (
    LONGEST_TEXT,
    UNSETTLED,
    AttemptOutcome,
    GatewayRequest,
    RequestState,
    changed_balances,
)
from one_preempt.core.gateway.settling import given_up
from one_preempt.core.gateway.turns import next_turn
from one_preempt.core.gateway.vm_runs import SECONDS_PER_HOUR
from one_preempt.core.model.lease import LeaseType
from one_preempt.core.model.plain_words import plain_words
from one_preempt.errors import OnePreemptError
from one_preempt.gateway.messages import (
    Cancelled,
    Continue,
    GiveUp,
    List,
    Message,
    Open,
    Placed,
    Refused,
    Show,
    Status,
    Unanswered,
    Working,
)
from one_preempt.gateway.request_documents import described, in_list, turn_document
from one_preempt.gateway.zones_taken_out import left_in_zones
from one_preempt.gateway_ports import GatewayLedger
from one_preempt.ports import Clock

REQUESTS_AT_A_TIME = 40
SET_ASIDE_S = 300
"""A zone that was seen to be away has its turn after others for so long. Fixed, for little depends on it: if it is back
before, others have had a few turns of it; if not, each command that tries it finds out in a few seconds."""
Reply = dict[str, object]


class DeskRules(Struct, frozen=True):
    """How requests are handed out. `zones` are endpoints by name, in the order of the configuration.

    `requests_in_hand` without an outcome, and `requests_an_hour`, are what one user may have.
    """

    zones: Mapping[str, str]
    dispatch: DispatchPolicy
    seed: int
    patience_s: int
    requests_in_hand: int
    requests_an_hour: int


class Caller(Struct, frozen=True):
    """Who asks, as the kernel tells; `is_trusted` may see and settle the requests of others."""

    uid: int
    name: str
    is_trusted: bool


class Declined(OnePreemptError):
    """The desk does not do what was asked; the message says why."""


class GatewayDesk:
    """Safe between threads: one message at a time. `lock` is held whenever the ledger is read to be written."""

    def __init__(
        self,
        ledger: GatewayLedger,
        clock: Clock,
        rules: DeskRules,
        new_token: Callable[[], str],
        wake: Callable[[], None],
    ) -> None:
        """`wake` is called when a zone is said to be away, so that somebody looks."""
        self.lock = threading.RLock()
        self._ledger = ledger
        self._clock = clock
        self._rules = rules
        self._new_token = new_token
        self._wake = wake
        self._doubted: set[str] = set()
        self._away_since_s: dict[str, int] = {}
        self._mistaken: set[str] = set()

    def answer(self, message: Message, caller: Caller) -> Reply:
        """The reply to a message; `ok` false with a reason in `error` where nothing comes of it.

        `declined` says that this was decided, and is no failure of the ledger, say.
        """
        with self.lock:
            try:
                return {"ok": True, **self._answer(message, caller)}
            except Declined as declined:
                return {"ok": False, "declined": True, "error": str(declined)}
            except OnePreemptError as error:
                return {"ok": False, "error": str(error)}

    def take_doubted(self) -> Set[str]:
        """The zones that were said to be away since the last call."""
        with self.lock:
            doubted, self._doubted = self._doubted, set()
            return doubted

    def set_aside(self, zone: str, *, is_another: bool) -> None:
        """The zone was seen to be away: others have their turn before it for a while.

        `is_another` is where its endpoint leads: nobody is sent there, for all would be made in the wrong zone.
        """
        with self.lock:
            self._away_since_s[zone] = self._clock.now_s()
            if is_another:
                self._mistaken.add(zone)

    def bring_back(self, zone: str) -> None:
        """The zone was seen to be there."""
        with self.lock:
            self._away_since_s.pop(zone, None)
            self._mistaken.discard(zone)

    @singledispatchmethod
    def _answer(self, message: Message, caller: Caller) -> Reply:
        raise NotImplementedError(type(message).__name__)

    @_answer.register
    def _open(self, message: Open, caller: Caller) -> Reply:
        if not self._rules.zones:
            raise Declined("this gateway has no zones: its administrator names them in gateway.zones")
        in_hand = sum(request.uid == caller.uid for request in self._ledger.unsettled())
        if in_hand >= self._rules.requests_in_hand:
            raise Declined(
                f"you have {in_hand} requests without an outcome, and more are not taken: "
                "see one-preempt gateway list, and continue or cancel them"
            )
        if wait_s := self._too_many_for_s(caller.uid):
            raise Declined(
                f"you have made {self._rules.requests_an_hour} requests within an hour, and more are not taken "
                f"(gateway.requests_an_hour): the next one in {wait_s} s"
            )
        asked = GatewayRequest(
            number=self._ledger.last_number() + 1,
            token=self._new_token(),
            uid=caller.uid,
            user=caller.name,
            type=LeaseType(message.type),
            size=message.size,
            name=message.name,
            duration_s=message.duration_s,
            opened_at_s=self._clock.now_s(),
        )
        return self._next(None, asked)

    def _too_many_for_s(self, uid: int) -> int:
        """How long this user has to wait, whatever became of the requests: what users say of them may be invented."""
        last = self._ledger.requests(limit=self._rules.requests_an_hour, uid=uid)
        if len(last) < self._rules.requests_an_hour:
            return 0
        ago_s = self._clock.now_s() - last[-1].opened_at_s
        return SECONDS_PER_HOUR - ago_s if 0 <= ago_s < SECONDS_PER_HOUR else 0

    @_answer.register
    def _continue(self, message: Continue, caller: Caller) -> Reply:
        request = self._own(message.request, caller)
        if request.uid != caller.uid:
            # Who has other credentials does not find its VMs as own ones, and would make them once more.
            raise Declined(
                f"request {request.number} is {request.user}'s, who alone can continue it; you can cancel it"
            )
        if request.state not in UNSETTLED:
            raise Declined(f"request {request.number} is {request.state.value}: there is nothing to continue")
        last = request.attempts[-1]
        if left_s := self._under_way_s(request):
            raise Declined(
                f"the last command for request {request.number} may still be creating VMs in {last.zone}: "
                f"continue in {left_s} s"
            )
        anew = replace(last, heard_at_s=self._clock.now_s(), outcome=None, outcome_at_s=None)
        taken_up = replace(request, state=RequestState.OPEN, attempts=(*request.attempts[:-1], anew), text="")
        self._ledger.record(taken_up, {})
        return self._told(taken_up)

    @_answer.register
    def _refused(self, message: Refused, caller: Caller) -> Reply:
        request = self._at(message.request, message.zone, caller)
        if not message.reached and message.zone not in self._doubted:
            self._doubted.add(message.zone)
            self._wake()
        text = plain_words(message.text, LONGEST_TEXT)
        return self._next(request, request.answered(AttemptOutcome.REFUSED, text, self._clock.now_s()))

    @_answer.register
    def _working(self, message: Working, caller: Caller) -> Reply:
        request = self._at(message.request, message.zone, caller)
        heard = replace(request.attempts[-1], heard_at_s=self._clock.now_s())
        self._ledger.record(replace(request, attempts=(*request.attempts[:-1], heard)), {})
        return {}

    @_answer.register
    def _unanswered(self, message: Unanswered, caller: Caller) -> Reply:
        request = self._at(message.request, message.zone, caller)
        text = plain_words(message.text, LONGEST_TEXT)
        answered = request.answered(AttemptOutcome.UNANSWERED, text, self._clock.now_s())
        self._ledger.record(replace(answered, state=RequestState.UNANSWERED, text=text), {})
        return {"continue_in_s": self._rules.patience_s}

    @_answer.register
    def _placed(self, message: Placed, caller: Caller) -> Reply:
        request = self._own(message.request, caller)
        if request.state not in (*UNSETTLED, RequestState.ABANDONED, RequestState.PLACED):
            raise Declined(f"request {request.number} was {request.state.value} meanwhile")
        if request.zone != message.zone:
            raise Declined(f"request {request.number} is not at zone {message.zone!r}, but at {request.zone!r}")
        if len(set(message.vm_ids)) != request.size:
            raise Declined(f"request {request.number} is for {request.size} VMs, not {len(set(message.vm_ids))}")
        if request.state is RequestState.PLACED and not set(message.vm_ids) <= set(request.vm_ids):
            # A command that was stopped goes on after another one has continued its request.
            raise Declined(f"request {request.number} had been given other VMs meanwhile")
        answered = request.charged_again().answered(AttemptOutcome.PLACED, "", self._clock.now_s())
        vm_ids = tuple(sorted(message.vm_ids))
        placed = replace(answered, state=RequestState.PLACED, vm_ids=vm_ids, text="", ended_at_s=None)
        self._ledger.record(placed, changed_balances(request, placed))
        return {}

    @_answer.register
    def _cancelled(self, message: Cancelled, caller: Caller) -> Reply:
        request = self._own(message.request, caller)
        if request.state not in (*UNSETTLED, RequestState.PLACED):
            return {}
        if left_s := self._under_way_s(request):
            raise Declined(f"the command of request {request.number} may still be creating VMs: cancel in {left_s} s")
        now_s = self._clock.now_s()
        gone = request if request.state is RequestState.PLACED else replace(request, charges={})
        if request.attempts and request.attempts[-1].outcome in (None, AttemptOutcome.UNANSWERED):
            gone = gone.answered(AttemptOutcome.CANCELLED, "", now_s)
        gone = gone.over(RequestState.CANCELLED, plain_words(message.text, LONGEST_TEXT), now_s)
        self._ledger.record(gone, changed_balances(request, gone))
        return {}

    @_answer.register
    def _give_up(self, message: GiveUp, caller: Caller) -> Reply:
        if not caller.is_trusted:
            raise Declined("only root and the gateway's user give up what is in a zone")
        if message.zone in self._rules.zones:
            raise Declined(
                f"zone {message.zone!r} is configured, and the gateway looks there itself: take it out of "
                "gateway.zones and restart the gateway first"
            )
        theirs = left_in_zones(self._ledger, self._rules.zones).get(message.zone, [])
        if not theirs:
            raise Declined(f"no request is left in a zone named {message.zone!r}: see one-preempt gateway list --all")
        for request in theirs:
            gone = given_up(request, self._clock.now_s())
            self._ledger.record(gone, changed_balances(request, gone))
        return {"given_up": len(theirs)}

    @_answer.register
    def _show(self, message: Show, caller: Caller) -> Reply:
        request = self._own(message.request, caller)
        more = {
            "token": request.token,
            "endpoint": self._rules.zones.get(request.zone),
            "under_way_s": self._under_way_s(request),
        }
        return {"request": described(request) | more}

    @_answer.register
    def _list(self, message: List, caller: Caller) -> Reply:
        uid = None if caller.is_trusted else caller.uid
        found = self._ledger.requests(message.before, REQUESTS_AT_A_TIME, uid)
        return {"requests": [in_list(request) for request in found], "more": len(found) == REQUESTS_AT_A_TIME}

    @_answer.register
    def _status(self, message: Status, caller: Caller) -> Reply:
        allocation = self._ledger.allocation()
        left = left_in_zones(self._ledger, self._rules.zones) if caller.is_trusted else {}
        return {
            "zones": list(self._rules.zones),
            "endpoints": dict(self._rules.zones),
            "shares": None if allocation is None else allocation.answer.shares,
            "made_at_s": None if allocation is None else allocation.made_at_s,
            "zones_taken_out": {zone: len(requests) for zone, requests in left.items()},
        }

    def _own(self, number: int, caller: Caller) -> GatewayRequest:
        request = self._ledger.request(number)
        # Whether there is a request of somebody else is nobody's business.
        if request is None or not (request.uid == caller.uid or caller.is_trusted):
            raise Declined(f"you have no request {number}: see one-preempt gateway list")
        return request

    def _under_way_s(self, request: GatewayRequest) -> int:
        """For how long a command may still be creating VMs of it; 0 where none is."""
        if request.state not in UNSETTLED:
            return 0
        return max(0, request.attempts[-1].last_sign_s + self._rules.patience_s - self._clock.now_s())

    def _at(self, number: int, zone: str, caller: Caller) -> GatewayRequest:
        """A request of which the zone's turn has no outcome yet."""
        request = self._own(number, caller)
        if request.state is not RequestState.OPEN or request.zone != zone:
            raise Declined(
                f"request {number} is {request.state.value} at zone {request.zone!r}: nothing is asked of it"
            )
        return request

    def _next(self, before: GatewayRequest | None, request: GatewayRequest) -> Reply:
        """Give the turn to the next zone, write that down, and tell it."""
        now_s = self._clock.now_s()
        away = {zone for zone, since_s in self._away_since_s.items() if 0 <= now_s - since_s < SET_ASIDE_S}
        zones, allocation = list(self._rules.zones), self._ledger.allocation()
        balances = dict(self._ledger.balances(request.type.value))
        # What this request has charged so far is no debt of others.
        for zone, charge in request.charges.items():
            balances[zone] = balances.get(zone, 0.0) - charge
        never = request.tried | self._mistaken
        for without in (never | away, never):
            turn = next_turn(
                self._rules.dispatch, allocation, zones, balances, request.number - 1, without, self._rules.seed
            )
            if turn is not None:
                turned = request.turned_to(turn.zone, turn.why, turn.charges, now_s)
                self._ledger.record(turned, changed_balances(before, turned))
                return self._told(turned)
        refused = replace(request, vm_ids=(), charges={}).over(RequestState.REFUSED, "every zone refused", now_s)
        self._ledger.record(refused, changed_balances(before, refused))
        return {"number": request.number, "token": request.token, "zone": None}

    def _told(self, request: GatewayRequest) -> Reply:
        return turn_document(request, self._rules.zones.get(request.zone))
