"""Which hosts' power has to be looked at: not those that rest as they did, be it in use or asleep.

Only speed depends on what is remembered here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import compress
from operator import is_not

from one_preempt.core.energy.power_rules import PowerRules
from one_preempt.core.host_power.guests import Guests
from one_preempt.core.model.host import Host
from one_preempt.core.model.pool_snapshot import PoolSnapshot
from one_preempt.core.model.power_sequence import PowerBounds, PowerPhase, PowerReport, PowerSequence


class PowerWatch:
    """What was seen at the last observation; of a reader that tells what changed every snapshot is observed in turn."""

    def __init__(self) -> None:
        self.guests = Guests()
        self._hosts: dict[int, Host] = {}
        self._reports: dict[int, PowerReport] = {}
        self._resting: dict[int, PowerSequence] = {}
        self._asleep: set[int] = set()
        self._rules: PowerRules | None = None
        self._bounds = PowerBounds()
        self._asked_at_s = 0

    def observe(self, snapshot: PoolSnapshot, reports: Mapping[int, PowerReport], rules: PowerRules) -> None:
        """Look at what has changed of hosts, of who is on them, and of what was read of their power."""
        self.guests.observe(snapshot)
        hosts, seen, told = snapshot.hosts, self._hosts, snapshot.changed_host_ids
        changed = told if told is not None and self._rules is not None else seen.keys() | hosts.keys()
        are_named_the_same = rules is self._rules
        for host_id in [one for one in changed if seen.get(one) is not hosts.get(one)]:
            before, host = seen.pop(host_id, None), hosts.get(host_id)
            if host is not None:
                seen[host_id] = host
            are_named_the_same &= _names(before) == _names(host)
            self._resting.pop(host_id, None)
        if not are_named_the_same:
            self._bounds, self._rules = _bounds(seen.values(), rules), rules
        known = self._reports
        for host_id in list(compress(reports, map(is_not, reports.values(), map(known.get, reports)))):
            known[host_id] = reports[host_id]
            self._resting.pop(host_id, None)
        for host_id in self._asleep & self.guests.host_ids:
            self._resting.pop(host_id, None)

    @property
    def bounds(self) -> PowerBounds:
        """Which hosts may be switched, and within which bounds."""
        return self._bounds

    def not_at_rest(self, sequences: Mapping[int, PowerSequence], now_s: int) -> list[int]:
        """The hosts of which something is new, or that were not said to `rest`, in the order of their sequences.

        All of them, if the clock was set back since it was asked last.
        """
        if now_s < self._asked_at_s:
            self._resting.clear()
        self._asked_at_s = now_s
        return list(compress(sequences, map(is_not, sequences.values(), map(self._resting.get, sequences))))

    def rest(self, sequence: PowerSequence) -> None:
        """The host stays as it is until something new is seen of it."""
        self._resting[sequence.host_id] = sequence
        if sequence.phase is PowerPhase.ASLEEP:
            self._asleep.add(sequence.host_id)
        else:
            self._asleep.discard(sequence.host_id)


def _names(host: Host | None) -> tuple[str, str] | None:
    return None if host is None else (host.name, host.cluster_name)


def _bounds(hosts: Iterable[Host], rules: PowerRules) -> PowerBounds:
    """The hosts handed over, and how long each of these boots, with what was chosen."""
    boots_s = {host.id: rules.up_after_s(host) for host in hosts if rules.is_handed_over(host)}
    return PowerBounds(frozenset(boots_s), rules.floor, rules.most_booting, boots_s)
