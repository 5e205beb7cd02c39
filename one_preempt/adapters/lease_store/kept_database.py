"""A database that is open: its transactions, and the right to be the one that writes to it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy.engine import Connection

from one_preempt.adapters.lease_store.database import open_engine, reading_engine
from one_preempt.adapters.lease_store.database_failures import failures_in_words
from one_preempt.adapters.lease_store.database_file import database_exists, prepare_file
from one_preempt.adapters.lease_store.named_database import (
    DatabaseNotMade,
    LeaseStoreError,
    Purpose,
    is_sqlite,
    named,
    parsed_url,
)
from one_preempt.adapters.lease_store.schema import require_current, require_made
from one_preempt.adapters.lease_store.writer_lock import WriterLock, take_writer_lock


class KeptDatabase:
    """The database at `url`, with the tables of this version.

    With `makes` it is made, or an empty one gets its tables; without, nothing is made by opening it, and where there is
    none yet `DatabaseNotMade` is raised.
    Raises `LeaseStoreError`, with one message that a person can act on, from the constructor and every method.
    """

    def __init__(self, url: str, purpose: Purpose, busy_timeout_s: float, *, makes: bool) -> None:
        parsed = parsed_url(url, purpose)
        self._is_sqlite = is_sqlite(parsed)
        self._database = named(parsed, purpose)
        if makes and self._is_sqlite:
            prepare_file(parsed, purpose)
        elif not database_exists(url, purpose):
            raise DatabaseNotMade(self._database)
        self._engine = open_engine(parsed, busy_timeout_s, purpose)
        self._reading_engine = reading_engine(self._engine)
        self._writer: WriterLock | None = None
        self._writer_lost = self._needs_lock = False
        try:
            (require_current if makes else require_made)(self._engine, self._database)
        except LeaseStoreError:
            self._engine.dispose()
            raise

    def acquire_writer(self) -> None:
        """Become the one that writes, until `release_writer`, `close` or death; raises where another one is.

        From then on nothing is written without the lock. Every write first checks that it still stands, and so does
        every later call of this. Where it was lost they raise; it is taken anew by the call after that, so that whoever
        acts begins afresh in between.
        """
        self._needs_lock = True
        if self._writer is not None and not self._writer_lost:
            self._check_writer()
            return
        self._open_anew()
        self._let_go()
        with failures_in_words(self._database):
            self._writer = take_writer_lock(self._engine, self._database, self._is_sqlite)

    def _open_anew(self) -> None:
        """Begin with the database that is there now: a connection of before would go on with the one that was."""
        if self._is_sqlite and not Path(self._database.name).exists():
            raise LeaseStoreError(
                f"the database {self._database.name} is gone: put it back, or restart the "
                f"{self._database.purpose.process} to begin with an empty one"
            )
        self._engine.dispose()
        require_current(self._engine, self._database)

    def release_writer(self) -> None:
        """Let another one write; this one may write what needs no lock."""
        self._let_go()
        self._needs_lock = False

    def _let_go(self) -> None:
        if self._writer is not None:
            self._writer.release()
            self._writer, self._writer_lost = None, False

    def close(self) -> None:
        """Let go of the database and of the writer's lock."""
        self.release_writer()
        self._engine.dispose()

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A transaction that only looks, and waits for nobody."""
        with failures_in_words(self._database), self._reading_engine.begin() as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A transaction that writes; whoever has called `acquire_writer` must be the writer."""
        self._check_writer()
        with failures_in_words(self._database), self._engine.begin() as connection:
            yield connection

    def _check_writer(self) -> None:
        if self._writer is None:
            if self._needs_lock:
                raise LeaseStoreError(
                    f"nothing is written to {self._database.name} before this process has the writer's lock again"
                )
            return
        try:
            self._writer.check()
        except LeaseStoreError:
            self._writer_lost = True
            raise
