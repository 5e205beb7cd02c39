"""Whether hosts that sleep can all boot by the time that each is needed, where only so many may boot at once.

A new wish is given a sleeping host only if nobody who was promised one becomes late by it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from heapq import heapify, heapreplace

import numpy as np

from one_preempt.core.availability.timeline import Stay
from one_preempt.core.energy.power_rules import MINUTES_A_DAY
from one_preempt.core.host_power.hosts_to_come import first_switching_s
from one_preempt.core.memory.lease_concerns import Concern
from one_preempt.core.model.lease import Lease
from one_preempt.core.phases.draft import PlanDraft
from one_preempt.core.phases.power.power_draft import PowerDraft
from one_preempt.core.phases.power.waking_times import TURN_S, first_starts_s, latest_wakings


def turns_bind(power: PowerDraft, more: int = 0) -> bool:
    """More could be to boot at once than may, if `more` slept as well."""
    return int((power.asleep | power.columns.booting).sum()) + more > power.rules.most_booting


class BootTurns:
    """The turns that those who were promised sleeping hosts need; a lease that is looked at anew has none."""

    def __init__(self, draft: PlanDraft, power: PowerDraft, lease: Lease | None = None) -> None:
        self._draft, self._power = draft, power
        self._free_s = _free_from_s(power)
        known = draft.timeline.stays
        self._starts_s = sleeping_starts_s(
            power,
            (
                stay
                for lease_id in draft.concerns.all(Concern.TIME)
                if lease is None or lease_id != lease.id
                for stay in known.get(lease_id, ())
            ),
        )
        # Who is late anyway is not to be any later.
        up_s = self._up_s(self._starts_s)
        self._up_by_s = {row: max(start_s, up_s[row]) for row, start_s in self._starts_s.items()}

    def suffice(self, starts_s: Mapping[int, int]) -> bool:
        """Are all up in time if other hosts, by row, have to boot as well, and are needed from these instants on?"""
        together = {**starts_s, **self._starts_s}
        up_by_s = {**self._up_by_s, **starts_s}
        for row in starts_s.keys() & self._starts_s.keys():
            together[row] = min(starts_s[row], self._starts_s[row])
            up_by_s[row] = min(starts_s[row], self._up_by_s[row])
        up_s = self._up_s(together)
        return all(up_s[row] <= by_s for row, by_s in up_by_s.items())

    def may_sleep(self, row: int, start_s: int) -> bool:
        """May the host of a row, which is on, sleep until somebody starts there?

        Not if somebody were late by it, nor where it or another were woken sooner, because of turns, than pays.
        """
        power, together = self._power, {**self._starts_s, row: start_s}
        break_even_s = power.rules.power_of(power.host(row)).break_even_s
        if break_even_s is None or not self.suffice({row: start_s}):
            return False
        boots_s = {one: boot_s(power, one) for one in together}
        long_ago_s = power.now_s - MINUTES_A_DAY * 60
        wakings = latest_wakings(self._draft, power, together, boots_s, long_ago_s)
        up_s = wakings[row].begin_s + boots_s[row]
        return up_s - power.now_s > break_even_s and all(one.begin_s > power.now_s for one in wakings.values())

    def let_sleep(self, row: int, start_s: int) -> None:
        """The host of a row that may sleep counts as asleep from now on."""
        self._starts_s[row] = self._up_by_s[row] = start_s

    def _up_s(self, starts_s: Mapping[int, int]) -> dict[int, int]:
        """When each is up if they boot from now on, whoever starts first before others."""
        rules, free_s = self._power.rules, self._free_s.copy()
        heapify(free_s)
        found: dict[int, int] = {}
        for row in sorted(starts_s, key=lambda row: (starts_s[row], row)):
            found[row] = first_switching_s(rules, free_s[0]) + boot_s(self._power, row)
            heapreplace(free_s, found[row] + TURN_S)
        return found


def boot_s(power: PowerDraft, row: int) -> int:
    """How long the host of a row takes to come up, on or not."""
    known = power.boots_s.get(row)
    return power.rules.up_after_s(power.host(row)) if known is None else known


def sleeping_starts_s(power: PowerDraft, stays: Iterable[Stay]) -> dict[int, int]:
    """When the first of these stays begins on each host that sleeps and is not woken yet, by row."""
    return first_starts_s(stays, set(np.flatnonzero(power.asleep & ~power.columns.booting).tolist()))


def _free_from_s(power: PowerDraft) -> list[int]:
    """From when on each of the boots that there may be at once can begin."""
    most = max(power.rules.most_booting, 1)
    over_s = sorted(_up_at_s(power, row) + TURN_S for row in np.flatnonzero(power.columns.booting).tolist())
    return [*[power.now_s] * (most - len(over_s)), *over_s[-most:]]


def _up_at_s(power: PowerDraft, row: int) -> int:
    """When a host that boots is expected to be up."""
    if power.asleep[row] or power.coming[row]:
        return int(power.up_at_s[row])
    return power.now_s + boot_s(power, row)


def up_in_turn(draft: PlanDraft, power: PowerDraft, lease: Lease, start_s: int, rows: Sequence[int]) -> Sequence[int]:
    """Of these rows, in this order, those that a lease may be given: all of them are up by its start, and nobody else
    who was promised a sleeping host becomes late by it."""
    left = [row for row in rows if power.up_at_s[row] <= start_s]
    if not left or not turns_bind(power):
        return left
    turns = BootTurns(draft, power, lease)
    found: list[int] = []
    while left:
        # As many as there are turns for; then those that boot faster than the first that was one too many.
        count = bisect_left(range(len(left)), True, key=partial(_is_one_too_many, turns, start_s, found, left))
        found += left[:count]
        left = [row for row in left[count + 1 :] if boot_s(power, row) < boot_s(power, left[count])]
    return found


def _is_one_too_many(turns: BootTurns, start_s: int, found: Sequence[int], left: Sequence[int], place: int) -> bool:
    return not turns.suffice(dict.fromkeys((*found, *left[: place + 1]), start_s))


def turns_lack_s(draft: PlanDraft, lease: Lease, stays: Sequence[Stay], most_s: int = 0) -> int:
    """How much later stays would have to begin so that all hosts of them that sleep have turns to boot; 0: they have.

    More than `most_s` where that is not enough.
    """
    power = draft.power
    if power is None or not turns_bind(power):
        return 0
    starts_s = sleeping_starts_s(power, stays)
    if not starts_s:
        return 0
    turns = BootTurns(draft, power, lease)
    return bisect_left(
        range(max(most_s, 0) + 1),
        True,
        key=lambda later_s: turns.suffice({row: start_s + later_s for row, start_s in starts_s.items()}),
    )
