"""What we write into a VM: two attributes of our own, as XML, with words that can only be words.

oned takes templates as text too, where a quotation mark in a message starts an attribute of its own, up to
USER_PRIORITY, which owners may not set (decision 0011). So messages are XML built by a library, and what users wrote
is cut and cleaned.
"""

from __future__ import annotations

from collections.abc import Iterable

from lxml import etree

from one_preempt.core.model.plain_words import plain_words
from one_preempt.errors import OnePreemptError

LONGEST_TEXT = {"LEASE_STATUS": 250, "SCHED_MESSAGE": 250}


class ForbiddenAttribute(OnePreemptError):
    """An attribute that is not ours to write."""


def message_template(attributes: Iterable[tuple[str, str]]) -> str:
    """The template for one.vm.update that sets `attributes`. Raises `ForbiddenAttribute`."""
    template = etree.Element("TEMPLATE")
    for name, text in attributes:
        if name not in LONGEST_TEXT:
            raise ForbiddenAttribute(f"{name[:40]!r} is never written to a VM, only {' and '.join(LONGEST_TEXT)}")
        # oned skips an element without content; only a CDATA section, even an empty one, replaces what stands there.
        etree.SubElement(template, name).text = etree.CDATA(plain_words(text, LONGEST_TEXT[name]))
    return etree.tostring(template, encoding="unicode")
