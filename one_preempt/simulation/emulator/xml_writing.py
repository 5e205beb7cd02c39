"""The few forms in which oned writes XML: plain text, CDATA, empty elements, id lists and templates.

oned sorts the attributes of a template by name and writes their values as CDATA.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

# One template: each name with its values in order; a value is a text or a vector of texts.
Vector = Mapping[str, str]
Attributes = Mapping[str, Sequence[str | Vector]]

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def document(text: str) -> str:
    """A finished document without the characters that XML 1.0 forbids.

    They cannot reach oned by XML-RPC; only a description can have put them here.
    """
    return _NOT_XML.sub("", text)


def plain(tag: str, value: int | str) -> str:
    """``<TAG>value</TAG>`` with markup escaped."""
    if isinstance(value, str):
        value = value.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return f"<{tag}>{value}</{tag}>"


def cdata(tag: str, value: int | str) -> str:
    """``<TAG><![CDATA[value]]></TAG>``; an end mark inside the value is split over two sections."""
    if isinstance(value, str) and "]]>" in value:
        value = value.replace("]]>", "]]]]><![CDATA[>")
    return f"<{tag}><![CDATA[{value}]]></{tag}>"


def element(tag: str, *children: str) -> str:
    """``<TAG>children</TAG>``."""
    return f"<{tag}>{''.join(children)}</{tag}>"


def ids(tag: str, values: Iterable[int]) -> str:
    """``<TAG><ID>1</ID><ID>2</ID></TAG>``."""
    return element(tag, "".join([f"<ID>{value}</ID>" for value in values]))


def vector(tag: str, entries: Vector) -> str:
    """``<TAG>`` with one CDATA element an entry, by name."""
    return element(tag, "".join([cdata(key, entries[key]) for key in sorted(entries)]))


def attributes(entries: Attributes) -> str:
    """The elements of a template, by name; several values of one name stand together in their order."""
    return "".join(
        [
            cdata(name, value) if isinstance(value, str) else vector(name, value)
            for name in sorted(entries)
            for value in entries[name]
        ]
    )


def template(tag: str, entries: Attributes) -> str:
    """``<TAG>`` around the elements of a template."""
    return element(tag, attributes(entries))
