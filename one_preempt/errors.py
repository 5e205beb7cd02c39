"""The base of every error that a person can mend: its text says what is wrong, where, and what to do about it."""

from __future__ import annotations


class OnePreemptError(Exception):
    """A mistake in what the user gave or found, told in one line; entry points print it without a traceback."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message
