"""`lease list|show|cancel` as ordinary users give them, from OpenNebula alone."""

from __future__ import annotations

import json
import os
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from one_preempt.adapters.lease_store.sql_lease_store import SqlLeaseStore
from one_preempt.configuration import settings
from one_preempt.core.lease_status import served_status
from one_preempt.core.model.lease import LeaseTerms
from one_preempt.core.model.ledger import LeaseRecord, LedgerChanges
from one_preempt.entrypoints.cli.command_line import cli
from one_preempt.simulation.simulated_cloud.states import LockLevel, VmState
from tests.entrypoints.lease.conftest import STARTS_AT_S, CloudOfUsers
from tests.other_users import InClosedFolder

TYPE = ("--type", "BE-SUSPENDABLE")
PAIR = (*TYPE, "--name", "pair", "--size", "2", "--duration", "02:00:00")
EMOJI = "\U0001f600"
HOSTILE = "\x9b2J\x85running\u202e (BE-SUSPENDABLE)\n\t</x>[red]"


def listed(users: CloudOfUsers, user: str) -> list[dict[str, Any]]:
    result = users.run(user, "lease", "list", "--json")
    assert result.exit_code == 0, result.output
    return list(json.loads(result.stdout))


def test_everybody_sees_their_own_leases_put_together_from_their_vms(users: CloudOfUsers) -> None:
    assert users.submit("eva", *PAIR).exit_code == 0
    assert users.submit("evan", *TYPE).exit_code == 0
    assert users.submit("eva", *TYPE).exit_code == 0
    users.cloud.vm_allocate(users.caller("eva"), 'CPU="1"\nMEMORY="64"', False)
    own = listed(users, "eva")
    assert [(lease["id"], lease["name"], [vm["id"] for vm in lease["vms"]]) for lease in own] == [
        (0, "pair", [0, 1]),
        (3, "", [3]),
    ]
    assert [lease["id"] for lease in listed(users, "evan")] == [2]
    assert listed(users, "paul") == []


def test_the_state_comes_from_the_vms_and_from_lease_status(users: CloudOfUsers) -> None:
    for _ in range(4):
        users.submit("eva", *TYPE)
    users.start(0)
    users.start(1)
    with users.lock:
        users.cloud.vm_action(users.caller("oneadmin"), "stop", 1)
        users.cloud.settle()
    users.say(1, "LEASE_STATUS", "preempted by lease 9; returns when there is room. Waits.")
    users.say(2, "LEASE_STATUS", "on hold: SIZE 8: eva may ask for at most 4")
    assert [lease["state"] for lease in listed(users, "eva")] == ["running", "preempted", "refused", "waiting"]
    table = users.run("eva", "lease", "list").stdout
    assert "preempted by lease 9; returns when there is room. Waits." in table
    assert "on hold: SIZE 8: eva may ask for at most 4" in table


def test_a_gang_is_asked_for_more_vms_only_once_and_not_if_it_is_refused(users: CloudOfUsers) -> None:
    gang = 'CPU="1"\nMEMORY="64"\nLEASE=[TYPE="BE-SUSPENDABLE",NAME="nine",SIZE="9"]'
    users.cloud.vm_allocate(users.caller("eva"), gang, True)
    users.say(0, "LEASE_STATUS", "on hold: SIZE 9: eva may ask for at most 4")
    table = " ".join(users.run("eva", "lease", "list").stdout.split())
    assert "eva may ask for at most 4" in table
    assert "create the others" not in table
    users.say(0, "LEASE_STATUS", "waits for more VMs: 1 of the 9 VMs of lease 'nine' exist: create the others")
    users.cloud.vm_allocate(users.caller("eva"), gang.replace("9", "8"), True)
    users.say(1, "LEASE_STATUS", "waits for more VMs: 1 of the 8 VMs of lease 'nine' exist: create the others")
    assert users.run("eva", "lease", "list").stdout.count("waits for more VMs") == 2
    assert " ".join(users.run("eva", "lease", "list").stdout.split()).count("exist:") == 2


