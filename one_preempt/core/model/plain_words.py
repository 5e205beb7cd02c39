"""Words of strangers, fit to be written or shown: one line, nothing invisible, of bounded length."""

from __future__ import annotations

_ELLIPSIS = "..."


def plain_words(text: str, longest: int) -> str:
    """`text` on one line, without control, invisible or illegal characters, at most `longest` characters.

    The same words come out when they are put in again, so that what was written can be compared with what is to be.
    """
    head = text[: 4 * longest]  # what is far beyond the limit is not even looked at
    if not head.isprintable():
        head = "".join(character if character.isprintable() else " " for character in head)
    # oned stores values in CDATA sections, which this would end.
    words = " ".join(head.split()).replace("]]>", "]] >")
    return words if len(words) <= longest else words[: longest - len(_ELLIPSIS)].rstrip() + _ELLIPSIS
