"""What `place` decides while the daemon does not answer."""

from __future__ import annotations

import errno
import json
import random
import socket
import time
from pathlib import Path

import pytest
from lxml import etree

from one_preempt.core.sched_message import OUR_MARK
from one_preempt.entrypoints.driver import place
from one_preempt.entrypoints.driver.plain_placement import LOCKED, ROOM_IS_FREED_FOR_IT, WAITS_FOR_THE_DAEMON
from tests.drivers.documents import (
    EMPTY_PLAN,
    RECORDED_LINE,
    document,
    host,
    line,
    placed,
    places,
    recorded,
    vm,
)
from tests.rank_cases.cases import cases

pytestmark = pytest.mark.usefixtures("configuration")
LEASE = "<LEASE><TYPE>BE-SUSPENDABLE</TYPE></LEASE>"


def promise(folder: Path, *rooms: dict[str, int]) -> None:
    """The daemon's promises, for an hour."""
    for room in rooms:
        room["expires_at_s"] = int(time.time()) + 3600
    (folder / "held.json").write_text(json.dumps({"version": 1, "held": list(rooms)}))


def test_the_recorded_document_gets_a_plan_with_all_that_oned_wants() -> None:
    plan, said = placed(RECORDED_LINE)
    assert places(plan)[7][0] == "migrate"
    assert {operation for operation, _ in places(plan).values()} == {"deploy", "migrate"}
    for action in etree.fromstring(plan).findall("ACTION"):
        assert [child.tag for child in action][:4] == ["VM_ID", "OPERATION", "HOST_ID", "DS_ID"]
        assert all(int(action.findtext(tag, "")) >= 0 for tag in ("VM_ID", "HOST_ID", "DS_ID"))
    assert "<NIC><NIC_ID>0</NIC_ID><NETWORK_ID>0</NETWORK_ID></NIC>" in plan
    assert all(message.startswith(f"ERROR: 16 {OUR_MARK}") for message in said)


def test_a_lease_is_never_placed_and_says_what_it_waits_for() -> None:
    plan, said = placed(line(document({1: vm(1, user_template=LEASE), 2: vm(2)}, {5: host(5)})))
    assert places(plan) == {2: ("deploy", 5)}
    assert said == [f"ERROR: 1 {OUR_MARK}{WAITS_FOR_THE_DAEMON}"]


def test_where_the_daemon_may_not_be_asked_nothing_is_placed_beside_it(monkeypatch: pytest.MonkeyPatch) -> None:
    class Forbidden(socket.socket):
        def connect(self, _address: object) -> None:
            raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(socket, "socket", Forbidden)
    plan, (said,) = placed(RECORDED_LINE)
    assert plan == EMPTY_PLAN
    assert said.startswith("ERROR: the daemon of one_preempt may be placing, so nothing is placed here: this user ")


def test_a_refusal_at_the_usual_socket_is_not_that_of_the_daemon_that_is_configured(
    configuration: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = str(tmp_path / "own.sock")
    configuration.write_text(f"socket: {{path: {own}}}")
    monkeypatch.setattr(place, "ask_daemon", lambda _kind, _payload, path: {"ok": path == own, "error": "no"})
    assert placed(RECORDED_LINE) == (EMPTY_PLAN, [])


def test_a_locked_vm_is_skipped() -> None:
    locked = vm(1, more="<LOCK><LOCKED>3</LOCKED><OWNER>2</OWNER></LOCK>")
    plan, said = placed(line(document({1: locked}, {5: host(5)})))
    assert (plan, said) == (EMPTY_PLAN, [f"ERROR: 1 {OUR_MARK}{LOCKED}"])


def test_a_vm_that_oned_did_not_match_is_left_alone() -> None:
    plan, said = placed(line(document({1: vm(1), 2: vm(2)}, {5: host(5)}, listed=[2])))
    assert (places(plan), said) == ({2: ("deploy", 5)}, [])


def test_promised_room_is_left_to_whom_it_was_promised(tmp_path: Path) -> None:
    hosts = {5: host(5), 6: host(6)}
    promise(tmp_path, {"host_id": 6, "vm_id": 90, "cpu_centi": 350, "memory_mib": 128})
    plan, said = placed(line(document({1: vm(1), 2: vm(2)}, hosts)))
    assert places(plan) == {1: ("deploy", 5)}
    assert len(said) == 1


def test_a_promise_that_is_kept_counts_no_longer(tmp_path: Path) -> None:
    promise(tmp_path, {"host_id": 5, "vm_id": 90, "cpu_centi": 350, "memory_mib": 128})
    plan, _ = placed(line(document({1: vm(1)}, {5: host(5, vm_ids=[90])})))
    assert places(plan) == {1: ("deploy", 5)}


def test_a_vm_for_which_room_is_being_made_is_left_to_the_daemon(tmp_path: Path) -> None:
    promise(tmp_path, {"host_id": 5, "vm_id": 1, "cpu_centi": 100, "memory_mib": 128})
    plan, said = placed(line(document({1: vm(1)}, {5: host(5)})))
    assert (plan, said) == (EMPTY_PLAN, [f"ERROR: 1 {OUR_MARK}{ROOM_IS_FREED_FOR_IT}"])


def test_nothing_is_placed_where_the_promises_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "held.json").write_text("{")
    plan, said = placed(RECORDED_LINE)
    assert plan == EMPTY_PLAN
    assert len(said) == 1
    assert str(tmp_path / "held.json") in said[0]


