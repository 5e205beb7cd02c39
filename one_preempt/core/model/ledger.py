"""What the scheduler itself knows and must not forget: admitted leases, open preemptions, intents, outcomes.

The ledger is the store's content as a value. `reconcile` holds it against what was observed and returns
`LedgerChanges`; the cycle writes them. Outcomes of actions are appended one by one, as they happen.
"""

from __future__ import annotations

from collections.abc import Mapping
from operator import attrgetter
from typing import TYPE_CHECKING

from msgspec import Struct, field

from one_preempt.core.model.host import HostCapacity
from one_preempt.core.model.lease import LeaseTerms
from one_preempt.core.model.observed_overhead import ObservedOverhead
from one_preempt.core.model.outcome import Outcome
from one_preempt.core.model.owner_use import OwnerUse
from one_preempt.core.model.plan import ActionKind, Preemption
from one_preempt.core.model.reservation import Reservation, Verdict

if TYPE_CHECKING:
    from one_preempt.core.model.image_transfer import HostImages, TransferRecord
    from one_preempt.core.model.power_sequence import PowerOrder, PowerSequence
    from one_preempt.core.model.power_standing import PowerStanding


class LeaseRecord(Struct, frozen=True):
    """One admitted lease. Written once at admission; counters and the end are updated later.

    Only leases with terms of their own (a LEASE attribute or a rule) and privileged requests are recorded.
    `verdict` is what was said to its START or DEADLINE, `verdict_text` the sentence for its owner. `served_s` is how
    long it ran before its present run, which began at `run_began_at_s` (None: it does not run). `paused_vm_ids` are
    those of its VMs that their owner has paused or taken off their hosts, in ascending order; where we sent one of them
    out meanwhile, it is paused as before, and nobody but its owner has it start again.
    """

    id: int
    terms: LeaseTerms
    uid: int
    gid: int
    vm_ids: tuple[int, ...]
    explicit: bool
    may_preempt: bool
    admitted_at_s: int
    arrived_at_s: int
    rule: str = ""
    preemptions: int = 0
    preempted_by: int | None = None
    last_preempted_at_s: int | None = None
    ended_at_s: int | None = None
    shielded_by_lock: bool = True
    verdict: Verdict = Verdict.NONE
    verdict_text: str = ""
    served_s: int = 0
    run_began_at_s: int | None = None
    paused_vm_ids: tuple[int, ...] = ()


class ActionRecord(Struct, frozen=True):
    """One intent and what became of it. `outcome` None: intended, and then nothing was written.

    `closed_at_s` is set once the action was observed as done (`succeeded` True) or as failed (False).
    `attempts` counts the times it was issued.
    """

    id: str
    kind: ActionKind
    vm_id: int
    lease_id: int
    preemption_id: str | None
    host_id: int | None
    datastore_id: int | None
    reason_code: str
    reason_text: str
    intended_at_s: int
    attempts: int = 0
    outcome: Outcome | None = None
    outcome_at_s: int | None = None
    error_code: str = ""
    error_text: str = ""
    closed_at_s: int | None = None
    succeeded: bool | None = None


class OpenPreemption(Struct, frozen=True):
    """A preemption that is not over, as stored."""

    preemption: Preemption
    opened_at_s: int


class Transition(Struct, frozen=True):
    """One observed change of a VM's state, for the log and for learning overheads."""

    vm_id: int
    lease_id: int
    observed_at_s: int
    from_state: str
    to_state: str
    host_id: int | None
    memory_mib: int


class Ledger(Struct, frozen=True):
    """The store's content that a cycle needs. `vm_states`: last logged state name of VMs of recorded leases.

    `open_actions`: not yet closed. `failed_actions`: closed as failed and still inside the retry window.
    `victims_last_hour` are the instants at which victims were sent out during the last hour. `reservations` are those
    of each lease in the order of time; `observed_overheads` the latest of each kind, oldest first. `power_sequences`
    and `power_orders` are by host id; at `power_asked_at_s` the energy policy was asked its periodic question last.
    `owner_use` is what each owner had used when that was measured last, by ascending ids of groups and users.
    `image_transfers` are orders under way and such as failed, by their ids; `held_images` the images on hosts, by host
    id, what was brought there and is done among them.

    `changed_lease_ids` are the leases of which the record or the reservations came, went, or are another object than in
    the ledger loaded before this one from the same store; all others are the very objects of that one. None: not known,
    each may have changed.
    """

    leases: Mapping[int, LeaseRecord] = field(default_factory=dict)
    preemptions: tuple[OpenPreemption, ...] = ()
    open_actions: Mapping[str, ActionRecord] = field(default_factory=dict)
    failed_actions: tuple[ActionRecord, ...] = ()
    vm_states: Mapping[int, str] = field(default_factory=dict)
    host_capacities: Mapping[int, HostCapacity] = field(default_factory=dict)
    victims_last_hour: tuple[int, ...] = ()
    paused: bool = False
    reservations: Mapping[int, tuple[Reservation, ...]] = field(default_factory=dict)
    observed_overheads: tuple[ObservedOverhead, ...] = ()
    power_sequences: Mapping[int, PowerSequence] = field(default_factory=dict)
    power_orders: Mapping[int, PowerOrder] = field(default_factory=dict)
    power_asked_at_s: int | None = None
    owner_use: tuple[OwnerUse, ...] = ()
    image_transfers: Mapping[str, TransferRecord] = field(default_factory=dict)
    held_images: Mapping[int, HostImages] = field(default_factory=dict)
    changed_lease_ids: frozenset[int] | None = None

    def __eq__(self, other: object) -> bool:
        """Of the same content, whatever changed before either was read."""
        return isinstance(other, Ledger) and _content(self) == _content(other)

    __hash__ = None  # type: ignore[assignment]


_content = attrgetter(*(name for name in Ledger.__struct_fields__ if name != "changed_lease_ids"))


class LedgerChanges(Struct, frozen=True):
    """What one reconciliation found out; written in one transaction before anything is decided.

    `ended_before` are leases whose ids others have by now: they are written first, and one that is admitted may have
    the id of one of them. `owner_use` is that of all owners, in place of what was written before; None: not measured.
    `image_transfers` replace those of the same ids, and what is DONE is no part of the ledger any more; `held_images`
    replace those of the same hosts, and of a host that holds none nothing is kept.
    """

    admitted: tuple[LeaseRecord, ...] = ()
    updated: tuple[LeaseRecord, ...] = ()
    closed_actions: tuple[ActionRecord, ...] = ()
    transitions: tuple[Transition, ...] = ()
    host_capacities: tuple[HostCapacity, ...] = ()
    observed_overheads: tuple[ObservedOverhead, ...] = ()
    power_sequences: tuple[PowerSequence, ...] = ()
    power_standings: tuple[PowerStanding, ...] = ()
    ended_before: tuple[LeaseRecord, ...] = ()
    owner_use: tuple[OwnerUse, ...] | None = None
    image_transfers: tuple[TransferRecord, ...] = ()
    held_images: tuple[HostImages, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Nothing to write."""
        return not (
            self.admitted
            or self.updated
            or self.closed_actions
            or self.transitions
            or self.host_capacities
            or self.observed_overheads
            or self.power_sequences
            or self.power_standings
            or self.ended_before
            or self.owner_use is not None
            or self.image_transfers
            or self.held_images
        )
