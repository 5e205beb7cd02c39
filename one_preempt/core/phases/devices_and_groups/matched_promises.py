"""What was promised for a time to come of devices, cores and places beside VM groups, as one decision knows it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence, Set

from msgspec import Struct

from one_preempt.core.availability.steps import END_OF_TIME_S
from one_preempt.core.availability.timeline import Stay
from one_preempt.core.matching.room import Room
from one_preempt.core.matching.vm_groups import role_of, rules_of_role
from one_preempt.core.model.lease import Lease
from one_preempt.core.model.virtual_machine import VirtualMachine
from one_preempt.core.phases.devices_and_groups.tries_per_owner import TriesPerOwner

# So many guest nodes of a VM are put on a host in about as long as a VM without any.
GUEST_NODES_OF_A_VM = 32


class MatchedPromise(Struct, frozen=True):
    """A stay to come of a lease that asks for more than CPU and memory, and is promised firmly."""

    lease: Lease
    vms: tuple[VirtualMachine, ...]
    stay: Stay
    groups: frozenset[int]

    @property
    def until_s(self) -> int:
        """When it ends; the end of time where nobody knows."""
        return END_OF_TIME_S if self.stay.end_s is None else self.stay.end_s

    @property
    def weight(self) -> int:
        """What it takes to put it on its hosts: its VMs, and their guest nodes where these are many."""
        return sum(1 + len(vm.numa_nodes) // GUEST_NODES_OF_A_VM for vm in self.vms)


class _ByStart:
    """Promises, first come first, of which only those are looked at that may lie in some time."""

    def __init__(self) -> None:
        self._promises: list[MatchedPromise] = []
        self._starts_s: list[int] = []
        self._longest_s = 0

    def append(self, one: MatchedPromise) -> None:
        """Add one that comes behind all others."""
        self._promises.append(one)
        self._starts_s.append(one.stay.start_s)
        self._longest_s = max(self._longest_s, one.until_s - one.stay.start_s)

    def between(self, from_s: int, until_s: int) -> list[MatchedPromise]:
        """Those for some of the time between two instants."""
        first = bisect_left(self._starts_s, from_s - self._longest_s)
        last = bisect_left(self._starts_s, until_s)
        return [one for one in self._promises[first:last] if one.until_s > from_s]


class MatchedPromises:
    """All of them, by the rows of their hosts and by VM groups. `room` is that of their snapshot, left as observed.

    `looked_at` is the weight of those that were put on their hosts, `tries` for whom. `giving` are the leases that give
    way. `as_of` tells what the promises followed from when they were learned.
    """

    def __init__(self, room: Room, giving: Set[int]) -> None:
        self.looked_at, self.tries = 0, TriesPerOwner()
        self.giving = giving
        self.as_of: tuple[int, ...] = ()
        self._room = room
        self._by_row: dict[int, _ByStart] = {}
        self._by_group: dict[int, _ByStart] = {}
        self._rules: dict[frozenset[tuple[int | None, str | None]], tuple[frozenset[int], frozenset[int]]] = {}

    def learn(self, promises: Iterable[MatchedPromise], as_of: tuple[int, ...]) -> None:
        """Put these in the place of all that were known before; `as_of` tells what they followed from."""
        self.as_of, self._by_row, self._by_group = as_of, {}, {}
        for one in sorted(promises, key=first_come):
            for row in set(one.stay.host_rows):
                self._by_row.setdefault(row, _ByStart()).append(one)
            _, together = self.rules(one)
            for group in one.groups if together else ():
                self._by_group.setdefault(group, _ByStart()).append(one)

    def near(
        self, rows: Set[int], groups: Set[int], from_s: int = 0, until_s: int = END_OF_TIME_S
    ) -> list[MatchedPromise]:
        """Those on hosts of these rows, or tied to one host with VMs of these VM groups, between two instants.

        First come first. Whom their VM group only keeps apart from others are in nobody's way on other hosts.
        """
        there = [self._by_row[row] for row in rows if row in self._by_row]
        there += [self._by_group[group] for group in groups if group in self._by_group]
        found = {(one.lease.id, one.stay.start_s): one for those in there for one in those.between(from_s, until_s)}
        return sorted(found.values(), key=first_come)

    @property
    def rows(self) -> list[int]:
        """The rows of all hosts on which something is promised, ascending."""
        return sorted(self._by_row)

    def rules(self, one: MatchedPromise) -> tuple[frozenset[int], frozenset[int]]:
        """The VMs that the VM groups of a promise keep apart from its own, and those that they have share a host."""
        names = frozenset([(vm.vm_group_id, vm.vm_group_role) for vm in one.vms])
        if names not in self._rules:
            roles = [found for vm in one.vms if (found := role_of(vm, self._room.snapshot)) is not None]
            of_role = {(group.id, role.name): (group, role) for group, role in roles}
            rules = [rules_of_role(group, role, self._room) for group, role in of_role.values()]
            apart = frozenset[int]().union(*[those.apart for those in rules])
            together = frozenset[int]().union(*[tied for those in rules for tied in those.together])
            self._rules[names] = apart, together
        return self._rules[names]


def first_come(one: MatchedPromise) -> tuple[int, int]:
    """The key by which promises are put on their hosts in turn."""
    return one.stay.start_s, one.lease.id


def groups_of(vms: Sequence[VirtualMachine]) -> frozenset[int]:
    """The ids of the VM groups that any of these VMs is a member of."""
    return frozenset(vm.vm_group_id for vm in vms if vm.vm_group_id is not None)
