"""`check` on the places that the configuration names: files that the daemon must be able to write, the event bus, the
port for metrics.

They are looked at with the rights of whoever asks, and nothing is made.
"""

from __future__ import annotations

import ipaddress
import os
import socket
from collections.abc import Iterator
from http.client import OK, HTTPConnection, HTTPException
from pathlib import Path
from urllib.parse import urlsplit

from one_preempt.adapters.lease_store.named_database import LeaseStoreError, is_sqlite, parsed_url
from one_preempt.adapters.lease_store.writer_lock import holder_of_file_lock
from one_preempt.bounded_io.http_deadline import answer_within
from one_preempt.composition import make_instruments
from one_preempt.configuration.places import listening_address
from one_preempt.configuration.settings import EventSettings, MetricsSettings, Settings
from one_preempt.entrypoints.cli.set_up import Finding, Grade
from one_preempt.errors import OnePreemptError
from one_preempt.explanation.explain import printable

LISTENS_WITHIN_S = 2.0
ANSWERS_WITHIN_S = 10.0
MOST_BYTES_OF_METRICS = 1 << 20
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
    if why := _why_nothing_is_heard(events.endpoint):
        text = f"nothing can be heard at {printable(events.endpoint, 200)} ({why}): changes are seen a cycle later"
        # The bus is oned's own, and opennebula-hem only another listener: starting that mends nothing.
        mend = "oned publishes where HM_MAD in oned.conf says: correct events.endpoint, or write events.enabled: false"
        yield Finding("events", Grade.WARN, text, mend)


def judge_metrics(metrics: MetricsSettings, *, is_there: bool) -> Iterator[Finding]:
    """Can metrics be read where they should be? Nothing is said where they are not served, or no daemon `is_there`."""
    if metrics.listen is None:
        return
    subject = "metrics"
    try:
        make_instruments(lambda: None)
    except OnePreemptError as error:
        yield Finding(subject, Grade.WARN, str(error), "then restart the daemon")
        return
    if not is_there:
        return
    host, port = _reader_of(metrics.listen)
    url = f"http://{f'[{host}]' if ':' in host else host}:{port}/metrics"
    why = _why_no_metrics(host, port)
    if why:
        mend = "see the daemon's log; restart it if metrics.listen is new, or take another port"
        yield Finding(subject, Grade.WARN, f"the daemon runs, and no metrics are read at {url}: {why}", mend)
    else:
        yield Finding(subject, Grade.OK, f"they are read at {url}")


def _reader_of(listen: str) -> tuple[str, int]:
    """Where somebody on this machine reads what is served at `listen`."""
    address = listening_address(listen)
    assert address is not None, "addresses are checked with the configuration"
    host, port = address
    if ipaddress.ip_address(host).is_unspecified:
        host = "::1" if ":" in host else "127.0.0.1"
    return host, port


def _why_no_metrics(host: str, port: int) -> str:
    """Why no metrics of ours are read there; '' where they are."""
    connection = HTTPConnection(host, port, timeout=LISTENS_WITHIN_S)
    # Whoever has the port instead may send its answer byte by byte, for ever.
    connection.response_class = answer_within(ANSWERS_WITHIN_S)
    try:
        connection.request("GET", "/metrics")
        answer = connection.getresponse()
        is_ours = b"\none_preempt_build_info" in answer.read(MOST_BYTES_OF_METRICS)
        return "" if answer.status == OK and is_ours else f"what answers there (HTTP {answer.status}) is something else"
    except (OSError, HTTPException) as error:
        return printable(getattr(error, "strerror", None) or str(error) or type(error).__name__, 200)
    finally:
        connection.close()


def _why_nothing_is_heard(endpoint: str) -> str:
    """Why no publisher is there; '' where one is."""
    from one_preempt.adapters.events.event_bus import is_published_at

    try:
        _connect(endpoint)
    except (OSError, UnicodeError) as error:
        return printable(getattr(error, "strerror", None) or str(error), 200)
    return "" if is_published_at(endpoint, LISTENS_WITHIN_S) else "what listens there publishes nothing"


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
            return "" if os.access(path, os.W_OK) else "this user may not write to it"
        for folder in list(path.parents)[: folders_made + 1]:
            if folder.is_dir():
                return "" if os.access(folder, os.W_OK | os.X_OK) else f"this user may not write to {folder}"
            if folder.exists():
                return f"{folder} is no folder"
    except OSError as error:
        return error.strerror or type(error).__name__
    return f"the folder {path.parent} does not exist"
