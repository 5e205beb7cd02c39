"""One object that cannot be read costs itself, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from one_preempt.adapters.opennebula.host_reader import read_host_pool
from one_preempt.adapters.opennebula.snapshot_assembly import assemble_snapshot, zone_id_in
from one_preempt.adapters.opennebula.virtual_machine_reader import read_vm_pool
from one_preempt.adapters.opennebula.xml_document import UnreadableDocument, parse_document
from one_preempt.core.model.virtual_machine import VirtualMachine

RECORDING = Path(__file__).resolve().parents[2] / "recordings" / "7.4.0"
POOL = (RECORDING / "vmpool.infoextended.xml").read_bytes()
OTHERS = [vm_id for vm_id in range(20) if vm_id not in (8, 5)]
VM_5 = re.compile(rb"<VM><ID>5</ID>.*?</VM>(?=<VM>|</VM_POOL>)", re.DOTALL)


def with_vm_5(pattern: bytes, replacement: bytes) -> bytes:
    """The recorded pool with something else in VM 5."""
    original = VM_5.search(POOL)
    assert original is not None
    changed = re.sub(pattern, lambda _: replacement, original[0], count=1, flags=re.DOTALL)
    assert changed != original[0]
    return POOL.replace(original[0], changed)


def read(document: bytes) -> tuple[dict[int, VirtualMachine], list[str]]:
    problems: list[str] = []
    return read_vm_pool(document, problems), problems


UNREADABLE = {
    "no id": (rb"<ID>5</ID>", b""),
    "an id that is a word": (rb"<ID>5</ID>", b"<ID>five</ID>"),
    "a negative id": (rb"<ID>5</ID>", b"<ID>-5</ID>"),
    "a huge id": (rb"<ID>5</ID>", b"<ID>" + b"9" * 30 + b"</ID>"),
    "no state": (rb"<STATE>3</STATE>", b""),
    "an unknown state": (rb"<STATE>3</STATE>", b"<STATE>77</STATE>"),
    "a state that is markup": (rb"<STATE>3</STATE>", b"<STATE><A/></STATE>"),
    "no template": (rb"<TEMPLATE>.*?</TEMPLATE>", b""),
    "a negative CPU": (rb"<CPU><!\[CDATA\[1\]\]>(?=</CPU><DISK)", b"<CPU>-1"),
    "a CPU that is no number": (rb"<CPU><!\[CDATA\[1\]\]>(?=</CPU><DISK)", b"<CPU>nan"),
    "an infinite CPU": (rb"<CPU><!\[CDATA\[1\]\]>(?=</CPU><DISK)", b"<CPU>1e400"),
    "a huge CPU": (rb"<CPU><!\[CDATA\[1\]\]>(?=</CPU><DISK)", b"<CPU>1e30"),
    "a negative memory": (rb"<MEMORY><!\[CDATA\[1024\]\]>", b"<MEMORY>-1024"),
    "a huge memory": (rb"<MEMORY><!\[CDATA\[1024\]\]>", b"<MEMORY>" + b"1" * 5000),
    "a disk without an id": (rb"<DISK_ID><!\[CDATA\[0\]\]></DISK_ID>", b""),
    "a disk of negative size": (rb"<SIZE><!\[CDATA\[1024\]\]></SIZE>", b"<SIZE>-1</SIZE>"),
    "a host that is a word": (rb"<HID>3</HID>", b"<HID>node04</HID>"),
    "no name": (rb"<NAME>be-migrated</NAME>", b""),
}


@pytest.mark.parametrize(("pattern", "replacement"), UNREADABLE.values(), ids=UNREADABLE.keys())
def test_a_vm_that_cannot_be_read_is_left_out_alone_and_told(pattern: bytes, replacement: bytes) -> None:
    machines, problems = read(with_vm_5(pattern, replacement))
    assert list(machines) == OTHERS
    assert len(problems) == 1
    assert re.match(r"VM '.{1,70}' was left out: ", problems[0])
    assert len(problems[0]) < 250


HARMLESS = {
    "a value of 1 MB": b"<X>" + b"x" * 1_000_000 + b"</X>",
    "markup in a value": b"<X><![CDATA[</USER_TEMPLATE></VM><VM><ID>99</ID>]]></X>",
    "an attribute named like the pool's objects": b"<VM><ID>98</ID><NAME>fake</NAME></VM>",
    "entities that stand for themselves": b"<X>&lt;VM&gt;&amp;#x1;</X>",
    "numbers where words are expected": b"<SERVICE_ID>-1e999</SERVICE_ID>",
    "a vector where a text is expected": b"<SERVICE_ID><A>1</A></SERVICE_ID>",
    "a comment and a processing instruction": b"<X><![CDATA[<!-- <VM> --><?php echo 1 ?>]]></X>",
}


@pytest.mark.parametrize("attribute", HARMLESS.values(), ids=HARMLESS.keys())
def test_whatever_users_write_into_their_template_stays_inside_it(attribute: bytes) -> None:
    machines, problems = read(with_vm_5(rb"</USER_TEMPLATE>", attribute + b"</USER_TEMPLATE>"))
    assert list(machines) == sorted([*OTHERS, 5])
    assert problems == []
    assert (machines[5].uid, machines[5].state_name, machines[5].host_id) == (0, "RUNNING", 3)


@pytest.mark.parametrize(
    "characters", [b"\x00\x01", b"\x1b[31m", b"\x0b", b"\xff\xfe", b"&#x1;", b"&#0;", b"\xef\xbf\xbf"]
)
def test_characters_that_xml_forbids_are_removed_and_told(characters: bytes) -> None:
    machines, problems = read(with_vm_5(rb"<USER_TEMPLATE>", b"<USER_TEMPLATE><C>a" + characters + b"b</C>"))
    assert list(machines) == sorted([*OTHERS, 5])
    assert len(problems) == 1
    (value,) = machines[5].user_template["C"]
    assert isinstance(value, str)
    assert (value[0], value[-1]) == ("a", "b")
    assert not set(value) & {"\x00", "\x01", "\x0b", "\x1b", "\uffff"}


BROKEN_MARKUP = {
    "an unclosed element": b"<A>",
    "an element that cannot be named so": b"<1A>x</1A>",
    "an unknown entity": b"<A>&nosuch;</A>",
    "a broken CDATA section": b"<A><![CDATA[a]]>]]></B></A>",
}


@pytest.mark.parametrize("markup", BROKEN_MARKUP.values(), ids=BROKEN_MARKUP.keys())
def test_a_vm_whose_markup_is_broken_is_cut_out_of_the_pool(markup: bytes) -> None:
    machines, problems = read(with_vm_5(rb"<USER_TEMPLATE>", b"<USER_TEMPLATE>" + markup))
    assert list(machines) == OTHERS
    assert [problem.startswith("VM 5: left out, ") for problem in problems] == [True]


@given(st.binary(max_size=60))
def test_no_bytes_in_a_template_stop_the_other_vms(junk: bytes) -> None:
    inside = junk.replace(b"<VM>", b"").replace(b"</VM>", b"").replace(b"<![CDATA[", b"")
    machines, _ = read(with_vm_5(rb"<USER_TEMPLATE>", b"<USER_TEMPLATE><J>" + inside + b"</J>"))
    assert set(OTHERS) <= set(machines)


@given(
    st.sampled_from(
        [b"STATE", b"LCM_STATE", b"UID", b"STIME", b"CPU", b"MEMORY", b"HID", b"SEQ", b"DISK_ID", b"NIC_ID"]
    ),
    st.one_of(
        st.integers().map(lambda number: str(number).encode()),
        st.floats().map(lambda number: str(number).encode()),
        st.sampled_from([b"", b"<A/>", b"YES", b"0x10", b"1_0", b"\xd9\xa3"]),
    ),
)
def test_no_value_of_a_field_stops_the_other_vms(field: bytes, value: bytes) -> None:
    document = with_vm_5(rb"<%b>.*?</%b>" % (field, field), b"<%b>%b</%b><Z/>" % (field, value, field))
    machines, problems = read(document)
    assert set(OTHERS) <= set(machines)
    if 5 not in machines:
        assert len(problems) == 1
    else:
        assert 0 <= machines[5].resources.cpu_centi < 1 << 48
        assert 0 <= machines[5].resources.memory_mib < 1 << 49


SMUGGLED = {
    "another owner": (
        rb"<USER_TEMPLATE>.*?(?=</USER_TEMPLATE>)",
        b"<USER_TEMPLATE></USER_TEMPLATE><UID>0</UID><USER_TEMPLATE>",
    ),
    "another id": (rb"</USER_TEMPLATE>", b"</USER_TEMPLATE><ID>17</ID>"),
    "another history": (rb"(?=<TEMPLATE>)", b"<HISTORY_RECORDS/>"),
    "a restricted attribute": (rb"<USER_TEMPLATE>", b"<USER_TEMPLATE><A/><USER_PRIORITY>9</USER_PRIORITY><A/>"),
    "a template": (rb"<CPU>", b"<AAA/><TEMPLATE_ID>7</TEMPLATE_ID><AAA/><CPU>"),
    "other requirements": (rb"<MEMORY>", b"<L/><AUTOMATIC_REQUIREMENTS/><L/><MEMORY>"),
    "another VM inside": (rb"</USER_TEMPLATE>", b"</USER_TEMPLATE><VM><ID>17</ID></VM><USER_TEMPLATE/>"),
}


@pytest.mark.parametrize(("pattern", "replacement"), SMUGGLED.values(), ids=SMUGGLED.keys())
def test_a_vm_whose_owner_smuggled_markup_past_the_end_of_a_section_is_left_out(
    pattern: bytes, replacement: bytes
) -> None:
    machines, problems = read(with_vm_5(pattern, replacement))
    assert list(machines) == OTHERS
    assert len(problems) == 1
    assert problems[0].startswith("VM '5' was left out: ")
    assert "smuggled markup" in problems[0]


def between(document: bytes, first: bytes, hidden: bytes, again: bytes) -> bytes:
    """`document` with what two texts of one user add: `hidden` begins behind `first`, and ends before `again`."""
    head, mark, rest = document.partition(first)
    middle, last, tail = rest.partition(again)
    assert mark
    assert last
    return head + hidden.replace(b"...", middle) + last + tail


X = b"<X><![CDATA[]]></X>"
HIDDEN = {
    "in a comment": (
        b"<USER_TEMPLATE>",
        b"<USER_TEMPLATE><A></A><USER_PRIORITY>9</USER_PRIORITY><!--]]></A>...<Z><![CDATA[--><Z></Z>",
        b"</USER_TEMPLATE>",
    ),
    "in an instruction": (
        b"<USER_TEMPLATE>",
        b"<USER_TEMPLATE><A></A><USER_PRIORITY>9</USER_PRIORITY><?x ]]></A>...<Z><![CDATA[?><Z></Z>",
        b"</USER_TEMPLATE>",
    ),
    "in an attribute": (
        b"<CONTEXT>",
        b"<CONTEXT>%b</CONTEXT><CPU>0.01</CPU><D><CONTEXT>%b...<GRAPHICS></GRAPHICS></D>" % (X, X),
        b"<GRAPHICS>",
    ),
    "behind the template": (
        b"<CONTEXT>",
        b"<CONTEXT>%b</CONTEXT><CPU>0.01</CPU><MEMORY>1</MEMORY></TEMPLATE><LOCK><LOCKED>4</LOCKED></LOCK><W>"
        b"<TEMPLATE><CONTEXT>...</USER_TEMPLATE></W><USER_TEMPLATE>" % X,
        b"</USER_TEMPLATE>",
    ),
}


@pytest.mark.parametrize(("first", "hidden", "again"), HIDDEN.values(), ids=HIDDEN.keys())
def test_a_vm_whose_owner_hid_what_oned_wrote_between_two_texts_is_left_out(
    first: bytes, hidden: bytes, again: bytes
) -> None:
    original = VM_5.search(POOL)
    assert original is not None
    forged = between(original[0], first, hidden, again)
    machines, problems = read(POOL.replace(original[0], forged))
    assert list(machines) == OTHERS
    assert len(problems) == 1
    assert re.match(r"VM '5' was left out: a part of its document is hidden|VM 5: left out, ", problems[0])
    assert "one by one" not in problems[0], "the document is well-formed"


def test_a_vm_with_snapshots_of_several_disks_is_read_though_oned_writes_an_element_for_each() -> None:
    of_disks = b"".join(
        b"<SNAPSHOTS><DISK_ID><![CDATA[%d]]></DISK_ID><SNAPSHOT><ID><![CDATA[0]]></ID></SNAPSHOT></SNAPSHOTS>" % disk_id
        for disk_id in (0, 2)
    )
    machines, problems = read(with_vm_5(rb"</HISTORY_RECORDS>", b"</HISTORY_RECORDS>" + of_disks))
    assert problems == []
    assert machines[5] == read(POOL)[0][5]


def test_a_host_that_cannot_be_read_does_not_take_the_others_along() -> None:
    pool = (RECORDING / "hostpool.info.xml").read_bytes()
    for broken in (b"<ID>2</ID><NAME>node03</NAME><STATE>soon", b"<NAME>node03</NAME><STATE>2"):
        problems: list[str] = []
        hosts = read_host_pool(
            pool.replace(b"<ID>2</ID><NAME>node03</NAME><STATE>2", broken, 1), b"", {}, problems
        )  # fmt: skip
        assert list(hosts) == [0, 1, 3, 4, 5]
        assert len(problems) == 1


def test_the_snapshot_tells_what_was_left_out() -> None:
    documents = {"vmpool.infoextended": with_vm_5(rb"<STATE>3<", b"<STATE>x<")}
    documents["hostpool.info"] = (RECORDING / "hostpool.info.xml").read_bytes()
    snapshot = assemble_snapshot(documents, 1)
    assert snapshot.problems == ("VM '5' was left out: 'x' is no whole number",)
    assert 5 not in snapshot.vms


@pytest.mark.parametrize("cut", [len(POOL) // 2, len(POOL) - 20, 30, POOL.index(b"</VM><VM>") + 5])
def test_a_pool_that_ends_in_the_middle_is_no_pool(cut: int) -> None:
    with pytest.raises(UnreadableDocument, match="cut off"):
        read(POOL[:cut])


@pytest.mark.parametrize("document", [b"", b"junk", b"<html><body>hello</body></html>", b"<HOST_POOL></HOST_POOL>"])
def test_something_else_than_a_pool_is_refused(document: bytes) -> None:
    documents = {"vmpool.infoextended": document, "hostpool.info": (RECORDING / "hostpool.info.xml").read_bytes()}
    with pytest.raises(UnreadableDocument):
        assemble_snapshot(documents, 1)


def test_a_dtd_is_refused_before_anything_is_read() -> None:
    bomb = b'<!DOCTYPE a [<!ENTITY x "xx"><!ENTITY y SYSTEM "file:///etc/passwd">]>'
    with pytest.raises(UnreadableDocument, match="DTD"):
        read(bomb + POOL)
    with pytest.raises(UnreadableDocument, match="DTD"):
        parse_document(bomb + b"<VM>&y;</VM>", [])


def test_a_host_nested_beyond_measure_is_left_out_alone() -> None:
    pool = (RECORDING / "hostpool.info.xml").read_bytes()
    deep = b"<TEMPLATE>" + b"<A>" * 1500 + b"x" + b"</A>" * 1500
    problems: list[str] = []
    hosts = read_host_pool(pool.replace(b"<TEMPLATE>", deep, 1), b"", {}, problems)
    assert list(hosts) == [0, 1, 2, 3, 4]
    assert len(problems) == 1


@pytest.mark.parametrize("repeated", [b"<Z>1</Z>", b"<Z><A>1</A></Z>"])
def test_ten_thousands_of_attributes_of_one_name_are_all_read(repeated: bytes) -> None:
    pool = (RECORDING / "hostpool.info.xml").read_bytes()
    hosts = read_host_pool(pool.replace(b"</TEMPLATE>", repeated * 40_000 + b"</TEMPLATE>", 1), b"", {}, [])
    machines, problems = read(with_vm_5(rb"</USER_TEMPLATE>", repeated * 40_000 + b"</USER_TEMPLATE>"))
    assert 40_000 in {len(values) for host in hosts.values() for values in host.attributes.values()}
    assert len(machines[5].user_template["Z"]) == 40_000
    assert problems == []


@pytest.mark.parametrize("digits", ["²", "9" * 5000, "-7", "x", ""])
def test_a_number_that_is_none_costs_itself_where_another_will_do(digits: str) -> None:
    assert zone_id_in(f"<A><FEDERATION><ZONE_ID>{digits}</ZONE_ID></FEDERATION></A>".encode()) in (0, -7)


@pytest.mark.parametrize("words", [b"<![CDATA[<VM><ID>17</ID></VM>]]>", b"<VM><ID>17</ID></VM>"])
def test_nobody_can_pretend_that_another_vm_exists_but_cannot_be_read(words: bytes) -> None:
    pool = with_vm_5(rb"<STATE>3<", b"<STATE>x<")
    without_17 = re.sub(rb"<VM><ID>17</ID>.*?</VM>(?=<VM>|</VM_POOL>)", b"", pool, flags=re.DOTALL)
    unreadable = VM_5.search(without_17)
    assert unreadable is not None
    told = unreadable[0].replace(b"</USER_TEMPLATE>", b"<Z>" + words + b"</Z></USER_TEMPLATE>")
    forged = without_17.replace(unreadable[0], told)
    documents = {"vmpool.infoextended": forged, "hostpool.info": (RECORDING / "hostpool.info.xml").read_bytes()}
    assert assemble_snapshot(documents, 1).unreadable_vm_ids == {5}


def test_a_host_that_cannot_be_read_is_known_to_be_there() -> None:
    pool = (RECORDING / "hostpool.info.xml").read_bytes()
    broken = re.sub(rb"(<HOST><ID>1</ID>.*?<STATE>)", rb"\1x", pool, count=1, flags=re.DOTALL)
    documents = {"vmpool.infoextended": (RECORDING / "vmpool.infoextended.xml").read_bytes(), "hostpool.info": pool}
    assert assemble_snapshot(documents, 1).unreadable_host_ids == frozenset()
    snapshot = assemble_snapshot(documents | {"hostpool.info": broken}, 1)
    assert snapshot.unreadable_host_ids == {1}
    assert 1 not in snapshot.hosts
