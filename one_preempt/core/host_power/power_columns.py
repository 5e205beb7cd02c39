"""What matters of each host for its power, by row: remembered for hosts and sequences of which nothing has changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from itertools import compress, count
from operator import is_not

import numpy as np
import numpy.typing as npt

from one_preempt.core.availability.gang_demand import BoolArray
from one_preempt.core.energy.power_rules import PowerRules
from one_preempt.core.model.cluster_state import ClusterState, HostTable
from one_preempt.core.model.host import Host
from one_preempt.core.model.power_sequence import PowerPhase, PowerSequence

ON_THE_WAY_DOWN = frozenset({
    PowerPhase.DISABLING, PowerPhase.EMPTYING, PowerPhase.GOING_OFFLINE, PowerPhase.CHECKING, PowerPhase.SWITCHING_OFF,
    PowerPhase.ASLEEP,
})  # fmt: skip
_KEEPS_POWER = frozenset({PowerPhase.EMPTYING, PowerPhase.GOING_OFFLINE, PowerPhase.CHECKING})
_ALWAYS_S = -(2**62)


class PowerColumns:
    """All of shape (hosts,), not to be written to by others, and good until the next observation or `note`.

    `handed_over`: may be switched. `occupied`: some VM is in the host's own list. `going_down`: on the way to sleep, or
    asleep. `ours`: by our hand not in use. `booting`: has been told to start and is not in use yet. `turnable`: on the
    way to sleep with its power still. `leaving`: that, or to be disabled, or told to switch off and not heard to have
    taken it. `wakeable`: sleeps, or was told to and did not.
    `told_to_start`: by us, and not in use yet; what never lost its power does not count.
    `since_s`: when the phase was entered. `rested_at_s`: from then on it may be let sleep again.
    """

    def __init__(self) -> None:
        self._rules: PowerRules | None = None
        self._index: Mapping[int, int] = {}
        self._hosts: Sequence[Host] = ()
        self._rows_of: tuple[frozenset[int], BoolArray] | None = None
        self._begin(0)

    def observe(self, state: ClusterState, rules: PowerRules) -> None:
        """Look at the hosts and sequences that are other objects than they were."""
        table = state.hosts
        if table.index_by_id is not self._index or rules is not self._rules:
            self._index, self._rules = table.index_by_id, rules
            self._begin(len(table.hosts))
        if table.hosts is not self._hosts:
            self._observe_hosts(table)
        self._observe_sequences(state.power.sequences)
        if len(self._sequences) > len(state.power.sequences):
            # Some are gone.
            self._begin_sequences(len(table.hosts))
            self._observe_sequences(state.power.sequences)

    def note(self, sequence: PowerSequence) -> None:
        """Bring the columns up to date with the sequence that a host has from now on."""
        assert self._rules is not None
        host_id, phase = sequence.host_id, sequence.phase
        known = self._sequences.get(host_id)
        if known is None or known.phase is not phase:
            if known is not None:
                self._in_phase[known.phase].discard(host_id)
            self._in_phase[phase].add(host_id)
        self._sequences[host_id] = sequence
        row = self._index.get(host_id)
        if row is None:
            return
        self.going_down[row] = phase in ON_THE_WAY_DOWN
        self.ours[row] = sequence.is_ours
        is_up_again = phase is PowerPhase.ENABLING and sequence.began_at_s > 0
        self.booting[row] = phase is PowerPhase.SWITCHING_ON or is_up_again
        was_told = phase is PowerPhase.SWITCHING_ON and sequence.attempts > 0 and sequence.began_at_s > 0
        self.told_to_start[row] = was_told or is_up_again
        self.turnable[row] = turnable = can_turn_back(sequence)
        unanswered = phase is PowerPhase.SWITCHING_OFF and sequence.outcome is None
        self.leaving[row] = turnable or unanswered or phase is PowerPhase.DISABLING
        self.wakeable[row] = phase is PowerPhase.ASLEEP or (phase is PowerPhase.SWITCHING_OFF and sequence.failures > 0)
        self.since_s[row] = sequence.since_s
        self.rested_at_s[row] = max(sequence.not_before_s, sequence.since_s + self._rules.least_on_s)

    def in_phase(self, phase: PowerPhase) -> Set[int]:
        """The hosts that are in a phase, by id; some may be gone."""
        return self._in_phase[phase]

    def rows_of(self, host_ids: frozenset[int]) -> BoolArray:
        """The rows of these hosts, as far as there are any; as it was said before for the very same set."""
        if self._rows_of is None or self._rows_of[0] is not host_ids:
            mask = np.zeros(len(self._hosts), dtype=np.bool_)
            mask[[self._index[host_id] for host_id in host_ids if host_id in self._index]] = True
            self._rows_of = (host_ids, mask)
        return self._rows_of[1]

    def _observe_sequences(self, sequences: Mapping[int, PowerSequence]) -> None:
        known = map(self._sequences.get, sequences)
        for sequence in list(compress(sequences.values(), map(is_not, sequences.values(), known))):
            self.note(sequence)

    def _begin(self, rows: int) -> None:
        self._hosts, self._rows_of = (), None
        self.handed_over, self.occupied = _nowhere(rows), _nowhere(rows)
        self._begin_sequences(rows)

    def _begin_sequences(self, rows: int) -> None:
        self._sequences: dict[int, PowerSequence] = {}
        self._in_phase: dict[PowerPhase, set[int]] = {phase: set() for phase in PowerPhase}
        self.going_down, self.ours, self.booting, self.told_to_start = (_nowhere(rows) for _ in range(4))
        self.leaving, self.turnable, self.wakeable = (_nowhere(rows) for _ in range(3))
        self.since_s: npt.NDArray[np.int64] = np.zeros(rows, dtype=np.int64)
        self.rested_at_s: npt.NDArray[np.int64] = np.full(rows, _ALWAYS_S, dtype=np.int64)

    def _observe_hosts(self, table: HostTable) -> None:
        assert self._rules is not None
        rows = (
            list(compress(count(), map(is_not, table.hosts, self._hosts))) if self._hosts else range(len(table.hosts))
        )
        self._hosts = table.hosts
        for row in rows:
            host = table.hosts[row]
            self.occupied[row] = bool(host.vm_ids)
            self.handed_over[row] = self._rules.is_handed_over(host)


def can_turn_back(sequence: PowerSequence) -> bool:
    """It is on its way to sleep, and has its power still."""
    if sequence.phase is PowerPhase.SWITCHING_OFF:
        return not sequence.was_ordered
    return sequence.phase in _KEEPS_POWER


def _nowhere(rows: int) -> BoolArray:
    return np.zeros(rows, dtype=np.bool_)
