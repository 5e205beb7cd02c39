from __future__ import annotations

from typing import Any
from xmlrpc.client import dumps

import pytest

from one_preempt.adapters.opennebula.pool_reader import OpenNebulaPoolReader, uid_of
from one_preempt.adapters.opennebula.transport import OnedTransport
from one_preempt.core.model.access import Directory, User
from one_preempt.core.model.pool_snapshot import RaftState
from one_preempt.ports import CloudUnavailable, VmNotTold

VERSIONS = ("7.4.0", "6.10.0")


class FixedClock:
    def now_s(self) -> int:
        return 1_800_000_000


@pytest.fixture
def reader(patient_transport: OnedTransport) -> OpenNebulaPoolReader:
    return OpenNebulaPoolReader(patient_transport, FixedClock())


@pytest.mark.parametrize("version", VERSIONS)
def test_a_reading_asks_every_pool_once_and_misses_nothing(
    version: str, endpoint: Any, reader: OpenNebulaPoolReader
) -> None:
    endpoint.plays(version)
    snapshot = reader.read()
    assert (snapshot.version, snapshot.zone_id, snapshot.raft_state) == (version, 0, RaftState.SOLO)
    assert (snapshot.observed_at_s, snapshot.problems) == (1_800_000_000, ())
    assert len(snapshot.vms) == 19
    assert all(vm.extended for vm in snapshot.vms.values())
    assert [len(pool) for pool in (snapshot.hosts, snapshot.clusters, snapshot.datastores)] == [6, 3, 5]
    assert [len(pool) for pool in (snapshot.networks, snapshot.vm_groups)] == [1, 1]
    assert [len(part) for part in (snapshot.directory.users, snapshot.directory.groups)] == [4, 3]
    assert len(snapshot.directory.acl_rules) == 9
    assert snapshot.hosts[0].attributes["CLUSTER_TEMPLATE/LOCATION"] == ("room 1",)
    assert endpoint.calls == [
        ("one.zone.raftstatus", ()),
        ("one.system.version", ()),
        ("one.system.config", ()),
        ("one.vmpool.infoextended", (-2, -1, -1, -1)),
        ("one.hostpool.info", ()),
        ("one.hostpool.monitoring", (0,)),
        ("one.clusterpool.info", ()),
        ("one.datastorepool.info", ()),
        ("one.vnpool.info", (-2, -1, -1)),
        ("one.vmgrouppool.info", (-2, -1, -1)),
        ("one.acl.info", ()),
        ("one.userpool.info", ()),
        ("one.grouppool.info", ()),
    ]


@pytest.mark.parametrize(("state", "expected"), [(0, RaftState.SOLO), (2, RaftState.FOLLOWER), (3, RaftState.LEADER)])
def test_the_role_of_this_front_end_is_told(
    state: int, expected: RaftState, endpoint: Any, reader: OpenNebulaPoolReader
) -> None:
    endpoint.plays("7.4.0")
    as_recorded = endpoint.answer
    endpoint.answer = lambda method, parameters: as_recorded(method, parameters).replace(
        b"&lt;STATE&gt;0&lt;/STATE&gt;&lt;TERM", b"&lt;STATE&gt;%d&lt;/STATE&gt;&lt;TERM" % state
    )
    assert reader.read().raft_state is expected


@pytest.mark.parametrize("version", VERSIONS)
def test_one_vm_is_read_afresh_with_all_its_history(version: str, endpoint: Any, reader: OpenNebulaPoolReader) -> None:
    endpoint.plays(version)
    vm = reader.read_vm(5)
    assert vm is not None
    assert (vm.id, vm.state_name, [stay.host_id for stay in vm.history]) == (5, "RUNNING", [1, 3])
    assert endpoint.calls == [("one.vm.info", (5, False))]


def test_a_vm_that_does_not_exist_is_none(endpoint: Any, reader: OpenNebulaPoolReader) -> None:
    endpoint.plays("7.4.0")
    assert reader.read_vm(4711) is None


def refusal(code: int, text: str = "[one.x] No.") -> bytes:
    return dumps(([False, text, code, -1, -1],), methodresponse=True).encode()


# As a zone answers that was disabled.
DISABLED = "[one.acl.info] Cannot process request, zone disabled"


@pytest.mark.parametrize(
    ("code", "text", "told"),
    [
        (0x100, "[one.x] No.", "check ONE_AUTH"),
        (0x200, "[one.x] No.", "oneadmin"),
        (0x2000, "[one.x] No.", "oned's log"),
        (0x2000, DISABLED, "nothing is scheduled until onezone enable"),
    ],
)
def test_a_refused_reading_says_what_to_mend(
    code: int, text: str, told: str, endpoint: Any, reader: OpenNebulaPoolReader
) -> None:
    endpoint.answers(refusal(code, text))
    with pytest.raises(CloudUnavailable, match=rf"one\.zone\.raftstatus was refused: .*{told}"):
        reader.read()


def test_one_vm_that_is_refused_says_nothing_of_others(endpoint: Any, reader: OpenNebulaPoolReader) -> None:
    endpoint.answers(refusal(0x200))
    with pytest.raises(VmNotTold, match=r"one\.vm\.info was refused: .*No\.") as caught:
        reader.read_vm(1)
    assert caught.value.code == "AUTHORIZATION"
    for code_of_all, told in ((0x100, "check ONE_AUTH"), (0x10000, "REPLICATION")):
        endpoint.answers(refusal(code_of_all))
        with pytest.raises(CloudUnavailable, match=told):
            reader.read_vm(1)


@pytest.mark.parametrize("document", ["<HOST_POOL>", "<VM><ID>3</ID></VM>", "welcome"])
def test_an_answer_that_is_not_what_was_asked_for_is_no_empty_cloud(
    document: str, endpoint: Any, reader: OpenNebulaPoolReader
) -> None:
    endpoint.answers(dumps(([True, document, 0],), methodresponse=True).encode())
    with pytest.raises(CloudUnavailable):
        reader.read()
    with pytest.raises(VmNotTold, match="VM 3") as caught:
        reader.read_vm(3)
    assert caught.value.code == "UNREADABLE"


def test_the_document_of_another_vm_is_none_of_this_one(endpoint: Any, reader: OpenNebulaPoolReader) -> None:
    endpoint.plays("7.4.0")
    as_recorded = endpoint.answer
    endpoint.answer = lambda method, parameters: as_recorded(method, (6, *parameters[1:]))
    with pytest.raises(VmNotTold, match="VM 5 cannot be read: it is the document of VM 6"):
        reader.read_vm(5)


def test_an_endpoint_that_fails_in_the_middle_gives_no_half_snapshot(
    endpoint: Any, reader: OpenNebulaPoolReader
) -> None:
    endpoint.plays("7.4.0")
    as_recorded = endpoint.answer

    def answer(method: str, parameters: tuple[Any, ...]) -> Any:
        return b"" if method == "one.userpool.info" else as_recorded(method, parameters)

    endpoint.answer = answer
    with pytest.raises(CloudUnavailable, match=r"one\.userpool\.info"):
        reader.read()


def test_who_asks_is_known_by_its_id() -> None:
    users = {7: User(7, "scheduler", 0, "oneadmin", (0,)), 0: User(0, "oneadmin", 0, "oneadmin", (0,))}
    assert uid_of("scheduler", Directory(users)) == 7
    assert uid_of("nobody", Directory(users)) == 0
