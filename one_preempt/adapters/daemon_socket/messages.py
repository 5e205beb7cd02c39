"""What may be said to the daemon: one JSON object on one line, checked before anybody looks at it."""

from __future__ import annotations

import json

from msgspec import Struct

from one_preempt.adapters.daemon_socket.client import PROTOCOL_VERSION

KINDS = ("place", "hook", "status", "wake")
HOOK_TYPES = ("VM", "HOST")
GREATEST_ID = 2**31 - 1


class MessageError(ValueError):
    """The line is no message; the text says why."""


class Message(Struct, frozen=True):
    """A checked message. `hook_type` and `hook_id` name the object of a ``hook``; all else that came is dropped."""

    kind: str
    hook_type: str = ""
    hook_id: int = -1


def parse_message(line: bytes) -> Message:
    """The message on a line. Raises `MessageError`."""
    try:
        content = json.loads(line)
    except (ValueError, RecursionError):
        raise MessageError("this is not JSON") from None
    if not isinstance(content, dict):
        raise MessageError("a message is a JSON object")
    if content.get("version") != PROTOCOL_VERSION:
        raise MessageError(f"only version {PROTOCOL_VERSION} is understood")
    kind = content.get("kind")
    if kind not in KINDS:
        raise MessageError(f"kind must be one of {', '.join(KINDS)}")
    if kind != "hook":
        return Message(kind)
    hook_type, hook_id = content.get("type"), content.get("id")
    if hook_type not in HOOK_TYPES or type(hook_id) is not int or not 0 <= hook_id <= GREATEST_ID:
        raise MessageError("a hook names type (VM or HOST) and id (a whole number)")
    return Message(kind, hook_type, hook_id)
