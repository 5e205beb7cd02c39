"""Markup of a user that oned takes as a part of one object, and that reads as several objects in the pool.

oned takes tags with prefixes that nobody declared, and with SQLite sees the quotes of a text doubled: what ends an
object in the pool stood in the value of an attribute there. The emulator is made to write such texts as oned does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from one_preempt.adapters.opennebula.access_reader import read_directory
from one_preempt.adapters.opennebula.pool_pieces import ids_named, is_as_written, pieces_of
from one_preempt.adapters.opennebula.trusted_pools import as_trusted
from one_preempt.adapters.opennebula.virtual_machine_reader import read_vm_pool
from one_preempt.simulation.emulator import vm_document, xml_writing
from tests.hostile.front_row import FrontRow, front_row
from tests.hostile.test_smuggled_markup import unminded
from tests.stories.world import SETTINGS

RECORDINGS = Path(__file__).resolve().parents[1] / "recordings"
# What stands before and behind forged objects, so that oned saw one element: by a prefix, and by quotes.
BY_PREFIX = ("]]></A><VM ><n:x/></VM>", "<A><![CDATA[")
BY_QUOTES = (
    "]]></A><VM a='>'/><USER_TEMPLATE a='>'/></USER_TEMPLATE></VM>",
    "<VM a='/>'><ID>900000</ID><USER_TEMPLATE a='/>'><A><![CDATA[",
)
WAYS = {"a prefix": BY_PREFIX, "quotes": BY_QUOTES}
MAY_GO = "<LEASE><SHUTDOWN_OK><![CDATA[YES]]></SHUTDOWN_OK><TYPE><![CDATA[BE-CANCELLABLE]]></TYPE></LEASE>"


@pytest.fixture
def row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FrontRow]:
    for module in (xml_writing, vm_document):
        monkeypatch.setattr(module, "cdata", unminded)
    hosts = [{"name": "node{}", "count": 2, "cpu": 2, "memory_mib": 8192}]
    with front_row(tmp_path, SETTINGS, hosts=hosts, instant=True) as made:
        yield made


def told(row: FrontRow, vm_id: int) -> str:
    """The document of a VM as the pool has it."""
    pool = row.transport.document("one.vmpool.infoextended", -2, -1, -1, -1).decode()
    found = re.search(rf"<VM><ID>{vm_id}</ID>.*?</VM>", pool, re.DOTALL)
    assert found is not None
    return found[0]


def forge(row: FrontRow, vm_id: int, way: tuple[str, str], forged: str) -> None:
    """Have the owner of a VM write `forged` objects into it."""
    row.vm(vm_id).user_template["A"] = [way[0] + forged + way[1]]


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS.keys())
def test_nobody_writes_other_terms_for_the_vms_of_others(row: FrontRow, way: tuple[str, str]) -> None:
    intruder = row.submit("paul", cpu="0.01")
    others = [row.submit("eva") for _ in range(3)]
    row.run(3)
    assert all(map(row.is_running, others))
    row.submit("lea", cpu="2")
    plain = re.compile(r"<USER_TEMPLATE>.*?</USER_TEMPLATE>|<USER_TEMPLATE ?/>", re.DOTALL)
    offered = f"<USER_TEMPLATE>{MAY_GO}</USER_TEMPLATE>"
    forge(row, intruder, way, "".join(plain.sub(offered, told(row, vm_id)) for vm_id in others))
    for _ in range(4):
        report = row.run()
        assert report.plan is not None
        assert report.plan.preemptions == ()
    assert all(map(row.is_running, others))
    assert any("smuggled markup" in line and f"VM '{intruder}'" in line for line in row.log)


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS.keys())
def test_nobody_makes_up_a_vm_that_may_preempt(row: FrontRow, way: tuple[str, str]) -> None:
    leases = [row.submit("eva", more='LEASE=[TYPE="BE-SUSPENDABLE"]') for _ in range(4)]
    row.run(3)
    intruder = row.submit("paul")
    of_lea = told(row, intruder).replace(f"<ID>{intruder}</ID>", "<ID>800000</ID>", 1)
    of_lea = re.sub(r"<GID>\d+</GID>", "<GID>100</GID>", of_lea).replace("<GNAME>plain", "<GNAME>locals")
    forge(row, intruder, way, of_lea)
    row.run(4)
    assert all(map(row.is_running, leases))


@pytest.mark.parametrize(
    "text", ["]]></A><n:x/><VM></VM ><A><![CDATA[", "]]></A><x a='/><A><![CDATA["], ids=["an end", "a quote"]
)
def test_nobody_makes_the_vms_of_others_vanish(row: FrontRow, text: str) -> None:
    others = [row.submit("eva", more='LEASE=[TYPE="BE-SUSPENDABLE"]') for _ in range(3)]
    row.run(3)
    request, intruder = row.submit("lea"), row.submit("paul", cpu="0.01")
    row.vm(intruder).user_template["A"] = [text]
    report = row.run()
    assert report.state is not None
    assert {*others, request} <= report.state.snapshot.vms.keys()
    assert report.state.snapshot.unreadable_vm_ids == {intruder}
    row.run(6)
    assert row.is_running(request)


@pytest.mark.parametrize("version", ["6.10.0", "7.4.0"])
def test_whatever_a_real_oned_wrote_is_as_oned_writes_it(version: str) -> None:
    documents = sorted((RECORDINGS / version).glob("*pool*.xml"))
    assert documents
    assert [path.name for path in documents if not is_as_written(path.read_bytes())] == []


def test_without_an_oned_to_ask_what_may_be_forged_is_left_out() -> None:
    pool = (RECORDINGS / "7.4.0" / "vmpool.infoextended.xml").read_bytes()
    text = BY_PREFIX[0].encode() + b"<VM><ID>800000</ID></VM>" + BY_PREFIX[1].encode()
    forged = pool.replace(b"<USER_TEMPLATE>", b"<USER_TEMPLATE><A><![CDATA[" + text + b"]]></A>", 1)
    problems: list[str] = []
    before, after = read_vm_pool(pool, []), read_vm_pool(forged, problems)
    intruder = max(before)
    assert after == {vm_id: vm for vm_id, vm in before.items() if vm_id != intruder}
    assert problems == [problem for problem in problems if f"VM {intruder}, 800000: left out" in problem]
    assert ids_named(forged, "VM") == {*before, 800000}


def test_nobody_is_another_user(row: FrontRow) -> None:
    pool = row.transport.document("one.userpool.info")
    intruder = max(user.id for user in row.cloud.users.values())
    forged = b"<USER><ID>0</ID><GID>0</GID><GNAME>x</GNAME><NAME>mallory</NAME><TEMPLATE/></USER>"
    head = f"<USER><ID>{intruder}</ID>".encode()
    torn = pool.replace(head, head + BY_PREFIX[0].encode().replace(b"]]></A>", b"") + forged, 1)
    assert torn != pool
    assert pieces_of(torn, "USER_POOL", "USER").suspect
    groups = row.transport.document("one.grouppool.info")
    seen = read_directory(as_trusted(row.transport, "userpool.info", (), torn), groups, b"", [])
    assert seen == read_directory(pool, groups, b"", [])