def test_a_mistake_in_the_configuration_is_told_and_nothing_is_placed(configuration: Path) -> None:
    configuration.write_text(configuration.read_text() + "matchmaker: {max_host: many}\n")
    plan, said = placed(RECORDED_LINE)
    assert plan == EMPTY_PLAN
    assert len(said) == 1
    assert "matchmaker.max_host" in said[0]


def test_hosts_take_turns_in_the_plan(configuration: Path) -> None:
    configuration.write_text(configuration.read_text() + "matchmaker: {max_host: 0, host_policy: packing}\n")
    only_5 = "<SCHED_REQUIREMENTS>ID = 5</SCHED_REQUIREMENTS>"
    vms = {1: vm(1, user_template=only_5), 2: vm(2, user_template=only_5), 3: vm(3, template="")}
    plan, _ = placed(line(document(vms, {5: host(5, max_cpu=200), 6: host(6)})))
    assert list(places(plan).values()) == [("deploy", 5), ("deploy", 6), ("deploy", 5)]


def test_words_of_users_cannot_speak_for_other_vms() -> None:
    evil = 'RACK = "a\nERROR: 7 evil\u2028ERROR: 8 evil'
    element = f"<SCHED_REQUIREMENTS><![CDATA[{evil}]]></SCHED_REQUIREMENTS>"
    plan, said = placed(line(document({1: vm(1, user_template=element)}, {5: host(5)})))
    assert plan == EMPTY_PLAN
    assert len(said) == 1
    assert said[0].startswith("ERROR: 1 ")


def test_a_broken_object_costs_only_itself() -> None:
    plan, said = placed(line(document({1: vm(1, cpu="many"), 2: vm(2)}, {5: host(5)})))
    assert places(plan) == {2: ("deploy", 5)}
    assert len(said) == 1
    assert said[0].startswith("WARN: VM ")


@pytest.mark.parametrize("text", ["\x08", "\x00", "\ufffe", "<REQUIREMENTS>", "</VM>", "é\U0001f600"])
def test_nothing_that_a_user_writes_stops_the_others(text: str) -> None:
    evil = f"<NOTE><![CDATA[{text}]]></NOTE>"
    plan, said = placed(line(document({1: vm(1, user_template=evil)}, {5: host(5)})))
    assert (places(plan), said) == ({1: ("deploy", 5)}, [])


def smuggled(words: str) -> tuple[str, list[str]]:
    """VMs 1 and 2, of which the first one's owner ends a text of his with `words`, which oned does not stop."""
    evil = vm(1, user_template=f"<NOTE><![CDATA[{words}<![CDATA[]]></NOTE>")
    return placed(line(document({1: evil, 2: vm(2)}, {5: host(5), 6: host(6)})))


def test_nobody_is_placed_by_what_another_says_of_his_vm() -> None:
    fake = vm(2, user_template="<SCHED_REQUIREMENTS>ID = 6</SCHED_REQUIREMENTS><NOTE>")
    plan, said = smuggled(
        "]]></NOTE></USER_TEMPLATE></VM>" + fake.partition("</NOTE>")[0].partition("</USER_TEMPLATE>")[0]
    )
    assert 2 not in places(plan)
    assert said == ["WARN: VM '2' was left out: its id appears twice in the document"]


def test_pools_of_a_users_own_are_refused() -> None:
    pools = (
        f"]]></NOTE></USER_TEMPLATE></VM></VM_POOL><HOST_POOL>{host(9)}</HOST_POOL><VM_POOL><VM><USER_TEMPLATE><NOTE>"
    )
    plan, said = smuggled(pools)
    assert plan == EMPTY_PLAN
    assert len(said) == 1
    assert "smuggle" in said[0]


