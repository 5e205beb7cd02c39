"""What oned writes to a driver's standard input: one line of base64, decoded piece by piece."""

from __future__ import annotations

import binascii
from collections.abc import Iterator
from typing import BinaryIO

from one_preempt.adapters.opennebula.xml_document import UnreadableDocument

PIECE_BYTES = 1 << 20
LARGEST_DOCUMENT_BYTES = 4 << 30
_QUANTUM = 4  # characters of base64 that stand for three bytes
_LINE_END = b"\n"
_BLANKS = b" \t\r\n"


def decoded(stream: BinaryIO, piece_bytes: int = PIECE_BYTES) -> Iterator[bytes]:
    """The decoded bytes, at most `piece_bytes` at a time. Raises `UnreadableDocument` for anything but base64."""
    left, total_bytes, padded = b"", 0, False
    while True:
        read = stream.read(piece_bytes)
        characters = left + (read.translate(None, _BLANKS) if _LINE_END in read else read)
        whole = len(characters) - len(characters) % _QUANTUM if read else len(characters)
        left = characters[whole:]
        if whole:
            if padded:
                raise UnreadableDocument("the document goes on behind the end of its base64 text")
            padded = characters[whole - 1 : whole] == b"="
            yield _decode(characters[:whole])
        total_bytes += len(read)
        if total_bytes > LARGEST_DOCUMENT_BYTES:
            raise UnreadableDocument(f"the document is larger than {LARGEST_DOCUMENT_BYTES} bytes")
        if not read:
            return


def _decode(characters: bytes) -> bytes:
    try:
        return binascii.a2b_base64(characters, strict_mode=True)
    except binascii.Error as error:
        raise UnreadableDocument(f"the document is not base64 text: {str(error).lower()}") from None
