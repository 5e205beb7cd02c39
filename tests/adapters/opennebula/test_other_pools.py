from __future__ import annotations

from pathlib import Path

import pytest

from one_preempt.adapters.opennebula.access_reader import read_directory
from one_preempt.adapters.opennebula.infrastructure_reader import (
    read_cluster_pool,
    read_datastore_pool,
    read_network_pool,
    read_vm_group_pool,
)
from one_preempt.core.model.access import AclRule, Directory, Group, Quota, User
from one_preempt.core.model.infrastructure import Cluster, DatastoreType, Permissions, VmGroup, VmGroupRole

RECORDINGS = Path(__file__).resolve().parents[2] / "recordings"
VERSIONS = ("7.4.0", "6.10.0")


def document(version: str, name: str) -> bytes:
    return (RECORDINGS / version / f"{name}.xml").read_bytes()


def directory(version: str) -> Directory:
    problems: list[str] = []
    pools = [document(version, name) for name in ("userpool.info", "grouppool.info", "acl.info")]
    found = read_directory(pools[0], pools[1], pools[2], problems)
    assert problems == []
    return found


@pytest.mark.parametrize("version", VERSIONS)
def test_clusters_list_their_hosts_datastores_and_networks(version: str) -> None:
    pool = "clusterpool.info.with_plan" if version == "7.4.0" else "clusterpool.info"
    clusters = read_cluster_pool(document(version, pool), [])
    hosts_of_rack_b = (3, 4, 5, 6) if version == "7.4.0" else (3, 4, 5)
    nothing_reserved = {"RESERVED_CPU": ("",), "RESERVED_MEM": ("",)}
    room = {"LOCATION": ("room 1",), "RESERVED_CPU": ("0",), "RESERVED_MEM": ("0",)}
    assert clusters == {
        0: Cluster(0, "default", (), (0, 1, 2, 100, 101), (0,), nothing_reserved),
        100: Cluster(100, "rack-a", (0, 1, 2), (100, 101), (0,), room),
        101: Cluster(101, "rack-b", hosts_of_rack_b, (100, 101), (0,), nothing_reserved),
    }


@pytest.mark.parametrize("version", VERSIONS)
def test_datastores_of_every_type_are_read(version: str) -> None:
    datastores = read_datastore_pool(document(version, "datastorepool.info"), [])
    assert {store.id: (store.name, store.type, store.enabled, store.cluster_ids) for store in datastores.values()} == {
        0: ("system", DatastoreType.SYSTEM, True, (0,)),
        1: ("default", DatastoreType.IMAGE, True, (0,)),
        2: ("files", DatastoreType.FILE, True, (0,)),
        100: ("sys-dummy", DatastoreType.SYSTEM, True, (0, 100, 101)),
        101: ("img-dummy", DatastoreType.IMAGE, True, (0, 100, 101)),
    }
    system = datastores[100]
    assert (system.shared, system.tm_mad, system.limit_mib, system.uid, system.gid) == (True, "dummy", None, 0, 0)
    assert system.permissions == Permissions(group_use=True)
    space = {"7.4.0": (4796800, 3333260, 1429920), "6.10.0": (0, 0, 0)}[version]
    assert (system.total_mib, system.free_mib, system.used_mib) == space
    assert not datastores[0].shared
    assert system.attributes["TEMPLATE/DS_MIGRATE"] == ("YES",)
    assert system.attributes["CLUSTERS/ID"] == ("0", "100", "101")


def test_a_limited_disabled_datastore_is_read_so() -> None:
    text = document("7.4.0", "datastorepool.info").replace(
        b"<SHARED><![CDATA[YES]]></SHARED>", b"<SHARED>yes</SHARED><LIMIT_MB>500</LIMIT_MB>"
    )
    limited = read_datastore_pool(text.replace(b"<STATE>0</STATE>", b"<STATE>1</STATE>"), [])[100]
    assert (limited.limit_mib, limited.shared, limited.enabled) == (500, True, False)


@pytest.mark.parametrize("version", VERSIONS)
def test_networks_count_their_leases(version: str) -> None:
    network = read_network_pool(document(version, "vnpool.info"), [])[0]
    assert (network.name, network.cluster_ids) == ("private", (0, 100, 101))
    assert (network.size_leases, network.used_leases) == (200, 15)
    assert network.permissions == Permissions()
    assert network.attributes["TEMPLATE/VN_MAD"] == ("dummy",)
    assert "UPDATED_VMS/ID" not in network.attributes


@pytest.mark.parametrize("version", VERSIONS)
def test_vm_groups_keep_roles_members_and_rules(version: str) -> None:
    assert read_vm_group_pool(document(version, "vmgrouppool.info"), []) == {
        0: VmGroup(
            0,
            "web-tier",
            (VmGroupRole(0, "front", "ANTI_AFFINED", (12,)), VmGroupRole(1, "back", "AFFINED", (13,))),
            anti_affined=(("front", "back"),),
        )
    }


