"""The ports: all that the scheduling cycle knows of the world outside, on one page.

Adapters implement these Protocols; `composition` picks them; a contract suite in tests/ runs over every
implementation. Times are seconds since the epoch.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from one_preempt.core.model.held_room import HeldRoom
from one_preempt.core.model.image_transfer import HostImages, ImageOrder, TransferRecord, TransferReport
from one_preempt.core.model.ledger import ActionRecord, LeaseRecord, Ledger, LedgerChanges, Transition
from one_preempt.core.model.outcome import Outcome
from one_preempt.core.model.plan import Action, Plan
from one_preempt.core.model.pool_snapshot import PoolSnapshot, RaftState
from one_preempt.core.model.power import PowerOutcome, PowerReading
from one_preempt.core.model.power_history import HostUseStay, HostUseTotal
from one_preempt.core.model.power_sequence import HostPowerStep, PowerOrder, PowerReport, PowerSequence
from one_preempt.core.model.power_standing import PowerStanding, PowerStandings
from one_preempt.core.model.virtual_machine import VirtualMachine
from one_preempt.errors import OnePreemptError

CHANGED_HANDS = "CHANGED_HANDS"
"""The `CallResult.error_code` where the object was not as expected just before a call, so nothing was called."""


class CloudUnavailable(OnePreemptError):
    """The endpoint gave no usable answer; the message says what was asked, where, and what to look at."""


class NothingSent(CloudUnavailable):
    """No connection to the endpoint came about, so nothing of the call can be carried out, now or later."""


class AnotherDaemonWrites(OnePreemptError):
    """The database has another writer, which is the one that acts; the message says which, as far as is known."""


class VmNotTold(OnePreemptError):
    """The endpoint answers, but not about this VM: it refused to, or the document cannot be read.

    That is the VM's own matter, and says nothing of others. `code` is the name of oned's code, or UNREADABLE.
    """

    def __init__(self, text: str, code: str) -> None:
        super().__init__(text)
        self.code = code


class Clock(Protocol):
    """Where "now" comes from."""

    def now_s(self) -> int:
        """Seconds since the epoch."""


class PoolReader(Protocol):
    """Observes the cloud. Raises `CloudUnavailable`."""

    def read(self) -> PoolSnapshot:
        """All pools at one instant."""

    def read_raft_state(self) -> RaftState:
        """Whether this front-end is the one to act, asked afresh."""

    def read_vm(self, vm_id: int) -> VirtualMachine | None:
        """One VM afresh, or None where it does not exist any more; raises `VmNotTold` where it alone cannot be told."""


class CallResult(Struct, frozen=True):
    """What oned answered to one action. `error_code` is the name of oned's code (ACTION, AUTHORIZATION, LOCKED,
    ...), NO_ANSWER where none came, CHANGED_HANDS where the VM was not in an expected state, or UNREADABLE where what
    oned tells of it alone cannot be read. `retry_at_s`: it makes no sense before, where whoever answered said so."""

    outcome: Outcome
    error_code: str = ""
    error_text: str = ""
    retry_at_s: int | None = None


class Enactor(Protocol):
    """Carries out one action; never raises for a refusal. A call is sent at most once per invocation."""

    def perform(self, action: Action) -> CallResult:
        """Re-read the VM, check `expected_states`, call, and tell what was answered."""


class GangIssuer(Protocol):
    """Issues the actions of a gang in one go, where nothing can come between them."""

    def issue(self, actions: Sequence[Action], now_s: int) -> CallResult | None:
        """Carry all of them out and write down that each was issued and answered; the answer, which all were given.

        None, and nothing is done, where they are to be issued one by one.
        """


class HostEnactor(Protocol):
    """Carries out the steps of a power sequence at oned; never raises for a refusal."""

    def perform(self, step: HostPowerStep) -> CallResult:
        """Re-read the host, check what `step` expects, and set the host's status.

        A step for power control is only checked: ACCEPTED says that the host is as expected.
        """


class LeaseStore(Protocol):
    """The ledger on disk. Every method is one transaction; a process may die between any two of them.

    What it returns are values: nothing written later changes them. Only `MemoryLeaseStore` with `live_views` hands out
    ledgers that hold until the next write alone.
    """

    def acquire_writer(self) -> None:
        """Become the one that writes, or keep being it; raises `AnotherDaemonWrites` where another one is."""

    def release_writer(self) -> None:
        """Let another one write."""

    def load(self, now_s: int) -> Ledger:
        """What the cycle needs to know. Leases, reservations, open actions, states and capacities by ascending id.

        Of each kind of operation and datastore the latest 64 observations, oldest first. What owners have used by
        ascending ids of groups, then of users.
        """

    def apply(self, changes: LedgerChanges) -> None:
        """Write what reconciliation found out. The reservations of a lease go with its end.

        What is clear of `power_standings` is forgotten.
        """

    def record_plan(self, plan: Plan) -> None:
        """Write the plan as intended: new actions, opened and ended preemptions, bookings and verdicts.

        Known action ids keep their row. A booking stands until the next one of its lease, the lease's end, or, where no
        lease of that id is recorded, until it is over and pruned: who books for a VM without a record books it out.
        A verdict on a lease that is not recorded is passed over.
        """

    def begin_attempt(self, action: Action, now_s: int) -> None:
        """Write that `action` is about to be issued (attempts + 1, outcome cleared)."""

    def record_result(self, action_id: str, result: CallResult, now_s: int) -> None:
        """Write what was answered."""

    def begin_power_step(self, step: HostPowerStep) -> None:
        """Write that the call of the phase in which the host's sequence is, is about to be issued."""

    def record_power_result(self, host_id: int, result: CallResult, now_s: int) -> None:
        """Write what was answered to it; a host without a sequence is passed over."""

    def order_power(self, order: PowerOrder) -> None:
        """Leave an administrator's order for the daemon. It stands until a plan has settled it."""

    def power_sequences(self) -> Sequence[PowerSequence]:
        """What is known of the power of each host, by its id."""

    def power_standings(self) -> Sequence[PowerStanding]:
        """What power control remembers of hosts that did not obey, by their names."""

    def image_transfers(self) -> Mapping[str, TransferRecord]:
        """Orders for images that are under way or have failed, by their ids."""

    def held_images(self) -> Mapping[int, HostImages]:
        """The images on hosts, by host id; without hosts that hold none."""

    def record_host_use(self, stays: Sequence[HostUseStay]) -> None:
        """Write what hosts do, over what was written of the same host from the same instant on."""

    def lasting_host_use(self) -> Sequence[HostUseStay]:
        """The stays that have not ended, by host id."""

    def host_use(self, from_s: int, until_s: int) -> Sequence[HostUseStay]:
        """The stays of which a part lies between two instants, by host id and beginning."""

    def host_use_totals(self) -> Sequence[HostUseTotal]:
        """What is left of stays that were pruned, by their keys."""

    def is_paused(self) -> bool:
        """Whether preempting and power actions are stopped, asked afresh."""

    def set_paused(self, paused: bool, now_s: int) -> None:
        """Stop or start preempting and power actions."""

    def leases(self, include_ended: bool = False) -> Sequence[LeaseRecord]:
        """Recorded leases, oldest first."""

    def find_lease(self, lease_or_vm_id: int) -> LeaseRecord | None:
        """The recorded lease of that id, or else the latest one with the VM of that id, ended or not."""

    def actions(self, lease_id: int | None = None, limit: int = 200) -> Sequence[ActionRecord]:
        """The log of actions, newest first: each time of a step that became necessary more than once."""

    def transitions(self, vm_id: int | None = None, limit: int = 200) -> Sequence[Transition]:
        """The log of observed transitions, newest first."""

    def prune(self, before_s: int, existing_host_ids: Collection[int] | None = None) -> bool:
        """Forget what was over before `before_s`, or where that is much the oldest part of it; whether it was all.

        Nothing live or open goes, and no reservation of a live lease; observed overheads go by their age. Stays of host
        use are added up before they go. Power standings go once they have not mattered for so long, and what owners
        have used where it was not measured since. Capacities of hosts that do not exist any more go at once, whatever
        their age; None: it is not known which hosts there are, and all stay.
        """

    def close(self) -> None:
        """Let go of the database."""


