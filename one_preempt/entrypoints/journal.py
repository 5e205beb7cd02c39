"""What systemd's journal is told: it dates lines itself, and reads the priority of each from a prefix.

`journalctl -p warning` goes by these priorities; a line without a prefix counts as information.
"""

from __future__ import annotations

import os
import sys

# Of syslog.
CRITICAL, ERROR, WARNING, INFO, DEBUG = 2, 3, 4, 6, 7


def goes_to_the_journal() -> bool:
    """Is standard error what systemd has connected with its journal, and was not redirected since?"""
    try:
        stream = os.fstat(sys.stderr.fileno())
    except (OSError, ValueError, AttributeError):
        return False
    return os.environ.get("JOURNAL_STREAM") == f"{stream.st_dev}:{stream.st_ino}"


def with_priority(text: str, priority: int) -> str:
    """The text with the prefix before each line: the journal takes lines one by one."""
    return "\n".join(f"<{priority}>{line}" for line in text.splitlines())
