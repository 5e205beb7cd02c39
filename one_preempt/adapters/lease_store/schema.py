"""Which schema a database has, and bringing it up to date.

alembic takes 0.3 s to import: it is loaded only where something must change.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, event, inspect, text

from one_preempt.adapters.lease_store.database import BUSY_TIMEOUT_S, open_engine, reading_engine, write_ahead
from one_preempt.adapters.lease_store.database_failures import failures_in_words
from one_preempt.adapters.lease_store.database_file import copy_file, prepare_file
from one_preempt.adapters.lease_store.named_database import (
    LEASES,
    DatabaseNotMade,
    LeaseStoreError,
    NamedDatabase,
    Purpose,
    is_sqlite,
    named,
    parsed_url,
)
from one_preempt.adapters.lease_store.writer_lock import schema_lock, take_writer_lock

_CREATING = re.compile(r"(^\s*CREATE (?:TABLE|INDEX|UNIQUE INDEX)|^\s*ALTER TABLE \S+ ADD COLUMN) ")

# Oldest first; the last is what this code reads and writes.
REVISIONS = ("0001", "0002", "0003", "0004", "0005", "0006", "0007", "0008", "0009", "0010")


def upgrade(url: str, tell_copy: Callable[[Path], object] = lambda _path: None, purpose: Purpose = LEASES) -> str:
    """Create the database or bring it up to date; returns its revision. Raises `LeaseStoreError`.

    Nothing is done to a database that is up to date already, nothing to one that is newer than this code, and nothing
    while a service writes to it: an older one would go on with a schema that it does not know. An older SQLite database
    is copied first, since an older program refuses the newer one; `tell_copy` is told where the copy is.
    """
    parsed = parsed_url(url, purpose)
    if is_sqlite(parsed):
        prepare_file(parsed, purpose)
    engine = open_engine(parsed, BUSY_TIMEOUT_S, purpose)
    try:
        database = named(parsed, purpose)
        found = stored_revision(engine, database)
        _write_ahead(engine, database)
        if found is None:
            migrate(engine, database)
        elif found != REVISIONS[-1]:
            writer = take_writer_lock(engine, database, is_sqlite(parsed))
            try:
                if is_sqlite(parsed):
                    tell_copy(copy_file(engine, database, f".schema-{found}"))
                migrate(engine, database)
            finally:
                writer.release()
    finally:
        engine.dispose()
    return REVISIONS[-1]


def require_current(engine: Engine, database: NamedDatabase) -> None:
    """Create the tables of an empty database; raises `LeaseStoreError` where an older one must be upgraded."""
    revision = stored_revision(engine, database)
    if revision is not None:
        _demand_newest(revision, database)
    _write_ahead(engine, database)
    if revision is None:
        migrate(engine, database)


def require_made(engine: Engine, database: NamedDatabase) -> None:
    """Change nothing; raises `DatabaseNotMade` for an empty database, `LeaseStoreError` for one to be upgraded."""
    revision = stored_revision(engine, database)
    if revision is None:
        raise DatabaseNotMade(database)
    _demand_newest(revision, database)


def _demand_newest(revision: str, database: NamedDatabase) -> None:
    if revision != REVISIONS[-1]:
        raise LeaseStoreError(
            f"{database} has schema {revision}, this program needs {REVISIONS[-1]}: "
            f"stop the {database.purpose.program}, make a backup, and run: one-preempt db upgrade"
        )


def stored_revision(engine: Engine, database: NamedDatabase) -> str | None:
    """The revision the database says it has; None for an empty one.

    Raises `LeaseStoreError` for a newer one, for the database of another program, and where not every text can be kept.
    """
    with failures_in_words(database), reading_engine(engine).begin() as connection:
        _require_every_character(connection, database)
        # The table of the revision is made first: whoever makes the others meanwhile is not taken for a stranger.
        tables = inspect(connection).get_table_names()
        if not inspect(connection).has_table("alembic_version"):
            if tables:
                raise _of_another_program(database, tables)
            return None
        revision = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
    if revision is not None and revision not in REVISIONS:
        raise LeaseStoreError(
            f"{database} has schema {revision}, which this program does not know (its newest is "
            f"{REVISIONS[-1]}): a newer one_preempt has written it; run that version, or {_way_back(database)}"
        )
    return revision


def _way_back(database: NamedDatabase) -> str:
    """How this version gets a database that it reads: the newest of the copies that upgrades have left, if any."""
    copies = [Path(f"{database.name}.schema-{revision}") for revision in reversed(REVISIONS)]
    copy = next((one for one in copies if os.path.isfile(one)), None)
    if copy is None:
        return "restore an older backup"
    return f"put {copy}, the copy that was made of it before, in its place (what happened since is not in that)"


def _of_another_program(database: NamedDatabase, tables: list[str]) -> LeaseStoreError:
    return LeaseStoreError(
        f"the database {database.name} holds the tables of another program ({', '.join(sorted(tables)[:3])}): "
        f"name one in {database.purpose.key} that has none but ours"
    )


def _write_ahead(engine: Engine, database: NamedDatabase) -> None:
    """SQLite's write-ahead log, which is set only in a database that is known to be ours."""
    if engine.dialect.name == "sqlite":
        with failures_in_words(database), closing(engine.raw_connection()) as connection:
            write_ahead(connection.cursor().execute, BUSY_TIMEOUT_S)


def migrate(engine: Engine, database: NamedDatabase) -> None:
    """Run the migrations that are missing, one process at a time; in one transaction, where the database has such.

    MariaDB commits each statement by itself. There what an interrupted run has done already is passed over.
    """
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", "one_preempt.adapters.lease_store:migrations")
    with failures_in_words(database), schema_lock(engine), engine.begin() as connection:
        _require_exact_text(connection, database)
        if getattr(connection.dialect, "is_mariadb", False):
            event.listen(connection, "before_cursor_execute", _unless_it_is_there, retval=True)
        config.attributes["connection"] = connection
        command.upgrade(config, "head")


def _unless_it_is_there(
    _connection: Connection, _cursor: object, statement: str, parameters: Any, _context: object, _many: bool
) -> tuple[str, Any]:
    return _CREATING.sub(r"\1 IF NOT EXISTS ", statement, count=1), parameters


def _require_every_character(connection: Connection, database: NamedDatabase) -> None:
    """Of what its encoding has not, PostgreSQL keeps nothing, and users write into their templates what they like."""
    if connection.dialect.name != "postgresql":
        return
    encoding = connection.execute(text("SHOW server_encoding")).scalar()
    if encoding != "UTF8":
        raise LeaseStoreError(
            f"{database} has the encoding {encoding}, in which not every text can be kept: make another one by "
            "CREATE DATABASE ... OWNER ... ENCODING 'UTF8' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0, "
            "and carry over by pg_dump what is in this one"
        )


def _require_exact_text(connection: Connection, database: NamedDatabase) -> None:
    # MariaDB takes ids that differ in case alone for one and the same, and drops what its character set has not.
    if connection.dialect.name not in ("mysql", "mariadb"):
        return
    collation = connection.execute(text("SELECT @@collation_database")).scalar()
    if collation not in ("utf8mb4_bin", "utf8mb4_nopad_bin"):
        raise LeaseStoreError(
            f"{database} has the collation {collation}, which confuses different texts: "
            f"ALTER DATABASE {connection.engine.url.database} CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
        )