class HeldCapacity(Protocol):
    """Tells those who place without the daemon which room is promised."""

    def replace(self, rooms: Sequence[HeldRoom]) -> None:
        """From now on exactly `rooms` are promised; raises `OnePreemptError` where that cannot be made known."""


class EventSource(Protocol):
    """Hears of state changes between two readings. What it hears may be incomplete, never binding."""

    def take_instants(self) -> Mapping[tuple[int, str], int]:
        """When VMs were last heard to enter a state, by (VM id, state name), since the last call."""


class PowerCalls(Protocol):
    """Puts orders and questions to power control without waiting for it."""

    def is_busy(self, host_id: int) -> bool:
        """An order was put for this host, or a question that is under way, and the answer was not taken yet."""

    def put(self, step: HostPowerStep, now_s: int) -> None:
        """Begin it; not to be called while the host is busy. It takes the place of a question that was not begun."""

    def take_reports(self) -> Sequence[PowerReport]:
        """What was answered since the last call, by host id."""

    def drop(self) -> None:
        """Begin nothing of what was put and not begun yet, end what is under way where it can be, forget the answers.

        Somebody else may put orders to the same hosts from now on.
        """


class PowerControl(Protocol):
    """Switches hosts on and off. Never raises for what a host, a network or a configuration does.

    Orders to different hosts may be given from several threads; how many at once is the caller's choice.
    """

    def switch_on(self, host: str) -> PowerOutcome:
        """Order the host named `host` in OpenNebula to start. Its boot takes longer than this call."""

    def switch_off(self, host: str, hard: bool) -> PowerOutcome:
        """Order its operating system to shut down, or, where `hard`, take its power away at once."""

    def status(self, host: str) -> PowerReading:
        """Whether it has power, asked afresh."""


