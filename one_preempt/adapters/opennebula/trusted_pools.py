"""Pools in which nobody passes for another: what users' markup may have forged is asked for object by object.

The answer about one object holds the words of its own owner alone. So whoever writes markup of his own costs himself
his object, the others a call each, and the daemon nothing (docs/decisions/0037).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence, Set

from lxml import etree
from msgspec import Struct, field

from one_preempt.adapters.opennebula import snapshot_assembly as pools
from one_preempt.adapters.opennebula.oned_errors import NoExistsError, OnedError, OtherFault
from one_preempt.adapters.opennebula.pool_pieces import (
    GREATEST_ID,
    Piece,
    Pieces,
    is_as_written,
    is_one_object,
    pieces_of,
)
from one_preempt.adapters.opennebula.transport import OnedTransport, Parameter

# So few are asked for one by one; of more a text may be full, and parts of the pool tell whose it is.
FEW = 16
# Where that is not told by so many calls, what is left is left out.
MOST_CALLS = 2000


class Pool(Struct, frozen=True):
    """A pool in whose objects users write, and the call that tells one of them.

    `in_parts`: the pool's own call says whose objects it wants, then between which ids, both included.
    """

    name: str
    tag: str
    call: str
    in_parts: bool = True


_NOT_SENT = -500
_STATE = re.compile(rb"<STATE>[0-9]{1,9}</STATE><LCM_STATE>[0-9]{1,9}</LCM_STATE>")
POOLS = {
    pools.VM_POOL: Pool("VM_POOL", "VM", "one.vm.info"),
    pools.NETWORK_POOL: Pool("VNET_POOL", "VNET", "one.vn.info"),
    pools.VM_GROUP_POOL: Pool("VM_GROUP_POOL", "VM_GROUP", "one.vmgroup.info"),
    pools.IMAGE_POOL: Pool("IMAGE_POOL", "IMAGE", "one.image.info"),
    pools.TEMPLATE_POOL: Pool("VMTEMPLATE_POOL", "VMTEMPLATE", "one.template.info"),
    pools.USER_POOL: Pool("USER_POOL", "USER", "one.user.info", in_parts=False),
    pools.GROUP_POOL: Pool("GROUP_POOL", "GROUP", "one.group.info", in_parts=False),
}


def part_of(parameters: Sequence[Parameter], first_id: int, last_id: int) -> tuple[Parameter, ...]:
    """The parameters of a pool's call for some of the objects that it was asked for: those between two ids."""
    whose, _first, _last, *more = parameters
    return (whose, first_id, last_id, *more)


def as_trusted(
    transport: OnedTransport,
    name: str,
    parameters: tuple[Parameter, ...],
    document: bytes,
    wanted: Callable[[], Collection[int]] = tuple,
) -> bytes:
    """The answer to the call `name` with these parameters; of a pool that is not as oned writes it one that is.

    Of many in a pool that oned does not tell in parts those that are `wanted` are asked for, and few others. Raises
    `CloudUnavailable`. Objects that cannot be told are there by their ids alone: they have not ended.
    """
    pool = POOLS.get(name)
    return document if pool is None else Asking(transport, name, pool, parameters).trusted(document, wanted)


def is_not_sent(error: OnedError) -> bool:
    """Is in the answer what oned's XML-RPC library cannot send?"""
    return error.code == _NOT_SENT and "UTF-8" in error.text


def _is_whole(document: bytes, pool: Pool) -> bool:
    whole = document.strip()
    return whole.startswith(f"<{pool.name}>".encode()) and whole.endswith(f"</{pool.name}>".encode())


