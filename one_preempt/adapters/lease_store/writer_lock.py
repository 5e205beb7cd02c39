"""One process writes: a lock that lives exactly as long as its holder.

A row saying who writes would outlive a killed process. The lock on a file, and the advisory lock of a database
server, are let go by the system the moment their holder dies.
"""

from __future__ import annotations

import fcntl
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol

from sqlalchemy import Engine, text
from sqlalchemy.exc import DBAPIError

from one_preempt.adapters.lease_store.database_file import open_own_file, writing_mend
from one_preempt.adapters.lease_store.named_database import LeaseStoreError, NamedDatabase, Purpose
from one_preempt.ports import AnotherDaemonWrites

LOCK_NAME = "one_preempt_writer"
SCHEMA_LOCK_NAME = "one_preempt_schema"
# PostgreSQL names advisory locks by a number: the ASCII letters "onepreem".
LOCK_NUMBER = int.from_bytes(b"onepreem", "big")


class WriterLock(Protocol):
    """Held by the one process that writes: the daemon, or for its own ledger the gateway."""

    def check(self) -> None:
        """Raise `LeaseStoreError` where the lock was lost meanwhile."""

    def release(self) -> None:
        """Let another one write."""


class FileWriterLock:
    """A lock on a file beside the SQLite database."""

    def __init__(self, database: NamedDatabase) -> None:
        self._path, self._database = Path(database.name + ".lock"), Path(database.name)
        self._purpose = database.purpose
        try:
            self._descriptor = open_own_file(self._path)
        except OSError as error:
            mend = writing_mend(self._path, self._purpose, error)
            raise LeaseStoreError(f"cannot open the lock file {self._path}: {error.strerror}; {mend}") from None
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = os.read(self._descriptor, 200).decode(errors="replace").strip()
            os.close(self._descriptor)
            raise _held(database, holder) from None
        # Who holds it is written for people: a full disk takes nothing from the lock.
        with suppress(OSError):
            os.ftruncate(self._descriptor, 0)
            os.write(self._descriptor, f"process {os.getpid()} on {socket.gethostname()}\n".encode())
        self._seen = _file(self._database)

    def check(self) -> None:
        """Raise `LeaseStoreError` where a file was removed or replaced.

        Another process may hold the new lock; and what others write into a new database is not in the one that is open.
        """
        descriptor = os.fstat(self._descriptor)
        if _file(self._path) != (descriptor.st_dev, descriptor.st_ino):
            raise LeaseStoreError(f"the lock file {self._path} was removed; {_taken_anew(self._purpose)}")
        if _file(self._database) != self._seen:
            raise LeaseStoreError(
                f"the database {self._database} was removed or replaced; {_taken_anew(self._purpose)}"
            )

    def release(self) -> None:
        """Let another one write. The file stays: removing it could split the lock in two."""
        os.close(self._descriptor)


def _file(path: Path) -> tuple[int, int] | None:
    """Which file is at a path now, by device and inode; None where there is none."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def holder_of_file_lock(database: str) -> str:
    """Who writes to the SQLite database, as its lock file tells; '' where nobody does, or it cannot be looked at."""
    try:
        descriptor = os.open(database + ".lock", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        # Shared and let go at once. A daemon that comes in between meets it for one cycle.
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return os.read(descriptor, 200).decode(errors="replace").strip() or "a process"
    finally:
        os.close(descriptor)
    return ""


# On MariaDB a name counts for the whole server, and may be short only: each database of one has its own.
_NAME = f"CONCAT('{LOCK_NAME}_', MD5(DATABASE()))"
_SCHEMA_NAME = f"CONCAT('{SCHEMA_LOCK_NAME}_', MD5(DATABASE()))"
_TAKE = {
    "postgresql": f"SELECT pg_try_advisory_lock({LOCK_NUMBER})",
    "mysql": f"SELECT GET_LOCK({_NAME}, 0)",
    "mariadb": f"SELECT GET_LOCK({_NAME}, 0)",
}
_LEAVE = {
    "postgresql": f"SELECT pg_advisory_unlock({LOCK_NUMBER})",
    "mysql": f"SELECT RELEASE_LOCK({_NAME})",
    "mariadb": f"SELECT RELEASE_LOCK({_NAME})",
}
_TAKE_SCHEMA = {
    "postgresql": f"SELECT pg_advisory_lock({LOCK_NUMBER + 1})",
    "mysql": f"SELECT GET_LOCK({_SCHEMA_NAME}, 600)",
    "mariadb": f"SELECT GET_LOCK({_SCHEMA_NAME}, 600)",
}


@contextmanager
def schema_lock(engine: Engine) -> Iterator[None]:
    """One process at a time changes the schema on a server, others wait for it; SQLite's transaction does that alone.

    The lock goes with its connection, after the transaction of the change.
    """
    if engine.dialect.name not in _TAKE_SCHEMA:
        yield
        return
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text(_TAKE_SCHEMA[engine.dialect.name]))
        try:
            yield
        finally:
            connection.invalidate()


class ServerWriterLock:
    """An advisory lock of the database server, held by a connection of its own."""

    def __init__(self, engine: Engine, database: NamedDatabase) -> None:
        if engine.dialect.name not in _TAKE:
            raise LeaseStoreError(f"{database}: use SQLite, PostgreSQL or MariaDB")
        self._database = database
        self._connection = engine.connect().execution_options(isolation_level="AUTOCOMMIT")
        if not self._connection.execute(text(_TAKE[engine.dialect.name])).scalar():
            self._connection.close()
            raise _held(database, "")

    def check(self) -> None:
        """Raise `LeaseStoreError` where the server has dropped the connection, and the lock with it."""
        if not self._connection.invalidated:
            try:
                self._connection.execute(text("SELECT 1"))
                return
            except DBAPIError:
                self._connection.invalidate()
        raise LeaseStoreError(
            f"the database server of {self._database.name} dropped the connection that held the writer's lock; "
            f"{_taken_anew(self._database.purpose)}"
        )

    def release(self) -> None:
        """Let another one write, at once where the server still listens; else the lock went with the connection."""
        if not self._connection.invalidated:
            with suppress(DBAPIError):
                self._connection.execute(text(_LEAVE[self._connection.dialect.name]))
        self._connection.invalidate()
        self._connection.close()


def take_writer_lock(engine: Engine, database: NamedDatabase, is_sqlite: bool) -> WriterLock:
    """The lock on this database. Raises `LeaseStoreError` where another process has it."""
    return FileWriterLock(database) if is_sqlite else ServerWriterLock(engine, database)


class _Held(LeaseStoreError, AnotherDaemonWrites):
    """Another process has the writer's lock."""


def _held(database: NamedDatabase, holder: str) -> _Held:
    another = f"another one_preempt {database.purpose.process}" + (f" ({holder})" if holder else "")
    return _Held(f"{another} writes to {database.name}; only one may: stop it, or wait until it ends")


def _taken_anew(purpose: Purpose) -> str:
    return f"the next {purpose.turn} takes the writer's lock again, unless another {purpose.process} has it by then"
