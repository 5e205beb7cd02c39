"""Who comes to which host, held against the rules of VM groups read one by one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from one_preempt.core.model.cluster_state import ClusterState
from one_preempt.core.model.infrastructure import VmGroup, VmGroupRole
from one_preempt.core.model.plan import Action, ActionKind, Plan
from one_preempt.core.model.virtual_machine import LcmState, VirtualMachine, VmState
from tests.core.recounted_cluster import WHY, cluster, codes, deploy, host, plan, running, waiting
from tests.counted_work import lines_run

HOSTS, ROLES = 3, ("a", "b", "c")
BROKEN = "group-rule-broken"


@dataclass(frozen=True)
class Member:
    """A VM of a role: it is `there` on a host, suspended there, or `comes` to one by the plan."""

    role: str
    host_id: int
    comes: bool
    suspended: bool = False


@dataclass(frozen=True)
class Rules:
    """Of one VM group: a policy a role, hosts for and against role a, and rules between roles."""

    policies: tuple[str, ...] = ("NONE", "NONE", "NONE")
    affined: tuple[tuple[str, ...], ...] = ()
    anti_affined: tuple[tuple[str, ...], ...] = ()
    hosts: tuple[int, ...] = ()
    not_hosts: tuple[int, ...] = ()


def told(rules: Rules, members: list[Member]) -> tuple[ClusterState, Plan]:
    """The members as VMs 10, 11 and so on, and the plan that starts those that come."""
    vms = [_vm(10 + number, one) for number, one in enumerate(members)]
    of_role = {name: tuple(vm.id for vm in vms if vm.vm_group_role == name) for name in ROLES}
    roles = tuple(
        VmGroupRole(
            number,
            name,
            policy,
            of_role[name],
            rules.hosts if name == "a" else (),
            rules.not_hosts if name == "a" else (),
        )
        for number, (name, policy) in enumerate(zip(ROLES, rules.policies, strict=True))
    )
    hosts = [host(number, [vm for vm in vms if vm.host_id == number], cpus=64, gib=64) for number in range(HOSTS)]
    state = cluster(hosts, vms)
    groups = {7: VmGroup(7, "g", roles, rules.affined, rules.anti_affined)}
    state = replace(state, snapshot=replace(state.snapshot, vm_groups=groups))
    return state, plan(*[deploy(10 + number, one.host_id) for number, one in enumerate(members) if one.comes])


def _vm(vm_id: int, one: Member) -> VirtualMachine:
    vm = waiting(vm_id) if one.comes else running(vm_id, one.host_id)
    if one.suspended and not one.comes:
        vm = replace(vm, state=VmState.SUSPENDED)
    return replace(vm, vm_group_id=7, vm_group_role=one.role)


def plainly_broken(rules: Rules, members: list[Member]) -> set[int]:
    """The numbers of the members that come where a rule forbids it."""
    return {number for number, one in enumerate(members) if one.comes and any(_faults(rules, members, number))}


def _faults(rules: Rules, members: list[Member], number: int) -> Iterator[bool]:
    mine, others = members[number], [one for place, one in enumerate(members) if place != number]
    policy = dict(zip(ROLES, rules.policies, strict=True))
    tied = {mine.role}
    for _ in rules.affined:
        tied |= {name for rule in rules.affined if tied & set(rule) for name in rule}
    if mine.role == "a":
        yield bool(rules.hosts) and mine.host_id not in rules.hosts
        yield mine.host_id in rules.not_hosts
    for one in others:
        apart = one.role == mine.role and policy[mine.role] == "ANTI_AFFINED"
        apart |= one.role != mine.role and any({one.role, mine.role} <= set(rule) for rule in rules.anti_affined)
        yield apart and one.host_id == mine.host_id
    beside = [one for one in others if one.role in tied and (len(tied) > 1 or policy[mine.role] == "AFFINED")]
    run_on = {one.host_id for one in beside if not one.comes and not one.suspended}
    if run_on:
        yield mine.host_id not in run_on
    else:
        yield any(one.host_id != mine.host_id for one in beside if one.comes)


pairs = st.sampled_from((("a", "b"), ("b", "c"), ("a", "c")))
rules_of_groups = st.builds(
    Rules,
    st.tuples(*[st.sampled_from(("NONE", "AFFINED", "ANTI_AFFINED"))] * 3),
    st.lists(pairs, max_size=2).map(tuple),
    st.lists(pairs, max_size=2).map(tuple),
    st.sampled_from(((), (0, 1))),
    st.sampled_from(((), (0,))),
)
several = st.lists(
    st.builds(Member, st.sampled_from(ROLES), st.integers(0, HOSTS - 1), st.booleans(), st.booleans()), max_size=5
)


@settings(derandomize=True, max_examples=400)
@given(rules_of_groups, several)
def test_who_comes_is_judged_as_by_reading_every_rule(rules: Rules, members: list[Member]) -> None:
    state, made = told(rules, members)
    found = codes(state, made)
    assert set(found) <= {BROKEN}
    assert bool(found) == bool(plainly_broken(rules, members)), (rules, members)


def test_whoever_leaves_keeps_nobody_apart_and_nobody_beside_him() -> None:
    for policy, host_id in (("ANTI_AFFINED", 0), ("AFFINED", 1)):
        state, made = told(
            Rules((policy, "NONE", "NONE")), [Member("a", 0, comes=False), Member("a", host_id, comes=True)]
        )
        assert codes(state, made) == [BROKEN]
        leaving = replace(state.snapshot.vms[10], lcm_state=LcmState.SHUTDOWN)
        vms = {**state.snapshot.vms, 10: leaving}
        assert codes(replace(state, snapshot=replace(state.snapshot, vms=vms)), made) == []


def test_those_that_move_together_find_each_other_where_they_come_to() -> None:
    """Both were marked to be moved: nobody of their role stays behind."""
    state, _ = told(Rules(("AFFINED", "NONE", "NONE")), [Member("a", 0, comes=False), Member("a", 0, comes=False)])
    marked = {vm_id: replace(vm, resched=True) for vm_id, vm in state.snapshot.vms.items()}
    state = replace(state, snapshot=replace(state.snapshot, vms=marked))
    for targets, expected in (((1, 1), False), ((1, 2), True)):
        moves = [
            Action(f"resched/{vm_id}", ActionKind.LIVE_MIGRATE, vm_id, vm_id, WHY, host_id=host_id)
            for vm_id, host_id in zip((10, 11), targets, strict=True)
        ]
        assert (BROKEN in codes(state, plan(*moves))) == expected


def test_a_new_member_may_come_to_one_that_is_marked_to_be_moved_and_stays_for_now() -> None:
    for host_id, expected in ((0, []), (1, []), (2, [BROKEN])):
        members = [Member("a", 0, comes=False), Member("a", 1, comes=False), Member("a", host_id, comes=True)]
        state, made = told(Rules(("AFFINED", "NONE", "NONE")), members)
        marked = {**state.snapshot.vms, 11: replace(state.snapshot.vms[11], resched=True)}
        assert codes(replace(state, snapshot=replace(state.snapshot, vms=marked)), made) == expected


def test_a_new_member_may_come_to_one_that_is_leaving_or_to_where_one_moves() -> None:
    """The decision goes by who is there, and who will be: it is refused only what fits neither."""
    for host_id, expected in ((0, []), (1, []), (2, [BROKEN])):
        members = [Member("a", 0, comes=False), Member("a", 1, comes=False), Member("a", host_id, comes=True)]
        state, made = told(Rules(("AFFINED", "NONE", "NONE")), members)
        leaving = {**state.snapshot.vms, 11: replace(state.snapshot.vms[11], lcm_state=LcmState.SHUTDOWN)}
        assert codes(replace(state, snapshot=replace(state.snapshot, vms=leaving)), made) == expected
        moving = {**state.snapshot.vms, 11: replace(state.snapshot.vms[11], resched=True)}
        moves = Action("resched/11", ActionKind.LIVE_MIGRATE, 11, 11, WHY, host_id=0)
        with_move = replace(made, actions=(*made.actions, moves))
        found = codes(replace(state, snapshot=replace(state.snapshot, vms=moving)), with_move)
        assert (BROKEN in found) == (host_id != 0), host_id


def lines_to_recount(rules: int) -> int:
    names = [f"r{number}" for number in range(rules)]
    chain = tuple(pairwise(names))[::-1]
    state, made = told(Rules(), [Member("a", 0, comes=True)])
    (group,) = state.snapshot.vm_groups.values()
    roles = (*group.roles, *(VmGroupRole(number, name, "NONE", ()) for number, name in enumerate(names, 10)))
    long = replace(group, roles=roles, affined=(*chain, ("a", "r0")), anti_affined=(*chain, ("a", "r1")))
    state = replace(state, snapshot=replace(state.snapshot, vm_groups={7: long}))
    assert codes(state, made) == []
    return lines_run(lambda: codes(state, made))


def test_a_chain_of_thousands_of_rules_is_walked_once() -> None:
    assert lines_to_recount(2000) < 2.1 * lines_to_recount(1000)
