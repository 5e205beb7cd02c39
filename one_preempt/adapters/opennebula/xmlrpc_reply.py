"""XML-RPC answers of oned as values, all five items kept.

A pool arrives as one escaped text of tens of megabytes. Where the answer has the shape that oned gives it,
the text is unescaped as bytes and parsed once; every other shape goes through an XML parser.
"""

from __future__ import annotations

import re

from lxml.etree import _Element
from msgspec import Struct

from one_preempt.adapters.opennebula.oned_errors import fault, refusal
from one_preempt.adapters.opennebula.xml_document import UnreadableDocument, parse_document, shortened, whole_number

Value = str | int | float | bool

_TEXT_STARTS = re.compile(
    rb'\s*<\?xml version="1\.0" encoding="UTF-8"\?>\s*<methodResponse>\s*<params>\s*<param>\s*<value>\s*<array>\s*'
    rb"<data>\s*<value>\s*<boolean>1</boolean>\s*</value>\s*<value>\s*<string>"
)
_TEXT_ENDS = re.compile(
    rb"</string>\s*</value>\s*(<value>\s*<(i4|int)>0</\2>\s*</value>\s*)?</data>\s*</array>\s*</value>\s*</param>\s*"
    rb"</params>\s*</methodResponse>\s*"
)
_ENTITIES = ((b"&lt;", b"<"), (b"&gt;", b">"), (b"&quot;", b'"'), (b"&apos;", b"'"), (b"&amp;", b"&"))


class Reply(Struct, frozen=True):
    """The items of oned's answer: success has three (ok, value, 0), failure five."""

    ok: bool
    value: Value
    error_code: int = 0
    object_id: int = -1
    extra: int = -1

    def checked(self) -> Value:
        """The value; raises the named `OnedError` where oned refused."""
        if not self.ok:
            raise refusal(str(self.value), self.error_code, self.object_id)
        return self.value


def parse_reply(body: bytes) -> Reply:
    """The reply in an HTTP body. Raises `OnedError` for a fault, `UnreadableDocument` for anything else."""
    root = parse_document(body, [], "the answer")
    if root.tag != "methodResponse":
        raise UnreadableDocument(f"the answer is the element {shortened(str(root.tag))}, not XML-RPC")
    if (fault_element := root.find("fault")) is not None:
        raise _fault(fault_element)
    items = [_scalar(value) for value in root.iterfind("params/param/value/array/data/value")]
    numbers = [item for item in items[2:5] if isinstance(item, int)]
    if len(items) < 2 or not isinstance(items[0], bool) or len(numbers) != len(items[2:5]):
        raise UnreadableDocument("the answer is XML-RPC, but not the list of items that oned gives")
    return Reply(items[0], items[1], *numbers)


def document_in(body: bytes) -> bytes:
    """The text that a successful reply carries, as UTF-8. Raises as `parse_reply`, and where oned refused."""
    start = _TEXT_STARTS.match(body)
    end = body.find(b"<", start.end()) if start else -1
    if start is None or end < 0 or not _TEXT_ENDS.fullmatch(body, end):
        return str(parse_reply(body).checked()).encode()
    text = body[start.end() : end]
    if b"&#" in text or b"\r" in text:
        return str(parse_reply(body).checked()).encode()
    for entity, character in _ENTITIES:
        text = text.replace(entity, character)
    return text


def _scalar(value: _Element) -> Value:
    if not len(value):
        return value.text or ""
    typed = value[0]
    text = typed.text or ""
    try:
        match typed.tag:
            case "boolean":
                return text.strip() == "1"
            case "i4" | "int" | "i8":
                return whole_number(text)
            case "double":
                return float(text)
    except ValueError as error:
        raise UnreadableDocument(f"the answer holds a broken number: {error}") from None
    return text


def _fault(element: _Element) -> Exception:
    members = {
        member.findtext("name"): _scalar(value)
        for member in element.iterfind("value/struct/member")
        for value in member.iterfind("value")
    }
    code, text = members.get("faultCode"), members.get("faultString")
    if not isinstance(code, int):
        return UnreadableDocument("the answer is an XML-RPC fault without a code")
    return fault(str(text), code)
