"""What may be said to the gateway: one JSON object on one line, checked before anybody looks at it."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

LARGEST_SIZE = 4096
"""VMs of one request: their ids must fit into a message."""

_Number = Annotated[int, msgspec.Meta(ge=1, le=2**53)]
_Zone = Annotated[str, msgspec.Meta(min_length=1, max_length=128)]
_Text = Annotated[str, msgspec.Meta(max_length=4000)]
_VmId = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
_TypeName = Literal["BE-CANCELLABLE", "BE-SUSPENDABLE", "DC-MIGRATABLE", "DC-NON-PREEMPTABLE"]


class MessageError(ValueError):
    """The line is no message; the text says why."""


class _Message(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", forbid_unknown_fields=True):
    version: Literal[1]


class Open(_Message, frozen=True, tag="open"):
    """A new request: which zone has the first turn?"""

    type: _TypeName
    size: Annotated[int, msgspec.Meta(ge=1, le=LARGEST_SIZE)]
    name: Annotated[str, msgspec.Meta(max_length=255)] = ""
    duration_s: Annotated[int, msgspec.Meta(ge=1, le=2**40)] | None = None


class Continue(_Message, frozen=True, tag="continue"):
    """A request without an outcome is taken up again: which zone has it?"""

    request: _Number


class Refused(_Message, frozen=True, tag="refused"):
    """Nothing of the request is in this zone. `reached` False: it did not even answer."""

    request: _Number
    zone: _Zone
    text: _Text
    reached: bool = True


class Unanswered(_Message, frozen=True, tag="unanswered"):
    """The zone gave no answer while VMs were created."""

    request: _Number
    zone: _Zone
    text: _Text


class Working(_Message, frozen=True, tag="working"):
    """VMs of the request are still being created in this zone."""

    request: _Number
    zone: _Zone


class Placed(_Message, frozen=True, tag="placed"):
    """All VMs of the request are in this zone."""

    request: _Number
    zone: _Zone
    vm_ids: Annotated[list[_VmId], msgspec.Meta(min_length=1, max_length=LARGEST_SIZE)]


class Cancelled(_Message, frozen=True, tag="cancelled"):
    """Its owner has ended whatever there was of it."""

    request: _Number
    text: _Text = ""


class GiveUp(_Message, frozen=True, tag="give_up"):
    """Nothing more is expected of a zone that was taken out of the configuration; for the administrator."""

    zone: _Zone


class Show(_Message, frozen=True, tag="show"):
    """All about one request."""

    request: _Number


class List(_Message, frozen=True, tag="list"):
    """Requests, newest first, some at a time: those with a number below `before`."""

    before: _Number | None = None


class Status(_Message, frozen=True, tag="status"):
    """Is it there, and since when are which shares in force?

    The administrator is told, too, which zones that were taken out have requests.
    """


Message = Open | Continue | Refused | Unanswered | Working | Placed | Cancelled | GiveUp | Show | List | Status
_DECODER: msgspec.json.Decoder[Message] = msgspec.json.Decoder(Message)


def parse_message(line: bytes) -> Message:
    """The message on a line. Raises `MessageError`."""
    try:
        return _DECODER.decode(line)
    except msgspec.ValidationError as error:
        raise MessageError(f"this message is not understood: {str(error)[:200]}") from None
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        raise MessageError("this is not JSON") from None
