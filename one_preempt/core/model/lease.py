"""A lease: VMs of one owner that are served together, under terms admitted once (CCPE13, DESIGN 5)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from one_preempt.core.model.resources import Resources


class LeaseType(StrEnum):
    """The four types of CCPE13 (ALGORITHMS 1.1): what may be done to a running lease."""

    BE_CANCELLABLE = "BE-CANCELLABLE"
    BE_SUSPENDABLE = "BE-SUSPENDABLE"
    DC_MIGRATABLE = "DC-MIGRATABLE"
    DC_NON_PREEMPTABLE = "DC-NON-PREEMPTABLE"

    @property
    def preemptable(self) -> bool:
        """May a lease of this type be a victim at all?"""
        return self is not LeaseType.DC_NON_PREEMPTABLE

    @property
    def best_effort(self) -> bool:
        """Waits in the queue without a deadline."""
        return self in (LeaseType.BE_CANCELLABLE, LeaseType.BE_SUSPENDABLE)

    @property
    def returns(self) -> bool:
        """A preempted lease of this type is owed the rest of its time."""
        return self in (LeaseType.BE_SUSPENDABLE, LeaseType.DC_MIGRATABLE)


class PreemptionMethod(StrEnum):
    """How one VM is taken off its host so that oned frees its capacity (FACTS 3.3)."""

    STOP = "stop"
    UNDEPLOY = "undeploy"
    TERMINATE = "terminate"
    MIGRATE = "migrate"
    LIVE_MIGRATE = "live-migrate"


@dataclass(frozen=True, slots=True)
class LeaseTerms:
    """What a lease was promised. Times in seconds since the epoch; None = not asked for.

    `start_offset_s` is a START of the form "+hh:mm:ss", counted from the admission.
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


@dataclass(frozen=True, slots=True)
class Lease:
    """One lease as the decision sees it. A VM without lease attributes is a lease of its own.

    `id` is the id of its oldest VM. `explicit` says that its owner wrote a LEASE attribute (it then waits on
    HOLD); `may_preempt` that a rule of the administrator lets it take room from others. `vm_ids` are the
    members that still exist, oldest first; `total` is what all of them take.
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
    running_since_s: int | None = None
    total: Resources = Resources(0, 0)
    refusal_code: str = ""
    refusal_text: str = ""

    @property
    def preempts(self) -> bool:
        """It may take room from others. What may itself be preempted may not: two such leases would take turns."""
        return self.may_preempt and not self.terms.type.preemptable

    @property
    def label(self) -> str:
        """How people name it: the owner's NAME where there is one, else the VM."""
        return f"{self.terms.name} (lease {self.id})" if self.terms.name else f"VM {self.id}"
