"""What the database adds to the contract: schema, failures in words, one writer, other processes."""

from __future__ import annotations

import errno
import os
import pwd
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from msgspec.structs import replace
from sqlalchemy import create_engine, text
from sqlalchemy.event import listen

from one_preempt.adapters.lease_store import database_file
from one_preempt.adapters.lease_store.database import open_engine, reading_engine, write_ahead
from one_preempt.adapters.lease_store.database_failures import failures_in_words
from one_preempt.adapters.lease_store.database_file import database_exists, prepare_file
from one_preempt.adapters.lease_store.named_database import LeaseStoreError, NamedDatabase, parsed_url
from one_preempt.adapters.lease_store.schema import REVISIONS, upgrade
from one_preempt.adapters.lease_store.sql_lease_store import SqlLeaseStore
from one_preempt.adapters.lease_store.tables import metadata
from one_preempt.adapters.lease_store.writer_lock import FileWriterLock
from one_preempt.configuration.places import SQLITE_EXAMPLE
from one_preempt.configuration.settings import StoreSettings
from one_preempt.core.model.lease import LeaseTerms, LeaseType
from one_preempt.core.model.ledger import LeaseRecord, Ledger, LedgerChanges, Transition
from one_preempt.core.model.observed_overhead import ObservedOverhead, OverheadKind
from one_preempt.core.model.plan import Action, ActionKind, Plan, Preemption, Reason
from one_preempt.core.model.reservation import Booking, Reservation, Verdict, VerdictGiven
from tests.other_users import NOBODY_UID, as_nobody

NOW_S = 1_800_000_000
_LEASE_7 = "'BE-SUSPENDABLE', 'sweep', 2, 7200, 1800000060, NULL, NULL, NULL, 0, 5, 100, 1, 0"
FIRST_RELEASE = (
    f"INSERT INTO leases VALUES (7, {_LEASE_7}, {NOW_S}, {NOW_S}, 'batch', 1, 20, {NOW_S}, NULL, 1)",
    f"INSERT INTO leases VALUES (8, {_LEASE_7}, {NOW_S}, {NOW_S - 1}, 'batch', 1, 20, {NOW_S}, {NOW_S}, 1)",
    "INSERT INTO lease_members VALUES (7, 0, 7), (7, 1, 9), (8, 0, 8)",
    f"INSERT INTO vm_states VALUES (7, 'STOPPED', {NOW_S})",
    f"INSERT INTO transitions VALUES (1, 7, 7, {NOW_S}, 'RUNNING', 'STOPPED', NULL, 1024)",
    f"INSERT INTO control VALUES ('paused', 1, {NOW_S})",
)
LEASE = LeaseRecord(7, LeaseTerms(LeaseType.BE_SUSPENDABLE), 5, 100, (7,), True, False, NOW_S, NOW_S)
MOVE = Transition(7, 7, NOW_S, "PENDING", "RUNNING", 3, 1024)


def refusal_of(url: str) -> str:
    with pytest.raises(LeaseStoreError) as caught:
        SqlLeaseStore(url)
    message = str(caught.value)
    assert "\n" not in message
    return message


def write_once(url: str) -> None:
    with closing(SqlLeaseStore(url)) as store:
        store.acquire_writer()


def test_the_migrations_lead_to_the_tables_of_the_code(url: str) -> None:
    engine = create_engine(url)
    with engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []
    engine.dispose()


def test_the_revisions_of_the_code_are_those_of_the_migrations() -> None:
    config = Config()
    config.set_main_option("script_location", "one_preempt.adapters.lease_store:migrations")
    newest_first = [script.revision for script in ScriptDirectory.from_config(config).walk_revisions()]
    assert tuple(reversed(newest_first)) == REVISIONS


def test_upgrade_creates_a_database_once(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'leases.db'}"
    assert upgrade(url) == REVISIONS[-1]
    store = SqlLeaseStore(url)
    store.set_paused(True, NOW_S)
    store.close()
    assert upgrade(url) == REVISIONS[-1]
    store = SqlLeaseStore(url)
    assert store.load(NOW_S).paused
    store.close()


