"""Access rules against the rules that oned recorded with their meaning in words, and permissions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from lxml import etree
from msgspec.structs import replace

from one_preempt.adapters.opennebula.access_reader import read_directory
from one_preempt.core.matching.access import AccessRules, ObjectType, Owner, Right
from one_preempt.core.matching.reasons import Unplaced
from one_preempt.core.model.access import AclRule, Directory, User
from one_preempt.core.model.infrastructure import Permissions
from tests.core.matching.small_cloud import cloud, datastore, host, matchmaker, network, vm

RECORDINGS = Path(__file__).parents[2] / "recordings"
ANN = Owner(5, (1, 100))
ALL, GROUP, ONE, CLUSTER = 0x4_0000_0000, 0x2_0000_0000, 0x1_0000_0000, 0x8_0000_0000


def rules(*rules: tuple[int, int, int, int], zone_id: int = 0) -> AccessRules:
    packed = tuple(AclRule(number, *fields) for number, fields in enumerate(rules))
    return AccessRules(Directory(acl_rules=packed), zone_id)


def in_words(text: str, owner: Owner, kind: ObjectType, right: Right) -> bool:
    """Does a rule as oned writes it for people grant `right` on every object of `kind` in zone 0?"""
    who, what, rights, zone = text.split()
    kinds, scope = what.split("/")
    assert scope == "*"
    names_owner = who in {"*", f"#{owner.uid}", *(f"@{gid}" for gid in owner.group_ids)}
    return names_owner and kind.name in kinds.split("+") and right.name in rights.split("+") and zone in ("*", "#0")


@pytest.mark.parametrize("version", ["7.4.0", "6.10.0"])
def test_recorded_rules_grant_what_their_words_say(version: str) -> None:
    document = (RECORDINGS / version / "acl.info.xml").read_bytes()
    directory = read_directory(b"<USER_POOL/>", b"<GROUP_POOL/>", document, [])
    texts = {int(acl.findtext("ID", "")): acl.findtext("STRING", "") for acl in etree.fromstring(document)}
    assert len(texts) == len(directory.acl_rules) > 5
    for rule in directory.acl_rules:
        text = texts[rule.id]
        access = AccessRules(Directory(acl_rules=(rule,)), zone_id=0)
        for owner in (Owner(2, (1,)), Owner(2, (100,)), Owner(2, (1, 100)), Owner(100, (7,))):
            for kind in ObjectType:
                for right in Right:
                    granted = access.granted(owner, kind, right).everything
                    assert granted is in_words(text, owner, kind, right), (text, owner, kind, right)


@pytest.mark.parametrize(
    ("rule", "host_ids"),
    [
        ((GROUP | 1, ObjectType.HOST | ALL, Right.MANAGE, ALL), [1, 2, 3]),
        ((GROUP | 100, ObjectType.HOST | ONE | 2, Right.MANAGE, ALL), [2]),
        ((ONE | 5, ObjectType.HOST | CLUSTER | 101, Right.MANAGE | Right.USE, ALL), [3]),
        ((ALL, ObjectType.HOST | ALL, Right.USE, ALL), []),
        ((ALL, ObjectType.NET | ALL, Right.MANAGE, ALL), []),
        ((ONE | 6, ObjectType.HOST | ALL, Right.MANAGE, ALL), []),
        ((GROUP | 5, ObjectType.HOST | ALL, Right.MANAGE, ALL), []),
        ((ALL, ObjectType.HOST | ALL, Right.MANAGE, ONE | 0), [1, 2, 3]),
        ((ALL, ObjectType.HOST | ALL, Right.MANAGE, ONE | 1), []),
    ],
)
def test_a_rule_opens_the_hosts_it_names(rule: tuple[int, int, int, int], host_ids: list[int]) -> None:
    ids, clusters = np.array([1, 2, 3]), np.array([0, 100, 101])

    assert ids[rules(rule).hosts(ANN, ids, clusters)].tolist() == host_ids


@pytest.mark.parametrize("owner", [Owner(0, (1,)), Owner(9, (0,)), Owner(9, (0, 1))])
def test_administrators_pass_every_check(owner: Owner) -> None:
    ids = np.array([1, 2])

    assert rules().hosts(owner, ids, ids).all()
    assert rules().may_use(owner, datastore(permissions=Permissions()))


def test_datastores_and_networks_open_by_their_permissions_too() -> None:
    nobody = Permissions(owner_use=False)

    assert rules().may_use(ANN, network(1, permissions=Permissions(), uid=5))
    assert not rules().may_use(ANN, network(1, permissions=nobody, uid=5))
    assert rules().may_use(ANN, datastore(permissions=Permissions(group_use=True), gid=100))
    assert not rules().may_use(ANN, datastore(permissions=Permissions(group_use=True), gid=7))
    assert rules().may_use(ANN, datastore(permissions=Permissions(owner_use=False, other_use=True)))


def test_datastores_and_networks_open_by_rules() -> None:
    use = rules((GROUP | 1, ObjectType.DATASTORE | CLUSTER | 101, Right.USE, ALL))
    group = rules((GROUP | 1, ObjectType.NET | GROUP | 42, Right.USE, ALL))
    closed = Permissions()

    assert use.may_use(ANN, datastore(permissions=closed, cluster_ids=(0, 101)))
    assert not use.may_use(ANN, datastore(permissions=closed, cluster_ids=(0,)))
    assert not use.may_use(ANN, network(1, permissions=closed, cluster_ids=(101,)))
    assert group.may_use(ANN, network(1, permissions=closed, gid=42))


def test_a_lock_against_use_closes_a_network_to_all_but_administrators() -> None:
    for level, open_to_ann in {"1": False, "2": True, "3": True, "4": False}.items():
        locked = network(1, attributes={"LOCK/LOCKED": (level,)})
        assert rules((ALL, ObjectType.NET | ALL, Right.USE, ALL)).may_use(ANN, locked) is open_to_ann
        assert rules().may_use(Owner(9, (0,)), locked)


def test_an_owner_has_the_groups_of_the_user() -> None:
    users = {5: User(5, "ann", 1, "users", (1, 100))}
    access = AccessRules(Directory(users=users), 0)

    assert access.owner_of(vm(7)) == ANN
    assert access.owner_of(replace(vm(7), gid=200)) == ANN
    assert access.owner_of(replace(vm(7), gid=0)).exempt
    assert AccessRules(Directory(), 0).owner_of(vm(7)) == Owner(5, (1,))


def test_a_vm_left_behind_in_a_group_gives_its_owner_no_right_of_that_group() -> None:
    left_behind = replace(vm(7), gid=200)
    by_group = AclRule(0, GROUP | 200, ObjectType.HOST | ALL, Right.MANAGE, ALL)
    maker = matchmaker(cloud([host(1)], [left_behind], rules=[by_group]))

    refusal = maker.place(left_behind, maker.new_room())

    assert isinstance(refusal, Unplaced)
    assert refusal.reason.code == "not-authorized"
