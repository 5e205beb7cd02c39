"""The ledger in memory: for a dry run and for the simulator. The same semantics as the database, no disk."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from itertools import islice
from operator import attrgetter
from typing import TypeVar

from msgspec.structs import replace

from one_preempt.adapters.lease_store.intents import (
    RETRY_WINDOW_S,
    VICTIM_KINDS,
    VICTIM_WINDOW_S,
    accepted,
    answered,
    attempted,
    intents,
    newest_first,
)
from one_preempt.adapters.lease_store.memory_host_use import HostUseBook
from one_preempt.adapters.lease_store.memory_images import ImageBook
from one_preempt.adapters.lease_store.memory_indexes import ActionIndex, ById, LatestOverheads
from one_preempt.adapters.lease_store.memory_power import PowerBook
from one_preempt.core.model.host import HostCapacity
from one_preempt.core.model.image_transfer import HostImages, TransferRecord
from one_preempt.core.model.ledger import ActionRecord, LeaseRecord, Ledger, LedgerChanges, OpenPreemption, Transition
from one_preempt.core.model.outcome import Outcome
from one_preempt.core.model.plan import Action, Plan
from one_preempt.core.model.power_history import HostUseStay, HostUseTotal
from one_preempt.core.model.power_sequence import HostPowerStep, PowerOrder, PowerSequence
from one_preempt.core.model.power_standing import PowerStanding
from one_preempt.core.model.reservation import Reservation, VerdictGiven
from one_preempt.ports import CallResult

Id = TypeVar("Id", int, str)
Value = TypeVar("Value")
_state_reached = attrgetter("vm_id", "to_state")


class MemoryLeaseStore:
    """A `LeaseStore` that forgets when it is closed. Starts empty, or where `ledger` stands.

    What `load` costs depends on what lives, never on what is over. Two options make it fit for simulated years:

    `keep_log=False` forgets ended leases, closed actions and transitions at once, except failed actions inside the
    retry window: `leases(include_ended=True)`, `actions()` and `transitions()` then tell of the present alone.

    `live_views=True` lets `load` return the store's own dicts, which are not to be written to, in place of copies. Such
    a ledger shows the present of the store, not the instant of its reading. Rely on it until the next call that writes
    (`apply`, `record_plan`, `begin_attempt`, `record_result`, `prune`); who compares two ledgers, keeps one, or writes
    while iterating over one needs copies. Tuples and single records are values in either case.
    """

    def __init__(self, ledger: Ledger | None = None, *, keep_log: bool = True, live_views: bool = False) -> None:
        start = ledger or Ledger()
        self._keeps_log = keep_log
        self._live_views = live_views
        self._live: ById[int, LeaseRecord] = ById(start.leases)
        self._ended: dict[int, LeaseRecord] = {}
        self._preemptions = {opened.preemption.id: opened for opened in start.preemptions}
        self._actions = ActionIndex((*start.failed_actions, *start.open_actions.values()), keep_log)
        # Of how many live leases a VM is a member; the states of such VMs; the last transition of any VM.
        self._memberships = Counter(vm_id for record in start.leases.values() for vm_id in record.vm_ids)
        self._vm_states: ById[int, str] = ById(start.vm_states)
        self._last_transitions: dict[int, Transition] = {}
        self._transitions: list[Transition] = []
        self._host_capacities: ById[int, HostCapacity] = ById(start.host_capacities)
        self._victims_out_at_s = sorted(start.victims_last_hour)
        self._reservations: ById[int, tuple[Reservation, ...]] = ById(start.reservations)
        self._overheads = LatestOverheads(start.observed_overheads)
        self._power = PowerBook(start)
        self._images = ImageBook(start)
        self._host_use = HostUseBook()
        self._owner_use = start.owner_use
        self._paused = start.paused
        # Leases of which the record or the reservations changed since the last `load`; None: nobody has looked yet.
        self._changed: set[int] | None = None

    def acquire_writer(self) -> None:
        """Nobody else can write to this process's memory."""

    def release_writer(self) -> None:
        """Nobody else waits for it."""

    def load(self, now_s: int) -> Ledger:
        """What the cycle needs to know."""
        first_victim = bisect_left(self._victims_out_at_s, now_s - VICTIM_WINDOW_S)
        if not self._keeps_log:
            del self._victims_out_at_s[:first_victim]
            first_victim = 0
        changed, self._changed = self._changed, set()
        return Ledger(
            leases=self._handed_out(self._live.in_order()),
            preemptions=tuple(sorted(self._preemptions.values(), key=_age)) if self._preemptions else (),
            open_actions=self._handed_out(self._actions.open_in_order()),
            failed_actions=self._actions.failed_since(now_s - RETRY_WINDOW_S),
            vm_states=self._handed_out(self._vm_states.in_order()),
            host_capacities=self._handed_out(self._host_capacities.in_order()),
            victims_last_hour=tuple(self._victims_out_at_s[first_victim:]),
            paused=self._paused,
            reservations=self._handed_out(self._reservations.in_order()),
            observed_overheads=self._overheads.oldest_first(),
            power_sequences=self._power.sequences,
            power_orders=self._power.orders,
            power_asked_at_s=self._power.asked_at_s,
            owner_use=self._owner_use,
            image_transfers=self._images.transfers,
            held_images=self._images.held,
            changed_lease_ids=None if changed is None else frozenset(changed),
        )

    def apply(self, changes: LedgerChanges) -> None:
        """Write what reconciliation found out."""
        for lease in (*changes.ended_before, *changes.admitted, *changes.updated):
            self._write_lease(lease)
        self._actions.close(changes.closed_actions)
        if self._keeps_log:
            for transition in changes.transitions:
                self._transitions.append(transition)
                self._last_transitions[transition.vm_id] = transition
        states = dict(map(_state_reached, changes.transitions))
        for vm_id in states.keys() - self._memberships.keys():
            del states[vm_id]
        self._vm_states.put_all(states)
        for capacity in changes.host_capacities:
            self._host_capacities.put(capacity.host_id, capacity)
        if changes.observed_overheads:
            self._overheads.extend(changes.observed_overheads)
        self._power.write(changes.power_sequences)
        self._power.write_standings(changes.power_standings)
        if changes.owner_use is not None:
            self._owner_use = changes.owner_use
        self._images.write(changes.image_transfers, changes.held_images)

    def record_plan(self, plan: Plan) -> None:
        """Write the plan as intended. Advised preemptions are not remembered: nothing follows from them."""
        if plan.actions:
            self._actions.put_open(intents(plan.actions, self._actions.get, plan.made_at_s))
        for preemption in plan.preemptions:
            known = self._preemptions.get(preemption.id)
            opened_at_s = known.opened_at_s if known else plan.made_at_s
            self._preemptions[preemption.id] = OpenPreemption(preemption, opened_at_s)
        for end in plan.ended_preemptions:
            self._preemptions.pop(end.preemption_id, None)
        for booking in plan.bookings:
            self._book(booking.lease_id, booking.reservations)
        for given in plan.verdicts:
            self._give_verdict(given)
        self._power.record_plan(plan)

    def begin_attempt(self, action: Action, now_s: int) -> None:
        """Write that `action` is about to be issued."""
        self._actions.put(attempted(self._actions.known(action.id)))

    def record_result(self, action_id: str, result: CallResult, now_s: int) -> None:
        """Write what was answered."""
        record = self._actions.known(action_id)
        self._actions.put(answered(record, result, now_s))
        if record.preemption_id and record.kind in VICTIM_KINDS and result.outcome is Outcome.ACCEPTED:
            insort(self._victims_out_at_s, now_s)

    def record_accepted(self, actions: Sequence[Action], now_s: int) -> None:
        """Write that each of these actions, none of which sends a victim out, was issued once more, and accepted."""
        self._actions.put_open({action.id: accepted(self._actions.known(action.id), now_s) for action in actions})

    def begin_power_step(self, step: HostPowerStep) -> None:
        """Write that the call of the phase in which the host's sequence is, is about to be issued."""
        self._power.begin(step.host_id)

    def record_power_result(self, host_id: int, result: CallResult, now_s: int) -> None:
        """Write what was answered to it."""
        self._power.answered(host_id, result, now_s)

    def order_power(self, order: PowerOrder) -> None:
        """Leave an administrator's order for the daemon."""
        self._power.order(order)

    def power_sequences(self) -> Sequence[PowerSequence]:
        """What is known of the power of each host, by its id."""
        return tuple(self._power.sequences.values())

    def power_standings(self) -> Sequence[PowerStanding]:
        """What power control remembers of hosts that did not obey, by their names."""
        return self._power.standings

    def image_transfers(self) -> Mapping[str, TransferRecord]:
        """Orders for images that are under way or have failed, by their ids."""
        return self._images.transfers

    def held_images(self) -> Mapping[int, HostImages]:
        """The images on hosts, by host id."""
        return self._images.held

    def record_host_use(self, stays: Sequence[HostUseStay]) -> None:
        """Write what hosts do, over what was written of the same host from the same instant on."""
        self._host_use.write(stays)

    def lasting_host_use(self) -> Sequence[HostUseStay]:
        """The stays that have not ended, by host id."""
        return self._host_use.lasting()

    def host_use(self, from_s: int, until_s: int) -> Sequence[HostUseStay]:
        """The stays of which a part lies between two instants, by host id and beginning."""
        return self._host_use.between(from_s, until_s)

    def host_use_totals(self) -> Sequence[HostUseTotal]:
        """What is left of stays that were pruned, by their keys."""
        return self._host_use.totals()

    def is_paused(self) -> bool:
        """Whether preempting and power actions are stopped."""
        return self._paused

    def set_paused(self, paused: bool, now_s: int) -> None:
        """Stop or start preempting and power actions."""
        self._paused = paused

    def leases(self, include_ended: bool = False) -> Sequence[LeaseRecord]:
        """Recorded leases, oldest first."""
        chosen = (*self._live.values.values(), *(self._ended.values() if include_ended else ()))
        return tuple(sorted(chosen, key=lambda record: (record.arrived_at_s, record.id)))

    def find_lease(self, lease_or_vm_id: int) -> LeaseRecord | None:
        """The recorded lease of that id, or else the latest one with the VM of that id, ended or not."""
        newest_first = self.leases(include_ended=True)[::-1]
        named = (record for record in newest_first if record.id == lease_or_vm_id)
        with_vm = (record for record in newest_first if lease_or_vm_id in record.vm_ids)
        return next(named, None) or next(with_vm, None)

    def actions(self, lease_id: int | None = None, limit: int = 200) -> Sequence[ActionRecord]:
        """The log of actions, newest first: each time of a step that became necessary more than once."""
        latest, past = (
            [record for record in records if lease_id in (None, record.lease_id)]
            for records in (self._actions, self._actions.past_newest_first())
        )
        return newest_first(latest, past)[:limit]

    def transitions(self, vm_id: int | None = None, limit: int = 200) -> Sequence[Transition]:
        """The log of observed transitions, newest first."""
        chosen = (record for record in reversed(self._transitions) if vm_id in (None, record.vm_id))
        return tuple(islice(chosen, limit))

    def prune(self, before_s: int, existing_host_ids: Collection[int] | None = None) -> bool:
        """Forget what was over before `before_s`, and capacities of other hosts; always all of it."""
        self._ended = {i: r for i, r in self._ended.items() if r.ended_at_s is None or r.ended_at_s >= before_s}
        self._actions.prune(before_s)
        self._transitions = [record for record in self._transitions if record.observed_at_s >= before_s]
        members = self._memberships.keys() | {vm_id for record in self._ended.values() for vm_id in record.vm_ids}
        self._last_transitions = {
            vm_id: last
            for vm_id, last in self._last_transitions.items()
            if last.observed_at_s >= before_s or vm_id in members
        }
        self._victims_out_at_s = [at for at in self._victims_out_at_s if at >= before_s]
        self._overheads = LatestOverheads(
            tuple([one for one in self._overheads.oldest_first() if one.observed_at_s >= before_s])
        )
        self._prune_reservations(before_s)
        self._host_use.prune(before_s)
        self._power.prune(before_s)
        self._owner_use = tuple([one for one in self._owner_use if one.measured_at_s >= before_s])
        self._images.prune(before_s)
        if existing_host_ids is not None:
            for host_id in self._host_capacities.values.keys() - existing_host_ids:
                self._host_capacities.drop(host_id)
        return True

    def close(self) -> None:
        """Nothing to let go of."""

    def _handed_out(self, values: dict[Id, Value]) -> Mapping[Id, Value]:
        return values if self._live_views else values.copy()

    def _write_lease(self, record: LeaseRecord) -> None:
        self._note_change(record.id)
        before = self._live.values.get(record.id)
        if record.ended_at_s is None:
            self._ended.pop(record.id, None)
            self._live.put(record.id, record)
        else:
            self._live.drop(record.id)
            self._reservations.drop(record.id)
            if self._keeps_log:
                self._ended[record.id] = record
        left = before.vm_ids if before else ()
        joined = record.vm_ids if record.ended_at_s is None else ()
        if left != joined:
            self._change_members(left, joined)

    def _change_members(self, left: Sequence[int], joined: Sequence[int]) -> None:
        members, states, known = self._memberships, self._vm_states.values, self._last_transitions
        members.update(joined)
        if known:
            new = frozenset(joined).difference(left)
            self._vm_states.put_all(
                {vm_id: known[vm_id].to_state for vm_id in joined if vm_id in new and vm_id in known}
            )
        for vm_id in left:
            others = members.pop(vm_id) - 1
            if others:
                members[vm_id] = others
            else:
                states.pop(vm_id, None)

    def _note_change(self, lease_id: int) -> None:
        if self._changed is not None:
            self._changed.add(lease_id)

    def _give_verdict(self, given: VerdictGiven) -> None:
        self._note_change(given.lease_id)
        for records in (self._live.values, self._ended):
            if given.lease_id in records:
                record = records[given.lease_id]
                records[given.lease_id] = replace(record, verdict=given.verdict, verdict_text=given.text)

    def _book(self, lease_id: int, promised: tuple[Reservation, ...]) -> None:
        self._note_change(lease_id)
        if promised:
            self._reservations.put(lease_id, promised)
        else:
            self._reservations.drop(lease_id)

    def _prune_reservations(self, before_s: int) -> None:
        over = [
            (lease_id, tuple(one for one in promised if one.end_at_s is None or one.end_at_s >= before_s))
            for lease_id, promised in self._reservations.values.items()
            if lease_id not in self._live.values
        ]
        for lease_id, left in over:
            self._book(lease_id, left)


def _age(opened: OpenPreemption) -> tuple[int, str]:
    return opened.opened_at_s, opened.preemption.id