def test_an_older_database_is_not_upgraded_under_a_daemon_that_writes_to_it(first_release: str) -> None:
    database = first_release.removeprefix("sqlite:///")
    daemon = FileWriterLock(NamedDatabase(database))
    with pytest.raises(LeaseStoreError, match=f"process {os.getpid()} on .*stop it"):
        upgrade(first_release)
    assert "has schema 0001" in refusal_of(first_release)
    daemon.release()
    assert upgrade(first_release) == REVISIONS[-1]
    # What is up to date is left alone, whoever writes.
    daemon = FileWriterLock(NamedDatabase(database))
    assert upgrade(first_release) == REVISIONS[-1]
    daemon.release()


def test_an_older_database_is_kept_beside_the_upgraded_one(first_release: str) -> None:
    database = Path(first_release.removeprefix("sqlite:///"))
    told: list[Path] = []
    database.with_name("first.db.schema-0001.unfinished").write_text("what a killed upgrade left")
    # A lease that stands in the write-ahead log alone is in the copy too.
    with closing(sqlite3.connect(database, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("UPDATE leases SET name = 'renamed' WHERE id = 7")
        upgrade(first_release, told.append)
    (copy,) = told
    assert copy == database.with_name("first.db.schema-0001")
    assert copy.stat().st_mode & 0o777 == 0o600
    with closing(sqlite3.connect(copy)) as connection:
        assert connection.execute("SELECT version_num FROM alembic_version").fetchone() == ("0001",)
        assert connection.execute("SELECT name FROM leases WHERE id = 7").fetchone() == ("renamed",)
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert upgrade(first_release, told.append) == REVISIONS[-1]
    assert told == [copy], "what is up to date is not copied"
    assert not list(database.parent.glob("*.unfinished"))


def test_a_database_that_cannot_be_copied_is_not_upgraded(first_release: str) -> None:
    database = Path(first_release.removeprefix("sqlite:///"))
    database.with_name("first.db.schema-0001").mkdir()
    with pytest.raises(LeaseStoreError, match=r"cannot copy the database of leases to .*schema-0001: Is a directory"):
        upgrade(first_release)
    assert "has schema 0001" in refusal_of(first_release)
    assert not list(database.parent.glob("*.unfinished"))


def test_opening_a_current_database_does_not_import_alembic(url: str) -> None:
    program = (
        "import sys; from one_preempt.adapters.lease_store.sql_lease_store import SqlLeaseStore\n"
        f"SqlLeaseStore({url!r}).load(0); sys.exit('alembic' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_a_newer_database_is_refused_and_left_alone(url: str, database: Path) -> None:
    with closing(sqlite3.connect(database, isolation_level=None)) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '0999'")
    assert "a newer one_preempt has written it" in refusal_of(url)
    assert "run that version, or restore an older backup" in refusal_of(url)
    with pytest.raises(LeaseStoreError, match="0999"):
        upgrade(url)


def test_who_goes_back_to_an_older_version_is_told_which_copy_it_reads(url: str, database: Path) -> None:
    with closing(sqlite3.connect(database, isolation_level=None)) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '0999'")
    for revision in ("0001", REVISIONS[-2], "0998"):
        database.with_name(f"{database.name}.schema-{revision}").touch()
    assert f"or put {database}.schema-{REVISIONS[-2]}, the copy that was made" in refusal_of(url)


@pytest.fixture
def first_release(tmp_path: Path) -> str:
    """A database as the first release left it: a lease with two VMs, one of them preempted, and what was logged."""
    url = f"sqlite:///{tmp_path / 'first.db'}"
    config = Config()
    config.set_main_option("script_location", "one_preempt.adapters.lease_store:migrations")
    prepare_file(parsed_url(url))
    engine = open_engine(parsed_url(url), 1.0)
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "0001")
        for statement in FIRST_RELEASE:
            connection.execute(text(statement))
    engine.dispose()
    return url


def test_who_writes_has_the_database_from_the_first_look_on_and_who_looks_leaves_it_to_others(tmp_path: Path) -> None:
    """Two that look first and write then would meet, and one of them would fail at once."""
    url = parsed_url(f"sqlite:///{tmp_path / 'leases.db'}")
    prepare_file(url)
    engine = open_engine(url, 1.0)
    with closing(sqlite3.connect(tmp_path / "leases.db", timeout=0)) as other:
        with engine.begin(), pytest.raises(sqlite3.OperationalError, match="locked"):
            other.execute("BEGIN IMMEDIATE")
        with reading_engine(engine).begin() as looking:
            looking.execute(text("SELECT 1"))
            other.execute("BEGIN IMMEDIATE")
            other.rollback()
    engine.dispose()


def test_who_finds_the_database_locked_waits_for_as_long_as_was_said(tmp_path: Path) -> None:
    url = parsed_url(f"sqlite:///{tmp_path / 'leases.db'}")
    prepare_file(url)
    engine = open_engine(url, 12.5)
    with engine.begin() as connection:
        assert connection.execute(text("PRAGMA busy_timeout")).scalar() == 12_500
        assert connection.execute(text("PRAGMA foreign_keys")).scalar() == 1
        # FULL: what is committed outlives the machine.
        assert connection.execute(text("PRAGMA synchronous")).scalar() == 2
    engine.dispose()


def test_an_older_database_asks_for_the_upgrade(first_release: str) -> None:
    assert "has schema 0001" in refusal_of(first_release)
    assert "one-preempt db upgrade" in refusal_of(first_release)


def test_an_upgraded_database_keeps_all_it_knew(first_release: str) -> None:
    assert upgrade(first_release) == REVISIONS[-1]
    store = SqlLeaseStore(first_release)
    terms = LeaseTerms(LeaseType.BE_SUSPENDABLE, "sweep", 2, 7200, start_at_s=NOW_S + 60)
    lease = LeaseRecord(7, terms, 5, 100, (7, 9), True, False, NOW_S, NOW_S, "batch", 1, 20, NOW_S)
    assert store.load(NOW_S) == Ledger(leases={7: lease}, vm_states={7: "STOPPED"}, paused=True)
    assert store.leases(include_ended=True) == (
        replace(lease, id=8, vm_ids=(8,), arrived_at_s=NOW_S - 1, ended_at_s=NOW_S),
        lease,
    )
    assert store.transitions() == (Transition(7, 7, NOW_S, "RUNNING", "STOPPED", None, 1024),)
    booked = Reservation(7, NOW_S + 60, NOW_S + 7260, (3, 4), firm=True)
    store.record_plan(Plan(NOW_S, "moml", bookings=(Booking(7, (booked,)),)))
    assert store.load(NOW_S).reservations == {7: (booked,)}
    store.close()


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("nonsense", "no database URL"),
        ("sqlite://", "must be a file"),
        ("sqlite:///:memory:", "must be a file"),
        ("sqlite:///leases.db", "'leases.db' has no absolute path"),
        ("oracle+nothing://host/db", "no database URL"),
        ("sqlite:////dev/null?timeout=soon", "takes no such parameters in store.url: could not convert"),
        ("postgresql+psycopg2://u:secret@h", "names a server and none of its databases"),
        ("postgres://u:secret@h/db", "no database URL"),
        ("postgresql:/u:secret@h/db", "no database URL"),
        ("postgresql+psycopg2://u:secret@h/db", "psycopg2"),
        ("postgresql+psycopg2://h/db?user=u&password=secret", "psycopg2"),
    ],
)
def test_a_url_that_names_no_usable_database_is_refused(url: str, words: str) -> None:
    message = refusal_of(url)
    assert words in message
    assert "secret" not in message


