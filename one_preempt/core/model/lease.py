"""A lease: VMs of one owner that are served together, under terms admitted once (CCPE13 section 4.2; decision 0013)."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from one_preempt.core.model.reservation import Verdict
from one_preempt.core.model.resources import Resources


class LeaseType(StrEnum):
    """The four types of CCPE13 (section 4.2): what may be done to a running lease."""

    BE_CANCELLABLE = "BE-CANCELLABLE"
    BE_SUSPENDABLE = "BE-SUSPENDABLE"
    DC_MIGRATABLE = "DC-MIGRATABLE"
    DC_NON_PREEMPTABLE = "DC-NON-PREEMPTABLE"

    @property
    def preemptable(self) -> bool:
        """May a lease of this type be a victim at all?"""
        return self is not _NON_PREEMPTABLE

    @property
    def best_effort(self) -> bool:
        """Waits in the queue without a deadline."""
        return self in _BEST_EFFORT

    @property
    def returns(self) -> bool:
        """A preempted lease of this type is owed the rest of its time."""
        return self in _RETURNING

    @property
    def worth(self) -> int:
        """How valuable it is compared with the others: the more it is promised, the more (JPDC12 section 2.1)."""
        return _BY_WORTH.index(self)


_BY_WORTH = tuple(LeaseType)
_NON_PREEMPTABLE = LeaseType.DC_NON_PREEMPTABLE
_BEST_EFFORT = (LeaseType.BE_CANCELLABLE, LeaseType.BE_SUSPENDABLE)
_RETURNING = (LeaseType.BE_SUSPENDABLE, LeaseType.DC_MIGRATABLE)


class PreemptionMethod(StrEnum):
    """How one VM is taken off its host so that oned frees its capacity (decision 0020).

    SUSPEND alone frees nothing in oned's books: the VM stays on its host, at rest and locked by us, and another one
    runs in its room meanwhile.
    """

    SUSPEND = "suspend"
    STOP = "stop"
    UNDEPLOY = "undeploy"
    TERMINATE = "terminate"
    MIGRATE = "migrate"
    LIVE_MIGRATE = "live-migrate"


class LeaseTerms(Struct, frozen=True):
    """What a lease was promised. Times in seconds since the epoch; None = not asked for.

    `start_offset_s` is a START of the form "+hh:mm:ss", counted from the admission; `at_once` is START = "now":
    served at once or refused (SR11's immediate lease). START alone is an exact start, with a DEADLINE the earliest one.
    """

    type: LeaseType = LeaseType.DC_NON_PREEMPTABLE
    name: str = ""
    size: int = 1
    duration_s: int | None = None
    start_at_s: int | None = None
    start_offset_s: int | None = None
    deadline_at_s: int | None = None
    max_suspensions: int | None = None
    shutdown_ok: bool = False
    at_once: bool = False

    @property
    def asks_for_time(self) -> bool:
        """It wants more than its turn in the queue: a START, a DEADLINE, or to be served at once or not at all."""
        return self.at_once or (self.start_at_s, self.start_offset_s, self.deadline_at_s) != (None, None, None)


class LeaseState(StrEnum):
    """Where a lease stands; `lease_lifecycle` derives it from the states of its VMs and the ledger."""

    REFUSED = "refused"
    INCOMPLETE = "incomplete"
    WAITING = "waiting"
    STARTING = "starting"
    RUNNING = "running"
    LEAVING = "leaving"
    PREEMPTED = "preempted"
    RETURNING = "returning"
    PAUSED_BY_OWNER = "paused-by-owner"
    FAILED = "failed"
    ENDED = "ended"


class Lease(Struct, frozen=True):
    """One lease as the decision sees it. A VM without lease attributes is a lease of its own.

    `id` is the id of its oldest VM. `explicit` says that its owner wrote a LEASE attribute (it then waits on
    HOLD); `may_preempt` that a rule of the administrator lets it take room from others. `vm_ids` are the
    members that still exist, oldest first; `total` is what all of them take. `verdict`, `served_s`, `run_began_at_s`
    and `paused_vm_ids` are those of its record; `rights_name` is the entry of the rights that its owner has, and
    `max_share_percent` of the cloud is what all holders of that entry may reserve in advance at any instant.
    `objection` says why its LEASE attribute, as its owner has written it by now, does not count; "" where it does.
    """

    id: int
    terms: LeaseTerms
    uid: int
    gid: int
    vm_ids: tuple[int, ...]
    state: LeaseState
    arrived_at_s: int
    explicit: bool = False
    may_preempt: bool = False
    shielded_by_lock: bool = True
    preemptions: int = 0
    preempted_by: int | None = None
    last_preempted_at_s: int | None = None
    total: Resources = Resources(0, 0)
    rights_name: str = ""
    max_share_percent: int | None = None
    refusal_code: str = ""
    refusal_text: str = ""
    objection: str = ""
    verdict: Verdict = Verdict.NONE
    verdict_text: str = ""
    served_s: int = 0
    run_began_at_s: int | None = None
    paused_vm_ids: tuple[int, ...] = ()

    @property
    def preempts(self) -> bool:
        """It may take room from others.

        What may itself be preempted may not: two such leases would take turns. Nor may what is best effort because its
        wish for a time was turned down (decision 0066).
        """
        return self.may_preempt and not self.terms.type.preemptable and self.verdict is not Verdict.CONVERTED

    @property
    def remaining_s(self) -> int | None:
        """What is left of its duration beyond the present run, in seconds, at least 1; None without a duration."""
        return None if self.terms.duration_s is None else max(1, self.terms.duration_s - self.served_s)

    @property
    def foreseen_s(self) -> int | None:
        """For how long it runs once it starts; None where nobody knows: it has no duration, or has had it already."""
        return None if self.is_served else self.remaining_s

    @property
    def is_served(self) -> bool:
        """It has a duration, and has had all of it in runs that are over."""
        return self.terms.duration_s is not None and self.served_s >= self.terms.duration_s

    @property
    def expected_end_at_s(self) -> int | None:
        """When the present run ends if it takes all that is left; None where it does not run or nobody knows."""
        if self.run_began_at_s is None or self.remaining_s is None:
            return None
        return self.run_began_at_s + self.remaining_s

    @property
    def promised_deadline_at_s(self) -> int | None:
        """Its DEADLINE, where that was accepted: one that was turned down binds nobody."""
        deadline_at_s = self.terms.deadline_at_s
        return deadline_at_s if deadline_at_s is not None and self.verdict is Verdict.ACCEPTED else None

    def left_at(self, now_s: int) -> int | None:
        """What is left of its duration at an instant, in seconds, at least 1; None without a duration."""
        if self.remaining_s is None or self.run_began_at_s is None:
            return self.remaining_s
        return max(1, self.remaining_s - max(0, now_s - self.run_began_at_s))

    @property
    def label(self) -> str:
        """How people name it: the owner's NAME where there is one, else the VM."""
        return f"{self.terms.name} (lease {self.id})" if self.terms.name else f"VM {self.id}"