def test_host_affinity_and_several_rules_of_a_vm_group_are_kept() -> None:
    text = (
        b"<VM_GROUP_POOL><VM_GROUP><ID>3</ID><NAME>g</NAME><ROLES><ROLE><ID>0</ID><NAME>a</NAME><VMS/>"
        b"<HOST_AFFINED>1,2</HOST_AFFINED><HOST_ANTI_AFFINED>7</HOST_ANTI_AFFINED></ROLE></ROLES>"
        b"<TEMPLATE><AFFINED>a, b</AFFINED><AFFINED>c,d</AFFINED></TEMPLATE></VM_GROUP></VM_GROUP_POOL>"
    )
    group = read_vm_group_pool(text, [])[3]
    assert group.roles == (VmGroupRole(0, "a", "", (), (1, 2), (7,)),)
    assert group.affined == (("a", "b"), ("c", "d"))


@pytest.mark.parametrize("version", VERSIONS)
def test_users_and_groups_are_read_with_their_quotas(version: str) -> None:
    found = directory(version)
    assert {user.id: (user.name, user.gid, user.gname, user.group_ids) for user in found.users.values()} == {
        0: ("oneadmin", 0, "oneadmin", (0,)),
        1: ("serveradmin", 0, "oneadmin", (0,)),
        2: ("alice", 100, "project-x", (100,)),
        3: ("bob", 1, "users", (1,)),
    }
    assert {group.id: (group.name, group.user_ids) for group in found.groups.values()} == {
        0: ("oneadmin", (0, 1)),
        1: ("users", (3,)),
        100: ("project-x", (2,)),
    }
    (quota,) = found.users[2].vm_quotas
    assert quota.cluster_ids == ()
    assert (quota.limits["CPU"], quota.limits["MEMORY"], quota.limits["RUNNING_VMS"]) == (64, 131072, 20)
    assert (quota.used["CPU"], quota.used["RUNNING_CPU"], quota.used["RUNNING_VMS"]) == (7, 6, 3)
    assert quota.limits["RUNNING_CPU"] == -1
    assert set(quota.limits) == set(quota.used)
    assert [user.id for user in found.users.values() if user.vm_quotas] == [2]
    assert found.groups[100].vm_quotas[0].used["RUNNING_MEMORY"] == 10240


def test_cluster_quotas_default_quotas_and_disabled_users_are_read() -> None:
    quota = b"<VM_QUOTA><VM><CLUSTER_IDS>%b</CLUSTER_IDS><CPU>2.5</CPU><CPU_USED>1</CPU_USED></VM></VM_QUOTA>"
    users = (
        b"<USER_POOL><USER><ID>5</ID><GID>1</GID><GROUPS><ID>1</ID><ID>7</ID></GROUPS><NAME>eve</NAME>"
        b"<ENABLED>0</ENABLED></USER><QUOTAS><ID>5</ID>" + quota % b"100,101" + b"</QUOTAS>"
        b"<DEFAULT_USER_QUOTAS>" + quota % b"" + b"</DEFAULT_USER_QUOTAS></USER_POOL>"
    )
    found = read_directory(users, b"", b"", [])
    assert found == Directory(
        users={5: User(5, "eve", 1, "", (1, 7), False, (Quota((100, 101), {"CPU": 2.5}, {"CPU": 1.0}),))},
        default_user_vm_quotas=(Quota((), {"CPU": 2.5}, {"CPU": 1.0}),),
    )
    assert read_directory(b"", b"<GROUP_POOL><GROUP><ID>1</ID><NAME>g</NAME></GROUP></GROUP_POOL>", b"", []).groups == {
        1: Group(1, "g")
    }


@pytest.mark.parametrize("version", VERSIONS)
def test_access_rules_are_the_bits_that_oned_packs(version: str) -> None:
    rules = directory(version).acl_rules
    assert [rule.id for rule in rules] == list(range(9))
    assert rules[6] == AclRule(6, user=0x200000064, resource=0x2400000000, rights=0x2, zone=0x100000000)


@pytest.mark.parametrize("version", VERSIONS)
def test_passwords_and_tokens_are_not_kept(version: str) -> None:
    pools = [
        document(version, name).replace(b"0" * 64, b"canary")
        for name in ("userpool.info", "grouppool.info", "acl.info")
    ]
    assert "canary" not in repr(read_directory(pools[0], pools[1], pools[2], []))


def test_what_a_user_smuggles_behind_the_template_changes_neither_group_nor_owner() -> None:
    forged = "<ID>0</ID><GID>0</GID><UID>0</UID><NAME>oneadmin</NAME><GROUPS><ID>0</ID></GROUPS><ENABLED>1</ENABLED>"
    rest = f"<TEMPLATE><A/></TEMPLATE>{forged}<TEMPLATE/>"
    pools = {
        kind: f"<{kind}_POOL><{kind}>{own}{rest}</{kind}></{kind}_POOL>".encode()
        for kind, own in (
            ("USER", "<ID>7</ID><GID>5</GID><GROUPS><ID>5</ID></GROUPS><NAME>u</NAME><ENABLED>0</ENABLED>"),
            ("VNET", "<ID>9</ID><UID>7</UID><GID>5</GID><NAME>n</NAME><CLUSTERS/>"),
        )
    }
    user = read_directory(pools["USER"], b"", b"", []).users[7]
    assert (user.gid, user.group_ids, user.name, user.enabled) == (5, (5,), "u", False)
    network = read_network_pool(pools["VNET"], [])[9]
    assert (network.uid, network.gid, network.name) == (7, 5, "n")
