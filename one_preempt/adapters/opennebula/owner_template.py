"""The LEASE attribute of a VM that its owner creates: merged into a template as values, which can only be values."""

from __future__ import annotations

from collections.abc import Mapping

from lxml import etree

from one_preempt.adapters.opennebula.xml_document import UnreadableDocument, parse_document
from one_preempt.errors import OnePreemptError

LEASE = "LEASE"
SUBMISSION = "LEASE_SUBMISSION"
"""Marks all VMs of one submission, so that those whose creation got no answer can be found again."""
GATEWAY = "LEASE_GATEWAY"
"""The number of the request, in VMs for which a gateway between zones chose the zone."""
ROOT = "TEMPLATE"


def added_attributes(lease: Mapping[str, str], marks: Mapping[str, str]) -> str:
    """What is added to a VM template at its instantiation, where it replaces its namesakes, as XML.

    `marks` are attributes of one text each, by name, as `SUBMISSION`.
    """
    root = etree.Element(ROOT)
    _append(root, lease, marks)
    return etree.tostring(root, encoding="unicode")


def with_lease(template: str, lease: Mapping[str, str], marks: Mapping[str, str]) -> str:
    """A whole template as its owner wrote it, in text or in XML, with the LEASE attribute and marks.

    A LEASE in XML is replaced. One in text stays, and what comes of it shows only in the VM (see
    `OwnerAccount.create`): nobody but oned reads its own language as it does. Raises `OnePreemptError`.
    """
    if not template.lstrip().startswith("<"):
        lines = (template, _vector_text(LEASE, lease), *(f"{name} = {_quoted(text)}" for name, text in marks.items()))
        return "\n".join(lines) + "\n"
    try:
        root = parse_document(template.strip().encode(), [], "the template")
    except UnreadableDocument as error:
        raise OnePreemptError(str(error)) from None
    for name in (LEASE, SUBMISSION, GATEWAY):
        for element in root.findall(name):
            root.remove(element)
    _append(root, lease, marks)
    return etree.tostring(root, encoding="unicode")


def _append(root: etree._Element, lease: Mapping[str, str], marks: Mapping[str, str]) -> None:
    vector = etree.SubElement(root, LEASE)
    for key, text in lease.items():
        etree.SubElement(vector, key).text = text
    for name, text in marks.items():
        etree.SubElement(root, name).text = text


def _vector_text(name: str, values: Mapping[str, str]) -> str:
    return f"{name} = [ {', '.join(f'{key} = {_quoted(text)}' for key, text in values.items())} ]"


def _quoted(text: str) -> str:
    """`text` in quotation marks; what oned's language cannot write inside them is refused."""
    if not text.isprintable() or '"' in text or "\\" in text:
        raise OnePreemptError(
            f"{text[:40]!r} cannot be written into a template: leave out quotation marks and backslashes"
        )
    return f'"{text}"'
