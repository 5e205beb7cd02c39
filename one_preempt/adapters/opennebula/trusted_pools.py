"""Pools in which nobody passes for another: what users' markup may have forged is asked for object by object.

The answer about one object holds the words of its own owner alone. So whoever writes markup of his own costs himself
his object, the others a call each, and the daemon nothing (docs/decisions/0037).
"""

from __future__ import annotations

from dataclasses import dataclass

from lxml import etree

from one_preempt.adapters.opennebula import snapshot_assembly as pools
from one_preempt.adapters.opennebula.oned_errors import NoExistsError, OnedError
from one_preempt.adapters.opennebula.pool_pieces import GREATEST_ID, Piece, is_as_written, is_one_object, pieces_of
from one_preempt.adapters.opennebula.transport import OnedTransport

# More would be a text full of them: then all of these are left out, and nobody is asked.
MOST_ASKED_FOR = 5000


@dataclass(frozen=True, slots=True)
class Pool:
    """A pool in whose objects users write, and the call that tells one of them."""

    name: str
    tag: str
    call: str


POOLS = {
    pools.VM_POOL: Pool("VM_POOL", "VM", "one.vm.info"),
    pools.NETWORK_POOL: Pool("VNET_POOL", "VNET", "one.vn.info"),
    pools.VM_GROUP_POOL: Pool("VM_GROUP_POOL", "VM_GROUP", "one.vmgroup.info"),
    pools.USER_POOL: Pool("USER_POOL", "USER", "one.user.info"),
    pools.GROUP_POOL: Pool("GROUP_POOL", "GROUP", "one.group.info"),
}


def as_trusted(transport: OnedTransport, name: str, document: bytes) -> bytes:
    """The answer to the call `name`; of a pool that is not as oned writes it one that is.

    Raises `CloudUnavailable`. Objects that cannot be told are there by their ids alone: they have not ended.
    """
    pool = POOLS.get(name)
    if pool is None or is_as_written(document):
        return document
    whole = document.strip()
    if not (whole.startswith(f"<{pool.name}>".encode()) and whole.endswith(f"</{pool.name}>".encode())):
        # Something else, or cut off: whoever reads it says so.
        return document
    pieces = pieces_of(document, pool.name, pool.tag)
    suspects = {piece.id: piece for piece in pieces.suspect}
    asked_for = len(suspects) <= MOST_ASKED_FOR
    told = [_told(transport, pool, piece) if asked_for else _id_alone(pool, piece.id) for piece in suspects.values()]
    texts = [piece.text for piece in pieces.before] + told + [piece.text for piece in pieces.behind]
    # They stand behind the last object, and are nobody's words.
    defaults = b"" if pieces.behind else _defaults(document, pool)
    return b"".join([f"<{pool.name}>".encode(), *texts, defaults, f"</{pool.name}>".encode()])


def _told(transport: OnedTransport, pool: Pool, piece: Piece) -> bytes:
    """An object as oned tells it alone; nothing where there is none of this id."""
    if piece.id > GREATEST_ID:
        return b""
    try:
        answer = transport.document(pool.call, piece.id)
    except NoExistsError:
        return b""
    except OnedError:
        return _id_alone(pool, piece.id)
    if not is_one_object(answer, pool.tag, piece.id):
        return _id_alone(pool, piece.id)
    return answer + _quotas(answer, piece.id)


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