def test_the_example_is_the_database_that_is_shipped_where_the_service_may_write() -> None:
    assert StoreSettings().url == SQLITE_EXAMPLE
    assert f"for example {SQLITE_EXAMPLE}" in refusal_of("sqlite://")


def test_asking_whether_a_database_exists_creates_none(tmp_path: Path, url: str) -> None:
    assert database_exists(url)
    assert not database_exists(f"sqlite:///{tmp_path / 'other.db'}")
    assert not (tmp_path / "other.db").exists()
    assert database_exists("postgresql://user@host/leases")


for_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root makes files for others")


@pytest.fixture
def folder_of_nobody() -> Iterator[Path]:
    """Below no folder of the tests, which only their user may enter."""
    with TemporaryDirectory() as name:
        os.chown(name, NOBODY_UID, NOBODY_UID)
        yield Path(name)


@for_root
def test_what_root_makes_belongs_to_the_owner_of_the_folder(folder_of_nobody: Path) -> None:
    folder = folder_of_nobody / "new"
    store = SqlLeaseStore(f"sqlite:///{folder}/leases.db")
    store.acquire_writer()
    store.set_paused(True, NOW_S)
    owners = {path.name: path.stat().st_uid for path in (folder, *folder.iterdir())}
    store.close()
    assert owners.keys() >= {"new", "leases.db", "leases.db-wal", "leases.db.lock"}
    assert set(owners.values()) == {NOBODY_UID}
    with as_nobody():
        daemon = SqlLeaseStore(f"sqlite:///{folder}/leases.db")
        daemon.acquire_writer()
        daemon.close()


