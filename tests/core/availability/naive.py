"""Free capacity by a list of reservations, counted minute by minute. Nothing is kept, nothing is clever."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import product

HORIZON = 36
"""Nothing in a case ends later, so that after it only what is open-ended counts."""

FOREVER = 10 * HORIZON

CASES = int(os.environ.get("RANDOM_CASES", "400"))
"""How many random cases each comparison tries: the slot table, the profile and the backfilling of queues.

Defects that were put in by hand, one at a time, were found by the first hundred cases or by none: `make fuzz` tries
20,000.
"""


@dataclass
class NaiveHosts:
    """`taken` are (start, end, host, amounts); a profile is one host with one resource.

    The minutes from `minutes_counted` on are not looked at.
    """

    capacity: list[tuple[int, ...]]
    taken: list[tuple[int, int, int, tuple[int, ...]]] = field(default_factory=list)
    minutes_counted: int = 2 * HORIZON
    _counted: tuple[object, list[list[tuple[int, ...]]]] = (None, [])

    def free(self, host: int, minute: int) -> tuple[int, ...]:
        return self.minutes()[host][minute]

    def minutes(self) -> list[list[tuple[int, ...]]]:
        """What is free by host and minute, counted anew whenever the list has changed."""
        if self._counted[0] != self.taken:
            table = [[list(capacity) for _ in range(self.minutes_counted)] for capacity in self.capacity]
            for start, end, host, amounts in self.taken:
                for minute in range(start, min(end, self.minutes_counted)):
                    for resource, amount in enumerate(amounts):
                        table[host][minute][resource] -= amount
            self._counted = list(self.taken), [[tuple(left) for left in row] for row in table]
        return self._counted[1]

    def lowest(self, host: int, start: int, end: int) -> tuple[int, ...]:
        return tuple(map(min, zip(*self.minutes()[host][start:end], strict=True)))

    def fits(self, needs: Sequence[tuple[int, ...]], hosts: Sequence[int], room: Sequence[tuple[int, ...]]) -> bool:
        """Do the VMs fit on these hosts, one for each, when every host has that room?"""
        left = {host: list(room[host]) for host in hosts}
        for need, host in zip(needs, hosts, strict=True):
            left[host] = [have - amount for have, amount in zip(left[host], need, strict=True)]
        return all(amount >= 0 for amounts in left.values() for amount in amounts)

    def places(
        self, needs: Sequence[tuple[int, ...]], allowed: Sequence[Iterable[int]], start: int, end: int
    ) -> list[tuple[int, ...]]:
        """Every way to place the VMs together: a host for each."""
        room = [self.lowest(host, start, end) for host in range(len(self.capacity))]
        return [hosts for hosts in product(*allowed) if self.fits(needs, hosts, room)]

    def earliest(
        self, needs: Sequence[tuple[int, ...]], allowed: Sequence[Iterable[int]], duration: int, not_before: int
    ) -> int | None:
        candidates = range(not_before, HORIZON + 2)
        return next((start for start in candidates if self.places(needs, allowed, start, start + duration)), None)
