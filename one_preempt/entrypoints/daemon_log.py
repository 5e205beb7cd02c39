"""Where the daemon's log goes: a file or standard error, and what becomes of a line that cannot be written."""

from __future__ import annotations

import logging
import os
import sys
from contextlib import suppress

from one_preempt.configuration.settings import LogSettings
from one_preempt.errors import OnePreemptError

LOGGER = logging.getLogger("one_preempt")
LINE = "%(asctime)s %(levelname)s %(message)s"

# From this level on a line has this priority of syslog; what is below all of them is for debugging.
_PRIORITIES = ((logging.CRITICAL, 2), (logging.ERROR, 3), (logging.WARNING, 4), (logging.INFO, 6))
_DEBUG_PRIORITY = 7


class JournalFormatter(logging.Formatter):
    """Lines with the prefix by which systemd's journal knows their priority (`journalctl -p warning`); it removes that.

    Each line of a longer text has it, for the journal takes lines one by one.
    """

    def format(self, record: logging.LogRecord) -> str:
        """The text as usual, with its priority before each line."""
        reached = (priority for level, priority in _PRIORITIES if record.levelno >= level)
        prefix = f"<{next(reached, _DEBUG_PRIORITY)}>"
        return "\n".join(prefix + line for line in super().format(record).splitlines())


class StandardErrorLog(logging.StreamHandler):  # type: ignore[type-arg]
    """Lines on standard error; one that cannot be written there is lost without another word."""

    def __init__(self) -> None:
        super().__init__(sys.stderr)

    def handleError(self, record: logging.LogRecord) -> None:
        """Nothing is left to write to."""


class FileLog(logging.FileHandler):
    """Lines in a file; while that cannot be written, on standard error with the cause, not as tracebacks."""

    def handleError(self, record: logging.LogRecord) -> None:
        """Called inside of the failure: a full disk ends no daemon, and the journal still hears of it."""
        cause = sys.exc_info()[1]
        why = getattr(cause, "strerror", None) or type(cause).__name__
        with suppress(Exception):
            sys.stderr.write(f"{self.format(record)} (not in {self.baseFilename}: {why})\n")
            sys.stderr.flush()


def log_to(log: LogSettings) -> None:
    """Let the daemon's lines go where the configuration says. Raises `OnePreemptError` where they cannot."""
    try:
        # Users' names hold characters that the language of this machine may not have.
        file = FileLog(log.file, encoding="utf-8", errors="backslashreplace") if log.file else None
        handler = file or StandardErrorLog()
    except OSError as error:
        raise OnePreemptError(f"cannot write the log {log.file}: {error.strerror}; see log.file") from error
    handler.setFormatter(JournalFormatter(LINE) if file is None and _goes_to_the_journal() else logging.Formatter(LINE))
    LOGGER.handlers[:] = [handler]
    LOGGER.setLevel(log.level.upper())
    LOGGER.propagate = False


def _goes_to_the_journal() -> bool:
    """Is standard error what systemd has connected with its journal, and was not redirected since?"""
    try:
        stream = os.fstat(sys.stderr.fileno())
    except (OSError, ValueError, AttributeError):
        return False
    return os.environ.get("JOURNAL_STREAM") == f"{stream.st_dev}:{stream.st_ino}"
