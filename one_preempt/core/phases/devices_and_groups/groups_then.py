"""The rules of VM groups at a time to come, counted over all of it: who is promised which host, and who ends when.

Of VMs that ask for nothing else no host has to be tried at any instant.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct

from one_preempt.core.availability.steps import END_OF_TIME_S
from one_preempt.core.availability.timeline import Stay
from one_preempt.core.matching.room import Room
from one_preempt.core.matching.vm_groups import RoleRules, role_of, rules_of_role
from one_preempt.core.model.virtual_machine import VirtualMachine, VmState

# A host by its row, from when until when somebody is on it.
_There = tuple[int, int, int]
_NOWHERE: frozenset[int] = frozenset()


class _OfRole(Struct, frozen=True):
    """Where a role may be: not on the rows `barred`, and for each set that shares a host beside those of it.

    The latter are given as they are at each instant that differs: the rows of those that run, and of those promised.
    """

    rules: RoleRules
    barred: frozenset[int]
    beside: tuple[frozenset[tuple[frozenset[int], frozenset[int]]], ...]


class GroupsThen:
    """What the VM groups of a request demand during a stay from `start_s` on, whichever its hosts are.

    `promised` are the stays of others of these groups that overlap with it, each with its VMs; `ends_s` tells when a VM
    that is on a host will have left it, None: nobody knows. `room` is what is observed now.
    """

    def __init__(
        self,
        vms: Sequence[VirtualMachine],
        start_s: int,
        promised: Sequence[tuple[Sequence[VirtualMachine], Stay]],
        ends_s: Callable[[VirtualMachine], int | None],
        room: Room,
    ) -> None:
        self._start_s, self._room, self._ends_s = start_s, room, ends_s
        self._instants = sorted({start_s, *(one.start_s for _, one in promised if one.start_s > start_s)})
        self._promised: dict[int, list[_There]] = {}
        for members, one in promised:
            end_s = END_OF_TIME_S if one.end_s is None else one.end_s
            for vm, row in zip(members, one.host_rows, strict=True):
                self._promised.setdefault(vm.id, []).append((row, one.start_s, end_s))
        self._of_role: dict[tuple[int, str], _OfRole] = {}
        self._role_of_vm: dict[int, tuple[int, str]] = {}
        for vm in vms:
            found = role_of(vm, room.snapshot)
            if found is not None:
                group, role = found
                key = self._role_of_vm[vm.id] = (group.id, role.name)
                if key not in self._of_role:
                    self._of_role[key] = self._seen(rules_of_role(group, role, room))

    def __len__(self) -> int:
        """The instants that were looked at."""
        return len(self._instants)

    def allow(self, vms: Sequence[VirtualMachine], host_rows: Sequence[int]) -> bool:
        """May these VMs be on these hosts all the time, beside each other too?"""
        there: dict[int, int] = {}
        for vm, row in zip(vms, host_rows, strict=True):
            key = self._role_of_vm.get(vm.id)
            if key is not None and not _allows(self._of_role[key], row, there):
                return False
            there[vm.id] = row
        return True

    def _seen(self, rules: RoleRules) -> _OfRole:
        barred = {row for vm_id in rules.apart for row in self._rows_at_start(vm_id)}
        barred |= {row for vm_id in rules.apart for row, _, _ in self._promised.get(vm_id, ())}
        beside = []
        for together in rules.together:
            running = _over_time(self._running(together), self._instants)
            coming = _over_time([one for vm_id in together for one in self._promised.get(vm_id, ())], self._instants)
            beside.append(frozenset(zip(running, coming, strict=True)))
        return _OfRole(rules, frozenset(barred), tuple(beside))

    def _rows_at_start(self, vm_id: int) -> Sequence[int]:
        """Where a VM is observed that will not have left by then."""
        rows = self._room.observed_rows_of(vm_id)
        vm = self._room.snapshot.vms.get(vm_id)
        if not rows or vm is None or vm.host_id is None:
            return rows
        ends_s = self._ends_s(vm)
        return rows if ends_s is None or ends_s > self._start_s else ()

    def _running(self, vm_ids: Iterable[int]) -> list[_There]:
        found = []
        for vm_id in vm_ids:
            vm = self._room.snapshot.vms.get(vm_id)
            if vm is None or vm.state is not VmState.ACTIVE or vm.host_id is None:
                continue
            # A host that is not in the table is none on which anybody else could be.
            row, ends_s = self._room.hosts.index_by_id.get(vm.host_id, -1), self._ends_s(vm)
            found.append((row, self._start_s, END_OF_TIME_S if ends_s is None else ends_s))
        return found


def _allows(role: _OfRole, row: int, there: dict[int, int]) -> bool:
    """`there`: the rows on which other members of the request will be."""
    if not role.rules.mask[row] or row in role.barred:
        return False
    if any(other == row and vm_id in role.rules.apart for vm_id, other in there.items()):
        return False
    for together, seen in zip(role.rules.together, role.beside, strict=True):
        own = {other for vm_id, other in there.items() if vm_id in together}
        for running, coming in seen:
            where = running or coming | own
            if where and row not in where:
                return False
    return True


def _over_time(those: Sequence[_There], instants: Sequence[int]) -> list[frozenset[int]]:
    """The rows on which any of those is at each of some instants, ascending."""
    coming = sorted(those, key=lambda one: one[1])
    going = sorted(those, key=lambda one: one[2])
    count, found = Counter[int](), list[frozenset[int]]()
    come = gone = 0
    rows = _NOWHERE
    for at_s in instants:
        before = come, gone
        while come < len(coming) and coming[come][1] <= at_s:
            count[coming[come][0]] += 1
            come += 1
        while gone < len(going) and going[gone][2] <= at_s:
            count[going[gone][0]] -= 1
            gone += 1
        if (come, gone) != before:
            rows = frozenset(row for row, number in count.items() if number > 0)
        found.append(rows)
    return found
