"""What was promised for a time to come of devices, cores and places beside VM groups, as one decision knows it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass

from one_preempt.core.availability.steps import END_OF_TIME_S
from one_preempt.core.availability.timeline import Stay
from one_preempt.core.matching.vm_groups import role_of, rules_of_role
from one_preempt.core.memory.lease_concerns import Concern
from one_preempt.core.model.lease import Lease
from one_preempt.core.model.reservation import Verdict
from one_preempt.core.model.virtual_machine import VirtualMachine
from one_preempt.core.phases.devices_and_groups.matched_then import need_matching
from one_preempt.core.phases.devices_and_groups.tries_beside import TriesBeside
from one_preempt.core.phases.draft import PlanDraft
from one_preempt.core.phases.reservations.giving_way import giving_way, preemptions_under_way

# So many guest nodes of a VM are put on a host in about as long as a VM without any.
GUEST_NODES_OF_A_VM = 32


@dataclass(frozen=True, slots=True)
class MatchedPromise:
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
    """What one decision knows of them: found when first asked for, and again once a stay has changed.

    `looked_at` is the weight of those that were put on their hosts, `tries` for whom. `giving` are the leases that give
    way.
    """

    def __init__(self, draft: PlanDraft) -> None:
        self.looked_at, self.tries = 0, TriesBeside()
        self.giving = frozenset(one.lease.id for one in giving_way(draft))
        self._as_of: tuple[int, ...] = ()
        self._by_row: dict[int, _ByStart] = {}
        self._by_group: dict[int, _ByStart] = {}
        self._rules: dict[frozenset[tuple[int | None, str | None]], tuple[frozenset[int], frozenset[int]]] = {}

    def near(
        self, draft: PlanDraft, rows: Set[int], groups: Set[int], from_s: int = 0, until_s: int = END_OF_TIME_S
    ) -> list[MatchedPromise]:
        """Those on hosts of these rows, or tied to one host with VMs of these VM groups, between two instants.

        First come first. Whom their VM group only keeps apart from others are in nobody's way on other hosts.
        """
        self._follow(draft)
        there = [self._by_row[row] for row in rows if row in self._by_row]
        there += [self._by_group[group] for group in groups if group in self._by_group]
        found = {(one.lease.id, one.stay.start_s): one for those in there for one in those.between(from_s, until_s)}
        return sorted(found.values(), key=first_come)

    def rows(self, draft: PlanDraft) -> list[int]:
        """The rows of all hosts of theirs."""
        self._follow(draft)
        return sorted(self._by_row)

    def rules(self, draft: PlanDraft, one: MatchedPromise) -> tuple[frozenset[int], frozenset[int]]:
        """The VMs that the VM groups of a promise keep apart from its own, and those that they have share a host."""
        names = frozenset([(vm.vm_group_id, vm.vm_group_role) for vm in one.vms])
        if names not in self._rules:
            roles = [found for vm in one.vms if (found := role_of(vm, draft.state.snapshot)) is not None]
            of_role = {(group.id, role.name): (group, role) for group, role in roles}
            rules = [rules_of_role(group, role, draft.room_then) for group, role in of_role.values()]
            apart = frozenset[int]().union(*[those.apart for those in rules])
            together = frozenset[int]().union(*[tied for those in rules for tied in those.together])
            self._rules[names] = apart, together
        return self._rules[names]

    def _follow(self, draft: PlanDraft) -> None:
        under_way = len(draft.preemptions), len(draft.ended)
        as_of = (draft.timeline.firm_stays.number, len(draft.starting), len(draft.verdicts), *under_way)
        if as_of == self._as_of:
            return
        self._as_of, self._by_row, self._by_group = as_of, {}, {}
        for one in sorted(_stays_ahead(draft), key=first_come):
            for row in set(one.stay.host_rows):
                self._by_row.setdefault(row, _ByStart()).append(one)
            _, together = self.rules(draft, one)
            for group in one.groups if together else ():
                self._by_group.setdefault(group, _ByStart()).append(one)


def matched_promises(draft: PlanDraft) -> MatchedPromises | None:
    """What is known of them; None where there are none."""
    if draft.matched_promises is None:
        if not (draft.concerns.all(Concern.PROMISED_MATCHED) or draft.verdicts):
            return None
        if next(_stays_ahead(draft), None) is None:
            return None
    return known_promises(draft)


def known_promises(draft: PlanDraft) -> MatchedPromises:
    """What is known of them, be there any or not; found out when first asked for."""
    if draft.matched_promises is None:
        draft.matched_promises = MatchedPromises(draft)
    return draft.matched_promises


def guests_near(draft: PlanDraft, near: Sequence[MatchedPromise]) -> list[VirtualMachine]:
    """Who is on a host of these promises, or in a VM group of theirs, and has more than CPU and memory."""
    groups = frozenset[int]().union(*[one.groups for one in near])
    return draft.matched_guests.near({row for one in near for row in one.stay.host_rows}, groups)


def first_come(one: MatchedPromise) -> tuple[int, int]:
    """The key by which promises are put on their hosts in turn."""
    return one.stay.start_s, one.lease.id


def _stays_ahead(draft: PlanDraft) -> Iterator[MatchedPromise]:
    """All that still lie ahead, and those of them whose time has come while their lease is on no host yet.

    So is that of a preemptor for which others are leaving: what it will have is as good as promised.
    """
    known, leases, now_s = draft.concerns.all(Concern.PROMISED_MATCHED), draft.state.leases, draft.state.now_s
    found = [one.lease_id for one in draft.verdicts.values() if one.verdict is Verdict.ACCEPTED]
    found += [one.preemptor_lease_id for one in preemptions_under_way(draft)]
    others = {lease_id: leases[lease_id] for lease_id in found if lease_id in leases and lease_id not in known}
    for lease in (*known.values(), *others.values()):
        stays = [one for one in draft.timeline.stays.get(lease.id, ()) if one.firm and not one.displaced]
        if not stays:
            continue
        vms = tuple(draft.members(lease))
        if lease.id in draft.starting or any(vm.host_id is not None for vm in vms):
            stays = [one for one in stays if one.start_s > now_s]
        if stays and need_matching(vms):
            whole = (one for one in stays if len(one.host_rows) == len(vms))
            yield from (MatchedPromise(lease, vms, one, groups_of(vms)) for one in whole)


def groups_of(vms: Sequence[VirtualMachine]) -> frozenset[int]:
    """The ids of their VM groups."""
    return frozenset(vm.vm_group_id for vm in vms if vm.vm_group_id is not None)
