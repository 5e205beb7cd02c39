"""Words of strangers, fit to be written or shown: one line, nothing invisible, of bounded length."""

from __future__ import annotations

_ELLIPSIS = "..."
# What oned's XML-RPC can carry ends here; a call with anything beyond is a fault, and so is the answer with it in it.
_LAST_CARRIED = "\uffff"
_NOT_CARRIED = "\ufffd"


def plain_words(text: str, longest: int) -> str:
    """`text` on one line, without control, invisible or illegal characters, at most `longest` characters.

    What oned cannot carry, an emoji say, is shown as the replacement character.

    The same words come out when they are put in again, so that what was written can be compared with what is to be.
    """
    head = text[: 4 * longest]  # what is far beyond the limit is not even looked at
    if not head.isprintable():
        head = "".join(character if character.isprintable() else " " for character in head)
    if not head.isascii() and max(head) > _LAST_CARRIED:
        head = "".join(_NOT_CARRIED if character > _LAST_CARRIED else character for character in head)
    # oned stores values in CDATA sections, which this would end.
    words = " ".join(head.split()).replace("]]>", "]] >")
    return words if len(words) <= longest else words[: longest - len(_ELLIPSIS)].rstrip() + _ELLIPSIS
