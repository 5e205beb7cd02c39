"""A text full of objects that are not there costs its author his own, and the others a few calls, in every pool."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from one_preempt.adapters.opennebula.oned_errors import NoExistsError
from one_preempt.adapters.opennebula.pool_pieces import ids_named
from one_preempt.adapters.opennebula.transport import OnedTransport, Parameter
from one_preempt.adapters.opennebula.trusted_pools import as_trusted
from one_preempt.simulation.emulator import vm_document, xml_writing
from tests.hostile.front_row import FrontRow, front_row
from tests.hostile.test_smuggled_markup import unminded

GROUPS = [
    {"name": "apart", "public": True, "roles": [{"name": "web", "policy": "ANTI_AFFINED"}]},
    {"name": "intruders", "public": True, "roles": [{"name": "any"}]},
]
NETWORKS = [{"name": "private", "size": 8}]


def heads(tag: str, ids: Sequence[int]) -> str:
    return "".join(f"<{tag}><ID>{one}</ID></{tag}>" for one in ids)


@pytest.fixture
def row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FrontRow]:
    for module in (xml_writing, vm_document):
        monkeypatch.setattr(module, "cdata", unminded)
    hosts = [{"name": "node{}", "count": 2, "cpu": 2, "memory_mib": 8192}]
    with front_row(tmp_path, hosts=hosts, instant=True, vm_groups=GROUPS, networks=NETWORKS) as found:
        yield found


def calls_counted(row: FrontRow) -> list[str]:
    """The calls that ask oned for documents from now on."""
    asked: list[str] = []
    document = row.transport.document

    def noted(method: str, *parameters: Parameter) -> bytes:
        asked.append(method)
        return document(method, *parameters)

    row.transport.document = noted  # type: ignore[method-assign]
    return asked


@pytest.mark.parametrize("count", [100, 5001])
def test_a_flood_in_one_vm_hides_no_other(row: FrontRow, count: int) -> None:
    others = [row.submit("eva", more='LEASE=[TYPE="BE-SUSPENDABLE"]') for _ in range(3)]
    row.run(3)
    request, intruder = row.submit("lea"), row.submit("paul", cpu="0.01")
    row.vm(intruder).user_template["A"] = ["]]></A><n:x/>" + heads("VM", range(count)) + "<A><![CDATA["]
    asked = calls_counted(row)
    report = row.run()
    assert report.state is not None
    assert {*others, request} == report.state.snapshot.vms.keys()
    assert report.state.snapshot.unreadable_vm_ids == {intruder}
    assert report.state.snapshot.untraced_vm_ids == frozenset()
    assert len(asked) < 60
    row.run(6)
    assert row.is_running(request)


def flooded(pool: str, tag: str, ids: Sequence[int]) -> Callable[[bytes], bytes]:
    """The last object's template has these words of its owner."""

    def rewritten(document: bytes) -> bytes:
        at = document.rfind(b"</TEMPLATE>")
        return document[:at] + b"<A><n:x/>" + heads(tag, ids).encode() + b"</A>" + document[at:]

    return rewritten


@pytest.mark.parametrize(("pool", "tag"), [("userpool.info", "USER"), ("grouppool.info", "GROUP")])
def test_a_flood_in_another_pool_keeps_nobody_from_being_placed(row: FrontRow, pool: str, tag: str) -> None:
    row.transport.rewrite = {pool: flooded(pool, tag, range(5001))}
    asked = calls_counted(row)
    new = [row.submit(user, cpu="0.1") for user in ("lea", "paul", "eva")]
    report = row.run()
    assert len(asked) < 60
    assert report.state is not None
    assert {vm.uid for vm in report.state.snapshot.vms.values()} <= report.state.snapshot.directory.users.keys()
    row.run(3)
    assert all(map(row.is_running, new))


