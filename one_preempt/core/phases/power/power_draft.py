"""What of host power has been decided so far in this cycle, within the bounds that the administrator set."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from one_preempt.core.availability.gang_demand import BoolArray
from one_preempt.core.energy.bridges import bridge_hosts
from one_preempt.core.energy.policy import TimedWork
from one_preempt.core.energy.power_model import most_economical_first
from one_preempt.core.energy.power_rules import PowerMode, PowerRules
from one_preempt.core.host_power.hosts_to_come import hosts_to_come
from one_preempt.core.host_power.phase_transitions import entered, given_up, to_be_woken
from one_preempt.core.host_power.power_columns import can_turn_back
from one_preempt.core.memory.decision_memory import DecisionMemory
from one_preempt.core.model.cluster_state import ClusterState, IntArray
from one_preempt.core.model.host import Host, HostState
from one_preempt.core.model.plan import Plan
from one_preempt.core.model.power_sequence import (
    HostPowerStep,
    PowerPhase,
    PowerSequence,
    PowerStepKind,
)
from one_preempt.core.phases.power.fit_answers import FitAnswers

ENABLED_STATES = (HostState.MONITORED, HostState.MONITORING_MONITORED)
# So long after the end of its boot, with the look at its power before, a host is enabled and seen at the latest.
SEEN_WITHIN_S = 60


class Grant(Struct, frozen=True, eq=False):
    """What a lease with a wish for a time, or a promise, may count on: these rows of hosts that sleep, shape (H,).

    Where there are `only` rows, shape (H,), those and no others, on or not. What `is_bound` is woken as soon as it is
    promised. `to_empty`: so many hosts are to be emptied, as was said when the lease arrived.
    """

    asleep: BoolArray
    only: BoolArray | None = None
    is_bound: bool = False
    to_empty: int = 0


class PowerDraft:
    """The sequences of all hosts as they will be, and why hosts are left alone.

    `asleep`, shape (H,), are the rows of hosts that sleep and can be woken, `coming`, shape (H,), those of hosts on
    their way up as the state has it. `grants` are by lease. `until_then`: rows that are to sleep though somebody
    is to start there later. `due_soon`: rows that sleep, were promised, and must be woken within a boot.
    `receiving`: rows of hosts to which images come now, or so soon that no sleep before it pays.
    """

    def __init__(self, state: ClusterState, rules: PowerRules, memory: DecisionMemory) -> None:
        self.rules = rules
        self.now_s = state.now_s
        self.paused = state.paused
        self.known = state.power
        self.to_come = memory.hosts_to_come = hosts_to_come(state, rules, memory.hosts_to_come)
        self.asleep, self.coming = self.to_come.asleep, self.to_come.coming
        self.observed = state
        self.sequences: dict[int, PowerSequence] = dict(state.power.sequences)
        self.changed: set[int] = set()
        self.steps: list[HostPowerStep] = []
        self._told_now = 0
        self.advised: list[HostPowerStep] = []
        self.grants: dict[int, Grant] = {}
        self.until_then: set[int] = set()
        self.due_soon: frozenset[int] = frozenset()
        self.receiving: frozenset[int] = frozenset()
        self.fits_at_all: FitAnswers | None = None
        self.fits_if_up: FitAnswers | None = None
        self.settled_orders: list[int] = []
        self.asked_at_s: int | None = None
        self._hosts = state.hosts
        self.running: TimedWork | None = None
        self.guests = memory.power_watch.guests
        self.guests.observe(state.snapshot)
        self.columns = memory.power_columns
        self.columns.observe(state, rules)

    @classmethod
    def begin(cls, state: ClusterState, rules: PowerRules, memory: DecisionMemory) -> PowerDraft | None:
        """None where power concerns nobody: it is off, and nothing of ours is under way or asleep."""
        is_managed = rules.mode is not PowerMode.OFF and rules.handed_over
        return cls(state, rules, memory) if is_managed or state.power.sequences or state.power.orders else None

    def asks_policy(self) -> bool:
        """Is the energy policy asked? Not while power is off in the configuration or the operator has paused."""
        return self.rules.mode is not PowerMode.OFF and not self.paused

    # -- hosts -------------------------------------------------------------------------------------------------

    def host(self, row: int) -> Host:
        """The host of a row, as it was observed."""
        return self._hosts.hosts[row]

    @property
    def awake(self) -> BoolArray:
        """The rows of hosts that take VMs and are not on their way to sleep, nor advised to, shape (H,)."""
        awake = self._hosts.accepts_vms & ~self.columns.going_down
        awake[[self._hosts.index_by_id[step.host_id] for step in self.advised]] = False
        return awake

    def visible(self, mask: BoolArray, lease_id: int | None) -> BoolArray:
        """Of these rows those that a lease may count on: not the ones that sleep, but for what was granted to it."""
        if not self.to_come.full:
            return mask
        grant = None if lease_id is None else self.grants.get(lease_id)
        if grant is None:
            return mask & ~self.asleep
        return mask & (~self.asleep | grant.asleep if grant.only is None else grant.only)

    def turned_down(self, lease_id: int) -> None:
        """The hosts that a wish for a time might have had count for it no more: it waits like all others, if at all."""
        self.grants.pop(lease_id, None)

    def mask_of(self, rows: Iterable[int]) -> BoolArray:
        """These rows as a mask, shape (H,)."""
        mask = np.zeros_like(self._hosts.accepts_vms)
        mask[list(rows)] = True
        return mask

    @contextmanager
    def granting(self, lease_id: int, mask: BoolArray) -> Iterator[None]:
        """As if a lease could count on these of the sleeping hosts, shape (H,), and on no others of them."""
        before = self.grants.get(lease_id)
        self.grants[lease_id] = Grant(mask) if before is None else replace(before, asleep=mask)
        try:
            yield
        finally:
            if before is None:
                del self.grants[lease_id]
            else:
                self.grants[lease_id] = before

    @property
    def known_hosts(self) -> BoolArray:
        """The rows of hosts that are on, come, or sleep and can be woken, shape (H,)."""
        return self.awake | self.coming | self.asleep

    def free_if_up(self, free: IntArray) -> IntArray:
        """What would be free, shape (H, 2), if the hosts that come or sleep were up; `free` is what is free now."""
        return np.where((self.coming | self.asleep)[:, None], self.to_come.room, free)

    @property
    def boots_s(self) -> Mapping[int, int]:
        """By row of the hosts that sleep how long they boot."""
        return self.to_come.boot_s

    @cached_property
    def up_at_s(self) -> IntArray:
        """When those that sleep or come can be up, shape (H,); of other hosts it says nothing."""
        return self.to_come.up_at_s(self.rules, self.now_s)

    @cached_property
    def latest_up_s(self) -> int:
        """By then all that sleep or come are up."""
        return int(self.up_at_s[self.asleep | self.coming].max(initial=self.now_s))

    @cached_property
    def overdue(self) -> BoolArray:
        """Hosts that come and should have been seen by now, shape (H,): perhaps they hang in their boots."""
        late = np.zeros_like(self.coming)
        late[[row for row, due_s in self.to_come.due_s.items() if due_s and self.now_s > due_s + SEEN_WITHIN_S]] = True
        return late

    @property
    def coming_in_time(self) -> BoolArray:
        """The hosts on their way up that are not `overdue`, shape (H,): whoever waits counts on these alone."""
        return self.coming & ~self.overdue

    # -- waking ------------------------------------------------------------------------------------------------

    def can_wake(self, row: int, *, promised: bool = False, ordered: bool = False) -> bool:
        """It sleeps and may be woken now. What was promised in time is not kept by waiting for the end of a rest.

        What an administrator has `ordered` knows only a pause: he may want back what slept under other rules.
        """
        sequence = self.sequences.get(self.host(row).id)
        if sequence is None or self.paused or not (self.rules.enforced or ordered):
            return False
        if can_turn_back(sequence):
            return True
        if sequence.phase is PowerPhase.SWITCHING_OFF:
            ready = sequence.failures > 0
        else:
            ready = sequence.phase is PowerPhase.ASLEEP or (ordered and sequence.phase is PowerPhase.FAILED)
        if ordered or not ready:
            return ready
        rested = promised or not 0 <= self.now_s - sequence.since_s < self.rules.least_off_s
        return rested and not self._is_quiet and bool(self.columns.handed_over[row])

    @property
    def wakeable(self) -> BoolArray:
        """The rows of hosts that `can_wake` says may be woken for the queue, shape (H,)."""
        columns = self.columns
        if self.paused or not self.rules.enforced:
            return np.zeros_like(columns.turnable)
        if self._is_quiet:
            return columns.turnable
        # An instant in the future was written by a clock that has been set back since: it holds nothing up.
        rested = (columns.since_s <= self.now_s - self.rules.least_off_s) | (columns.since_s > self.now_s)
        return columns.turnable | (columns.wakeable & columns.handed_over & rested)

    @property
    def boots_left(self) -> int:
        """How many more hosts may be woken now, by the bound of the configuration on those that boot at once."""
        return max(self.rules.most_booting - int(self.columns.booting.sum()), 0)

    @property
    def below_floor(self) -> int:
        """So many more are to be on, or on their way."""
        if not self.rules.floor:
            return 0
        on = self.awake
        index = self._hosts.index_by_id
        on[[index[one.host_id] for one in self.sequences.values() if one.is_coming and one.host_id in index]] = True
        handed_over = self.columns.rows_of(self.known.bounds.handed_over)
        return max(self.rules.floor - int((on & handed_over).sum()), 0)

    @property
    def turns_kept(self) -> int:
        """How many of the boots left are for hosts that were promised and must be woken within a boot."""
        return sum(not self.columns.booting[row] for row in self.due_soon)

    def may_start_one_more(self) -> bool:
        """May one more host that was not told to start be told so? Those whose pauses end together take turns."""
        told = int(np.count_nonzero(self.columns.told_to_start))
        return told + self._told_now < self.rules.most_booting

    def take(self, step: HostPowerStep) -> None:
        """Add a call to the plan: it is made in this cycle, if nothing stands against it then."""
        self.steps.append(step)
        if step.kind is PowerStepKind.SWITCH_ON and self.sequences[step.host_id].attempts == 0:
            self._told_now += 1

    def economical(self, rows: Iterable[int]) -> list[int]:
        """Rows in the order in which to wake their hosts; at last those that sleep since they failed."""
        if self.rules.models:
            index = self._hosts.index_by_id
            hosts = (self.host(row) for row in rows)
            ordered = [index[one] for one in most_economical_first((h.id, self.rules.power_of(h)) for h in hosts)]
        else:
            # All alike: the lowest id first.
            ordered = sorted(rows)
        return sorted(ordered, key=self._sleeps_since_it_failed)

    def _sleeps_since_it_failed(self, row: int) -> bool:
        sequence = self.sequences.get(self.host(row).id)
        return bool(self.asleep[row]) and sequence is not None and sequence.failures > 0

    def wake(self, row: int, code: str, text: str) -> bool:
        """Begin to wake the host of a row, unless too many boot; one that has its power still is only turned back."""
        sequence = self.sequences[self.host(row).id]
        if can_turn_back(sequence):
            self.write(given_up(sequence, self.now_s, code, text))
        elif self.boots_left:
            self.write(to_be_woken(sequence, self.now_s, code, text))
        else:
            return False
        return True

    def wake_in_turn(self, row: int, code: str, text: str) -> bool:
        """The same where it may wait: hosts that were promised, and must be woken within a boot, have turns first."""
        keeps_power = can_turn_back(self.sequences[self.host(row).id])
        if not keeps_power and row not in self.due_soon and self.boots_left <= self.turns_kept:
            return False
        return self.wake(row, code, text)

    def wake_some(self, rows: Sequence[int], count: int, text: str) -> int:
        """Wake up to `count` of these rows for the queue, in their order; how many are."""
        woken = 0
        for row in rows:
            if woken < count and self.can_wake(row):
                woken += self.wake_in_turn(row, "queue", text)
        return woken

    # -- letting sleep -----------------------------------------------------------------------------------------

    @property
    def switchable(self) -> BoolArray:
        """The rows of hosts that are on and handed over, and that nothing stands against switching off, shape (H,).

        Rests and quiet hours are for the policy, not for what an administrator has ordered.
        """
        return self.awake & self.columns.handed_over & ~self.columns.ours & ~self._bridge_hosts

    @property
    def able_to_sleep(self) -> BoolArray:
        """Those of them that may be let sleep now by the policy's wish, shape (H,)."""
        if self._is_quiet:
            return np.zeros_like(self._hosts.accepts_vms)
        columns = self.columns
        # It is left alone for a while once it came up, and after a failure.
        able = self.switchable & ((columns.rested_at_s <= self.now_s) | (columns.since_s > self.now_s))
        able[list(self.receiving)] = False
        return able

    @property
    def spare(self) -> int:
        """How many more hosts may go to sleep before the floor is reached."""
        handed_over = self.columns.rows_of(self.known.bounds.handed_over)
        return max(int((self.awake & handed_over).sum()) - self.rules.floor, 0)

    def let_sleep(self, row: int, code: str, text: str, emptied_vm_ids: tuple[int, ...] = ()) -> None:
        """Begin to send the host of a row to sleep, or say that it could sleep."""
        host = self.host(row)
        known = self.sequences.get(host.id)
        sequence = PowerSequence(
            host_id=host.id,
            host_name=host.name,
            phase=PowerPhase.DISABLING,
            since_s=self.now_s,
            reason_code=code,
            reason_text=text,
            emptied_vm_ids=emptied_vm_ids,
            failures=known.failures if known is not None else 0,
        )
        if self.rules.enforced:
            self.write(sequence)
        else:
            self.advised.append(disable_step(sequence))

    # -- all ---------------------------------------------------------------------------------------------------

    def write(self, sequence: PowerSequence) -> None:
        """Have the sequence written down as it is now."""
        if self.sequences.get(sequence.host_id) != sequence:
            self.sequences[sequence.host_id] = sequence
            self.changed.add(sequence.host_id)
            self.columns.note(sequence)

    def complete(self, plan: Plan) -> Plan:
        """The plan with the steps, sequences and settled orders of host power that were decided here."""
        return replace(
            plan,
            power_sequences=tuple(self.sequences[host_id] for host_id in sorted(self.changed)),
            power_steps=tuple(self.steps),
            advised_power_steps=tuple(self.advised),
            power_asked_at_s=self.asked_at_s,
            settled_power_orders=tuple(self.settled_orders),
        )

    @cached_property
    def _is_quiet(self) -> bool:
        return self.rules.is_quiet(self.now_s)

    @cached_property
    def _bridge_hosts(self) -> BoolArray:
        """The rows of hosts through which OpenNebula reaches a datastore."""
        names = bridge_hosts(self.observed.snapshot.datastores)
        mask = np.zeros_like(self._hosts.accepts_vms)
        if names:
            mask[[row for row, host in enumerate(self._hosts.hosts) if host.name in names]] = True
        return mask


def disable_step(sequence: PowerSequence) -> HostPowerStep:
    """The first call on the way to sleep; only a host that is to be emptied may have VMs."""
    return power_step(sequence, PowerStepKind.DISABLE, ENABLED_STATES, must_be_empty=not sequence.emptied_vm_ids)


def power_step(
    sequence: PowerSequence,
    kind: PowerStepKind,
    expected_states: tuple[HostState, ...] = (),
    *,
    must_be_empty: bool = False,
) -> HostPowerStep:
    """A call for the phase in which a sequence is."""
    return HostPowerStep(
        host_id=sequence.host_id,
        host_name=sequence.host_name,
        kind=kind,
        reason_code=sequence.reason_code,
        reason_text=sequence.reason_text,
        expected_states=expected_states,
        must_be_empty=must_be_empty,
        at_rest=sequence.phase is PowerPhase.ASLEEP,
    )


def withdrawn(sequence: PowerSequence, now_s: int, code: str, text: str) -> PowerSequence:
    """The sequence of a host on which no call was made yet, back at AWAKE: it stays on."""
    return entered(sequence, PowerPhase.AWAKE, now_s, code, text)
