"""The rules of VM groups, which oned does not look at: nobody comes to a host that they forbid him.

Whoever is on a host counts there unless he is leaving, by this plan or already; whoever comes counts where he comes to.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set

from one_preempt.core.model.infrastructure import VmGroup, VmGroupRole
from one_preempt.core.model.plan import ActionKind
from one_preempt.core.model.virtual_machine import VmState
from one_preempt.core.verify.claims_over_time import LEAVING_STATES
from one_preempt.core.verify.recount import ARRIVALS, REMOVALS, Recount, Rule, Violation

AFFINED, ANTI_AFFINED = "AFFINED", "ANTI_AFFINED"
# They have a VM that rests on its host run there again.
WAKENING = frozenset({ActionKind.UNLOCK, ActionKind.RESUME})


def _rules_of_vm_groups_are_kept(recount: Recount) -> Iterator[Violation]:
    arrivals = {
        action.vm_id: action.host_id
        for action in recount.plan.actions
        if action.kind in ARRIVALS and action.host_id is not None and not recount.under_way(action)
    }
    members = {vm_id: found for vm_id in sorted(arrivals) if (found := role_of(recount, vm_id)) is not None}
    removed = {action.vm_id for action in recount.plan.actions if action.kind in REMOVALS}
    woken = {action.vm_id for action in recount.plan.actions if action.kind in WAKENING}
    sights: dict[tuple[int, str], _Sight] = {}
    for vm_id, (group, role) in members.items():
        sight = sights.get((group.id, role.name))
        if sight is None:
            sight = sights[group.id, role.name] = _Sight(recount, (arrivals, removed, woken), group, role)
        for fault in sight.faults(vm_id):
            text = f"VM {vm_id} of VM group {group.id} would come to host {arrivals[vm_id]}, {fault}"
            yield Violation("group-rule-broken", text)


def role_of(recount: Recount, vm_id: int) -> tuple[VmGroup, VmGroupRole] | None:
    """The VM group of a VM and its role in it."""
    vm = recount.vms.get(vm_id)
    group = recount.state.snapshot.vm_groups.get(-1 if vm is None or vm.vm_group_id is None else vm.vm_group_id)
    if vm is None or group is None:
        return None
    return next(((group, role) for role in group.roles if role.name == vm.vm_group_role), None)


# By the plan: to which host each VM comes, who is taken off his host, and who runs there again.
_Planned = tuple[Mapping[int, int], Set[int], Set[int]]


class _Sight:
    """Where those are, and come to by the plan, whom the rules of one role keep apart from its VMs, or beside them."""

    def __init__(self, recount: Recount, planned: _Planned, group: VmGroup, role: VmGroupRole) -> None:
        self._recount, self._role = recount, role
        self._arrivals, self._removed, self._woken = planned
        arrivals = self._arrivals
        self._apart_on: dict[int, set[int]] = {}
        for vm_id in kept_apart(group, role):
            for host_id in (arrivals.get(vm_id), self._stays_on(vm_id)):
                if host_id is not None:
                    self._apart_on.setdefault(host_id, set()).add(vm_id)
        together = kept_together(group, role)
        self._running_on = {self._runs_on(vm_id) for vm_id in together} - {None}
        marked = {vm_id for vm_id in together if vm_id in recount.vms and recount.vms[vm_id].resched}
        self._staying_on = {self._runs_on(vm_id) for vm_id in together - marked} - {None}
        # Who is leaving is there still; who moves by this plan will be where he moves to.
        active = [vm for vm_id in together if (vm := recount.vms.get(vm_id)) is not None and vm.state is VmState.ACTIVE]
        self._active_on = {vm.host_id for vm in active if vm.id not in arrivals}
        self._moved_to = {arrivals[vm.id] for vm in active if vm.id in arrivals}
        self._coming_to = {arrivals[vm_id] for vm_id in together if vm_id in arrivals}

    def faults(self, vm_id: int) -> Iterator[str]:
        """What is wrong with the host that a VM of the role comes to."""
        host_id, role = self._arrivals[vm_id], self._role
        if role.host_affined and host_id not in role.host_affined:
            yield f"which is none of the hosts of role {role.name}"
        if host_id in role.host_anti_affined:
            yield f"from which role {role.name} keeps away"
        others = self._apart_on.get(host_id, set()) - {vm_id}
        if others:
            yield f"from which VM {min(others)} keeps it apart"
        # Of those who move it is asked where others are who were not asked to move as well.
        moves = self._recount.vms[vm_id].host_id is not None
        there = self._staying_on if moves else self._running_on
        for_a_while = self._active_on if moves else self._active_on | self._moved_to
        if there and host_id not in there | for_a_while:
            yield "where those are not with whom it shares one"
        elif not there and len(self._coming_to) > 1 and host_id not in self._active_on:
            yield f"and those with whom it shares one to {sorted(self._coming_to)}"

    def _stays_on(self, vm_id: int) -> int | None:
        """The host that a VM is on, unless it leaves it, or comes to another."""
        vm = self._recount.vms.get(vm_id)
        if vm is None or vm_id in self._arrivals or vm_id in self._removed or vm.state_name in LEAVING_STATES:
            return None
        return vm.host_id

    def _runs_on(self, vm_id: int) -> int | None:
        """The same of those alone that run there."""
        vm = self._recount.vms.get(vm_id)
        runs = vm is not None and (vm.state is VmState.ACTIVE or vm_id in self._woken)
        return self._stays_on(vm_id) if runs else None


def kept_apart(group: VmGroup, role: VmGroupRole) -> Set[int]:
    """The VMs that must be on no host of this role's."""
    names = {name for rule in group.anti_affined if role.name in rule for name in rule} - {role.name}
    found = {vm_id for other in group.roles if other.name in names for vm_id in other.vm_ids}
    return found | set(role.vm_ids) if role.policy == ANTI_AFFINED else found


def kept_together(group: VmGroup, role: VmGroupRole) -> Set[int]:
    """The VMs that share a host with this role's: rules that name the same role are one.

    Each rule is looked at once: owners write as many as they like.
    """
    naming: dict[str, list[int]] = {}
    for number, rule in enumerate(group.affined):
        for name in rule:
            naming.setdefault(name, []).append(number)
    names, waiting, seen = {role.name}, [role.name], set[int]()
    while waiting:
        for number in naming.get(waiting.pop(), ()):
            if number not in seen:
                seen.add(number)
                waiting.extend(set(group.affined[number]) - names)
                names.update(group.affined[number])
    if len(names) > 1:
        return {vm_id for other in group.roles if other.name in names for vm_id in other.vm_ids}
    return set(role.vm_ids) if role.policy == AFFINED else set()


RULES: tuple[Rule, ...] = (_rules_of_vm_groups_are_kept,)
