"""`one-preempt-hook`: OpenNebula's hook manager starts it when a VM or host changed its state; it wakes the daemon.

The object's document comes on standard input as one line of base64. Its kind and number are taken from the head,
where no user's word can stand, and the rest is dropped: the daemon reads the cloud itself. Only the standard library
is imported, nothing waits for longer than `READ_WITHIN_S` and `ASK_WITHIN_S`, and a daemon that is away is no failure.
"""

from __future__ import annotations

import binascii
import os
import re
import select
import time
from contextlib import suppress

from one_preempt.adapters.daemon_socket.client import ask_daemon
from one_preempt.entrypoints.driver.daemon_address import daemon_socket_path

# By number: Python has no sys.stdin where it was started with a closed one.
STANDARD_INPUT, STANDARD_ERROR = 0, 2
MAX_INPUT_BYTES = 16 << 20
READ_WITHIN_S = 1.0
ASK_WITHIN_S = 0.8
GREATEST_ID = 2**31 - 1
_HEAD = re.compile(rb"\s*<(VM|HOST)>\s*<ID>([0-9]{1,10})</ID>")


class BrokenInput(ValueError):
    """Standard input is not what a state hook gets; the text says why."""


def main() -> int:
    """Read, ask, end: 0, or 1 with a line on standard error where the input is broken."""
    try:
        kind, object_id = changed_object(_read(STANDARD_INPUT))
    except OSError as error:
        _complain(f"standard input cannot be read: {error.strerror}")
        return 1
    except BrokenInput as error:
        _complain(str(error))
        return 1
    answer = ask_daemon("hook", {"type": kind, "id": object_id}, daemon_socket_path(), ASK_WITHIN_S)
    if answer is not None and not answer["ok"]:
        _complain(f"the daemon refused: {str(answer.get('error'))[:200]!a}")
    return 0


def _complain(text: str) -> None:
    """A line on standard error, where there is one."""
    with suppress(OSError):
        os.write(STANDARD_ERROR, f"one-preempt-hook: {text}\n".encode())


def changed_object(text: bytes) -> tuple[str, int]:
    """(VM or HOST, number) of the document. Raises `BrokenInput`."""
    try:
        document = binascii.a2b_base64(text.strip(), strict_mode=True)
    except binascii.Error:
        raise BrokenInput("standard input is not one line of base64: is ARGUMENTS_STDIN yes?") from None
    head = _HEAD.match(document)
    if head is None or not document.rstrip().endswith(b"</" + head[1] + b">"):
        raise BrokenInput("standard input holds no VM and no HOST document: is ARGUMENTS $TEMPLATE?")
    object_id = int(head[2])
    if object_id > GREATEST_ID:
        raise BrokenInput("the document's ID is no id")
    return head[1].decode(), object_id


def _read(descriptor: int) -> bytes:
    """All of standard input. Raises `BrokenInput` where it is too long or does not end in time, and `OSError`."""
    deadline_s = time.monotonic() + READ_WITHIN_S
    pieces: list[bytes] = []
    size = 0
    while True:
        left_s = deadline_s - time.monotonic()
        if left_s <= 0 or not select.select([descriptor], [], [], left_s)[0]:
            raise BrokenInput(f"standard input does not end within {READ_WITHIN_S:g} s")
        piece = os.read(descriptor, 1 << 20)
        if not piece:
            return b"".join(pieces)
        size += len(piece)
        if size > MAX_INPUT_BYTES:
            raise BrokenInput(f"standard input is longer than {MAX_INPUT_BYTES >> 20} MiB")
        pieces.append(piece)
