"""Which database is meant: what it is for, what its URL names, and how messages call it."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct
from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError

from one_preempt.configuration.shown_url import without_password
from one_preempt.errors import OnePreemptError


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
