"""How the simulated cloud refuses: oned's error codes and the exception that carries them."""

from __future__ import annotations

from enum import IntEnum


class ErrorCode(IntEnum):
    """The third item of a failed reply."""

    AUTHENTICATION = 0x100
    AUTHORIZATION = 0x200
    NO_EXISTS = 0x400
    ACTION = 0x800
    XML_RPC_API = 0x1000
    INTERNAL = 0x2000
    ALLOCATE = 0x4000
    LOCKED = 0x8000


class OnedError(Exception):
    """A refused call. `message` is oned's text without the "[one.vm.deploy] " that a front puts before it."""

    def __init__(self, code: ErrorCode, message: str, object_id: int = -1) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.object_id = object_id


def no_exists(kind: str, object_id: int) -> OnedError:
    """The refusal of an id that names nothing; `kind` in oned's words ("virtual machine", "host", "datastore")."""
    return OnedError(ErrorCode.NO_EXISTS, f"Error getting {kind} [{object_id}].", object_id)
