"""Failures that a person can mend."""

from __future__ import annotations

import errno


class OnePreemptError(Exception):
    """Bad input or surroundings; the message names what is wrong, where, and how to mend it.

    Entry points print it as one line, without a traceback.
    """


def cause_of(error: Exception) -> str:
    """What is wrong, in the system's words alone where it is a file: whoever tells it names the file."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def why_not_written(error: OSError) -> str:
    """The same of a file that cannot be written, with what opens its folder to a service that systemd shuts in."""
    if error.errno == errno.EROFS:
        return f"{cause_of(error)}; where systemd started this, name the folder in ReadWritePaths of its unit"
    return cause_of(error)
