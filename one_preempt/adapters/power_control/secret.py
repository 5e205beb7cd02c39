"""Passwords: read from files that only their owner can read, and shown nowhere."""

from __future__ import annotations

import hmac
import os
import stat
from pathlib import Path
from typing import NoReturn

from one_preempt.errors import OnePreemptError

LONGEST_SECRET_BYTES = 1024
_HIDDEN = "Secret(hidden)"
_IN_PLACE_OF_IT = "***"


class SecretError(OnePreemptError):
    """A secret cannot be used; the message names the file and the mend, never what is in it."""


class Secret:
    """A text that only `reveal` gives away: not repr, not str or format, no exception, no pickle or copy."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        """`text` is one line: control characters would let it reach into what it is put into."""
        if not text or not text.isprintable():
            raise SecretError("a secret must be one line of printable characters, and not empty")
        self._text = text

    def reveal(self) -> str:
        """The text, for the one who is about to present it."""
        return self._text

    def hidden_in(self, text: str) -> str:
        """What somebody said to whom it was presented, without it. To be called before anything is cut off."""
        return text.replace(self._text, _IN_PLACE_OF_IT)

    def __repr__(self) -> str:
        return _HIDDEN

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        return hmac.compare_digest(self._text.encode(), other._text.encode())

    def __hash__(self) -> int:
        return hash((Secret, self._text))

    def __reduce__(self) -> NoReturn:
        raise TypeError("a secret is not written anywhere")


SecretSource = Secret | Path


def obtain(source: SecretSource) -> Secret:
    """The secret itself, read afresh from a file, so that a changed one counts at once. Raises `SecretError`."""
    return source if isinstance(source, Secret) else read_secret(source)


def read_secret(path: Path) -> Secret:
    """The only line of a file that belongs to us or root and that nobody else can read. Raises `SecretError`."""
    try:
        content = _read_private(path)
        text = content.decode("utf-8").removesuffix("\n").removesuffix("\r")
    except OSError as error:
        raise SecretError(f"cannot read the secret in {path}: {error.strerror or 'it cannot be opened'}") from None
    except UnicodeDecodeError:  # the exception would carry the content along
        raise SecretError(f"the secret in {path} is not UTF-8 text") from None
    if not text or not text.isprintable():
        raise SecretError(f"{path} must hold one line with nothing but the secret")
    return Secret(text)


def _read_private(path: Path) -> bytes:
    # Not blocking, so that a named pipe cannot hold us; what is checked is what was opened.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    with open(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise SecretError(f"{path} is not a plain file: write the secret into one")
        if status.st_uid not in (0, os.geteuid()):
            raise SecretError(f"{path} belongs to somebody else: chown it to the user that the daemon runs as")
        if status.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise SecretError(f"others may read or change the secret in {path}: chmod 600 {path}")
        content = file.read(LONGEST_SECRET_BYTES + 1)
    if len(content) > LONGEST_SECRET_BYTES:
        raise SecretError(f"{path} is longer than {LONGEST_SECRET_BYTES} bytes: it must hold the secret alone")
    return content