@for_root
@pytest.mark.parametrize(("name", "told"), [("leases.db", "write the database"), ("leases.db.lock", "open the lock")])
def test_a_file_of_another_user_is_named_with_its_owner_and_the_mend(
    name: str, told: str, folder_of_nobody: Path
) -> None:
    url = f"sqlite:///{folder_of_nobody}/leases.db"
    SqlLeaseStore(url).close()
    file = folder_of_nobody / name
    file.touch(0o600)
    os.chown(file, 0, 0)
    me = pwd.getpwuid(NOBODY_UID).pw_name
    with as_nobody(), pytest.raises(LeaseStoreError) as refused:
        write_once(url)
    assert str(refused.value).startswith(f"cannot {told}")
    assert str(refused.value).endswith(f"it belongs to root, and this runs as {me}: chown {me} {file}")
    os.chown(file, 1, 1)
    with as_nobody(), pytest.raises(LeaseStoreError, match=f"run this as {pwd.getpwuid(1).pw_name}$"):
        write_once(url)


@for_root
def test_an_own_file_that_was_closed_is_to_be_opened_again(folder_of_nobody: Path) -> None:
    file = folder_of_nobody / "leases.db"
    SqlLeaseStore(f"sqlite:///{file}").close()
    file.chmod(0o400)  # as a backup that nobody should change, put back with its mode
    with as_nobody():
        assert refusal_of(f"sqlite:///{file}").endswith(f"Permission denied; chmod u+rw {file}")


def test_a_missing_folder_is_created_for_the_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "new" / "leases.db"
    SqlLeaseStore(f"sqlite:///{path}").close()
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_missing_parent_of_the_folder_is_named(tmp_path: Path) -> None:
    path = tmp_path / "no" / "such" / "leases.db"
    assert str(path) in refusal_of(f"sqlite:///{path}")
    assert not (tmp_path / "no").exists()


def test_a_folder_in_the_place_of_the_file_is_named(tmp_path: Path) -> None:
    assert f"cannot write the database of leases {tmp_path}" in refusal_of(f"sqlite:///{tmp_path}")


