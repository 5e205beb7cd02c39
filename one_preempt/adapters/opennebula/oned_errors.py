"""What oned answers when it refuses: one class per error code, named as oned names it.

Recorded refusals: `tests/recordings/7.4.0/errors.json`.
"""

from __future__ import annotations

from one_preempt.core.model.plain_words import plain_words
from one_preempt.errors import OnePreemptError

LONGEST_TEXT = 1000


class OnedError(OnePreemptError):
    """A refusal. `code` is oned's number, `code_name` its name, `object_id` the object it is about or -1.

    `text` repeats words of users, so it is one bounded line without controls.
    """

    code_name = "UNKNOWN_CODE"

    def __init__(self, text: str, code: int, object_id: int = -1) -> None:
        self.text = plain_words(text, LONGEST_TEXT)
        super().__init__(f"{self.text} ({self.code_name}, {_written(code)})")
        self.code = code
        self.object_id = object_id


class AuthenticationError(OnedError):
    """The user or the password is wrong."""

    code_name = "AUTHENTICATION"


class AuthorizationError(OnedError):
    """The user may not do this; also the answer to a lock (not LOCKED) and to some quotas."""

    code_name = "AUTHORIZATION"


class NoExistsError(OnedError):
    """The object does not exist (any more)."""

    code_name = "NO_EXISTS"


class ActionError(OnedError):
    """The action is not possible now: wrong state, no capacity, a quota at resume, host offline."""

    code_name = "ACTION"


class ApiError(OnedError):
    """The call itself is wrong."""

    code_name = "XML_RPC_API"


class InternalError(OnedError):
    """oned could not do it, for many reasons."""

    code_name = "INTERNAL"


class AllocateError(OnedError):
    """The object could not be created."""

    code_name = "ALLOCATE"


class LockedError(OnedError):
    """The object is locked."""

    code_name = "LOCKED"


class ReplicationError(OnedError):
    """The servers of an HA front-end disagree."""

    code_name = "REPLICATION"


class ParametersFault(OnedError):
    """The call came with parameters of the wrong number or type."""

    code_name = "WRONG_PARAMETERS"


class UnknownMethodFault(OnedError):
    """This oned does not have the method."""

    code_name = "UNKNOWN_METHOD"


class OtherFault(OnedError):
    """A fault of the XML-RPC layer without a meaning of its own."""

    code_name = "FAULT"


REFUSALS: dict[int, type[OnedError]] = {
    0x100: AuthenticationError,
    0x200: AuthorizationError,
    0x400: NoExistsError,
    0x800: ActionError,
    0x1000: ApiError,
    0x2000: InternalError,
    0x4000: AllocateError,
    0x8000: LockedError,
    0x10000: ReplicationError,
}
FAULTS: dict[int, type[OnedError]] = {-501: ParametersFault, -506: UnknownMethodFault}


def refusal(text: str, code: int, object_id: int) -> OnedError:
    """The error that a reply of five items tells."""
    return REFUSALS.get(code, OnedError)(text, code, object_id)


def fault(text: str, code: int) -> OnedError:
    """The error that an XML-RPC fault tells."""
    return FAULTS.get(code, OtherFault)(text, code)


def _written(code: int) -> str:
    return f"0x{code:x}" if code >= 0 else str(code)
