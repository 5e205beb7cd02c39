"""The parts of the ledger in memory, kept so that reading what lives costs nothing for what is over."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Generic, TypeVar

from one_preempt.adapters.lease_store.intents import OVERHEADS_KEPT, closed_like, is_told_later, unknown_action
from one_preempt.core.model.ledger import ActionRecord
from one_preempt.core.model.observed_overhead import ObservedOverhead, OverheadKind

Id = TypeVar("Id", int, str)
Value = TypeVar("Value")


class ById(Generic[Id, Value]):
    """A dict in the order of its keys. It is sorted only after a key came out of turn; ids nearly always ascend."""

    def __init__(self, start: Mapping[Id, Value]) -> None:
        self.values: dict[Id, Value] = dict(sorted(start.items()))
        self._highest: Id | None = next(reversed(self.values), None)
        self._in_turn = True

    def put(self, key: Id, value: Value) -> None:
        """Write `value` in the place of the one with this key, if there is one."""
        if key not in self.values:
            if self._highest is None or key > self._highest:
                self._highest = key
            else:
                self._in_turn = False
        self.values[key] = value

    def put_all(self, values: Mapping[Id, Value]) -> None:
        """The same for several."""
        new = values.keys() - self.values.keys()
        if new:
            in_turn = (self._highest is None or min(new) > self._highest) and list(values) == sorted(values)
            self._in_turn = self._in_turn and in_turn
            self._highest = max(new) if self._highest is None else max(self._highest, *new)
        self.values.update(values)

    def drop(self, key: Id) -> None:
        """Forget the value with this key, if there is one."""
        self.values.pop(key, None)

    def in_order(self) -> dict[Id, Value]:
        """The values in the order of their keys: always the same dict, so that a view of it stays one."""
        if not self._in_turn:
            sort_by_key(self.values)
            self._in_turn = True
        return self.values


def sort_by_key(values: dict[Id, Value]) -> None:
    """Put a dict into the order of its keys; it stays the same dict."""
    ordered = sorted(values.items())
    values.clear()
    values.update(ordered)


class ActionIndex:
    """Recorded actions: the open ones, those closed as failed by the instant, and, with `keeps_log`, all others.

    The length counts, the iteration leaves out, what became of a step at the times before its latest one.
    """

    def __init__(self, records: Iterable[ActionRecord], keeps_log: bool) -> None:
        self._keeps_log = keeps_log
        self._open: dict[str, ActionRecord] = {}
        self._in_turn = True
        self._closed: dict[str, ActionRecord] = {}
        self._failed: list[tuple[int, str]] = []
        self._past: list[ActionRecord] = []
        for record in records:
            self.put(record)

    def __iter__(self) -> Iterator[ActionRecord]:
        yield from self._open.values()
        yield from self._closed.values()

    def __len__(self) -> int:
        return len(self._open) + len(self._closed) + len(self._past)

    def get(self, action_id: str) -> ActionRecord | None:
        """The record, where it is remembered."""
        return self._open.get(action_id) or self._closed.get(action_id)

    def known(self, action_id: str) -> ActionRecord:
        """The record. Raises `LookupError` where none is remembered."""
        record = self._open.get(action_id) or self._closed.get(action_id)
        if record is None:
            raise unknown_action(action_id)
        return record

    def put(self, record: ActionRecord) -> None:
        """Write `record` in the place of the one with its id."""
        is_open = record.closed_at_s is None
        if record.id in self._closed:
            if is_open and self._keeps_log and is_told_later(self._closed[record.id]):
                self._past.append(self._closed[record.id])
            self._forget_closed(record.id)
        if is_open:
            # Ids are texts: what is new need not be the last.
            self._in_turn = self._in_turn and record.id in self._open
            self._open[record.id] = record
            return
        self._open.pop(record.id, None)
        if record.succeeded is False and record.closed_at_s is not None:
            insort(self._failed, (record.closed_at_s, record.id))
        if record.succeeded is False or self._keeps_log:
            self._closed[record.id] = record

    def put_open(self, records: Mapping[str, ActionRecord]) -> None:
        """The same for several by their ids, all of which are open: a plan starts hundreds of VMs."""
        if not self._closed.keys().isdisjoint(records):
            for record in records.values():
                self.put(record)
            return
        self._in_turn = self._in_turn and records.keys() <= self._open.keys()
        self._open.update(records)

    def close(self, closed: Iterable[ActionRecord]) -> None:
        """Write into the records with these ids what became of them, where there are any."""
        for record in closed:
            if record.succeeded and not self._keeps_log and record.id in self._open:
                # Nobody will ask for it.
                del self._open[record.id]
            elif (known := self.get(record.id)) is not None:
                self.put(closed_like(known, record))

    def open_in_order(self) -> dict[str, ActionRecord]:
        """The open actions in the order of their ids: always the same dict."""
        if not self._in_turn:
            sort_by_key(self._open)
            self._in_turn = True
        return self._open

    def failed_since(self, since_s: int) -> tuple[ActionRecord, ...]:
        """Those closed as failed at `since_s` or later, oldest first; without a log older ones are forgotten now."""
        if not self._failed:
            return ()
        first = bisect_left(self._failed, (since_s, ""))
        if not self._keeps_log:
            for _, action_id in self._failed[:first]:
                del self._closed[action_id]
            del self._failed[:first]
            first = 0
        return tuple(self._closed[action_id] for _, action_id in self._failed[first:])

    def past_newest_first(self) -> Iterable[ActionRecord]:
        """What became of steps at the times before their latest one."""
        return reversed(self._past)

    def prune(self, before_s: int) -> None:
        """Forget those closed before `before_s`."""
        self._past = [record for record in self._past if record.closed_at_s is None or record.closed_at_s >= before_s]
        for action_id, record in list(self._closed.items()):
            if record.closed_at_s is not None and record.closed_at_s < before_s:
                self._forget_closed(action_id)

    def _forget_closed(self, action_id: str) -> None:
        record = self._closed.pop(action_id)
        if record.succeeded is False and record.closed_at_s is not None:
            del self._failed[bisect_left(self._failed, (record.closed_at_s, action_id))]


class LatestOverheads:
    """Of each kind and datastore the latest `OVERHEADS_KEPT` observations."""

    def __init__(self, observed: Sequence[ObservedOverhead]) -> None:
        self._count = 0
        self._by_number: dict[int, ObservedOverhead] = {}
        self._numbers: dict[tuple[OverheadKind, int], deque[int]] = defaultdict(deque)
        self._told: tuple[ObservedOverhead, ...] | None = None
        self.extend(observed)

    def extend(self, observed: Sequence[ObservedOverhead]) -> None:
        """Remember more, and forget the oldest of a kind where there are too many."""
        by_number, self._told = self._by_number, None
        for number, one in enumerate(observed, start=self._count):
            by_number[number] = one
            numbers = self._numbers[one.kind, one.datastore_id]
            numbers.append(number)
            if len(numbers) > OVERHEADS_KEPT:
                del by_number[numbers.popleft()]
        self._count += len(observed)

    def oldest_first(self) -> tuple[ObservedOverhead, ...]:
        """All that are remembered; the same tuple until there is another one."""
        if self._told is None:
            self._told = tuple(self._by_number.values())
        return self._told
