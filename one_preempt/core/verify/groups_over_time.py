"""No plan promises, or takes, a place that the rules of a VM group forbid at a time to come.

Of two whose claims overlap, and whom the rules keep apart or have share a host, one comes by the plan. Judged like
that are the claims of leases that waited when they were promised anything: what is sent out now, and what is owed its
return, is planned in CPU and memory alone, and looked at again when it waits. Nor is it judged who comes beside whoever
would lack his place, or other things, without the plan as well: first come, first served.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from functools import cached_property

from msgspec.structs import replace

from one_preempt.core.model.infrastructure import VmGroup, VmGroupRole
from one_preempt.core.model.lease import Lease
from one_preempt.core.verify.claims_over_time import (
    Claim,
    JudgedClaim,
    claims_on_hosts,
    hosts_that_get_more,
    leases_of_the_plan,
)
from one_preempt.core.verify.devices_over_time import has_come, has_lost_a_host
from one_preempt.core.verify.lease_over_time import has_return_promised, left_s
from one_preempt.core.verify.recount import ARRIVALS, Recount, Rule, Violation
from one_preempt.core.verify.vm_group_rules import kept_apart, kept_together, role_of

# Of so many leases it is asked in one plan whether they would lack something without it: owners write the rules.
MOST_ASKED = 100


def _rules_of_vm_groups_are_kept_over_time(recount: Recount) -> Iterator[Violation]:
    leases = [recount.leases[one] for one in sorted(leases_of_the_plan(recount) & recount.leases.keys())]
    roles = [role_of(recount, vm_id) for lease in leases for vm_id in lease.vm_ids]
    groups = {found[0].id: found[0] for found in roles if found is not None}
    of_group: dict[int | None, list[JudgedClaim]] = {}
    for one in _claims_of(recount, groups.values()):
        of_group.setdefault(one.claim.vm.vm_group_id, []).append(one)
    for group in groups.values():
        yield from _Sight(recount, group, of_group.get(group.id, ())).faults()


def _claims_of(recount: Recount, groups: Collection[VmGroup]) -> Iterator[JudgedClaim]:
    """What the members of these groups claim, wherever they are or were promised to be."""
    if not groups:
        return
    host_ids = set(hosts_that_get_more(recount))
    for vm_id in {vm_id for group in groups for role in group.roles for vm_id in role.vm_ids}:
        if vm_id in recount.vms:
            host_ids.update(recount.vms[vm_id].charged_host_ids)
            standing = recount.state.reservations.get(recount.lease_of_vm.get(vm_id, -1), ())
            host_ids.update(host_id for one in standing for host_id in one.host_ids)
    judged = [
        one
        for one in claims_on_hosts(recount, frozenset(host_ids & recount.hosts.keys()))
        if one.claim.vm.vm_group_id is not None
    ]
    # What is done about a lease may leave its claims as they are.
    standing_ones = {_key(one.claim) for one in judged if one.before}
    for one in judged:
        yield replace(one, before=one.before or _key(one.claim) in standing_ones)


def _key(claim: Claim) -> tuple[int, int, int, int | None]:
    return claim.vm.id, claim.host_id, claim.start_s, claim.end_s


class _Sight:
    """The claims of one VM group's members over time."""

    def __init__(self, recount: Recount, group: VmGroup, claims: Sequence[JudgedClaim]) -> None:
        self._recount, self._group, self._claims = recount, group, claims
        self._apart: dict[str, Set[int]] = {}
        self._together: dict[str, Set[int]] = {}
        self._lacks_already: dict[int, bool] = {}
        self._comes: dict[int, bool] = {}

    def faults(self) -> Iterator[Violation]:
        """What the plan adds against the rules: one for each VM."""
        for one in self._claims:
            if not one.after or one.before or self._is_not_judged(one.claim):
                continue
            fault = self._fault(one.claim)
            if fault is not None:
                vm, host_id = one.claim.vm, one.claim.host_id
                text = f"VM {vm.id} of VM group {self._group.id} would be on host {host_id} at {one.claim.start_s}"
                yield Violation("group-rule-broken", f"{text}, {fault}")

    @cached_property
    def _on_host(self) -> Mapping[int, Sequence[JudgedClaim]]:
        """The claims that stand with the plan, by host."""
        found: dict[int, list[JudgedClaim]] = {}
        for one in self._claims:
            if one.after:
                found.setdefault(one.claim.host_id, []).append(one)
        return found

    @cached_property
    def _before(self) -> Mapping[int, Sequence[Claim]]:
        """The claims that stand without the plan, by VM."""
        found: dict[int, list[Claim]] = {}
        for one in self._claims:
            if one.before:
                found.setdefault(one.claim.vm.id, []).append(one.claim)
        return found

    def _fault(self, new: Claim) -> str | None:
        found = role_of(self._recount, new.vm.id)
        if found is None:
            return None
        apart, together = self._of_role(found[1])
        for one in self._beside(new, [new.host_id], apart):
            if not self._is_excused(one, new, share_a_host=True):
                return f"from which VM {one.claim.vm.id} keeps it apart then"
        if self._somebody_is_on(new.host_id, together, new):
            return None
        for one in self._beside(new, self._on_host.keys() - {new.host_id}, together):
            if not self._is_excused(one, new, share_a_host=False):
                return f"and VM {one.claim.vm.id}, with which it shares one, elsewhere"
        return None

    def _beside(self, new: Claim, host_ids: Iterable[int], vm_ids: Set[int]) -> Iterator[JudgedClaim]:
        """The claims of these VMs on these hosts, but for its own, that overlap with a claim."""
        others = vm_ids - {new.vm.id}
        for host_id in sorted(host_ids) if others else ():
            for one in self._on_host.get(host_id, ()):
                if one.claim.vm.id in others and _overlap(one.claim, new):
                    yield one

    def _of_role(self, role: VmGroupRole) -> tuple[Set[int], Set[int]]:
        """The VMs that are kept apart from those of a role, and those that share a host with them."""
        if role.name not in self._apart:
            self._apart[role.name] = kept_apart(self._group, role)
            self._together[role.name] = kept_together(self._group, role)
        return self._apart[role.name], self._together[role.name]

    def _somebody_is_on(self, host_id: int, vm_ids: Set[int], new: Claim) -> bool:
        """One of these VMs is on a host, comes there by the plan, or was or will be promised it for whatever time."""
        vms, others = self._recount.vms, vm_ids - {new.vm.id}
        there = any(vm_id in vms and host_id in vms[vm_id].charged_host_ids for vm_id in others)
        there |= any(self._arrivals.get(vm_id) == host_id for vm_id in others)
        return there or not others.isdisjoint(self._members_on.get(host_id, ()))

    @cached_property
    def _members_on(self) -> Mapping[int, Set[int]]:
        """The VMs that claim each host, with the plan or without it."""
        found: dict[int, set[int]] = {}
        for one in self._claims:
            found.setdefault(one.claim.host_id, set()).add(one.claim.vm.id)
        return found

    @cached_property
    def _arrivals(self) -> Mapping[int, int | None]:
        return {action.vm_id: action.host_id for action in self._recount.plan.actions if action.kind in ARRIVALS}

    def _is_excused(self, other: JudgedClaim, new: Claim, *, share_a_host: bool) -> bool:
        """It takes nothing from another by the plan: it met with it before, or that would have no place anyway."""
        if not other.before and self._is_not_judged(other.claim):
            return True
        for mine in self._before.get(new.vm.id, ()):
            for theirs in self._before.get(other.claim.vm.id, ()):
                if (mine.host_id == theirs.host_id) == share_a_host and _overlap(mine, theirs):
                    return True
        lease = self._recount.leases[self._recount.lease_of_vm[other.claim.vm.id]]
        waits = all(self._recount.vms[vm_id].host_id is None for vm_id in lease.vm_ids)
        return other.before and waits and self._would_lack_something(lease)

    def _is_not_judged(self, claim: Claim) -> bool:
        """Its time has come; or it is promised something while it runs, or for its return."""
        lease = self._recount.leases[self._recount.lease_of_vm[claim.vm.id]]
        if lease.id not in self._comes:
            on_hosts = any(self._recount.vms[vm_id].host_id is not None for vm_id in lease.vm_ids)
            owed = has_return_promised(lease) and lease.terms.deadline_at_s is None
            self._comes[lease.id] = on_hosts or owed or has_come(self._recount, lease.id)
        return self._comes[lease.id]

    def _would_lack_something(self, lease: Lease) -> bool:
        """Without the plan it may have no place, devices or cores when its time comes."""
        if lease.id not in self._lacks_already:
            is_many = len(self._lacks_already) >= MOST_ASKED
            self._lacks_already[lease.id] = is_many or self._lacks(lease)
        return self._lacks_already[lease.id]

    def _lacks(self, lease: Lease) -> bool:
        recount = self._recount
        if any(recount.vms[vm_id].needs_hardware for vm_id in lease.vm_ids) or has_lost_a_host(recount, lease.id):
            return True
        for vm_id in lease.vm_ids:
            found = role_of(recount, vm_id)
            mine = self._before.get(vm_id, ()) if found is not None else ()
            if found is not None and any(self._has_no_place(one, found[1]) for one in mine):
                return True
        return False

    def _has_no_place(self, mine: Claim, role: VmGroupRole) -> bool:
        """Somebody will be, as far as is known, where he keeps it from its host, or elsewhere and shares one with it.

        Or its role may not be there at all.
        """
        if (role.host_affined and mine.host_id not in role.host_affined) or mine.host_id in role.host_anti_affined:
            return True
        apart, together = self._of_role(role)
        near = (one for vm_id in (apart | together) - {mine.vm.id} for one in self._before.get(vm_id, ()))
        others = [(one.vm.id, one.host_id) for one in near if _overlap(one, mine)]
        others += self._still_there((apart | together) - {mine.vm.id}, mine.start_s)
        barred = any(vm_id in apart and host_id == mine.host_id for vm_id, host_id in others)
        return barred or any(vm_id in together and host_id != mine.host_id for vm_id, host_id in others)

    def _still_there(self, vm_ids: Iterable[int], at_s: int) -> list[tuple[int, int]]:
        """Those on hosts now who will not have ended by an instant: nobody is sent out for the sake of a VM group."""
        vms = [self._recount.vms[vm_id] for vm_id in vm_ids if vm_id in self._recount.vms]
        staying = [vm for vm in vms if not self._ends_by(self._recount.leases[self._recount.lease_of_vm[vm.id]], at_s)]
        return [(vm.id, host_id) for vm in staying for host_id in vm.charged_host_ids]

    def _ends_by(self, lease: Lease, at_s: int) -> bool:
        """It runs, and ends by itself until then; nobody knows that of what outlives its DURATION."""
        now_s = self._recount.state.now_s
        left = left_s(lease, now_s) if lease.run_began_at_s is not None else None
        return left is not None and 0 < left <= at_s - now_s


def _overlap(one: Claim, other: Claim) -> bool:
    """At some instant both stand."""
    return (one.end_s is None or other.start_s < one.end_s) and (other.end_s is None or one.start_s < other.end_s)


RULES: tuple[Rule, ...] = (_rules_of_vm_groups_are_kept_over_time,)
