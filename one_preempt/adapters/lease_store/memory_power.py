"""What is known of the power of hosts, in memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from one_preempt.adapters.lease_store.intents import power_answered, power_attempted, unknown_host
from one_preempt.adapters.lease_store.memory_indexes import ById
from one_preempt.core.model.ledger import Ledger
from one_preempt.core.model.plan import Plan
from one_preempt.core.model.power_sequence import PowerOrder, PowerSequence
from one_preempt.core.model.power_standing import PowerAttempt, PowerStanding
from one_preempt.ports import CallResult


class PowerBook:
    """Sequences and orders by host id, what failed by host name, and when the periodic question was asked."""

    def __init__(self, start: Ledger) -> None:
        self._sequences: ById[int, PowerSequence] = ById(start.power_sequences)
        self._orders: ById[int, PowerOrder] = ById(start.power_orders)
        self._standings: dict[tuple[str, PowerAttempt], PowerStanding] = {}
        self.asked_at_s = start.power_asked_at_s

    @property
    def sequences(self) -> Mapping[int, PowerSequence]:
        """In the order of the hosts' ids."""
        return self._sequences.in_order().copy()

    @property
    def orders(self) -> Mapping[int, PowerOrder]:
        """In the order of the hosts' ids."""
        return self._orders.in_order().copy()

    @property
    def standings(self) -> tuple[PowerStanding, ...]:
        """In the order of their keys."""
        return tuple(self._standings[key] for key in sorted(self._standings))

    def write_standings(self, changed: Iterable[PowerStanding]) -> None:
        """Over those of the same keys; what is clear is forgotten."""
        for standing in changed:
            if standing.is_clear:
                self._standings.pop(standing.key, None)
            else:
                self._standings[standing.key] = standing

    def prune(self, before_s: int) -> None:
        """Forget what has not mattered since before an instant."""
        self._standings = {key: one for key, one in self._standings.items() if one.last_s >= before_s}
        gone = [one.host_id for one in self.sequences.values() if one.is_deleted and one.since_s < before_s]
        for host_id in gone:
            self._sequences.drop(host_id)

    def write(self, sequences: Iterable[PowerSequence]) -> None:
        """Over those of the same hosts."""
        for sequence in sequences:
            self._sequences.put(sequence.host_id, sequence)

    def record_plan(self, plan: Plan) -> None:
        """What the plan begins, and which orders it has settled."""
        self.write(plan.power_sequences)
        for host_id in plan.settled_power_orders:
            self._orders.drop(host_id)
        if plan.power_asked_at_s is not None:
            self.asked_at_s = plan.power_asked_at_s

    def order(self, order: PowerOrder) -> None:
        """In place of an earlier order for the host."""
        self._orders.put(order.host_id, order)

    def begin(self, host_id: int) -> None:
        """The call of the host's phase is about to be issued."""
        sequence = self._sequences.values.get(host_id)
        if sequence is None:
            raise unknown_host(host_id)
        self._sequences.put(host_id, power_attempted(sequence))

    def answered(self, host_id: int, result: CallResult, now_s: int) -> None:
        """It was answered."""
        sequence = self._sequences.values.get(host_id)
        if sequence is not None:
            self._sequences.put(host_id, power_answered(sequence, result, now_s))
