"""Base64 in pieces, the document in pieces, and the lists of REQUIREMENTS."""

from __future__ import annotations

import base64
import io
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree
from msgspec.structs import replace

from one_preempt.adapters.driver.decoded_input import decoded
from one_preempt.adapters.driver.driver_document import DriverDocument, read_driver_document
from one_preempt.adapters.driver.requirement_lists import RequirementLists
from one_preempt.adapters.opennebula.snapshot_assembly import HOST_POOL, VM_POOL, assemble_snapshot
from one_preempt.adapters.opennebula.xml_document import UnreadableDocument

RECORDED = Path(__file__).parents[2] / "recordings" / "7.4.0"
LINE = (RECORDED / "place.stdin.base64.txt").read_bytes()
LISTS = (
    b"<VM><ID>1</ID><HOSTS><ID>3</ID><ID>2</ID></HOSTS><DATASTORES><ID>0</ID></DATASTORES></VM>"
    b"<VM><ID>2</ID><HOSTS></HOSTS><DATASTORES><ID>0</ID><ID>100</ID></DATASTORES>"
    b"<NIC><ID>0</ID><VNETS><ID>7</ID></VNETS></NIC><NIC><ID>1</ID><VNETS/></NIC></VM>\n"
    b"</REQUIREMENTS></SCHEDULER_DRIVER_ACTION>\n"
)


def read(line: bytes, piece_bytes: int) -> DriverDocument:
    return read_driver_document(decoded(io.BytesIO(line), piece_bytes))


@given(st.binary(max_size=200), st.integers(1, 30))
def test_base64_is_decoded_whatever_the_pieces(content: bytes, piece_bytes: int) -> None:
    line = base64.b64encode(content) + b"\n"
    assert b"".join(decoded(io.BytesIO(line), piece_bytes)) == content


def test_wrapped_base64_is_decoded_too() -> None:
    content = bytes(range(256)) * 3
    assert b"".join(decoded(io.BytesIO(base64.encodebytes(content)), 64)) == content


@pytest.mark.parametrize("line", [b"AAA", b"AA=A", b"AAAA\xffAAA", b"AA==AAAA", b"A A-A"])
@pytest.mark.parametrize("piece_bytes", [1, 4, 1 << 20])
def test_what_is_no_base64_is_refused(line: bytes, piece_bytes: int) -> None:
    with pytest.raises(UnreadableDocument):
        list(decoded(io.BytesIO(line), piece_bytes))


@settings(max_examples=30)
@given(st.integers(16, 5_000))
def test_a_document_reads_the_same_in_any_pieces(piece_bytes: int) -> None:
    assert read(LINE, piece_bytes) == read(LINE, 1 << 20)


def test_the_pools_are_those_that_the_pool_reader_reads() -> None:
    root = etree.fromstring(base64.b64decode(LINE))
    pools = {
        "VM_POOL": VM_POOL,
        "HOST_POOL": HOST_POOL,
        "DATASTORE_POOL": "datastorepool.info",
        "VNET_POOL": "vnpool.info",
    }
    known = assemble_snapshot({call: etree.tostring(root.find(tag)) for tag, call in pools.items()}, 0)  # type: ignore[arg-type]
    found = read(LINE, 1 << 20).snapshot
    assert (found.vms, found.datastores, found.networks) == (known.vms, known.datastores, known.networks)
    assert found.hosts == {
        host_id: replace(host, pci_devices=(), numa_nodes=()) for host_id, host in known.hosts.items()
    }
    assert found.problems == ()


def test_devices_are_read_where_a_vm_asks_for_one() -> None:
    device, topology = b"<PCI><VENDOR>10de</VENDOR></PCI>", b"<TOPOLOGY><CORES>1</CORES></TOPOLOGY>"
    document = base64.b64decode(LINE).replace(b"<SECURITY_GROUP_RULE>", device + b"<SECURITY_GROUP_RULE>", 1)
    document = document.replace(b"<VCPU>", topology + b"<VCPU>", 1)
    hosts = read(base64.b64encode(document), 1 << 20).snapshot.hosts.values()
    assert any(host.pci_devices for host in hosts)
    assert any(host.numa_nodes for host in hosts)


def test_the_requirements_are_read_as_they_stand() -> None:
    found = read(LINE, 1 << 20).prematched
    assert sorted(found) == [7, 9, 14, 16, 18]
    assert (set(found[14].host_ids), found[14].datastore_ids) == ({0, 1, 2, 3}, frozenset({0, 100}))
    assert found[14].network_ids == {0: {0}}


@given(st.integers(1, len(LISTS)))
def test_lists_are_read_in_any_pieces(piece_bytes: int) -> None:
    lists = RequirementLists()
    for at in range(0, len(LISTS), piece_bytes):
        lists.feed(LISTS[at : at + piece_bytes])
    lists.close()
    assert (lists.prematched[1].host_ids, lists.prematched[1].network_ids) == ((3, 2), {})
    assert (lists.prematched[2].host_ids, lists.prematched[2].datastore_ids) == ((), frozenset({0, 100}))
    assert lists.prematched[2].network_ids == {0: {7}, 1: frozenset()}


def test_equal_lists_are_kept_once() -> None:
    lists = RequirementLists()
    lists.feed(b"".join(re.sub(rb"<ID>1<", b"<ID>%d<" % number, LISTS[:89], count=1) for number in range(50)))
    assert len({id(prematch) for prematch in lists.prematched.values()}) == 1
    assert len(lists.prematched) == 50


@pytest.mark.parametrize("cut", [1, 60, 130, len(LISTS) - 20])
def test_lists_without_an_end_are_refused(cut: int) -> None:
    lists = RequirementLists()
    lists.feed(LISTS[:cut])
    with pytest.raises(UnreadableDocument, match="cut off"):
        lists.close()


@pytest.mark.parametrize("text", [b"x</VM>", b"<VM></VM>", b"<VM><ID>a</ID></VM>", b"<VM><ID>1</ID><HOSTS></VM>",
                                  b"<VM><ID>1</ID><HOSTS><ID>x</ID></HOSTS></VM>"])  # fmt: skip
def test_other_lists_are_refused(text: bytes) -> None:
    with pytest.raises(UnreadableDocument):
        RequirementLists().feed(text)
