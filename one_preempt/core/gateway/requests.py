"""What the gateway's ledger keeps of a request: what was asked, which zones were tried, and what became of it."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from one_preempt.core.model.lease import LeaseType

LONGEST_TEXT = 400
KEPT_VMS = 20
"""Of what is over, the ids of so many VMs stay on record: who invents large requests fills nothing with them."""
BALANCE_DIGITS = 9
"""Balances are rounded, so that adding and taking away the same leaves nothing."""


class RequestState(StrEnum):
    """Where a request stands."""

    OPEN = "open"  # its owner's command was told a zone, and has not said yet what came of it
    UNANSWERED = "unanswered"  # the zone gave no answer while VMs were created: they may exist
    PLACED = "placed"
    REFUSED = "refused"  # by every zone
    CANCELLED = "cancelled"
    ABANDONED = "abandoned"  # nothing of it was in its zone when somebody looked, or nobody looks there any more
    ENDED = "ended"  # all its VMs are DONE


UNSETTLED = frozenset({RequestState.OPEN, RequestState.UNANSWERED})
SENT = frozenset({RequestState.PLACED, RequestState.ENDED, RequestState.UNANSWERED, RequestState.OPEN})
"""States in which a request counts as one that came and went to a zone; others count if VMs of it were there."""


class AttemptOutcome(StrEnum):
    """What became of a zone's turn."""

    PLACED = "placed"
    REFUSED = "refused"
    UNANSWERED = "unanswered"
    NOTHING_THERE = "nothing there"
    CANCELLED = "cancelled"
    GIVEN_UP = "given up"  # by the administrator, who has taken the zone out


class Attempt(Struct, frozen=True):
    """One zone's turn: written before the owner's command is told the zone, answered afterwards.

    `heard_at_s` is when that command last said that it is still creating VMs.
    """

    zone: str
    why: str
    begun_at_s: int
    outcome: AttemptOutcome | None = None
    outcome_at_s: int | None = None
    text: str = ""
    heard_at_s: int | None = None

    @property
    def last_sign_s(self) -> int:
        """When the command that tries it was heard of last."""
        return max(self.begun_at_s, self.heard_at_s or 0, self.outcome_at_s or 0)

    def no_later_than(self, now_s: int) -> Attempt:
        """The same where no sign is from the future: the clock that wrote it down has been set back."""
        heard_at_s = None if self.heard_at_s is None else min(self.heard_at_s, now_s)
        outcome_at_s = None if self.outcome_at_s is None else min(self.outcome_at_s, now_s)
        return replace(self, begun_at_s=min(self.begun_at_s, now_s), heard_at_s=heard_at_s, outcome_at_s=outcome_at_s)


class GatewayRequest(Struct, frozen=True):
    """One external request.

    Attributes:
        number: Its number, from 1; LEASE_GATEWAY of its VMs.
        token: LEASE_SUBMISSION of its VMs, by which they are found.
        uid: The user on the gateway's machine who asked.
        user: That user's name there.
        type: The type of the lease.
        size: How many VMs.
        name: NAME of the lease, or ''.
        duration_s: For how long each runs, where that was said.
        opened_at_s: When it was asked.
        state: Where it stands.
        attempts: The zones that had their turn, in that order; the last one has or had the request.
        vm_ids: Its VMs in the zone of the last attempt, as far as known; of one that is over the first `KEPT_VMS`.
        charges: What it added to the balances of zones.
        taken_back: The charges of one that was given up: they count again if VMs of it are found after all.
        text: What there is to say of its state.
        ended_at_s: When nothing was left to come of it.
        work: Element-seconds that its VMs computed, times the speed of the zone; None as long as that is not known.
    """

    number: int
    token: str
    uid: int
    user: str
    type: LeaseType
    size: int
    name: str
    duration_s: int | None
    opened_at_s: int
    state: RequestState = RequestState.OPEN
    attempts: tuple[Attempt, ...] = ()
    vm_ids: tuple[int, ...] = ()
    charges: dict[str, float] = {}
    taken_back: dict[str, float] = {}
    text: str = ""
    ended_at_s: int | None = None
    work: float | None = None

    @property
    def zone(self) -> str:
        """The zone that has it, or had it last; '' where none was tried."""
        return self.attempts[-1].zone if self.attempts else ""

    @property
    def tried(self) -> frozenset[str]:
        """The zones that had their turn."""
        return frozenset(attempt.zone for attempt in self.attempts)

    @property
    def may_come_to_light(self) -> bool:
        """Whether VMs of it may be in its zone though nobody has said so yet."""
        return self.state in UNSETTLED or self.state is RequestState.ABANDONED

    @property
    def is_sent(self) -> bool:
        """Whether it counts as a request that went to a zone."""
        over = (RequestState.CANCELLED, RequestState.ABANDONED)
        return self.state in SENT or (self.state in over and bool(self.vm_ids))

    @property
    def is_cancelled_in_zone(self) -> bool:
        """Whether its owner has ended VMs of it, of which it is not known yet what they computed until then."""
        return self.state is RequestState.CANCELLED and bool(self.vm_ids) and self.work is None

    def answered(self, outcome: AttemptOutcome, text: str, now_s: int) -> GatewayRequest:
        """The zone whose turn it was has said, or has been seen to say, this."""
        last = replace(self.attempts[-1], outcome=outcome, outcome_at_s=now_s, text=text)
        return replace(self, attempts=(*self.attempts[:-1], last))

    def over(self, state: RequestState, text: str, now_s: int) -> GatewayRequest:
        """Nothing is left to come of it; its charges stay."""
        return replace(self, state=state, text=text, vm_ids=self.vm_ids[:KEPT_VMS], ended_at_s=now_s)

    def without_charges(self) -> GatewayRequest:
        """It is given up: its turn is given back, and what that was is kept."""
        return replace(self, charges={}, taken_back=self.charges)

    def charged_again(self) -> GatewayRequest:
        """What was given up is there after all, and had its turn; others stay as they are."""
        return replace(self, charges=self.taken_back, taken_back={}) if self.taken_back else self

    def turned_to(self, zone: str, why: str, charges: dict[str, float], now_s: int) -> GatewayRequest:
        """It is the turn of this zone."""
        return replace(
            self,
            state=RequestState.OPEN,
            attempts=(*self.attempts, Attempt(zone, why, now_s)),
            vm_ids=(),
            charges=charges,
            text="",
        )


def changed_balances(before: GatewayRequest | None, after: GatewayRequest) -> dict[str, float]:
    """What `after` adds to the balances of its type, in place of what `before` had added."""
    changes = dict(after.charges)
    for zone, charge in (before.charges if before is not None else {}).items():
        changes[zone] = changes.get(zone, 0.0) - charge
    return {zone: change for zone, change in changes.items() if change}