class Asking(Struct):
    """Asks oned for objects, and for parts of a pool, with so many calls at most."""

    transport: OnedTransport
    name: str
    pool: Pool
    parameters: tuple[Parameter, ...]
    calls_left: int = field(default=MOST_CALLS)

    def trusted(
        self,
        document: bytes,
        wanted: Callable[[], Collection[int]] = tuple,
        first_id: int = 0,
        last_id: int = GREATEST_ID,
    ) -> bytes:
        """As `as_trusted`; the pool `document` holds the objects from `first_id` to `last_id`."""
        pool = self.pool
        # Something else, or cut off: whoever reads it says so.
        if is_as_written(document) or not _is_whole(document, pool):
            return document
        pieces = pieces_of(document, pool.name, pool.tag)
        if len(pieces.suspect) <= FEW or not pool.in_parts:
            told = list(self.each({piece.id for piece in pieces.suspect}, wanted))
        else:
            told = list(self.between(pieces, first_id, last_id))
        texts = [piece.text for piece in pieces.before] + told + [piece.text for piece in pieces.behind]
        # They stand behind the last object, and are nobody's words.
        defaults = b"" if pieces.behind else _defaults(document, pool)
        return b"".join([f"<{pool.name}>".encode(), *texts, defaults, f"</{pool.name}>".encode()])

    def each(self, suspects: Set[int], wanted: Callable[[], Collection[int]]) -> Iterator[bytes]:
        """Each of these; of many those that are wanted, and the oldest of the others, among whom oneadmin is."""
        asked = suspects if len(suspects) <= FEW else suspects & set(wanted())
        asked = asked | set(sorted(suspects - asked)[:FEW])
        for object_id in sorted(suspects):
            yield self.told(object_id) if object_id in asked else _id_alone(self.pool, object_id)

    def told(self, object_id: int) -> bytes:
        """One object; its id alone where it is not told, or too many were asked for."""
        if self.calls_left <= 0:
            return _id_alone(self.pool, object_id)
        self.calls_left -= 1
        return told_alone(self.transport, self.pool, object_id)

    def between(self, pieces: Pieces, first_id: int, last_id: int, depth: int = 0) -> Iterator[bytes]:
        """What a part of the pool holds of the ids from `first_id` to `last_id` between what is certainly oned's.

        One object is asked for, and what stands on either side of it as a part of its own: where nobody wrote markup of
        his own that part is as oned writes it. `depth` parts are around this one.
        """
        first_id = pieces.before[-1].id + 1 if pieces.before else first_id
        last_id = pieces.behind[0].id - 1 if pieces.behind else last_id
        claimed = [piece for piece in pieces.suspect if first_id <= piece.id <= last_id]
        if not claimed:
            return
        chosen_id = _chosen(claimed, depth)
        yield from self._part(first_id, chosen_id - 1, claimed, depth)
        yield self.told(chosen_id)
        yield from self._part(chosen_id + 1, last_id, claimed, depth)

    def _part(self, first_id: int, last_id: int, claimed: Sequence[Piece], depth: int) -> Iterator[bytes]:
        if first_id > last_id:
            return
        within = [piece for piece in claimed if first_id <= piece.id <= last_id]
        pool = self.pool
        document = self._asked_part(first_id, last_id)
        if document is None:
            yield from (_id_alone(pool, one) for one in sorted({piece.id for piece in within}))
            return
        if is_as_written(document) and _is_whole(document, pool):
            yield document[len(f"<{pool.name}>") : -len(f"</{pool.name}>")]
            return
        pieces = pieces_of(document, pool.name, pool.tag)
        yield from (piece.text for piece in pieces.before)
        yield from self.between(pieces, first_id, last_id, depth + 1)
        yield from (piece.text for piece in pieces.behind)

    def _asked_part(self, first_id: int, last_id: int) -> bytes | None:
        """A part of the pool; None where too many were asked for, or oned cannot send it by now."""
        if self.calls_left <= 0 or not self.pool.in_parts:
            return None
        self.calls_left -= 1
        try:
            return self.transport.document(f"one.{self.name}", *part_of(self.parameters, first_id, last_id)).strip()
        except OtherFault as error:
            if is_not_sent(error):
                return None
            raise


def _chosen(claimed: Sequence[Piece], depth: int) -> int:
    """Mostly whoever comes first with tags that are not oned's; in turn with that the middle, for heads may lie."""
    ids = sorted(piece.id for piece in claimed)
    torn = next((piece.id for piece in claimed if not is_as_written(piece.text)), None)
    return torn if torn is not None and depth % 2 == 0 else ids[len(ids) // 2]


def told_alone(transport: OnedTransport, pool: Pool, object_id: int) -> bytes:
    """An object as oned tells it alone; nothing where there is none of this id."""
    if object_id > GREATEST_ID:
        return b""
    try:
        answer = transport.document(pool.call, object_id)
    except NoExistsError:
        return b""
    except OnedError:
        return _id_alone(pool, object_id)
    if not is_one_object(answer, pool.tag, object_id):
        return _head_alone(pool, object_id, answer)
    return answer + _quotas(answer, object_id)


def _head_alone(pool: Pool, object_id: int, answer: bytes) -> bytes:
    """The id, and of a VM its state: oned writes that before anything that is its owner's."""
    found = _STATE.search(answer) if pool.tag == "VM" else None
    return _id_alone(pool, object_id).replace(b"</VM>", (found[0] if found else b"") + b"</VM>")


def _quotas(answer: bytes, object_id: int) -> bytes:
    """Quotas as a pool has them, behind their user or group; in its own document they come after what it says."""
    found = etree.fromstring(answer).findall("VM_QUOTA")
    if not found:
        return b""
    return b"<QUOTAS><ID>%d</ID>%b</QUOTAS>" % (object_id, etree.tostring(found[-1]))


def _defaults(document: bytes, pool: Pool) -> bytes:
    end, begin = document.rfind(f"</{pool.name}>".encode()), document.rfind(f"<DEFAULT_{pool.tag}_QUOTAS>".encode())
    return document[begin:end] if 0 <= begin < end and is_as_written(document[begin:end]) else b""


def _id_alone(pool: Pool, object_id: int) -> bytes:
    return f"<{pool.tag}><ID>{object_id}</ID></{pool.tag}>".encode()
