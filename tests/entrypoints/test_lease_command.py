"""`lease`, `pause`, `resume` and `db`: the database of leases from the command line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from msgspec.structs import replace

from one_preempt.adapters.clock import SystemClock
from one_preempt.adapters.lease_store.sql_lease_store import SqlLeaseStore
from one_preempt.core.model.lease import LeaseTerms, LeaseType
from one_preempt.core.model.ledger import LeaseRecord, LedgerChanges, Transition
from one_preempt.core.model.outcome import Outcome
from one_preempt.core.model.plan import Action, ActionKind, Plan, Reason
from one_preempt.core.model.reservation import Booking, Reservation
from one_preempt.entrypoints.cli.command_line import cli
from one_preempt.entrypoints.cli.lease import listing
from one_preempt.ports import CallResult
from one_preempt.scheduling_cycle import WITHDRAWN

STOP = Action("stop-4", ActionKind.STOP, 4, 4, Reason("victim", "makes room for lease 9"), host_id=1)


def a_record(lease_id: int, **changes: object) -> LeaseRecord:
    terms = LeaseTerms(type=LeaseType.BE_SUSPENDABLE, name=f"sweep-{lease_id}", size=1, duration_s=7200)
    values: dict[str, object] = {
        "id": lease_id,
        "terms": terms,
        "uid": 2,
        "gid": 1,
        "vm_ids": (lease_id,),
        "explicit": True,
        "may_preempt": False,
        "admitted_at_s": 100 + lease_id,
        "arrived_at_s": 90 + lease_id,
    }
    return LeaseRecord(**(values | changes))  # type: ignore[arg-type]


@pytest.fixture
def configuration(tmp_path: Path) -> Path:
    """A configuration whose database holds two leases, one of them preempted, and one that ended."""
    url = f"sqlite:///{tmp_path}/leases.db"
    path = tmp_path / "one_preempt.conf"
    path.write_text(f"store: {{url: '{url}'}}\n")
    with closing(SqlLeaseStore(url)) as store:
        preempted = a_record(4, preemptions=1, preempted_by=9, last_preempted_at_s=200)
        ended = a_record(6, ended_at_s=300)
        store.apply(
            LedgerChanges(
                admitted=(preempted, a_record(5), ended),
                transitions=(
                    Transition(4, 4, 150, "PENDING", "RUNNING", 1, 1024),
                    Transition(4, 4, 210, "RUNNING", "STOPPED", None, 1024),
                ),
            )
        )
        store.record_plan(Plan(made_at_s=200, policy="MOML", actions=(STOP,)))
        store.begin_attempt(STOP, 201)
        store.record_result(STOP.id, CallResult(Outcome.REFUSED, "LOCKED", "VM is \x1b[31mlocked"), 202)
    return path


@pytest.fixture
def store(configuration: Path, tmp_path: Path) -> Iterator[SqlLeaseStore]:
    with closing(SqlLeaseStore(f"sqlite:///{tmp_path}/leases.db")) as opened:
        yield opened


def run(configuration: Path, *arguments: str) -> Result:
    return CliRunner().invoke(cli, [*arguments, "--config", str(configuration)])


def test_the_list_holds_living_leases_and_with_all_the_ended_ones(configuration: Path) -> None:
    assert [lease["id"] for lease in json.loads(run(configuration, "lease", "list", "--json").output)] == [4, 5]
    everything = json.loads(run(configuration, "lease", "list", "--all", "--json").output)
    assert [lease["ended_at"] for lease in everything] == [None, None, 300]


def test_the_list_tells_people_what_was_last_seen_and_who_is_preempted(configuration: Path) -> None:
    row = next(line for line in run(configuration, "lease", "list").output.splitlines() if "sweep-4" in line)
    assert "1 STOPPED" in row
    assert "once, now for 9" in row


def test_columns_without_content_are_left_out_and_on_a_narrow_terminal_when_leases_arrived(
    configuration: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wide = run(configuration, "lease", "list").output.splitlines()[1]
    assert wide.split() == ["lease", "name", "type", "owner", "VMs", "last", "seen", "arrived", "preempted"]
    monkeypatch.setattr(listing, "table_width", lambda: 80)
    narrow = run(configuration, "lease", "list").output.splitlines()
    assert narrow[1].split() == ["lease", "name", "type", "owner", "VMs", "last", "seen", "preempted"]
    assert max(map(len, map(str.rstrip, narrow))) <= 80
    monkeypatch.undo()
    everything = run(configuration, "lease", "list", "--all").output
    assert "ended 1970-01-01 00:05:00 UTC" in everything


def test_the_chart_of_the_administrator_has_what_is_reserved(configuration: Path, store: SqlLeaseStore) -> None:
    now_s = SystemClock().now_s()
    store.record_plan(
        Plan(
            made_at_s=now_s,
            policy="MOML",
            bookings=(Booking(5, (Reservation(5, now_s + 3600, now_s + 7200, firm=True),)),),
        )
    )
    lines = run(configuration, "lease", "list", "--gantt", "--hours", "4").output.splitlines()
    rows = {line.split()[1]: line for line in lines if line.startswith(("4 ", "5 "))}
    assert "▓" in rows["sweep-5"]
    assert "▓" not in rows["sweep-4"]
    assert "reserved" in lines[-1]
    shown = json.loads(run(configuration, "lease", "show", "5", "--json").output)
    assert shown["reservations"] == [{"start_at": now_s + 3600, "end_at": now_s + 7200, "host_ids": [], "firm": True}]
    assert "Promised" in run(configuration, "lease", "show", "5").output


def test_the_story_is_told_in_the_order_of_time(configuration: Path) -> None:
    output = run(configuration, "lease", "show", "4").output
    story = [line for line in output.splitlines() if line.startswith("1970")]
    assert ["PENDING -> RUNNING" in story[0], "stop on host 1" in story[1], "RUNNING -> STOPPED" in story[2]] == [
        True
    ] * 3
    assert "makes room for lease 9" in story[1]
    assert "LOCKED" in story[1]
    assert "\x1b" not in output


def test_an_action_is_told_where_it_was_answered_not_where_it_was_decided(
    configuration: Path, store: SqlLeaseStore
) -> None:
    back = Action("return-4", ActionKind.DEPLOY, 4, 4, Reason("return", "goes on"), host_id=1)
    never = Action("never-4", ActionKind.RESUME, 4, 4, Reason("return", "was not called"))
    store.record_plan(Plan(made_at_s=205, policy="MOML", actions=(back, never)))
    store.begin_attempt(back, 300)
    store.record_result(back.id, CallResult(Outcome.ACCEPTED), 301)
    output = run(configuration, "lease", "show", "4").output
    story = [line.split()[1] for line in output.splitlines() if line.startswith("1970")]
    assert story == ["00:02:30", "00:03:22", "00:03:25", "00:03:30", "00:05:01"]


def test_a_step_that_was_planned_and_never_sent_is_told_as_that(configuration: Path, store: SqlLeaseStore) -> None:
    back = Action("return-4", ActionKind.DEPLOY, 4, 4, Reason("return", "goes on"), host_id=1)
    store.record_plan(Plan(made_at_s=300, policy="MOML", actions=(back,)))
    (record,) = (one for one in store.load(300).open_actions.values() if one.id == back.id)
    unsent = replace(record, closed_at_s=301, succeeded=False, outcome=Outcome.DROPPED, error_code=WITHDRAWN)
    store.apply(LedgerChanges(closed_actions=(unsent,)))
    story = [line for line in run(configuration, "lease", "show", "4").output.splitlines() if "deploy on" in line]
    assert ["never sent, and not wanted any more" in line for line in story] == [True]
    assert "WITHDRAWN" not in story[0]


def test_each_return_of_a_lease_stands_in_its_story(configuration: Path, store: SqlLeaseStore) -> None:
    """All later returns of a VM are one step to the scheduler, `return/4/1`; people want to know of each."""
    for at_s, host_id in ((1000, 1), (2000, 2), (3000, 3)):
        back = Action("return/4/1", ActionKind.DEPLOY, 4, 4, Reason("return", f"host {host_id} fits"), host_id=host_id)
        store.record_plan(Plan(made_at_s=at_s, policy="MOML", actions=(back,)))
        store.begin_attempt(back, at_s)
        store.record_result(back.id, CallResult(Outcome.ACCEPTED), at_s + 1)
        done = replace(store.load(at_s).open_actions[back.id], closed_at_s=at_s + 60, succeeded=True)
        store.apply(LedgerChanges(closed_actions=(done,)))
    story = [line for line in run(configuration, "lease", "show", "4").output.splitlines() if "deploy on" in line]
    assert [f"host {number}" in line for number, line in enumerate(story, start=1)] == [True] * 3
    assert [line.split()[1] for line in story] == ["00:16:41", "00:33:21", "00:50:01"]
    actions = json.loads(run(configuration, "lease", "show", "4", "--json").output)["actions"]
    assert [action["outcome_at"] for action in actions if action["kind"] == "deploy"] == [1001, 2001, 3001]


def test_a_lease_as_a_document_has_its_terms_actions_and_transitions(configuration: Path) -> None:
    lease = json.loads(run(configuration, "lease", "show", "4", "--json").output)
    assert (lease["type"], lease["duration_s"], lease["preempted_by"]) == ("BE-SUSPENDABLE", 7200, 9)
    assert lease["vms"] == [{"id": 4, "last_state": "STOPPED"}]
    (action,) = lease["actions"]
    assert action["reason"] == {"code": "victim", "text": "makes room for lease 9"}
    assert (action["outcome"], action["error_code"], action["attempts"]) == ("refused", "LOCKED", 1)
    assert [transition["to"] for transition in lease["transitions"]] == ["RUNNING", "STOPPED"]


def test_a_lease_is_found_by_any_of_its_vms(configuration: Path, store: SqlLeaseStore) -> None:
    pair = LeaseTerms(type=LeaseType.BE_SUSPENDABLE, name="pair", size=2)
    store.apply(LedgerChanges(admitted=(a_record(9, terms=pair, vm_ids=(9, 10)),)))
    stop = Action("stop-9", ActionKind.STOP, 9, 9, Reason("victim", "makes room for lease 5"), host_id=1)
    promised = Booking(9, (Reservation(9, 3600, 7200, firm=True),))
    store.record_plan(Plan(made_at_s=200, policy="MOML", actions=(stop,), bookings=(promised,)))
    told = run(configuration, "lease", "show", "10").stdout
    assert told == run(configuration, "lease", "show", "9").stdout
    assert "makes room for lease 5" in told
    assert "Promised" in told


def test_to_show_one_lease_not_all_are_read(configuration: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(SqlLeaseStore, "leases")
    assert "sweep" in run(configuration, "lease", "show", "4").stdout


def test_a_lease_that_is_not_on_record_is_refused(configuration: Path) -> None:
    result = run(configuration, "lease", "show", "77")
    assert result.exit_code == 1
    assert result.stderr == (
        "Error: no lease 77 is on record; see: one-preempt lease list --all, or, for why a VM waits that is no lease: "
        "one-preempt plan\n"
    )


def test_a_lease_id_must_be_a_number(configuration: Path) -> None:
    assert run(configuration, "lease", "show", "sweep-4").exit_code == 2


def test_pause_and_resume_turn_the_switch_that_the_daemon_reads(configuration: Path, store: SqlLeaseStore) -> None:
    assert run(configuration, "pause").exit_code == 0
    assert store.load(0).paused
    assert run(configuration, "resume").exit_code == 0
    assert not store.load(0).paused


def test_who_pauses_is_told_where_no_daemon_reads_that_switch(configuration: Path, store: SqlLeaseStore) -> None:
    assert f"No daemon writes to {configuration.parent}/leases.db now" in run(configuration, "pause").stderr
    store.acquire_writer()
    assert run(configuration, "pause").stderr == ""


@pytest.mark.parametrize("command", ["pause", "resume"])
def test_where_there_is_no_database_nothing_is_said_to_be_switched(command: str, tmp_path: Path) -> None:
    configuration = tmp_path / "one_preempt.conf"
    configuration.write_text(f"store: {{url: 'sqlite:///{tmp_path}/leases.db'}}\n")
    result = run(configuration, command)
    assert (result.exit_code, result.stdout) == (1, "")
    assert f"there is no database of leases at {tmp_path}/leases.db yet" in result.stderr
    assert list(tmp_path.iterdir()) == [configuration]


def test_the_database_is_made_and_then_left_alone(tmp_path: Path) -> None:
    configuration = tmp_path / "one_preempt.conf"
    configuration.write_text(f"store: {{url: 'sqlite:///{tmp_path}/new/leases.db'}}\n")
    first, second = run(configuration, "db", "upgrade"), run(configuration, "db", "upgrade")
    assert (first.exit_code, second.exit_code) == (0, 0)
    assert first.output == second.output
    assert (tmp_path / "new" / "leases.db").exists()


@pytest.mark.parametrize("looks", [("list",), ("show", "4"), ("cancel", "4", "--yes")], ids=lambda words: words[0])
def test_who_only_looks_makes_no_database(looks: tuple[str, ...], tmp_path: Path) -> None:
    configuration = tmp_path / "one_preempt.conf"
    configuration.write_text(f"store: {{url: 'sqlite:///{tmp_path}/leases.db'}}\n")
    result = run(configuration, "lease", *looks)
    assert result.exit_code == 1
    assert result.stderr == (
        f"Error: there is no database of leases at {tmp_path}/leases.db yet: the daemon makes it when it starts\n"
    )
    assert list(tmp_path.iterdir()) == [configuration]


def test_a_database_that_cannot_be_opened_is_told_in_one_line(tmp_path: Path) -> None:
    configuration = tmp_path / "one_preempt.conf"
    configuration.write_text("store: {url: 'sqlite:////proc/none/leases.db'}\n")
    result = run(configuration, "lease", "list")
    assert result.exit_code == 1
    assert result.stderr.startswith("Error: ")
    assert len(result.stderr.splitlines()) == 1
