"""The REQUIREMENTS part of a driver document: for every VM, each host that it may have.

With thousands of VMs and hosts nearly all of the document is here, and nearly all lists are equal. So it is not
parsed as XML as a whole: it is cut behind each VM, and equal text is parsed once.
"""

from __future__ import annotations

import re

from lxml import etree
from lxml.etree import _Element

from one_preempt.adapters.opennebula.xml_document import UnreadableDocument, ids_in, shortened, whole_number
from one_preempt.core.model.prematch import Prematch

BEGIN = b"<REQUIREMENTS>"
EMPTY = b"<REQUIREMENTS/>"
LONGEST_LIST_BYTES = 32 << 20
REMEMBERED_LISTS = 512
_VM_END = b"</VM>"
_VM_BEGIN = re.compile(rb"\s*<VM>\s*<ID>([0-9]{1,18})</ID>")
_END = re.compile(rb"\s*</REQUIREMENTS>\s*</SCHEDULER_DRIVER_ACTION>\s*")


class RequirementLists:
    """Takes the bytes behind `<REQUIREMENTS>` as they come; `prematched` holds what was read, by VM id."""

    def __init__(self) -> None:
        self.prematched: dict[int, Prematch] = {}
        self._rest = b""
        self._known: dict[bytes, Prematch] = {}

    def feed(self, document: bytes) -> None:
        """Read on. Raises `UnreadableDocument`."""
        *vms, self._rest = (self._rest + document).split(_VM_END)
        for vm in vms:
            begin = _VM_BEGIN.match(vm)
            if begin is None:
                raise UnreadableDocument(f"REQUIREMENTS has {_quoted(vm)} where a VM was expected")
            self.prematched[int(begin[1])] = self._lists(vm[begin.end() :])
        if len(self._rest) > LONGEST_LIST_BYTES:
            raise UnreadableDocument(f"a VM of REQUIREMENTS is longer than {LONGEST_LIST_BYTES} bytes")

    def close(self) -> None:
        """Check that the document has ended as it should: half a list must not be taken for the whole."""
        if _END.fullmatch(self._rest) is None:
            raise UnreadableDocument("the document has no end; was it cut off?")

    def _lists(self, text: bytes) -> Prematch:
        lists = self._known.get(text)
        if lists is None:
            if len(self._known) >= REMEMBERED_LISTS:
                self._known.clear()
            lists = self._known[text] = _parse(text)
        return lists


def _parse(text: bytes) -> Prematch:
    parser = etree.XMLParser(huge_tree=True, resolve_entities=False, no_network=True)
    try:
        lists = etree.fromstring(b"<VM>" + text + _VM_END, parser)
        return Prematch(
            host_ids=ids_in(lists.find("HOSTS")),
            datastore_ids=frozenset(ids_in(lists.find("DATASTORES"))),
            network_ids={_id(nic): frozenset(ids_in(nic.find("VNETS"))) for nic in lists.iterchildren("NIC")},
        )
    except (etree.XMLSyntaxError, ValueError) as error:
        raise UnreadableDocument(f"REQUIREMENTS has {_quoted(text)}, which cannot be read: {error}") from None


def _id(nic: _Element) -> int:
    return whole_number(nic.findtext("ID") or "")


def _quoted(text: bytes) -> str:
    return shortened(text[:80].decode(errors="replace"))
