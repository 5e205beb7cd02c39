"""A plan: what is to be done, in which order, and why. A value; nothing in it has happened yet."""

from __future__ import annotations

from enum import IntEnum, StrEnum
from typing import TYPE_CHECKING

from msgspec import Struct

from one_preempt.core.model.lease import PreemptionMethod
from one_preempt.core.model.reservation import Booking, VerdictGiven

if TYPE_CHECKING:
    from one_preempt.core.model.image_transfer import ImageOrder
    from one_preempt.core.model.power_sequence import HostPowerStep, PowerSequence


class ActionKind(StrEnum):
    """What is asked of oned. HOLD, LOCK, UNLOCK and MESSAGE change no capacity."""

    DEPLOY = "deploy"
    STOP = "stop"
    UNDEPLOY = "undeploy"
    TERMINATE = "terminate"
    MIGRATE = "migrate"
    LIVE_MIGRATE = "live-migrate"
    SUSPEND = "suspend"
    LOCK = "lock"
    UNLOCK = "unlock"
    RESUME = "resume"
    HOLD = "hold"
    MESSAGE = "message"

    @property
    def host_word(self) -> str:
        """`to` where the host of the action is the one that the VM goes to from another, else `on`."""
        return "to" if self in (ActionKind.MIGRATE, ActionKind.LIVE_MIGRATE) else "on"


METHOD_ACTIONS = {
    PreemptionMethod.SUSPEND: ActionKind.SUSPEND,
    PreemptionMethod.STOP: ActionKind.STOP,
    PreemptionMethod.UNDEPLOY: ActionKind.UNDEPLOY,
    PreemptionMethod.TERMINATE: ActionKind.TERMINATE,
    PreemptionMethod.MIGRATE: ActionKind.MIGRATE,
    PreemptionMethod.LIVE_MIGRATE: ActionKind.LIVE_MIGRATE,
}


class MigrationType(IntEnum):
    """How a cold migration stops the guest: the last argument of one.vm.migrate."""

    SAVE = 0
    POWEROFF = 1
    POWEROFF_HARD = 2


class Reason(Struct, frozen=True):
    """Why: a stable code for programs and one sentence for people."""

    code: str
    text: str


class Action(Struct, frozen=True):
    """One step. `id` is the same in every cycle that still wants the step, so that it is issued once.

    `after` names the actions that must have been observed as done before. `expected_states` are the names
    (`VirtualMachine.state_name`) in which the VM must be found just before the call, else it changed hands
    and the step is dropped; so it is when `expected_uid` is given and the VM has another owner. `nics` are
    (NIC id, network id) of automatic NICs. `attributes` are what a MESSAGE writes into the user template, as
    (name, text) pairs of our own attributes only. `migration_type` counts for MIGRATE. `lock_owner_uid` is who we are
    at oned: LOCK is dropped where another's lock is on the VM, UNLOCK where the lock is not one that we set
    (`VirtualMachine.is_locked_by_scheduler`).
    """

    id: str
    kind: ActionKind
    vm_id: int
    lease_id: int
    reason: Reason
    host_id: int | None = None
    datastore_id: int | None = None
    nics: tuple[tuple[int, int], ...] = ()
    after: tuple[str, ...] = ()
    preemption_id: str | None = None
    expected_states: tuple[str, ...] = ()
    expected_uid: int | None = None
    attributes: tuple[tuple[str, str], ...] = ()
    enforce_capacity: bool = True
    migration_type: MigrationType = MigrationType.SAVE
    lock_owner_uid: int | None = None


class Placement(Struct, frozen=True):
    """Where one VM goes. `datastore_id` None lets oned choose."""

    vm_id: int
    host_id: int
    datastore_id: int | None = None
    nics: tuple[tuple[int, int], ...] = ()


