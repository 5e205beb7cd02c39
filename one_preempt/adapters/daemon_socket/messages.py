"""What may be said to the daemon: one JSON object on one line, checked before anybody looks at it."""

from __future__ import annotations

import json
from enum import StrEnum

from one_preempt.adapters.daemon_socket.client import PROTOCOL_VERSION

HOOK_TYPES = ("VM", "HOST")
GREATEST_ID = 2**31 - 1


class MessageError(ValueError):
    """The line is no message; the text says why."""


class Message(StrEnum):
    """What is said. The object that a hook names is checked and dropped: the daemon reads the cloud itself."""

    PLACE = "place"
    HOOK = "hook"
    STATUS = "status"
    WAKE = "wake"


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
    try:
        message = Message(str(content.get("kind")))
    except ValueError:
        raise MessageError(f"kind must be one of {', '.join(Message)}") from None
    if message is Message.HOOK:
        _demand_object(content.get("type"), content.get("id"))
    return message


def _demand_object(hook_type: object, hook_id: object) -> None:
    if hook_type not in HOOK_TYPES or type(hook_id) is not int or not 0 <= hook_id <= GREATEST_ID:
        raise MessageError("a hook names type (VM or HOST) and id (a whole number)")