class PowerMemory(Protocol):
    """What power control remembers of failures; it is told what it cannot see, and survives restarts by it."""

    def standings(self) -> PowerStandings:
        """What is remembered now; asked between calls, which change it."""

    def remember(self, standings: PowerStandings) -> None:
        """Take over what was remembered, in place of all that is."""

    def forgive(self, host: str) -> None:
        """An administrator orders the host named so on: whatever failed is tried again at once."""

    def came_up(self, host: str) -> None:
        """OpenNebula monitors the host named so."""

    def did_not_come_up(self, host: str) -> PowerOutcome:
        """It has power and is not monitored in time; the answer tells when an order to start makes sense again."""


class ImageTransfer(Protocol):
    """Brings images to hosts and removes them, without waiting for it. Never raises for what a host or a network does.

    Whoever it copies with, what it has brought is found by the driver that makes VMs' disks on that host.
    """

    def is_busy(self, order_id: str) -> bool:
        """This process has put an order of this id, and its report was not taken yet."""

    def put(self, order: ImageOrder, now_s: int) -> None:
        """Begin it; not to be called while an order of its id is busy.

        Whatever an earlier process left of the same order is taken up, or begun anew: it may come again after it was
        done, and then is done at once. How many are under way at a time is whoever's choice who puts them.
        """

    def take_reports(self) -> Sequence[TransferReport]:
        """What became of orders since the last call, each that was put once, in the order in which they ended."""

    def take_holdings(self) -> Sequence[HostImages]:
        """The pools of the hosts that were looked at since the last call; nothing where none can be looked at.

        Each has all that the host holds of images that oned has, and nothing that is not complete.
        """

    def drop(self) -> None:
        """Begin nothing of what was put and not begun yet, end what is under way where it can be, forget the reports.

        Somebody else may put orders for the same hosts from now on.
        """
