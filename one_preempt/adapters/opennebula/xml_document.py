"""oned's documents as XML: refused where they are not, mended where a single object is broken.

A pool is one document with thousands of objects whose texts are written by users. A value that cannot be
read costs at most its own object, never the pool: broken objects are left out and told in `problems`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from io import BytesIO
from typing import TypeVar

from lxml import etree
from lxml.etree import _Element

from one_preempt.adapters.opennebula.pool_pieces import is_as_written, pieces_of
from one_preempt.errors import OnePreemptError

T = TypeVar("T")

# Beyond this no number of oned is meant seriously; sums of ten thousand still fit 64 bits.
LARGEST_NUMBER = 1 << 48
LONGEST_NUMBER = 20
LONGEST_QUOTE = 60
MOST_NAMED = 10
DTD_REFUSED = "a document with a DTD is refused: oned writes none"
WHO_DOES_IT = "the owner of one of them has smuggled markup into an attribute, or it was damaged"

_ILLEGAL_CHARACTER = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f]|\xef\xbf[\xbe\xbf]")
_CHARACTER_REFERENCE = re.compile(rb"&#(x[0-9a-fA-F]{1,9}|[0-9]{1,9});")


# What reading a broken object raises.
UNREADABLE_OBJECT = (KeyError, ValueError, OverflowError, IndexError, RecursionError)


class UnreadableDocument(OnePreemptError):
    """What should be a document of oned is not XML, or not the document that was asked for."""


@lru_cache(maxsize=1 << 16)
def whole_number(text: str) -> int:
    """The integer written in `text`; `ValueError` where it is none or absurdly large."""
    if len(text) > LONGEST_NUMBER:
        raise ValueError(f"{shortened(text)} is too large")
    try:
        number = int(text)
    except ValueError:
        raise ValueError(f"{shortened(text)} is no whole number") from None
    if not -LARGEST_NUMBER <= number <= LARGEST_NUMBER:
        raise ValueError(f"{shortened(text)} is too large")
    return number


def whole_number_or(text: str | None, otherwise: int) -> int:
    """The integer written in `text`, `otherwise` where none can be read."""
    try:
        return whole_number(text or "")
    except ValueError:
        return otherwise


def optional_number(text: str | None) -> int | None:
    """The integer written in `text`, or None where nothing is written."""
    return whole_number(text) if text else None


def amount(text: str) -> int:
    """A whole number that cannot be negative."""
    number = whole_number(text)
    if number < 0:
        raise ValueError(f"{number} is negative")
    return number


def numbers_in(text: str) -> tuple[int, ...]:
    """The numbers of a list such as ``"3, 5"``."""
    return tuple(whole_number(word) for word in text.replace(",", " ").split())


def shortened(text: str) -> str:
    """`text` as a quotation of readable length."""
    return repr(text if len(text) <= LONGEST_QUOTE else f"{text[:LONGEST_QUOTE]}...")


def texts_of(element: _Element) -> dict[str, str]:
    """The texts of the children by name; the last one where a name is repeated."""
    # lxml's types allow for names that only the HTML parser and namespaces have.
    return {child.tag: child.text or "" for child in element}  # type: ignore[misc]


def first_texts_of(element: _Element) -> dict[str, str]:
    """The texts of the children by name; the first one where a name is repeated.

    In the documents of users, groups and networks oned's own elements stand first; a template written by their
    owner, which can smuggle in elements of the same names, comes after them.
    """
    return {child.tag: child.text or "" for child in reversed(element)}  # type: ignore[misc]


def ids_in(element: _Element | None) -> tuple[int, ...]:
    """The ids listed in an element such as HOSTS or CLUSTERS, in document order."""
    return () if element is None else tuple(whole_number(child.text or "") for child in element if child.tag == "ID")


def scalar_paths(element: _Element, prefix: str, into: dict[str, tuple[str, ...]], skipped: frozenset[str]) -> None:
    """Add every text below `element` to `into`, under its path; `skipped` names elements to leave out."""
    # In lists first: tens of thousands of attributes of one name would otherwise be copied again for each.
    found: dict[str, list[str]] = {}
    _collect(element, prefix, found, skipped)
    for path, texts in found.items():
        into[path] = (*into.get(path, ()), *texts)


def _collect(element: _Element, prefix: str, found: dict[str, list[str]], skipped: frozenset[str]) -> None:
    for child in element:
        if child.tag in skipped or not isinstance(child.tag, str):  # comments have no name
            continue
        path = f"{prefix}{child.tag!s}"
        if len(child):
            _collect(child, path + "/", found, skipped)
        else:
            found.setdefault(path, []).append(child.text or "")


def parse_document(document: bytes, problems: list[str], name: str = "the document") -> _Element:
    """The root element. Characters that XML forbids are removed, and said in `problems`."""
    try:
        return _parse(document)
    except etree.XMLSyntaxError:
        cleaned = without_illegal_characters(document)
    try:
        root = _parse(cleaned)
    except etree.XMLSyntaxError as error:
        raise UnreadableDocument(f"{name} is not well-formed XML ({error.msg}); was it cut off?") from None
    problems.append(f"{name} had characters that XML forbids; they were removed")
    return root


def read_objects(
    document: bytes, pool: str, tag: str, read_one: Callable[[_Element], T], problems: list[str]
) -> list[T]:
    """Read every `tag` directly below the root `pool`. What cannot be read is left out and told in `problems`.

    Raises `UnreadableDocument` for any other document, and for one that is cut off: half a pool must never
    be taken for the whole, for then the other half would seem to have ended.
    """
    cleaned = document
    if is_as_written(document):
        try:
            return _read_whole(document, pool, tag, read_one, problems)
        except etree.XMLSyntaxError:
            cleaned = without_illegal_characters(document)
    if cleaned != document and is_as_written(cleaned):
        try:
            found = _read_whole(cleaned, pool, tag, read_one, problems)
        except etree.XMLSyntaxError:
            pass
        else:
            problems.append(f"the {pool} had characters that XML forbids; they were removed")
            return found
    found = []
    for element in _one_by_one(cleaned, pool, tag, problems):
        _read_into(found, element, read_one, problems)
    return found


def _read_whole(
    document: bytes, pool: str, tag: str, read_one: Callable[[_Element], T], problems: list[str]
) -> list[T]:
    found: list[T] = []
    new_problems: list[str] = []
    for element in _stream(document, pool, tag):
        _read_into(found, element, read_one, new_problems)
    problems.extend(new_problems)
    return found


def why_left_out(element: _Element, error: Exception) -> str:
    """One sentence about an object whose reading raised `error`, one of UNREADABLE_OBJECT."""
    why = f"it has no {error.args[0]}" if isinstance(error, KeyError) else str(error)
    return f"{_name_of(element)} was left out: {why}"


def without_illegal_characters(document: bytes) -> bytes:
    """`document` without the characters, and references to characters, that no XML document may hold.

    A blank is left in their place: what stood apart must not become markup.
    """

    def legal(match: re.Match[bytes]) -> bytes:
        digits = match[1].decode()
        code = int(digits[1:], 16) if digits.startswith("x") else int(digits)
        return match[0] if _is_legal(code) else b" "

    valid_utf8 = document.decode("utf-8", errors="replace").encode()
    return _CHARACTER_REFERENCE.sub(legal, _ILLEGAL_CHARACTER.sub(b" ", valid_utf8))


def _is_legal(code: int) -> bool:
    return code in (9, 10, 13) or 0x20 <= code <= 0xD7FF or 0xE000 <= code <= 0xFFFD or 0x10000 <= code <= 0x10FFFF


def _parse(document: bytes) -> _Element:
    parser = etree.XMLParser(huge_tree=True, resolve_entities=False, no_network=True)
    root = etree.fromstring(document, parser)
    _refuse_dtd(root)
    return root


def _stream(document: bytes, pool: str, tag: str) -> Iterator[_Element]:
    """The objects one by one; each is forgotten when the next is asked for, so that big pools stay small."""
    events = etree.iterparse(
        BytesIO(document), events=("end",), tag=tag, huge_tree=True, resolve_entities=False, no_network=True
    )
    for _, element in events:
        parent = element.getparent()
        # A user may name an attribute like the object: only children of the root count.
        if parent is not None and parent.getparent() is None:
            yield element
            element.clear()
    assert events.root is not None, "the end of a well-formed document was reached"
    _refuse_dtd(events.root)
    if events.root.tag != pool:
        raise UnreadableDocument(f"a <{pool}> was expected, not the element {shortened(str(events.root.tag))}")


def _refuse_dtd(root: _Element) -> None:
    if root.getroottree().docinfo.internalDTD is not None:
        raise UnreadableDocument(DTD_REFUSED)


def _one_by_one(document: bytes, pool: str, tag: str, problems: list[str]) -> Iterator[_Element]:
    """Objects of a document in which users' markup may be: those that are certainly oned's, each parsed alone."""
    whole = document.strip()
    if b"<!DOCTYPE" in whole[: whole.find(b"<%b" % pool.encode())]:
        raise UnreadableDocument(DTD_REFUSED)
    if not re.match(rb"(<\?xml[^>]*\?>\s*)?<%b>" % pool.encode(), whole):
        raise UnreadableDocument(f"a <{pool}> was expected, not {shortened(whole[:80].decode(errors='replace'))}")
    if not whole.endswith(b"</%b>" % pool.encode()):
        raise UnreadableDocument(f"the {pool} has no end; was it cut off?")
    pieces = pieces_of(document, pool, tag)
    for piece in (*pieces.before, *pieces.behind):
        yield _parse(b"<_>" + piece.text + b"</_>")[0]
    ids = sorted({piece.id for piece in pieces.suspect})
    if ids:
        named = ", ".join(map(str, ids[:MOST_NAMED])) + (", ..." if len(ids) > MOST_NAMED else "")
        problems.append(f"{tag} {named}: left out, because the {pool} is not as oned writes it there: {WHO_DOES_IT}")


def _read_into(found: list[T], element: _Element, read_one: Callable[[_Element], T], problems: list[str]) -> None:
    try:
        found.append(read_one(element))
    except UNREADABLE_OBJECT as error:
        problems.append(why_left_out(element, error))


def _name_of(element: _Element) -> str:
    return f"{element.tag!s} {shortened(element.findtext('ID') or '?')}"