def test_who_was_stopped_for_the_duration_is_over_is_not_said_to_have_paused_it(users: CloudOfUsers) -> None:
    users.submit("eva", *TYPE, "--duration", "02:00:00")
    users.start(0)
    with users.lock:
        users.cloud.vm_action(users.caller("oneadmin"), "stop", 0)
        users.cloud.settle()
    assert "paused-by-owner" in users.run("eva", "lease", "list").stdout
    users.say(0, "LEASE_STATUS", served_status("BE-SUSPENDABLE", is_longer=False))
    assert "paused-by-owner" not in users.run("eva", "lease", "list").stdout
    shown = " ".join(users.run("eva", "lease", "show", "0").stdout.split())
    assert "state over (1 STOPPED)" in shown
    # Both in one second here, in the order in which they came about.
    assert shown.index("no longer runs on node1") < shown.index("left node1 by stop")


def test_incomplete_surplus_and_unreadable_leases_say_what_is_wrong(users: CloudOfUsers) -> None:
    eva = users.caller("eva")
    gang = 'CPU="1"\nMEMORY="64"\nLEASE=[TYPE="BE-SUSPENDABLE",NAME="trio",SIZE="{}"]'
    for size in (3, 1, 2, 2, 2):
        users.cloud.vm_allocate(eva, gang.format(size), True)
    users.cloud.vm_allocate(eva, 'CPU="1"\nMEMORY="64"\nLEASE="yes"', True)
    users.cloud.vm_allocate(eva, 'CPU="1"\nMEMORY="64"\nLEASE=[TYPE="BE-SUSPENDABLE",COLOUR="red"]', True)
    told = {lease["id"]: (lease["state"], lease["problem"], lease["type"]) for lease in listed(users, "eva")}
    assert told[0][0] == "incomplete"
    assert told[0][1].startswith("1 of the 3 VMs of lease 'trio' exist")
    assert told[1][1] == ""
    assert told[2][1] == ""
    assert told[4][1].startswith("lease 'trio' has its 2 VMs already (2, 3)")
    assert told[5][1].startswith("LEASE is not in brackets")
    assert told[6] == ("waiting", told[6][1], None)
    assert "has the unknown key 'COLOUR'" in users.run("eva", "lease", "list").stdout


def test_a_running_lease_that_lost_a_vm_is_not_asked_to_create_it(users: CloudOfUsers) -> None:
    users.submit("eva", *PAIR)
    users.start(0)
    users.start(1)
    with users.lock:
        users.cloud.vm_action(users.caller("eva"), "terminate-hard", 0)
        users.cloud.settle()
    (lease,) = listed(users, "eva")
    assert (lease["id"], lease["state"], lease["problem"]) == (1, "running", "1 of its 2 VMs is left")


def test_a_running_lease_of_which_one_vm_asks_otherwise_has_not_lost_it(users: CloudOfUsers) -> None:
    users.submit("eva", *PAIR)
    users.start(0)
    users.start(1)
    other = 'LEASE=[TYPE="BE-SUSPENDABLE",NAME="pair",SIZE="2",DURATION="09:00:00"]'
    users.cloud.vm_update(users.caller("eva"), 1, other, 1)
    first, _ = listed(users, "eva")
    assert first["problem"] == "VM 1 has this NAME too, but another DURATION: they must be equal"


@pytest.mark.parametrize("command", [("list",), ("list", "--gantt"), ("show", "0"), ("cancel", "0", "--yes")])
def test_texts_of_strangers_never_control_the_terminal(command: tuple[str, ...], users: CloudOfUsers) -> None:
    users.submit("eva", *TYPE)
    for name in ("LEASE_STATUS", "SCHED_MESSAGE"):
        users.say(0, name, HOSTILE)
    users.cloud.vms[0].name = "größe\x9b31m"
    result = users.run("eva", "lease", *command)
    assert result.exit_code == 0, result.output
    assert [char for char in result.output if not char.isprintable() and char != "\n"] == []
    if command[0] != "cancel":
        assert "\\u009b" in users.run("eva", "lease", "list", "--json").stdout


