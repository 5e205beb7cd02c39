"""The few forms in which oned writes XML: plain text, CDATA, empty elements, id lists and templates.

oned sorts the attributes of a template by name and writes their values as CDATA.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

# One template: each name with its values in order; a value is a text or a vector of texts.
Vector = Mapping[str, str]
Attributes = Mapping[str, Sequence[str | Vector]]


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
    body = "".join([f"<{key}><![CDATA[{value}]]></{key}>" for key, value in sorted(entries.items())])
    if body.count("]]>") > len(entries):
        body = "".join([cdata(key, value) for key, value in sorted(entries.items())])
    return f"<{tag}>{body}</{tag}>"


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
