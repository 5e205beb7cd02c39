"""`check` on the places that the configuration names: files that the daemon must be able to write, the event bus.

They are looked at with the rights of whoever asks, and nothing is made.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from one_preempt.adapters.lease_store.database import LeaseStoreError, is_sqlite, parsed_url
from one_preempt.adapters.lease_store.writer_lock import holder_of_file_lock
from one_preempt.entrypoints.cli.set_up import Finding, Grade
from one_preempt.explain import printable
from one_preempt.settings import EventSettings, Settings

LISTENS_WITHIN_S = 2.0
RUN_AS = "run this as the user that runs the scheduler"


def why_no_database_can_be_made(settings: Settings) -> str:
    """Why the daemon could not make the file of its database; '' where it could, or where a server has it."""
    url = parsed_url(settings.store.url)
    return _why_not_written(Path(str(url.database)), folders_made=1) if is_sqlite(url) else ""


def running_daemon(settings: Settings) -> str:
    """The daemon that holds the writer's lock of the database; '' where none does, or where that cannot be seen."""
    try:
        url = parsed_url(settings.store.url)
    except LeaseStoreError:  # told already, of the database
        return ""
    return holder_of_file_lock(str(url.database)) if is_sqlite(url) else ""


def judge_files(settings: Settings) -> Iterator[Finding]:
    """Can the log and the promised room be written? Nothing is said where they can."""
    log, held = settings.log.file, settings.store.held_capacity_path
    if log is not None and (why := _why_not_written(Path(log), folders_made=0)):
        text = f"the daemon could not start: it cannot write the log {log}: {why}"
        yield Finding("log", Grade.FAIL, text, f"correct log.file or make its folder; else {RUN_AS}")
    # Beside the database what is wrong with the folder is told of that.
    beside_database = settings.store.held_capacity_file is None
    if not beside_database and (why := _why_not_written(held, folders_made=len(held.parents))):
        text = f"the daemon could promise no room: it cannot write {held}: {why}"
        mend = f"correct store.held_capacity_file or make its folder; else {RUN_AS}"
        yield Finding("promised room", Grade.FAIL, text, mend)


def judge_events(events: EventSettings) -> Iterator[Finding]:
    """Is there an event bus to listen to? Nothing is said where there is."""
    if not events.enabled:
        return
    try:
        _connect(events.endpoint)
    except (OSError, UnicodeError) as error:
        why = printable(getattr(error, "strerror", None) or str(error), 200)
        text = f"nothing can be heard at {printable(events.endpoint, 200)} ({why}): changes are seen a cycle later"
        mend = "start opennebula-hem, correct events.endpoint, or write events.enabled: false"
        yield Finding("events", Grade.WARN, text, mend)


def _connect(endpoint: str) -> None:
    """Raises OSError where nobody listens."""
    if endpoint.startswith("ipc://"):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(LISTENS_WITHIN_S)
            connection.connect(endpoint.removeprefix("ipc://"))
        return
    parts = urlsplit(endpoint)
    socket.create_connection((parts.hostname or "", parts.port or 0), LISTENS_WITHIN_S).close()


def _why_not_written(path: Path, folders_made: int) -> str:
    """Why a file cannot be written, or made, with as many of the folders above it; '' where it can."""
    try:
        if path.is_dir():
            return "a folder is there"
        if path.exists():
            return "" if os.access(path, os.W_OK) else "it is not for this user to write"
        for folder in list(path.parents)[: folders_made + 1]:
            if folder.is_dir():
                return "" if os.access(folder, os.W_OK | os.X_OK) else f"{folder} is not for this user to write"
            if folder.exists():
                return f"{folder} is no folder"
    except OSError as error:
        return error.strerror or type(error).__name__
    return f"the folder {path.parent} does not exist"
