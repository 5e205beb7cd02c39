"""The file of an SQLite database: made for its owner alone, copied whole, and why it cannot be written."""

from __future__ import annotations

import errno
import os
import pwd
from contextlib import closing
from pathlib import Path

from sqlalchemy import URL, Engine

from one_preempt.adapters.lease_store.database_failures import failures_in_words, mount_for_writing
from one_preempt.adapters.lease_store.named_database import (
    LEASES,
    LeaseStoreError,
    NamedDatabase,
    Purpose,
    is_sqlite,
    parsed_url,
)


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


def writing_mend(path: Path, purpose: Purpose, error: OSError) -> str:
    """What to do where the file cannot be written for that error; its owner is named where it is another user."""
    if error.errno == errno.EROFS:
        return mount_for_writing(purpose)
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


def _user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
