"""The document that oned gives to a scheduler driver of 7.x, read while it arrives.

Objects are read one by one and forgotten: the largest documents are hundreds of megabytes, and what a decision
needs of them is a fraction.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from lxml import etree
from lxml.etree import _Element
from msgspec import Struct, field

from one_preempt.adapters.driver.requirement_lists import BEGIN, EMPTY, RequirementLists
from one_preempt.adapters.opennebula.host_reader import HostReader
from one_preempt.adapters.opennebula.infrastructure_reader import (
    read_cluster,
    read_datastore,
    read_network,
    read_vm_group,
)
from one_preempt.adapters.opennebula.virtual_machine_reader import read_virtual_machine
from one_preempt.adapters.opennebula.xml_document import (
    UNREADABLE_OBJECT,
    UnreadableDocument,
    shortened,
    why_left_out,
)
from one_preempt.core.model.host import Host
from one_preempt.core.model.pool_snapshot import PoolSnapshot, RaftState
from one_preempt.core.model.prematch import Prematch

ROOT = "SCHEDULER_DRIVER_ACTION"
PARTS = ("VM_POOL", "HOST_POOL", "DATASTORE_POOL", "VNET_POOL", "VM_GROUP_POOL", "CLUSTER_POOL", "REQUIREMENTS")
MOST_PROBLEMS = 20
# lxml may report an element some bytes after it was fed.
_OVERLAP_BYTES = 4096
_CONTROL_CHARACTERS = bytes(code for code in range(32) if code not in (9, 10, 13))
_NONCHARACTERS = ("\ufffe", "\uffff")


class DriverDocument(Struct, frozen=True):
    """The pools as a snapshot, and what oned matched for each VM that it wants a decision for."""

    snapshot: PoolSnapshot
    prematched: dict[int, Prematch]


def read_driver_document(pieces: Iterable[bytes]) -> DriverDocument:
    """Read the XML document that `pieces` make up. Raises `UnreadableDocument`.

    A single object that cannot be read is left out and told in the snapshot's `problems`.
    """
    reader = _Reader()
    try:
        for piece in pieces:
            reader.feed(piece)
        return reader.close()
    except etree.XMLSyntaxError as error:
        raise UnreadableDocument(f"the document is not well-formed XML: {error.msg}") from None


class _Pool(Struct):
    """What is read from one pool: `tag` below `name`."""

    name: str
    tag: str
    read_one: Callable[[_Element], Any]
    found: dict[int, Any] = field(default_factory=dict)
    twice: set[int] = field(default_factory=set)


class _Reader:
    """The pools go through lxml until the requirements begin; those are read apart."""

    def __init__(self) -> None:
        self._pools = {
            pool.tag: pool
            for pool in (
                _Pool("VM_POOL", "VM", partial(read_virtual_machine, in_order=False)),
                _Pool("HOST_POOL", "HOST", self._read_host),
                _Pool("DATASTORE_POOL", "DATASTORE", read_datastore),
                _Pool("VNET_POOL", "VNET", read_network),
                _Pool("VM_GROUP_POOL", "VM_GROUP", read_vm_group),
                _Pool("CLUSTER_POOL", "CLUSTER", read_cluster),
            )
        }
        # lxml's own parser: it takes pieces, and gives objects when they are complete.
        self._parser = etree.XMLPullParser(
            events=("start", "end"), tag=(ROOT, *PARTS, *self._pools), huge_tree=True,
            resolve_entities=False, no_network=True,
        )  # fmt: skip
        self._parts_to_come = list(PARTS)
        self._hosts: HostReader | None = None
        self._text = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._whole_characters = True
        self._last = b""
        self._requirements: RequirementLists | None = None
        self._requirements_began = self._ended = False
        self._problems: list[str] = []

    def feed(self, piece: bytes) -> None:
        """Read on."""
        if self._requirements is not None:
            self._requirements.feed(piece)
            return
        legal = self._legal(piece)
        self._parser.feed(legal)
        self._read_events()
        window = self._last + legal
        self._last = window[-_OVERLAP_BYTES:]
        if self._requirements_began:
            # Texts of users may hold the same words, but only before the element itself; behind it are numbers.
            begin = window.rfind(BEGIN)
            if begin > window.rfind(EMPTY):
                self._requirements = RequirementLists()
                self._requirements.feed(window[begin + len(BEGIN) :])

    def close(self) -> DriverDocument:
        """What was read, once the end was reached."""
        if self._requirements is not None:
            self._requirements.close()
        else:
            self._parser.close()
            self._read_events()
            if not self._ended:
                raise UnreadableDocument(f"a <{ROOT}> was expected")
            if self._requirements_began and EMPTY not in self._last:
                raise UnreadableDocument("its REQUIREMENTS are not written as oned writes them")
        pools = {tag: dict(sorted(pool.found.items())) for tag, pool in self._pools.items()}
        return DriverDocument(
            PoolSnapshot(
                observed_at_s=0,
                version="",
                zone_id=0,
                raft_state=RaftState.SOLO,
                hosts=pools["HOST"],
                vms=pools["VM"],
                clusters=pools["CLUSTER"],
                datastores=pools["DATASTORE"],
                networks=pools["VNET"],
                vm_groups=pools["VM_GROUP"],
                problems=tuple(self._problems),
            ),
            self._requirements.prematched if self._requirements is not None else {},
        )

    def _legal(self, piece: bytes) -> bytes:
        """`piece` without the characters that XML forbids: users can write them, and all VMs would wait."""
        if not (piece.isascii() and self._whole_characters):
            text = self._text.decode(piece)
            self._whole_characters = not self._text.getstate()[0]
            for character in _NONCHARACTERS:
                text = text.replace(character, "")
            piece = text.encode()
        return piece.translate(None, _CONTROL_CHARACTERS)

    def _read_events(self) -> None:
        for event, element in self._parser.read_events():
            parent = element.getparent()
            if parent is None:
                self._check_root(element)
                self._ended = event == "end"
            elif event == "start":
                if parent.getparent() is None:
                    self._begin_part(str(element.tag))
            elif element.tag in self._pools:
                self._read_object(self._pools[element.tag], element, parent)

    def _begin_part(self, tag: str) -> None:
        """A user's markup that got out of its VM would have to bring pools of its own."""
        if tag not in self._parts_to_come:
            raise UnreadableDocument(f"a <{shortened(tag)}> appears where oned writes none; did a user smuggle it in?")
        del self._parts_to_come[: self._parts_to_come.index(tag) + 1]
        self._requirements_began = tag == PARTS[-1]

    def _read_host(self, element: _Element) -> Host:
        """Devices and NUMA nodes are most of a host, and read only where a VM asks for any: VMs come first."""
        if self._hosts is None:
            vms = self._pools["VM"].found.values()
            self._hosts = HostReader(
                {}, {},
                with_devices=not vms or any(vm.pci_requests for vm in vms),
                with_numa_nodes=not vms or any(vm.topology is not None for vm in vms),
            )  # fmt: skip
        return self._hosts.read(element)

    def _read_object(self, pool: _Pool, element: _Element, parent: _Element) -> None:
        root = parent.getparent()
        # A user may name an attribute like an object: only children of the pool count.
        if parent.tag != pool.name or root is None or root.getparent() is not None:
            return
        try:
            item = pool.read_one(element)
            if item.id in pool.found or item.id in pool.twice:
                # One of them may be a user's, told in another's name.
                pool.twice.add(item.id)
                pool.found.pop(item.id, None)
                raise ValueError("its id appears twice in the document")
            pool.found[item.id] = item
        except UNREADABLE_OBJECT as error:
            self._tell(why_left_out(element, error))
        element.clear()
        while element.getprevious() is not None:
            del parent[0]

    def _tell(self, problem: str) -> None:
        if len(self._problems) < MOST_PROBLEMS:
            self._problems.append(problem)
        elif len(self._problems) == MOST_PROBLEMS:
            self._problems.append("more objects were left out than are told here")

    @staticmethod
    def _check_root(root: _Element) -> None:
        if root.tag != ROOT:
            raise UnreadableDocument(f"a <{ROOT}> was expected, not a <{shortened(str(root.tag))}>")
        if root.getroottree().docinfo.internalDTD is not None:
            raise UnreadableDocument("a document with a DTD is refused: oned writes none")