def test_show_tells_terms_in_words_vms_and_what_changed(users: CloudOfUsers) -> None:
    users.submit("eva", *PAIR, "--start", "+00:10:00", "--max-suspensions", "2", "--shutdown-ok")
    users.start(0)
    users.start(1)
    with users.lock:
        users.cloud.vm_action(users.caller("oneadmin"), "stop", 1)
        users.cloud.settle()
        users.cloud.vm_deploy(users.caller("oneadmin"), 1, 1)
        users.cloud.settle()
    result = users.run("eva", "lease", "show", "1")
    words = " ".join(result.stdout.split())
    for part in (
        "BE-SUSPENDABLE: stopped when others need the room, and back later",
        "duration 02:00:00 start +00:10:00 from its admission suspensions at most 2 may be shut down yes",
        "owner eva, group externals state running (2 RUNNING)",
        "0 pair-0 RUNNING node1",
        "1 pair-1 RUNNING node2",
    ):
        assert part in words
    story = [(change["vm_id"], change["what"]) for change in json.loads(_shown(users))["changes"]]
    assert [what for vm_id, what in story if vm_id == 1] == [
        "created", "sent to node1", "runs on node1", "no longer runs on node1", "left node1 by stop",
        "sent to node2", "runs on node2",
    ]  # fmt: skip


def _shown(users: CloudOfUsers) -> str:
    return users.run("eva", "lease", "show", "0", "--json").stdout


def test_cancel_asks_and_takes_the_lease_and_nothing_else(users: CloudOfUsers) -> None:
    users.submit("eva", *PAIR)
    users.submit("eva", *TYPE)
    no = users.run("eva", "lease", "cancel", "0", typed="n\n")
    assert no.exit_code == 1
    assert "VM 1 pair-1 of eva, HOLD" in no.stdout
    assert len(users.living()) == 3
    assert users.run("eva", "lease", "cancel", "1", typed="y\n").exit_code == 0
    assert [vm.id for vm in users.living()] == [2]
    assert "Terminate it? What is on its volatile disks" in users.run("eva", "lease", "cancel", "2", typed="n\n").stdout


def test_a_guest_is_asked_to_shut_down_unless_hard_is_said(users: CloudOfUsers) -> None:
    for vm_id, options in ((0, ()), (1, ("--hard",))):
        users.submit("eva", *TYPE)
        users.start(vm_id)
        assert users.run("eva", "lease", "cancel", str(vm_id), "--yes", *options).exit_code == 0
    calls = [entry.arguments for entry in users.cloud.history_log if entry.method == "vm_action"]
    assert calls == [("terminate", 0), ("terminate-hard", 1)]


def test_a_locked_vm_is_refused_by_name_and_the_others_end(users: CloudOfUsers) -> None:
    users.submit("eva", *PAIR)
    users.cloud.vm_lock(users.caller("eva"), 0, LockLevel.USE)
    result = users.run("eva", "lease", "cancel", "0", "--yes")
    assert result.exit_code == 1
    assert "VM 0 pair-0 of eva, HOLD, locked" in result.stdout
    assert "VM 0 cannot be terminated" in result.stderr
    assert "onevm unlock 0" in result.stderr
    assert [vm.id for vm in users.living()] == [0]


@pytest.mark.parametrize("command", [("show", "0"), ("cancel", "0", "--yes")])
def test_anothers_lease_is_refused_in_oneds_words(command: tuple[str, ...], users: CloudOfUsers) -> None:
    users.submit("eva", *TYPE)
    result = users.run("evan", "lease", *command)
    assert result.exit_code == 1
    assert len(result.stderr.splitlines()) == 1
    assert result.stderr.startswith("Error: lease 0 is not yours: ")
    assert "Not authorized to perform USE VM [0]" in result.stderr
    assert users.cloud.vms[0].state == VmState.HOLD


def test_anothers_lease_that_may_be_seen_is_refused_too(users: CloudOfUsers) -> None:
    users.submit("eva", *TYPE)
    users.cloud.vms[0].permissions.group_u = users.cloud.vms[0].permissions.group_m = True
    result = users.run("evan", "lease", "cancel", "0", "--yes")
    assert result.exit_code == 1
    assert "lease 0 is not yours: VM 0 belongs to eva" in result.stderr
    assert users.cloud.vms[0].state == VmState.HOLD


