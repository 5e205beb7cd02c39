"""Opening a database of ours: its file, its transactions, and its failures in words."""

from __future__ import annotations

import errno
import logging
import os
import pwd
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from msgspec import Struct
from sqlalchemy import URL, Dialect, Engine, create_engine, event, make_url
from sqlalchemy.engine import Connection
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError
from sqlalchemy.pool import ConnectionPoolEntry

from one_preempt.adapters.lease_store.rows import UnreadableRow
from one_preempt.configuration.shown_url import without_password
from one_preempt.errors import OnePreemptError

BUSY_TIMEOUT_S = 10.0
_READING = "one_preempt_reading"
_PAUSE_S = 0.01
# psycopg logs what it ignores of a lost connection, of which its exception tells.
_UNHEARD = logging.NullHandler()
# By the kind of server the driver that the store was tried with: as a URL names it, and the package that has it.
_DRIVERS = {
    "postgresql": ("postgresql+psycopg", "psycopg[binary]"),
    "mysql": ("mysql+pymysql", "pymysql"),
    "mariadb": ("mysql+pymysql", "pymysql"),
}


class Purpose(Struct, frozen=True):
    """What a database is for, in the words of messages about it.

    Attributes:
        what: What it is called.
        program: What has to be stopped before somebody mends it.
        process: Who makes it and writes to it.
        turn: After what `process` begins afresh.
        key: Where the configuration names it.
        example: A URL of one.
    """

    what: str
    program: str
    process: str
    turn: str
    key: str
    example: str

    @property
    def for_example(self) -> str:
        """How a URL of one is written."""
        return f"write into {self.key} for example {self.example}"


LEASES = Purpose(
    what="database of leases",
    program="scheduler",
    process="daemon",
    turn="cycle",
    key="store.url",
    example="sqlite:////var/lib/one/one_preempt/leases.db",
)
GATEWAY_LEDGER = Purpose(
    what="ledger of the gateway",
    program="gateway",
    process="gateway",
    turn="round",
    key="gateway.store_url",
    example="sqlite:////var/lib/one/one_preempt/gateway.db",
)


class NamedDatabase(Struct, frozen=True):
    """A database as messages name it: by its path, or its URL without the password, and by its purpose."""

    name: str
    purpose: Purpose = LEASES

    def __str__(self) -> str:
        return f"{self.purpose.what} {self.name}"


class LeaseStoreError(OnePreemptError):
    """A database of ours cannot be used; the message says why and what to do."""


class DatabaseNotMade(LeaseStoreError):
    """There is no such database yet, or none of its tables."""

    def __init__(self, database: NamedDatabase) -> None:
        what, process = database.purpose.what, database.purpose.process
        super().__init__(f"there is no {what} at {database.name} yet: the {process} makes it when it starts")


def parsed_url(url: str, purpose: Purpose = LEASES) -> URL:
    """`url` read; raises `LeaseStoreError` where it names no database that keeps anything."""
    try:
        parsed = make_url(url)
        parsed.get_dialect()
    except (ArgumentError, NoSuchModuleError, ValueError):
        raise LeaseStoreError(
            f"{without_password(url)[:80]!r} is no database URL: {purpose.for_example}, "
            "or postgresql+psycopg://user:password@host/database"
        ) from None
    if not is_sqlite(parsed) and not parsed.database:
        raise LeaseStoreError(
            f"{name_of(parsed)} names a server and none of its databases: write it into {purpose.key}"
        )
    if is_sqlite(parsed) and parsed.database in (None, "", ":memory:"):
        raise LeaseStoreError(f"the {purpose.what} must be a file: {purpose.for_example}")
    if is_sqlite(parsed) and not Path(str(parsed.database)).is_absolute():
        # Where a command is called must not decide which database it looks into, or pauses.
        raise LeaseStoreError(
            f"the {purpose.what} {str(parsed.database)[:80]!r} has no absolute path: {purpose.for_example}"
        )
    return parsed


def is_sqlite(url: URL) -> bool:
    """A file beside us, not a server."""
    return url.get_backend_name() == "sqlite"


def name_of(url: URL) -> str:
    """How messages name the database: the path of its file, or the URL without the password."""
    return str(url.database) if is_sqlite(url) else without_password(url.render_as_string(hide_password=False))


def named(url: URL, purpose: Purpose = LEASES) -> NamedDatabase:
    """The database as messages name it."""
    return NamedDatabase(name_of(url), purpose)