def test_a_file_system_that_takes_no_files_is_named() -> None:
    assert "cannot write the database of leases /proc/leases.db" in refusal_of("sqlite:////proc/leases.db")


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is unwritable for root")
def test_an_unwritable_folder_is_named(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    assert "Permission denied" in refusal_of(f"sqlite:///{tmp_path / 'leases.db'}")


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "leases.db"
    path.write_text("these are not the pages of a database " * 100)
    assert "is not a database" in refusal_of(f"sqlite:///{path}")


def test_a_damaged_database_is_refused_in_words(url: str, database: Path) -> None:
    pages = bytearray(database.read_bytes())
    pages[100:] = b"\xa5" * (len(pages) - 100)
    database.write_bytes(pages)
    assert "is damaged" in refusal_of(url)


def test_a_database_that_another_process_keeps_locked_is_named(url: str, database: Path) -> None:
    store = SqlLeaseStore(url, busy_timeout_s=0.01)
    other = sqlite3.connect(database, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(LeaseStoreError, match="is locked: another process"):
        store.set_paused(True, NOW_S)
    assert not store.load(NOW_S).paused, "looking never waits for a writer"
    other.close()
    store.set_paused(True, NOW_S)
    assert store.load(NOW_S).paused
    store.close()


def test_a_full_disk_is_named(tmp_path: Path) -> None:
    engine = create_engine(f"sqlite:///{tmp_path / 'small.db'}")

    def fill() -> None:
        with failures_in_words(NamedDatabase("small.db")), engine.begin() as connection:
            connection.execute(text("CREATE TABLE one (text TEXT)"))
            connection.execute(text("PRAGMA max_page_count = 3"))
            connection.execute(text("INSERT INTO one VALUES (:filler)"), {"filler": "x" * 100_000})

    with pytest.raises(LeaseStoreError, match="the disk is full"):
        fill()
    engine.dispose()


def test_where_the_file_system_is_read_only_the_mend_is_that_of_the_file_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As ext4 becomes after an error of the disk, and as every folder is that the unit of systemd does not name.
    def refuse(_path: object, *_rest: object) -> int:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    class ReadOnly:
        f_flag = os.ST_RDONLY

    mend = "mount it for writing, and where systemd starts the scheduler, name the folder in ReadWritePaths of its unit"
    monkeypatch.setattr(database_file, "open_own_file", refuse)
    assert refusal_of(f"sqlite:///{tmp_path}/leases.db").endswith(f"Read-only file system; {mend}")
    monkeypatch.setattr(os, "statvfs", lambda _folder: ReadOnly())
    with (
        pytest.raises(LeaseStoreError, match=f"leases.db: its file system is read-only; {mend}"),
        failures_in_words(NamedDatabase(f"{tmp_path}/leases.db")),
    ):
        sqlite3.connect(tmp_path / "no" / "such.db")


def test_where_a_database_is_read_only_its_folder_is_named_as_well() -> None:
    # So it is where the folder was made anew by root, whoever owns the file: nothing can be written beside it.
    refused = sqlite3.OperationalError("attempt to write a readonly database")
    refused.sqlite_errorname = "SQLITE_READONLY_DIRECTORY"
    with (
        pytest.raises(LeaseStoreError, match="it and its folder must belong to the user that runs the scheduler"),
        failures_in_words(NamedDatabase("/nowhere/leases.db")),
    ):
        raise refused


def test_where_the_disk_is_full_nobody_is_asked_who_owns_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_path: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(database_file, "open_own_file", refuse)
    assert refusal_of(f"sqlite:///{tmp_path}/leases.db").endswith("No space left on device; make room there")


def test_a_failed_transaction_leaves_nothing_behind(open_store: Callable[[], SqlLeaseStore]) -> None:
    store = open_store()
    impossible = Transition(8, 8, NOW_S, "PENDING", None, 3, 1024)  # type: ignore[arg-type]
    with pytest.raises(LeaseStoreError, match="NOT NULL"):
        store.apply(LedgerChanges(transitions=(MOVE, impossible)))
    assert store.transitions() == ()


def test_no_pruning_makes_postgresql_compare_each_row_with_each(open_store: Callable[[], SqlLeaseStore]) -> None:
    # NOT IN (SELECT ...) over the VMs of a year takes it hours: it hashes such a list only as far as work_mem goes.
    store, statements = open_store(), list[str]()
    listen(store._database._engine, "before_cursor_execute", lambda _, _cursor, said, *_rest: statements.append(said))
    store.prune(NOW_S, {1})
    assert any(said.startswith("DELETE FROM vm_states") for said in statements)
    assert [said for said in statements if "NOT IN" in said] == []


def test_a_plan_that_says_again_what_stands_writes_nothing(
    open_store: Callable[[], SqlLeaseStore], database: Path
) -> None:
    store = open_store()
    store.apply(LedgerChanges(admitted=(LEASE,)))
    plan = Plan(
        NOW_S,
        "moml",
        bookings=(Booking(7, (Reservation(7, NOW_S, None, (3,)), Reservation(7, NOW_S + 60, None))), Booking(8)),
        verdicts=(VerdictGiven(7, Verdict.ACCEPTED, "starts at noon"), VerdictGiven(8, Verdict.REFUSED, "too late")),
    )
    store.record_plan(plan)
    log = Path(f"{database}-wal")
    written = log.stat().st_size
    store.record_plan(replace(plan, made_at_s=NOW_S + 30))
    store.record_plan(Plan(NOW_S + 60, "moml"))
    assert log.stat().st_size == written
    store.record_plan(replace(plan, verdicts=(VerdictGiven(7, Verdict.ACCEPTED, "starts at one"),)))
    assert log.stat().st_size > written


BROKEN_ROWS = {
    "UPDATE leases SET type = 'BE'": ("table leases, lease 7: type is 'BE'", "BE-SUSPENDABLE"),
    "UPDATE leases SET verdict = 'maybe'": ("table leases, lease 7: verdict is 'maybe'", "accepted"),
    "UPDATE leases SET paused_vm_ids = '9'": ("table leases, lease 7: paused_vm_ids is '9'", "list of VM ids"),
    "UPDATE reservations SET host_ids = '[3,'": ("table reservations, lease 7: host_ids is '[3,'", "list of host ids"),
    "UPDATE reservations SET host_ids = '[\"x\"]'": ("table reservations, lease 7: host_ids is", "list of host ids"),
    "UPDATE reservations SET host_ids = 7": ("table reservations, lease 7: host_ids is '7'", "list of host ids"),
    "UPDATE reservations SET host_ids = x'ff'": ("table reservations, lease 7: host_ids is", "list of host ids"),
    "UPDATE observed_overheads SET kind = 'nap'": ("table observed_overheads, VM 7: kind is 'nap'", "suspend"),
    "UPDATE actions SET kind = 'nap'": ("table actions, action p1/stop/7 of lease 7: kind is 'nap'", "deploy"),
    "UPDATE actions SET outcome = ''": ("table actions, action p1/stop/7 of lease 7: outcome is ''", "accepted"),
    "UPDATE preemptions SET document = '{}'": ("table preemptions, preemption p1 for lease 20: document", "`id`"),
}


@pytest.mark.parametrize("statement", BROKEN_ROWS)
def test_a_row_that_cannot_be_read_is_named_with_a_way_out(
    open_store: Callable[[], SqlLeaseStore], database: Path, statement: str
) -> None:
    store = open_store()
    took = ObservedOverhead(OverheadKind.SUSPEND, 7, 100, 4096, 31, NOW_S)
    store.apply(LedgerChanges(admitted=(LEASE,), observed_overheads=(took,)))
    stop = Action("p1/stop/7", ActionKind.STOP, 7, 7, Reason("VICTIM", "makes room"))
    preemption = Preemption("p1", 20, (), (), "moml", 1, True, 1, NOW_S)
    booking = Booking(7, (Reservation(7, NOW_S, None, (3,)),))
    store.record_plan(Plan(NOW_S, "moml", (stop,), (preemption,), bookings=(booking,)))
    store.load(NOW_S)
    with closing(sqlite3.connect(database, isolation_level=None)) as connection:
        connection.execute(statement)
    with pytest.raises(LeaseStoreError) as caught:
        store.load(NOW_S)
    message = str(caught.value)
    named, expected = BROKEN_ROWS[statement]
    assert message.startswith(f"database of leases {database}: {named}")
    assert expected in message
    assert message.endswith("stop the scheduler, then correct or delete that row, or restore the last backup")


def test_the_command_line_pauses_while_the_daemon_writes(open_store: Callable[[], SqlLeaseStore]) -> None:
    daemon, command_line = open_store(), open_store()
    daemon.acquire_writer()
    daemon.apply(LedgerChanges(transitions=(MOVE,)))
    command_line.set_paused(True, NOW_S)
    daemon.apply(LedgerChanges(transitions=(MOVE,)))
    assert daemon.load(NOW_S).paused
    assert len(command_line.transitions()) == 2


def test_only_one_daemon_writes(open_store: Callable[[], SqlLeaseStore]) -> None:
    first, second = open_store(), open_store()
    first.acquire_writer()
    with pytest.raises(
        LeaseStoreError, match=f"another one_preempt daemon \\(process {os.getpid()} on .*stop it, or wait"
    ):
        second.acquire_writer()
    first.close()
    second.acquire_writer()


def test_a_full_disk_takes_nothing_from_the_lock(
    open_store: Callable[[], SqlLeaseStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    first, second = open_store(), open_store()
    monkeypatch.setattr(os, "ftruncate", full)
    first.acquire_writer()
    with pytest.raises(LeaseStoreError, match="another one_preempt daemon"):
        second.acquire_writer()
    first.close()
    second.acquire_writer()


def test_a_writer_whose_lock_file_was_removed_writes_no_more(
    open_store: Callable[[], SqlLeaseStore], database: Path
) -> None:
    store = open_store()
    store.acquire_writer()
    Path(f"{database}.lock").unlink()
    with pytest.raises(LeaseStoreError, match="was removed"):
        store.set_paused(True, NOW_S)
    assert not store.is_paused()


def test_a_lock_that_was_lost_is_taken_anew_after_it_was_told(
    open_store: Callable[[], SqlLeaseStore], database: Path
) -> None:
    store, other = open_store(), open_store()
    store.acquire_writer()
    Path(f"{database}.lock").unlink()
    with pytest.raises(LeaseStoreError, match="was removed; the next cycle takes the writer's lock again"):
        store.acquire_writer()
    store.acquire_writer()
    store.set_paused(True, NOW_S)
    with pytest.raises(LeaseStoreError, match="another one_preempt daemon"):
        other.acquire_writer()


def test_a_daemon_goes_on_with_the_database_that_was_put_in_the_place_of_its_own(
    open_store: Callable[[], SqlLeaseStore], database: Path, tmp_path: Path
) -> None:
    store = open_store()
    store.acquire_writer()
    with closing(sqlite3.connect(database)) as old, closing(sqlite3.connect(tmp_path / "copy.db")) as copy:
        old.backup(copy)
    for rest in ("-wal", "-shm"):
        Path(f"{database}{rest}").unlink(missing_ok=True)
    (tmp_path / "copy.db").replace(database)
    with closing(SqlLeaseStore(f"sqlite:///{database}")) as command:
        command.set_paused(True, NOW_S)
    with pytest.raises(LeaseStoreError, match="was removed or replaced; the next cycle takes"):
        store.acquire_writer()
    store.acquire_writer()
    assert store.load(NOW_S).paused


def test_a_database_that_was_replaced_while_another_front_end_led_is_opened_anew(
    open_store: Callable[[], SqlLeaseStore], database: Path, tmp_path: Path
) -> None:
    store = open_store()
    store.acquire_writer()
    store.load(NOW_S)
    store.release_writer()
    with closing(sqlite3.connect(database)) as old, closing(sqlite3.connect(tmp_path / "copy.db")) as copy:
        old.backup(copy)
    (tmp_path / "copy.db").replace(database)
    with closing(SqlLeaseStore(f"sqlite:///{database}")) as command:
        command.set_paused(True, NOW_S)
    store.acquire_writer()
    assert store.load(NOW_S).paused


def test_a_daemon_whose_database_is_gone_makes_no_other(
    open_store: Callable[[], SqlLeaseStore], database: Path
) -> None:
    store = open_store()
    store.acquire_writer()
    database.rename(database.with_suffix(".away"))
    with pytest.raises(LeaseStoreError, match="was removed or replaced"):
        store.acquire_writer()
    for _ in range(2):
        with pytest.raises(LeaseStoreError, match="is gone: put it back"):
            store.acquire_writer()
    assert not database.exists()
    database.with_suffix(".away").rename(database)
    store.acquire_writer()


def test_a_lock_that_was_lost_is_not_taken_from_another_daemon(
    open_store: Callable[[], SqlLeaseStore], database: Path
) -> None:
    store, other = open_store(), open_store()
    store.acquire_writer()
    Path(f"{database}.lock").unlink()
    other.acquire_writer()
    with pytest.raises(LeaseStoreError, match="was removed"):
        store.set_paused(True, NOW_S)
    with pytest.raises(LeaseStoreError, match="another one_preempt daemon"):
        store.acquire_writer()
    other.set_paused(True, NOW_S)


class BusyCursor(sqlite3.Cursor):
    """As while other processes begin to write ahead: refused so many times."""

    refusals = 2

    def execute(self, sql: str, *parameters: Any) -> BusyCursor:
        if self.refusals:
            self.refusals -= 1
            raise sqlite3.OperationalError("database is locked")
        super().execute(sql, *parameters)
        return self


def test_who_begins_to_write_ahead_beside_others_tries_again(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "leases.db")) as connection:
        write_ahead(connection.cursor(BusyCursor).execute, patience_s=60)
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        BusyCursor.refusals = 1
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            write_ahead(connection.cursor(BusyCursor).execute, patience_s=0)


def test_processes_that_create_the_database_at_once_agree(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'leases.db'}"
    program = f"from one_preempt.adapters.lease_store.schema import upgrade; print(upgrade({url!r}))"
    both = [subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert [process.communicate()[0].strip() for process in both] == [REVISIONS[-1]] * 2