@pytest.mark.parametrize("lease_id", ["77", str(2**31), "9" * 30])
def test_a_lease_that_is_not_there_is_told(lease_id: str, users: CloudOfUsers) -> None:
    result = users.run("eva", "lease", "show", lease_id)
    assert result.exit_code == 1
    assert f"there is no lease {lease_id}; see: one-preempt lease list" in result.stderr


def test_own_vms_that_are_no_leases_or_ended_are_told(users: CloudOfUsers) -> None:
    users.cloud.vm_allocate(users.caller("eva"), 'CPU="1"\nMEMORY="64"', True)
    users.submit("eva", *TYPE)
    assert "VM 0 has no LEASE attribute" in users.run("eva", "lease", "show", "0").stderr
    users.run("eva", "lease", "cancel", "1", "--yes")
    assert "lease 1 has ended" in users.run("eva", "lease", "cancel", "1", "--yes").stderr
    users.say(1, "LEASE_STATUS", "terminated to make room for lease 9")
    told = "lease 1 has ended; what LEASE_STATUS said last: terminated to make room for lease 9"
    assert told in users.run("eva", "lease", "show", "1").stderr


def test_a_vm_that_oned_cannot_send_hides_none_of_its_owners_others(users: CloudOfUsers) -> None:
    """Of those of others that its owner may see, none comes among the own ones for that."""
    users.submit("eva", *PAIR)
    users.submit("evan", *TYPE)
    users.cloud.vms[2].permissions.other_u = True
    users.submit("eva", *TYPE)
    users.say(1, "NOTE", EMOJI)
    result = users.run("eva", "lease", "list", "--json")
    assert [(lease["id"], [vm["id"] for vm in lease["vms"]]) for lease in json.loads(result.stdout)] == [
        (0, [0]),
        (3, [3]),
    ]
    assert "VM '1' was left out: oned cannot send it" in result.stderr
    shown = users.run("eva", "lease", "show", "0")
    assert (shown.exit_code, "VM '1' was left out" in shown.stderr) == (0, True)
    assert "An emoji" in users.run("eva", "lease", "show", "1").stderr
    assert users.run("eva", "lease", "cancel", "3", "--yes").exit_code == 0
    assert [vm.id for vm in users.living()] == [0, 1, 2]


def test_the_chart_has_a_row_a_lease_from_its_vms_alone(users: CloudOfUsers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("one_preempt.adapters.clock.SystemClock.now_s", lambda _self: STARTS_AT_S + 3600)
    users.submit("eva", *PAIR)
    users.start(0)
    users.start(1)
    users.submit("eva", *TYPE, "--name", "later", "--start", "+03:00:00", "--duration", "01:00:00")
    users.submit("eva", *TYPE, "--name", "ever")
    lines = users.run("eva", "lease", "list", "--gantt", "--hours", "4", COLUMNS="57").stdout.splitlines()
    rows = {line.split()[1]: line for line in lines[3:6]}
    assert all(len(line) <= 57 for line in lines)
    assert set(rows) == {"pair", "later", "ever"}
    assert "█" in rows["pair"]
    assert rows["later"].count("░") == pytest.approx(12, abs=1)
    assert rows["ever"].endswith("▸")
    assert "\x1b" not in "".join(lines)


def test_a_terminal_without_blocks_gets_plain_characters(users: CloudOfUsers) -> None:
    users.submit("eva", *TYPE)
    assert users.run("eva", "lease", "list", "--gantt", COLUMNS="60").stdout.isascii() is False
    environment = {"ONE_AUTH": str(users.folder / "eva.auth"), "ONE_XMLRPC": users.url, "ONE_PREEMPT_CONF": None}
    result = CliRunner(charset="ascii").invoke(cli, ["lease", "list", "--gantt"], env=environment)
    assert result.exit_code == 0
    assert result.stdout.isascii()


def test_a_chart_is_no_document(users: CloudOfUsers) -> None:
    assert users.run("eva", "lease", "list", "--gantt", "--json").exit_code == 2
    for others in (("--all",), ("--all", "--gantt")):
        refused = users.run("eva", "lease", "list", *others)
        assert refused.exit_code == 2
        assert "--all" in refused.output
    assert users.run("eva", "lease", "list", "--gantt", "--hours", "0").exit_code == 2


# -- who sees what ---------------------------------------------------------------------------------------------


@pytest.fixture
def configuration(users: CloudOfUsers) -> Path:
    path = users.folder / "one_preempt.conf"
    path.write_text(f"store: {{url: 'sqlite:///{users.folder}/leases.db'}}\n")
    assert users.run("oneadmin", "db", "upgrade", "--config", str(path)).exit_code == 0
    return path


def test_who_can_read_the_database_sees_what_is_on_record(users: CloudOfUsers, configuration: Path) -> None:
    users.submit("oneadmin", *TYPE)
    recorded = users.run("oneadmin", "lease", "list", ONE_PREEMPT_CONF=str(configuration))
    assert "0 leases on record" in recorded.stdout
    for option in ("--mine", "--from-opennebula"):
        own = users.run("oneadmin", "lease", "list", option, ONE_PREEMPT_CONF=str(configuration))
        assert "1 lease of yours" in own.stdout


@pytest.mark.parametrize("closed", ["one_preempt.conf", "leases.db"])
def test_who_can_not_is_an_owner_and_is_told(
    closed: str, users: CloudOfUsers, configuration: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    users.submit("eva", *TYPE)
    allowed = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path).name != closed and allowed(path, mode))
    result = users.run("eva", "lease", "list", ONE_PREEMPT_CONF=str(configuration))
    assert "1 lease of yours" in result.stdout
    assert f"{closed}: this is what OpenNebula says about your own leases" in result.stderr


