"""Rules between the roles of a VM group, against a plain reading of them, and groups written to take long."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from one_preempt.core.matching import vm_groups
from one_preempt.core.matching.vm_groups import group_rules
from one_preempt.core.model.infrastructure import VmGroup, VmGroupRole
from tests.core.matching.small_cloud import cloud, host, matchmaker, running, vm

ROLES = ("a", "b", "c", "d", "e")
rules = st.lists(st.lists(st.sampled_from((*ROLES, "nobody")), max_size=3).map(tuple), max_size=5).map(tuple)


def plainly_joined(all_rules: tuple[tuple[str, ...], ...], name: str) -> set[str]:
    """Whoever shares a rule with somebody who is joined already is joined."""
    joined = {role for rule in all_rules if name in rule for role in rule}
    for _ in all_rules:
        joined |= {role for rule in all_rules if joined & set(rule) for role in rule}
    return joined


@given(rules, st.sampled_from(ROLES))
def test_overlapping_rules_join_what_they_tie_together(affined: tuple[tuple[str, ...], ...], name: str) -> None:
    assert vm_groups._joined_roles(affined, name) == plainly_joined(affined, name)


@given(rules, st.sampled_from(ROLES))
def test_who_is_kept_apart_is_whoever_shares_a_rule(anti_affined: tuple[tuple[str, ...], ...], name: str) -> None:
    roles = tuple(VmGroupRole(number, role, "", (number,)) for number, role in enumerate(ROLES))
    members = [
        replace(running(vm(number), number), vm_group_id=0, vm_group_role=role) for number, role in enumerate(ROLES)
    ]
    coming = replace(vm(99), vm_group_id=0, vm_group_role=name)
    group = VmGroup(0, "g", roles, anti_affined=anti_affined)
    room = matchmaker(cloud([host(number) for number in range(5)], [*members, coming], vm_groups={0: group})).new_room()

    found = group_rules(coming, room)

    assert found is not None
    partners = {role for rule in anti_affined if name in rule for role in rule} - {name}
    assert [not free for free in found.mask.tolist()] == [role in partners for role in ROLES]


def test_a_chain_of_thousands_of_rules_is_walked_once() -> None:
    names = [f"r{number}" for number in range(5000)]
    chain = tuple((one, other) for one, other in reversed(list(pairwise(names))))

    assert vm_groups._joined_roles(chain, "r0") == set(names)
