"""Where the daemon's log goes: a file or standard error, and what becomes of a line that cannot be written."""

from __future__ import annotations

import logging
import sys
from contextlib import suppress

from one_preempt.configuration.settings import LogSettings
from one_preempt.entrypoints import journal
from one_preempt.errors import OnePreemptError, why_not_written

LOGGER = logging.getLogger("one_preempt")
LINE = "%(asctime)s %(levelname)s %(message)s"
LINE_OF_THE_JOURNAL = "%(levelname)s %(message)s"

# From this level on a line has this priority; what is below all of them is for debugging.
_PRIORITIES = (
    (logging.CRITICAL, journal.CRITICAL),
    (logging.ERROR, journal.ERROR),
    (logging.WARNING, journal.WARNING),
    (logging.INFO, journal.INFO),
)


class JournalFormatter(logging.Formatter):
    """Lines with their priority, and without the date, which the journal puts before each itself."""

    def __init__(self) -> None:
        super().__init__(LINE_OF_THE_JOURNAL)

    def format(self, record: logging.LogRecord) -> str:
        """The text as usual, with its priority before each line."""
        reached = (priority for level, priority in _PRIORITIES if record.levelno >= level)
        return journal.with_priority(super().format(record), next(reached, journal.DEBUG))


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
            line = _formatter_of_standard_error().format(record)
            sys.stderr.write(f"{line} (not in {self.baseFilename}: {why})\n")
            sys.stderr.flush()


def log_to(log: LogSettings) -> None:
    """Let the daemon's lines go where the configuration says. Raises `OnePreemptError` where they cannot."""
    try:
        # Users' names hold characters that the language of this machine may not have.
        file = FileLog(log.file, encoding="utf-8", errors="backslashreplace") if log.file else None
        handler = file or StandardErrorLog()
    except OSError as error:
        raise OnePreemptError(f"cannot write the log {log.file}: {why_not_written(error)}; see log.file") from error
    handler.setFormatter(logging.Formatter(LINE) if file else _formatter_of_standard_error())
    LOGGER.handlers[:] = [handler]
    LOGGER.setLevel(log.level.upper())
    LOGGER.propagate = False


def _formatter_of_standard_error() -> logging.Formatter:
    return JournalFormatter() if journal.goes_to_the_journal() else logging.Formatter(LINE)