def test_a_read_only_file_system_makes_no_owner_of_the_administrator(
    users: CloudOfUsers, configuration: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class ReadOnly:
        f_flag = os.ST_RDONLY

    monkeypatch.setattr(os, "access", lambda _path, mode: not mode & os.W_OK)
    monkeypatch.setattr(os, "statvfs", lambda _folder: ReadOnly())
    assert "leases on record" in users.run("oneadmin", "lease", "list", ONE_PREEMPT_CONF=str(configuration)).stdout


def test_a_folder_that_is_closed_makes_an_owner(
    users: CloudOfUsers, configuration: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def closed(_path: Path) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("one_preempt.entrypoints.cli.lease.view.Path.stat", closed)
    assert "0 leases of yours" in users.run("eva", "lease", "list", ONE_PREEMPT_CONF=str(configuration)).stdout


@pytest.mark.parametrize("command", [("list",), ("list", "--mine"), ("show", "0"), ("cancel", "0", "--yes")])
def test_the_usual_folder_of_configurations_is_closed_to_owners(
    command: tuple[str, ...], users: CloudOfUsers, monkeypatch: pytest.MonkeyPatch
) -> None:
    users.submit("eva", *TYPE)
    monkeypatch.setattr(settings, "DEFAULT_CONFIGURATION", InClosedFolder("/etc/one/schedulers/one_preempt.conf"))
    result = users.run("eva", "lease", *command)
    assert (result.exit_code, result.stderr) == (0, "")


def test_an_administrator_ends_a_lease_at_once(users: CloudOfUsers, configuration: Path) -> None:
    environment = {"ONE_PREEMPT_CONF": str(configuration)}
    users.submit("eva", *TYPE)
    users.start(0)
    record = LeaseRecord(0, LeaseTerms(), users.caller("eva").uid, 101, (0,), True, False, 1, 1)
    with closing(SqlLeaseStore(f"sqlite:///{users.folder}/leases.db")) as store:
        store.apply(LedgerChanges(admitted=(record,)))
    result = users.run("oneadmin", "lease", "cancel", "0", "--yes", "--hard", **environment)
    assert result.exit_code == 0, result.output
    calls = [entry for entry in users.cloud.history_log if "terminate-hard" in entry.arguments]
    assert len(calls) == 1
    story = json.loads(users.run("oneadmin", "lease", "show", "0", "--json", **environment).stdout)
    assert [(action["kind"], action["outcome"]) for action in story["actions"]] == [("terminate", "accepted")]