def prepare_file(url: URL, purpose: Purpose = LEASES) -> None:
    """Create the file of a new SQLite database (0600), and its folder (0700) where only that is missing."""
    path = Path(str(url.database))
    try:
        if not path.parent.is_dir():
            path.parent.mkdir(mode=0o700)
            if os.geteuid() == 0:
                above = path.parent.parent.stat()
                os.chown(path.parent, above.st_uid, above.st_gid, follow_symlinks=False)
        os.close(open_own_file(path))
    except OSError as error:
        raise LeaseStoreError(
            f"cannot write the {purpose.what} {path}: {error.strerror}; {writing_mend(path, purpose, error)}"
        ) from None


def open_own_file(path: Path) -> int:
    """A descriptor of a file for its owner alone (0600), to read and write; it is made where there is none.

    What root makes belongs to the owner of the folder: the service, which runs as that user, must be able to write it.
    Raises OSError.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags | os.O_EXCL, 0o600)
    except FileExistsError:
        return os.open(path, flags, 0o600)
    if os.geteuid() == 0:
        folder = path.parent.stat()
        os.fchown(descriptor, folder.st_uid, folder.st_gid)
    return descriptor


def copy_file(engine: Engine, database: NamedDatabase, ending: str) -> Path:
    """A copy of the SQLite database, beside it and named by `ending`; it replaces one of that name.

    It is whole or not there: what is still in the write-ahead log is in it, and it is on disk before it gets
    its name. Raises `LeaseStoreError`.
    """
    path = Path(database.name)
    copy = path.with_name(path.name + ending)
    unfinished = copy.with_name(copy.name + ".unfinished")
    try:
        unfinished.unlink(missing_ok=True)
        descriptor = open_own_file(unfinished)
        try:
            with failures_in_words(database), closing(engine.raw_connection()) as connection:
                connection.cursor().execute("VACUUM INTO ?", (str(unfinished),))
            os.fsync(descriptor)
            unfinished.rename(copy)
        finally:
            os.close(descriptor)
            unfinished.unlink(missing_ok=True)
    except OSError as error:
        raise LeaseStoreError(f"cannot copy the {database.purpose.what} to {copy}: {error.strerror}") from None
    return copy


def writing_mend(path: Path, purpose: Purpose, error: OSError) -> str:
    """What to do where the file cannot be written for that error; its owner is named where it is another user."""
    if error.errno == errno.EROFS:
        return _mount_for_writing(purpose)
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "make room there"
    try:
        owner_uid = path.stat().st_uid
    except OSError:
        owner_uid = os.geteuid()
    if owner_uid == os.geteuid():
        if path.is_file() and not os.access(path, os.R_OK | os.W_OK, effective_ids=True):
            return f"chmod u+rw {path}"
        return f"its folder must exist and belong to the user that runs the {purpose.program}"
    owner, me = _user_name(owner_uid), _user_name(os.geteuid())
    mend = f"chown {me} {path}" if owner_uid == 0 else f"run this as {owner}"
    return f"it belongs to {owner}, and this runs as {me}: {mend}"


def _mount_for_writing(purpose: Purpose) -> str:
    # What the unit does not name is read-only to whom systemd starts, whatever the mount.
    return (
        f"mount it for writing, and where systemd starts the {purpose.program}, name the folder in ReadWritePaths "
        "of its unit"
    )


def _user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def database_exists(url: str, purpose: Purpose = LEASES) -> bool:
    """Whether there is something to open: for SQLite its file, for a server always.

    Raises `LeaseStoreError` where this user may not look, or where something else than a file is there.
    """
    parsed = parsed_url(url, purpose)
    path = Path(str(parsed.database))
    try:
        if not is_sqlite(parsed) or path.is_file():
            return True
        if path.exists():
            raise LeaseStoreError(f"the {purpose.what} must be a file, and {path} is none: {purpose.for_example}")
        return False
    except OSError as error:
        raise LeaseStoreError(
            f"cannot look for the {purpose.what} {path}: {error.strerror}; "
            f"run this as the user that runs the {purpose.program}, or as root"
        ) from None


def open_engine(url: URL, busy_timeout_s: float, purpose: Purpose = LEASES) -> Engine:
    """An engine whose transactions are what the store expects.

    SQLite: every commit synced, foreign keys enforced. A transaction takes the write lock when it begins, since one
    that starts by reading and then writes fails at once while another writes; those of `reading_engine` take none, so
    that looking never waits for who writes. Opening changes nothing in the file.
    """
    try:
        engine = create_engine(url)
    except ModuleNotFoundError as error:
        raise LeaseStoreError(
            f"the driver for {name_of(url)} is not installed: python module {error.name!r} is missing; "
            f"{_how_to_get_a_driver(url)}"
        ) from None
    except (TypeError, ValueError) as error:
        raise _wrong_parameters(named(url, purpose), error) from None
    if is_sqlite(url):
        _prepare_sqlite(engine, busy_timeout_s)
    else:
        _tell_wrong_parameters(engine, named(url, purpose))
        logging.getLogger("psycopg").addHandler(_UNHEARD)
    return engine


def _how_to_get_a_driver(url: URL) -> str:
    """What to write and to install. The drivers that SQLAlchemy takes where a URL names none are not those."""
    kind = url.get_backend_name()
    drivers = [_DRIVERS[kind]] if kind in _DRIVERS else sorted(set(_DRIVERS.values()))
    return ", or ".join(
        f"install {package}" if url.drivername == scheme else f"write {scheme}://... and install {package}"
        for scheme, package in drivers
    )


def reading_engine(engine: Engine) -> Engine:
    """The same database for transactions that only look, each seeing one state of it."""
    if engine.dialect.name == "sqlite":
        return engine.execution_options(**{_READING: True})
    return engine.execution_options(isolation_level="REPEATABLE READ")


def _tell_wrong_parameters(engine: Engine, database: NamedDatabase) -> None:
    @event.listens_for(engine, "do_connect")
    def connect(
        dialect: Dialect, _entry: ConnectionPoolEntry, arguments: Sequence[Any], parameters: Mapping[str, Any]
    ) -> DBAPIConnection:
        try:
            return dialect.connect(*arguments, **parameters)
        except (TypeError, ValueError) as error:  # what follows ? in the URL is handed to the driver as it is
            raise _wrong_parameters(database, error) from None


def _wrong_parameters(database: NamedDatabase, error: Exception) -> LeaseStoreError:
    key = database.purpose.key
    return LeaseStoreError(f"{database}: its driver takes no such parameters in {key}: {error}")


def _prepare_sqlite(engine: Engine, busy_timeout_s: float) -> None:
    @event.listens_for(engine, "connect")
    def configure(connection: DBAPIConnection, _entry: ConnectionPoolEntry) -> None:
        # Without an isolation level of its own the driver leaves BEGIN to us.
        connection.isolation_level = None
        cursor = connection.cursor()
        cursor.execute(f"PRAGMA busy_timeout = {int(busy_timeout_s * 1000)}")
        cursor.execute("PRAGMA synchronous = FULL")
        cursor.execute("PRAGMA foreign_keys = ON")
        cursor.close()

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        reading = connection.get_execution_options().get(_READING, False)
        connection.exec_driver_sql("BEGIN" if reading else "BEGIN IMMEDIATE")


def write_ahead(execute: Callable[[str], object], patience_s: float) -> None:
    """Have SQLite write ahead, which the file keeps for good.

    While another process does the same it refuses at once, whatever `busy_timeout` says.
    """
    give_up_s = time.monotonic() + patience_s
    while True:
        try:
            execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError:
            if time.monotonic() >= give_up_s:
                raise
            time.sleep(_PAUSE_S)
        else:
            return


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
# By PostgreSQL's state of a statement, or MariaDB's number of an error.
_SERVER_MENDS: dict[object, str] = {
    "25006": _STANDBY, 1290: _STANDBY, 1792: _STANDBY, 1836: _STANDBY,
    "53100": _FULL_SERVER, 1021: _FULL_SERVER, 1114: _FULL_SERVER,
}  # fmt: skip


def _in_words(cause: BaseException | None, database: NamedDatabase) -> str:
    # Extended codes continue the name of the plain one: SQLITE_IOERR_WRITE, SQLITE_READONLY_DBMOVED.
    code, purpose = getattr(cause, "sqlite_errorname", ""), database.purpose
    if code.startswith(_WHERE_READ_ONLY) and takes_no_writing(Path(database.name).parent):
        return f"its file system is read-only; {_mount_for_writing(purpose)}"
    for prefix, text in _SQLITE_FAILURES.items():
        if code.startswith(prefix):
            return text.format(program=purpose.program)
    first_line = (str(cause).strip() or type(cause).__name__).splitlines()[0]
    codes = [getattr(cause, "sqlstate", None), *getattr(cause, "args", ())[:1]]
    mend = next((_SERVER_MENDS[code] for code in codes if code in _SERVER_MENDS), "")
    return f"{first_line}; {mend.format(key=purpose.key)}" if mend else first_line


def takes_no_writing(folder: Path) -> bool:
    """Whether the file system of the folder is mounted, or shown to this process, for reading alone."""
    try:
        return bool(os.statvfs(folder).f_flag & os.ST_RDONLY)
    except OSError:
        return False
