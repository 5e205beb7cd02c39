"""What a driver raises, as one message about the database with its mend."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy.exc import DBAPIError

from one_preempt.adapters.lease_store.named_database import LeaseStoreError, NamedDatabase, Purpose
from one_preempt.adapters.lease_store.rows import UnreadableRow

_SQLITE_FAILURES = {
    "SQLITE_BUSY": "is locked: another process has been writing for too long; look for a hung one_preempt or backup",
    "SQLITE_LOCKED": "is locked by another transaction of this process",
    "SQLITE_FULL": "the disk is full; make room, nothing that was acknowledged is lost",
    "SQLITE_CORRUPT": "is damaged; stop the {program}, keep the file, and restore the last backup",
    "SQLITE_NOTADB": "is not a database; the configured path names another file, or the file is damaged",
    "SQLITE_READONLY": "is read-only; it and its folder must belong to the user that runs the {program}",
    "SQLITE_CANTOPEN": "cannot be opened; the folder must be writable by the user that runs the {program}",
    "SQLITE_IOERR": "the disk failed to read or write; see the system log",
}
# What SQLite says, depending on the moment, where the file system takes no writing.
_WHERE_READ_ONLY = ("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_IOERR")
_STANDBY = "a standby is read-only: name the server that it follows in {key}"
_FULL_SERVER = "make room on the disk of the server, nothing that was acknowledged is lost"
# Since its version 15 PostgreSQL lets nobody but the owner of a database make tables in it.
_NOT_ITS_OWNER = "let this user own the database: ALTER DATABASE ... OWNER TO ..."
_WITHOUT_RIGHTS = "the user needs all rights on this database: GRANT ALL ON ... TO ..."
# By PostgreSQL's state of a statement, or MariaDB's number of an error.
_SERVER_MENDS: dict[object, str] = {
    "25006": _STANDBY, 1290: _STANDBY, 1792: _STANDBY, 1836: _STANDBY,
    "53100": _FULL_SERVER, 1021: _FULL_SERVER, 1114: _FULL_SERVER,
    "42501": _NOT_ITS_OWNER, 1044: _WITHOUT_RIGHTS, 1142: _WITHOUT_RIGHTS,
}  # fmt: skip


@contextmanager
def failures_in_words(database: NamedDatabase) -> Iterator[None]:
    """Turn what the driver raises, and a row that cannot be read, into one message about the database."""
    try:
        yield
    except UnreadableRow as error:
        mend = f"stop the {database.purpose.program}, then correct or delete that row, or restore the last backup"
        raise LeaseStoreError(f"{database}: {error}; {mend}") from None
    except (DBAPIError, sqlite3.Error) as error:
        cause = error.orig if isinstance(error, DBAPIError) else error
        raise LeaseStoreError(f"{database}: {_in_words(cause, database)}") from error


def _in_words(cause: BaseException | None, database: NamedDatabase) -> str:
    # Extended codes continue the name of the plain one: SQLITE_IOERR_WRITE, SQLITE_READONLY_DBMOVED.
    code, purpose = getattr(cause, "sqlite_errorname", ""), database.purpose
    if code.startswith(_WHERE_READ_ONLY) and takes_no_writing(Path(database.name).parent):
        return f"its file system is read-only; {mount_for_writing(purpose)}"
    for prefix, text in _SQLITE_FAILURES.items():
        if code.startswith(prefix):
            return text.format(program=purpose.program)
    first_line = (str(cause).strip() or type(cause).__name__).splitlines()[0]
    codes = [getattr(cause, "sqlstate", None), *getattr(cause, "args", ())[:1]]
    mend = next((_SERVER_MENDS[code] for code in codes if code in _SERVER_MENDS), "")
    return f"{first_line}; {mend.format(key=purpose.key)}" if mend else first_line


def mount_for_writing(purpose: Purpose) -> str:
    """The mend where a file system takes no writing."""
    # What the unit does not name is read-only to whom systemd starts, whatever the mount.
    return (
        f"mount it for writing, and where systemd starts the {purpose.program}, name the folder in ReadWritePaths "
        "of its unit"
    )


def takes_no_writing(folder: Path) -> bool:
    """Whether the file system of the folder is mounted, or shown to this process, for reading alone."""
    try:
        return bool(os.statvfs(folder).f_flag & os.ST_RDONLY)
    except OSError:
        return False