def test_an_attribute_that_counts_cannot_be_said_twice() -> None:
    evil = vm(1, template="<NOTE><![CDATA[]]></NOTE><CPU>0</CPU><NOTE><![CDATA[]]></NOTE>")
    plan, said = placed(line(document({1: evil, 2: vm(2)}, {5: host(5)})))
    assert places(plan) == {2: ("deploy", 5)}
    assert said[0].startswith("WARN: VM '1' was left out: CPU appears twice")


BROKEN = {
    "nothing": b"",
    "no base64": b"<SCHEDULER_DRIVER_ACTION/>",
    "cut base64": RECORDED_LINE[:1001],
    "cut document": line(document({1: vm(1)}, {5: host(5)})[:-300]),
    "cut behind the last VM": line(document({1: vm(1)}, {5: host(5)})[:-20]),
    "another document": line(b"<VM_POOL/>"),
    "an object as root": line(b"<VM/>"),
    "no document": line(b"hello"),
    "two documents": line(b"<SCHEDULER_DRIVER_ACTION/>") + line(b"<SCHEDULER_DRIVER_ACTION/>"),
    "a bomb": line(
        b'<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;">]><SCHEDULER_DRIVER_ACTION>&b;'
        b"</SCHEDULER_DRIVER_ACTION>"
    ),
    "a file": line(
        b'<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]><SCHEDULER_DRIVER_ACTION>&a;</SCHEDULER_DRIVER_ACTION>'
    ),
    "strange requirements": line(document({1: vm(1)}, {5: host(5)}).replace(b"<ID>5</ID></HOSTS>", b"<X</HOSTS>")),
    "requirements of nobody": line(
        document({1: vm(1)}, {5: host(5)}).replace(b"<VM><ID>1</ID><HOSTS>", b"<VM><HOSTS>")
    ),
    "requirements in disguise": line(
        document({1: vm(1)}, {5: host(5)}).replace(b"<REQUIREMENTS>", b'<REQUIREMENTS a="1">')
    ),
}


@pytest.mark.parametrize("what", BROKEN)
def test_broken_input_gives_an_empty_plan_and_one_line(what: str) -> None:
    plan, said = placed(BROKEN[what])
    assert plan == EMPTY_PLAN
    assert len(said) == 1
    assert said[0].startswith("ERROR: ")
    assert not said[0].startswith("ERROR: unexpected")


@pytest.mark.parametrize("requirements", [b"<REQUIREMENTS/>", b"<REQUIREMENTS></REQUIREMENTS>"])
def test_no_requirements_are_no_mistake(requirements: bytes) -> None:
    whole = document({1: vm(1)}, {5: host(5)}, listed=[])
    plan, said = placed(line(whole.replace(b"<REQUIREMENTS></REQUIREMENTS>", requirements)))
    assert (plan, said) == (EMPTY_PLAN, [])


def test_a_document_nested_beyond_measure_is_survived() -> None:
    def nested(what: bytes, depth: int) -> tuple[str, list[str]]:
        whole = document({1: vm(1, user_template="<N/>")}, {5: host(5, template="<T/>")})
        return placed(line(whole.replace(what, b"<A>" * depth + b"</A>" * depth)))

    plan, said = nested(b"<N/>", 20_000)
    assert plan == EMPTY_PLAN
    assert len(said) == 1
    for what, left_out in ((b"<N/>", "VM '1'"), (b"<T/>", "HOST '5'")):
        plan, said = nested(what, 1_500)
        assert plan == EMPTY_PLAN
        assert said[0].startswith(f"WARN: {left_out} was left out")


def shuffled(root: etree._Element, order: random.Random) -> etree._Element:
    """The same document with pools, and the lists of REQUIREMENTS, in another order."""
    lists = [
        *root.iterchildren(),
        *root.iterfind("REQUIREMENTS/VM/HOSTS"),
        *root.iterfind("REQUIREMENTS/VM/DATASTORES"),
    ]
    for element in (*lists, *root.iterfind("HOST_POOL/HOST/VMS"), *root.iterfind("*/*/CLUSTERS")):
        children = list(element)
        order.shuffle(children)
        element[:] = children
    return root


def test_the_order_of_the_document_changes_nothing() -> None:
    assert placed(line(shuffled(recorded(), random.Random(1)))) == placed(RECORDED_LINE)
    for case in cases()[:160:8]:
        root = etree.fromstring(case.document.encode())
        assert placed(line(shuffled(root, random.Random(case.seed)))) == placed(case.stdin)


def test_a_large_document_comes_in_many_pieces() -> None:
    filler = f"<NOTE>{'x' * 3_000_000}</NOTE>"
    whole = document(
        {1: vm(1, user_template=filler)} | {n: vm(n) for n in range(2, 40)}, {n: host(n) for n in range(50)}
    )
    plan, said = placed(line(whole))
    assert (len(places(plan)), said) == (39, [])
