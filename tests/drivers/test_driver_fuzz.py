"""Whatever oned, or who can write into what oned tells, may send: a plan that oned takes, and messages it understands.

`make fuzz` tries 100,000 documents, other ones each time.
"""

from __future__ import annotations

import base64
import os
import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lxml import etree

from tests.drivers.documents import line, placed
from tests.rank_cases.cases import cases

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "600"))
MESSAGE = re.compile(r"(ERROR: (\d+ )?[^\d\n]|WARN: [^\d\n])[^\n]*")
SMALL = [
    min((case for case in cases() if case.kind == kind), key=lambda case: len(case.document)) for kind in range(10)
]
ROOTS = [etree.fromstring(case.document.encode()) for case in SMALL]
TEXTS = st.one_of(
    st.sampled_from([
        "", "-1", "0", "1e9", "nan", "-2147483649", "9" * 30, "99999999999999", "YES", "AFFINED", "0,1,2", "1:2,3:x",
        "ID = 1", "((((", "NAME = \"*[!a\" & !(", "CURRENT_VMS != 1", "RUNNING_VMS / 0", "\n\nERROR: 1 x", "0x", " 7 ",
    ]),
    st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc")), max_size=12),
)  # fmt: skip
TAGS = ("ID", "VM", "HOST", "HOSTS", "REQUIREMENTS", "TEMPLATE", "NIC", "LEASE", "X")
KINDS = ("text", "drop", "double", "rename", "swap", "nest")


@st.composite
def mended(draw: st.DrawFn) -> bytes:
    """A well-formed document in which some elements are not as they were."""
    root = etree.fromstring(etree.tostring(draw(st.sampled_from(ROOTS))))
    for _ in range(draw(st.integers(1, 6))):
        elements = [element for element in root.iter() if element.getparent() is not None]
        if not elements:
            break
        change(draw, elements[draw(st.integers(0, len(elements) - 1))])
    return bytes(etree.tostring(root))


def change(draw: st.DrawFn, element: etree._Element) -> None:
    parent = element.getparent()
    assert parent is not None
    kind = draw(st.sampled_from(KINDS))
    if kind == "text":
        for child in list(element):
            element.remove(child)
        element.text = draw(TEXTS)
    elif kind == "drop":
        parent.remove(element)
    elif kind == "double":
        parent.append(etree.fromstring(etree.tostring(element, with_tail=False)))
    elif kind == "rename":
        element.tag = draw(st.sampled_from(TAGS))
    elif kind == "swap":
        parent[:] = list(reversed(parent))
    else:
        etree.SubElement(element, draw(st.sampled_from(TAGS))).text = draw(TEXTS)


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """The bytes of a document, cut and overwritten."""
    document = bytearray(draw(st.sampled_from(SMALL)).document.encode())
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(document)))
        document[at : at + draw(st.integers(0, 300))] = draw(st.binary(max_size=12))
    return bytes(document)


STDIN = st.one_of(
    mended().map(line),
    mended().map(line),
    damaged().map(line),
    st.binary(max_size=60),
    damaged().map(lambda document: base64.b64encode(document)[:-9]),
)


@pytest.mark.usefixtures("configuration")
@settings(max_examples=EXAMPLES, derandomize=EXAMPLES <= 600, suppress_health_check=list(HealthCheck))
@given(stdin=STDIN)
def test_any_input_gives_a_plan_that_oned_takes(stdin: bytes) -> None:
    plan, said = placed(stdin)
    root = etree.fromstring(plan)
    assert (root.tag, root.findtext("ID")) == ("PLAN", "-1")
    for action in root.findall("ACTION"):
        assert action.findtext("OPERATION") in ("deploy", "migrate")
        assert all(int(action.findtext(tag, "")) >= 0 for tag in ("VM_ID", "HOST_ID", "DS_ID"))
    assert [message for message in said if not MESSAGE.fullmatch(message)] == []
    assert [message for message in said if "unexpected" in message] == []