class Victim(Struct, frozen=True):
    """One VM that leaves its host for a preemptor; `target_host_id` for the migrations.

    `sequence` is oned's number of the stay on a host that ends by this; None in ledgers of before it was written down.
    """

    vm_id: int
    lease_id: int
    host_id: int
    method: PreemptionMethod
    target_host_id: int | None = None
    sequence: int | None = None


class CandidateSet(Struct, frozen=True):
    """One set of leases whose leaving makes room; for the explanation. `frees_vms` counts VMs freed."""

    lease_ids: tuple[int, ...]
    overhead_ms: int
    frees_vms: int


class Preemption(Struct, frozen=True):
    """One decided preemption (CCPE13 section 6): who preempts whom, where the preemptor goes, what it costs.

    `optimal` says the choice is proven best for the policy; else `bound_ms` is a proven lower bound on the
    overhead of any admissible set. `considered` holds the candidate sets looked at, cheapest first, cut to a
    readable number; `candidate_count` counts all of them.
    """

    id: str
    preemptor_lease_id: int
    victims: tuple[Victim, ...]
    placements: tuple[Placement, ...]
    policy: str
    overhead_ms: int
    optimal: bool
    bound_ms: int
    decided_at_s: int
    considered: tuple[CandidateSet, ...] = ()
    candidate_count: int = 0
    median_overhead_ms: int | None = None

    @property
    def victim_lease_ids(self) -> tuple[int, ...]:
        """The leases preempted, ascending."""
        return tuple(sorted({victim.lease_id for victim in self.victims}))


class Refusal(Struct, frozen=True):
    """VMs that get nothing this time, and why."""

    vm_ids: tuple[int, ...]
    lease_id: int
    reason: Reason


class PreemptionEnd(Struct, frozen=True):
    """A preemption under way is over: `fulfilled`, or given up with the reason."""

    preemption_id: str
    fulfilled: bool
    reason: Reason


class Plan(Struct, frozen=True):
    """All that a cycle decided.

    `actions` are ordered; those of earlier plans that are still wanted stand here again under their id.
    `advised` are the preemptions that `preemption: advise` keeps from being acted on, with the actions they
    would take. `bookings` are the reservations of leases for which they changed, `verdicts` what was said to wishes for
    one. `wake_at_s` is when the next decision is due though nothing else happens, or None.
    `power_sequences` are those that are begun or taken on, as they are to be written, `power_steps` the calls for them,
    `advised_power_steps` the first calls for those that `power.mode: advise` keeps from being begun.
    `power_asked_at_s`: the energy policy was asked its periodic question now. `settled_power_orders`: the hosts
    of which an administrator's order was taken up or came to nothing.
    `image_orders` are the transfers of images that are to be under way now, and the removals that are due, in the order
    in which they begin; those of earlier plans that are still wanted stand here again under their id.
    `advised_image_orders` are those that `image_staging.mode: advise` keeps from being given. What begins later stands
    in neither: `wake_at_s` is not after the first of them.
    """

    made_at_s: int
    policy: str
    actions: tuple[Action, ...] = ()
    preemptions: tuple[Preemption, ...] = ()
    ended_preemptions: tuple[PreemptionEnd, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    advised: tuple[Preemption, ...] = ()
    advised_actions: tuple[Action, ...] = ()
    bookings: tuple[Booking, ...] = ()
    verdicts: tuple[VerdictGiven, ...] = ()
    wake_at_s: int | None = None
    power_sequences: tuple[PowerSequence, ...] = ()
    power_steps: tuple[HostPowerStep, ...] = ()
    advised_power_steps: tuple[HostPowerStep, ...] = ()
    power_asked_at_s: int | None = None
    settled_power_orders: tuple[int, ...] = ()
    image_orders: tuple[ImageOrder, ...] = ()
    advised_image_orders: tuple[ImageOrder, ...] = ()

    @property
    def switches_hosts(self) -> bool:
        """It does more to hosts' power than look at it."""
        return any(step.kind.switches for step in self.power_steps)
