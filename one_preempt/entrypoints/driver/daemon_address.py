"""Where the daemon's socket is, found with the standard library alone.

Reading the whole configuration takes longer than asking the daemon; so its one line is looked for, as the shipped file
has it or `socket: {path: ...}`. What is written in another way counts as not written; `place` reads all of it where
nobody answers.
"""

from __future__ import annotations

import os
import re

USUAL_SOCKET = "/run/one/one_preempt.sock"
USUAL_CONFIGURATION = "/etc/one/schedulers/one_preempt.conf"
_SECTION = re.compile(r"^socket:[ \t]*(?:#.*)?\n((?:[ \t]+.*\n|[ \t]*#.*\n|[ \t]*\n)*)", re.MULTILINE)
_IN_ONE_LINE = re.compile(
    r"^socket:[ \t]*\{[ \t]*path:[ \t]+([\"']?)(/[^\"'#\s,{}]*)\1[ \t]*,?[ \t]*\}[ \t]*(?:#.*)?$", re.MULTILINE
)
_PATH = re.compile(r"^[ \t]+path:[ \t]*([\"']?)(/[^\"'#\s]*)\1[ \t]*(?:#.*)?$", re.MULTILINE)


def daemon_socket_path() -> str:
    """`socket.path` of the configuration that ONE_PREEMPT_CONF, or else the usual place, names."""
    try:
        with open(os.environ.get("ONE_PREEMPT_CONF") or USUAL_CONFIGURATION, encoding="utf-8") as stream:
            text = stream.read() + "\n"
    except (OSError, UnicodeDecodeError):
        return USUAL_SOCKET
    section = _SECTION.search(text)
    path = _PATH.search(section[1]) if section else _IN_ONE_LINE.search(text)
    return path[2] if path else USUAL_SOCKET