@pytest.mark.parametrize("is_told", [True, False])
def test_rules_of_a_group_that_is_not_told_are_not_dropped(row: FrontRow, is_told: bool) -> None:
    """oned writes the part without the intruder's group as ever; where it tells neither, members wait."""
    flood = flooded("vmgrouppool.info", "VM_GROUP", range(5001))
    whole = row.transport.document("one.vmgrouppool.info", -2, -1, -1)

    def rewritten(document: bytes) -> bytes:
        if is_told and document != whole:
            return document
        return flood(document) if b"</TEMPLATE>" in document else document

    row.transport.rewrite = {"vmgrouppool.info": rewritten}
    if not is_told:
        row.transport.rewrite["vmgroup.info"] = lambda _: b"<none/>"
    new = [row.submit("lea", more='VMGROUP=[VMGROUP_ID="0",ROLE="web"]') for _ in range(3)]
    row.run(6)
    on = [row.vm(vm).history[-1].host_id for vm in new if row.is_running(vm)]
    assert sorted(on) == ([0, 1] if is_told else [])
    told = row.vm(new[-1]).user_template.get("SCHED_MESSAGE")
    assert is_told or "VM group 0 cannot be read" in str(told)


@pytest.mark.parametrize(
    ("pool", "tag", "alone"),
    [("vnpool.info", "VNET", "one.vn.info"), ("vmgrouppool.info", "VM_GROUP", "one.vmgroup.info")],
)
def test_a_few_that_are_not_told_for_certain_are_asked_for_alone(
    row: FrontRow, pool: str, tag: str, alone: str
) -> None:
    report = row.run()
    assert report.state is not None
    whole = report.state.snapshot
    row.transport.rewrite = {pool: flooded(pool, tag, range(3))}
    asked = calls_counted(row)
    report = row.run()
    assert alone in asked
    assert report.state is not None
    told = report.state.snapshot
    assert told.vm_groups == whole.vm_groups
    assert told.networks.keys() == whole.networks.keys()
    assert [(net.size_leases, net.used_leases) for net in told.networks.values()] == [
        (net.size_leases, net.used_leases) for net in whole.networks.values()
    ]


class Oned(OnedTransport):
    """Tells VMs by their ids; what intruders wrote into theirs stands wherever these are told."""

    def __init__(self, words: dict[int, str], ids: Sequence[int]) -> None:
        self._words, self._ids, self.calls = words, ids, 0

    def pool(self, first: int, last: int) -> bytes:
        told = "".join(self._one(one) for one in self._ids if first <= one and (last < 0 or one <= last))
        return f"<VM_POOL>{told}</VM_POOL>".encode()

    def _one(self, vm_id: int) -> str:
        return f"<VM><ID>{vm_id}</ID><NAME>vm</NAME><T>{self._words.get(vm_id, '')}</T></VM>"

    def document(self, method: str, *parameters: Parameter) -> bytes:
        self.calls += 1
        if method == "one.vmpool.infoextended":
            return self.pool(int(parameters[1]), int(parameters[2]))
        if int(parameters[0]) not in self._ids:
            raise NoExistsError("there is none", 0x400)
        return self._one(int(parameters[0])).encode()


# One element to oned, each of them; in the pool they look like other objects, whole or torn.
LIES = (
    "<n:x/>",
    "<VM ><n:x/></VM><VM><ID>{n}</ID><NAME>x</NAME><T></T></VM>",
    "<VM><ID>{n}</ID></VM>",
    "<VM><ID>{n}</ID></VM><n:x/>",
)


@given(st.integers(0, 2**32), st.integers(1, 4), st.integers(17, 60), st.integers(0, 80))
def test_whatever_intruders_write_all_others_are_told(seed: int, intruders: int, vms: int, lies: int) -> None:
    draw = random.Random(seed)
    ids = sorted(draw.sample(range(3 * vms), vms))
    guilty = sorted(draw.sample(ids, intruders))
    words = {
        one: "<n:x/>" + "".join(draw.choice(LIES).format(n=draw.randrange(4 * vms)) for _ in range(lies))
        for one in guilty
    }
    oned = Oned(words, ids)
    trusted = as_trusted(oned, "vmpool.infoextended", (-2, -1, -1, -1), oned.pool(-1, -1))
    told = [oned._one(one).encode() for one in ids if one not in guilty]
    at = [trusted.find(text) for text in told]
    assert -1 not in at
    assert at == sorted(at)
    for one in guilty:
        assert trusted.count(f"<VM><ID>{one}</ID></VM>".encode()) == 1
    assert ids_named(trusted, "VM") == frozenset(ids)
    assert oned.calls <= 40 * intruders
