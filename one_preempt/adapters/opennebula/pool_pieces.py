"""Pools in which a user may have written markup of his own, cut into the objects that are certainly oned's.

oned joins the documents of its objects into a pool, each as it was stored. It stores what its own XML parser takes as
one element, but lets users' texts end their CDATA sections, takes prefixes that nobody declared, and with SQLite parses
the text with its quotes doubled. By tags with prefixes or attributes, which oned itself never writes, an object can so
be one element to oned, and several in the pool: a forged one between two that are torn (docs/decisions/0037).
"""

from __future__ import annotations

import re
from collections import Counter

from lxml import etree
from msgspec import Struct

# Texts, sections, and tags of nothing but a name. Possessive, so that no text makes it look back.
_AS_WRITTEN = re.compile(rb"(?:[^<]++|<!\[CDATA\[(?s:.*?)\]\]>|</?+[A-Za-z_][A-Za-z0-9_.-]*+/?+>)*+")
_DECLARATION = re.compile(rb"\s*<\?xml[^<>]*\?>")
# Stands in the place of all that an object has but its id, where oned cannot send it.
NOT_SENT_MARK = "NOT_SENT"
# What a call can carry.
GREATEST_ID = (1 << 31) - 1


class Piece(Struct, frozen=True):
    """An object of a pool with what stands behind it, up to the next; `id` is the one that its head names."""

    id: int
    text: bytes


class Pieces(Struct, frozen=True):
    """The pieces of a pool in their order: those `before` and `behind` are oned's, `suspect` ones may be forged."""

    before: tuple[Piece, ...]
    suspect: tuple[Piece, ...]
    behind: tuple[Piece, ...]


def is_as_written(document: bytes) -> bool:
    """Has it only tags as oned writes them? Then its objects are those that oned joined, if it is well-formed."""
    declaration = _DECLARATION.match(document)
    return _AS_WRITTEN.fullmatch(document, declaration.end() if declaration else 0) is not None


def pieces_of(document: bytes, pool: str, tag: str) -> Pieces:
    """Cut a pool at what looks like the beginning of an object.

    A forged object stands between two that are not whole, or not as oned writes them, and so between the first and the
    last piece of that kind. Before and behind these oned saw what is read here.
    """
    heads = _heads(document, tag)
    ends = [*(head.start() for head in heads[1:]), max(document.rfind(f"</{pool}>".encode()), 0) or len(document)]
    pieces = [Piece(int(head[1]), document[head.start() : end]) for head, end in zip(heads, ends, strict=False)]
    times = Counter(piece.id for piece in pieces)
    unsound = [
        at for at, piece in enumerate(pieces) if times[piece.id] > 1 or not is_one_object(piece.text, tag, piece.id)
    ]
    first, last = (unsound[0], unsound[-1] + 1) if unsound else (len(pieces), len(pieces))
    return Pieces(tuple(pieces[:first]), tuple(pieces[first:last]), tuple(pieces[last:]))


def ids_named(document: bytes, tag: str) -> frozenset[int]:
    """The ids of all objects of a pool; of one that is not as oned writes it, those that only seem to be there too."""
    heads = _heads(document, tag)
    if is_as_written(document):
        inner = _nested(document, tag)
        heads = [head for head in heads if head.start() not in inner]
    return frozenset(int(head[1]) for head in heads)


def _nested(document: bytes, tag: str) -> frozenset[int]:
    """Where elements called like the objects begin inside of one."""
    marks = re.compile(rb"<!\[CDATA\[(?s:.*?)\]\]>|<(/?)%s>" % tag.encode())
    depth, found = 0, []
    for mark in marks.finditer(document):
        if mark[1] == b"":
            if depth:
                found.append(mark.start())
            depth += 1
        elif mark[1] is not None:
            depth = max(depth - 1, 0)
    return frozenset(found)


def is_one_object(text: bytes, tag: str, object_id: int) -> bool:
    """A whole object of this id, as oned writes it; of other kinds some may stand behind it."""
    if not is_as_written(text):
        return False
    try:
        root = etree.fromstring(b"<_>" + text + b"</_>", _parser())
    except etree.XMLSyntaxError:
        return False
    first = root[0] if len(root) else None
    if first is None or first.tag != tag or any(child.tag == tag for child in root[1:]):
        return False
    return first.findtext("ID") == str(object_id)


def _parser() -> etree.XMLParser:
    return etree.XMLParser(huge_tree=True, resolve_entities=False, no_network=True)


def _heads(document: bytes, tag: str) -> list[re.Match[bytes]]:
    """What looks like the beginning of an object, outside of sections; what follows a text ends its section."""
    marks = re.compile(rb"<!\[CDATA\[(?s:.*?)\]\]>|<%s>\s*<ID>([0-9]{1,10})</ID>" % tag.encode())
    return [mark for mark in marks.finditer(document) if mark[1] is not None]
