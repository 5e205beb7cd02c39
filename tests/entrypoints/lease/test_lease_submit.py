"""`lease submit` as ordinary users give it, against a cloud of several users over a real socket."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from one_preempt.adapters.opennebula.owner_account import OwnerAccount
from one_preempt.entrypoints.cli.lease import waiting
from one_preempt.simulation.emulator.endpoint_faults import EndpointFault, FaultKind
from one_preempt.simulation.simulated_cloud.states import VmState
from tests.entrypoints.lease.conftest import PRIVATE, WITH_LEASE, CloudOfUsers

TYPE = ("--type", "BE-SUSPENDABLE")
OF_AN_HOUR = ("--type", "DC-NON-PREEMPTABLE", "--duration", "01:00:00")
GANG = (*TYPE, "--name", "sweep:42", "--size", "5")


def test_all_vms_of_a_lease_are_created_on_hold_with_equal_attributes(users: CloudOfUsers) -> None:
    result = users.submit(
        "eva", "--type", "be-suspendable", "--name", "sweep:42", "--size", "3", "--duration", "02:00:00",
        "--max-suspensions", "2", "--shutdown-ok", "--json",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["vm_ids"] == [0, 1, 2]
    vms = users.living()
    assert [(vm.name, vm.uname, vm.state) for vm in vms] == [
        (f"sweep-42-{number}", "eva", VmState.HOLD) for number in range(3)
    ]
    asked = {
        "TYPE": "be-suspendable",
        "NAME": "sweep:42",
        "SIZE": "3",
        "DURATION": "02:00:00",
        "MAX_SUSPENSIONS": "2",
        "SHUTDOWN_OK": "YES",
    }
    assert [vm.user_template["LEASE"] for vm in vms] == [[asked]] * 3
    assert vms[0].user_template["DESCRIPTION"] == ["größer"]


def test_a_template_is_found_by_its_name_and_its_lease_gives_way(users: CloudOfUsers) -> None:
    assert users.run("eva", "lease", "submit", "--template", "wörker", *TYPE).exit_code == 0
    assert users.run("eva", "lease", "submit", "--template", str(WITH_LEASE), *TYPE).exit_code == 0
    assert [vm.user_template["LEASE"] for vm in users.living()] == [[{"TYPE": "BE-SUSPENDABLE"}]] * 2
    assert [vm.name for vm in users.living()] == ["wörker-0", "leased-1"]


def test_a_template_is_found_beside_one_that_oned_cannot_send(users: CloudOfUsers) -> None:
    """Anybody may share such a template with all."""
    users.cloud.add_vm_template("evil", {"A": ["\U0001f600"]}).permissions.other_u = True
    assert users.run("eva", "lease", "submit", "--template", "wörker", *TYPE).exit_code == 0


@pytest.mark.parametrize("number", [str(1 << 31), "9" * 30])
def test_a_number_that_no_template_can_have_is_told(users: CloudOfUsers, number: str) -> None:
    result = users.run("eva", "lease", "submit", "--template", number, *TYPE)
    assert result.exit_code == 1
    assert f"no VM template has the id {number}" in result.output
    assert users.living() == []


def test_of_templates_with_one_name_the_own_one_is_taken_and_strangers_are_asked_about(users: CloudOfUsers) -> None:
    for _ in range(2):
        users.cloud.add_vm_template("twin", {"CPU": ["1"], "MEMORY": ["256"]}).permissions.other_u = True
    result = users.run("eva", "lease", "submit", "--template", "twin", *TYPE)
    assert result.exit_code == 1
    assert "name one of them by its id, 3, 4" in result.stderr
    users.cloud.vm_templates[4].uid = users.caller("eva").uid
    assert users.run("eva", "lease", "submit", "--template", "twin", *TYPE).exit_code == 0
    assert users.living()[0].template["TEMPLATE_ID"] == ["4"]


@pytest.mark.parametrize(
    "text",
    [
        'NAME="from file"\nCPU="1"\nMEMORY="256" # the end is a comment',
        "<TEMPLATE><NAME>from file</NAME><CPU>1</CPU><MEMORY>256</MEMORY><LEASE><TYPE>old</TYPE></LEASE></TEMPLATE>",
    ],
    ids=["text", "XML"],
)
def test_a_whole_template_in_a_file_is_submitted(text: str, users: CloudOfUsers, tmp_path: Path) -> None:
    file = tmp_path / "vm.txt"
    file.write_text(text)
    assert users.run("eva", "lease", "submit", "--file", str(file), *TYPE, "--start", "+01:00:00").exit_code == 0
    (vm,) = users.living()
    assert (vm.name, vm.state) == ("from file", VmState.HOLD)
    assert vm.user_template["LEASE"] == [{"TYPE": "BE-SUSPENDABLE", "START": "+01:00:00"}]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('CPU="1"\nMEMORY="256"\nLEASE=[TYPE="BE-CANCELLABLE"]', "the template has a LEASE of its own: remove it"),
        ('CPU="1"\nMEMORY="256"\nDESCRIPTION="never closed', "Parse error"),
        ('CPU="1"', "MEMORY attribute must be a positive integer value"),
        ("<TEMPLATE><CPU>1</CPU>", "is not well-formed XML"),
        ("", "holds no VM template"),
        ("CPU=\x001", "holds no VM template"),
    ],
    ids=["LEASE twice", "open quote", "no memory", "XML cut off", "empty", "NUL"],
)
def test_a_file_that_makes_no_lease_leaves_nothing(text: str, told: str, users: CloudOfUsers, tmp_path: Path) -> None:
    file = tmp_path / "vm.txt"
    file.write_text(text)
    result = users.run("eva", "lease", "submit", "--file", str(file), *TYPE)
    assert result.exit_code == 1
    assert told in result.stderr
    assert users.living() == []


def test_a_quota_met_on_the_way_takes_everything_back_and_says_so(users: CloudOfUsers) -> None:
    assert users.submit("eva", *TYPE).exit_code == 0
    uid = users.caller("eva").uid
    users.cloud.user_quota(users.caller("oneadmin"), uid, 'VM=[VMS="3",CPU="-2",MEMORY="-2"]')
    result = users.submit("eva", *GANG)
    assert result.exit_code == 1
    assert result.stderr.startswith("Error: VM 3 of 5 could not be created")
    assert "limit of 3 reached for VMS quota" in result.stderr
    assert "What had been created was terminated again: VM 1, 2" in result.stderr
    assert [vm.id for vm in users.living()] == [0]


def test_an_answer_that_never_came_is_looked_into(users: CloudOfUsers) -> None:
    """The third VM was created, and nobody said so: it is found by the mark of the submission, others are left."""
    assert users.submit("eva", *TYPE).exit_code == 0
    users.faults.add(EndpointFault(FaultKind.LOST_REPLY, "one.template.instantiate", skip=2))
    result = users.submit("eva", *GANG)
    assert result.exit_code == 1
    assert "VM 3 of 5 could not be created" in result.stderr
    assert "terminated again: VM 1, 2, 3" in result.stderr
    assert "may still be carried out" in result.stderr
    assert [vm.id for vm in users.living()] == [0]


def test_what_cannot_be_taken_back_is_named(users: CloudOfUsers) -> None:
    users.faults.add(EndpointFault(FaultKind.CLOSE, "one.template.instantiate", skip=2))
    users.faults.add(EndpointFault(FaultKind.CLOSE, "one.vm.action"))
    result = users.submit("eva", *GANG)
    assert "1 could not be terminated: onevm terminate 0" in result.stderr
    assert [vm.id for vm in users.living()] == [0]


def test_an_interrupted_submission_leaves_nothing(users: CloudOfUsers, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = OwnerAccount.create

    def interrupted(account: OwnerAccount, *arguments: Any) -> int:
        vm_id = whole(account, *arguments)
        if vm_id == 2:  # created, and its id never learned
            raise KeyboardInterrupt
        return vm_id

    monkeypatch.setattr(OwnerAccount, "create", interrupted)
    assert users.submit("eva", *GANG).exit_code == 1
    assert len(users.cloud.vms) == 3
    assert users.living() == []


@pytest.mark.parametrize(
    ("user", "template", "told"),
    [
        ("eva", str(PRIVATE), f"Not authorized to perform USE TEMPLATE [{PRIVATE}]"),
        ("paul", "0", "you need the right to create templates; without it, submit a --file"),
        ("eva", "99", "Error getting virtual machine template [99]"),
        ("eva", "private", "no VM template that you may use is called 'private'"),
    ],
)
def test_a_refusal_is_one_clear_line(user: str, template: str, told: str, users: CloudOfUsers) -> None:
    result = users.run(user, "lease", "submit", "--template", template, *TYPE)
    assert result.exit_code == 1
    assert told in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert users.living() == []


def test_wrong_credentials_and_a_missing_endpoint_are_told(users: CloudOfUsers) -> None:
    nobody = users.run("nobody", "lease", "list")
    assert "does not know you" in nobody.stderr
    assert "aborting call; check ONE_AUTH" in nobody.stderr
    absent = users.run("eva", "lease", "list", ONE_XMLRPC="http://127.0.0.1:1/RPC2")
    assert "nothing listens there" in absent.stderr
    unheard = users.run("eva", "lease", "submit", "--template", "0", *TYPE, ONE_XMLRPC="http://127.0.0.1:1/RPC2")
    assert unheard.stderr.endswith("is that its endpoint? Nothing was created.\n")
    assert "carried out" not in unheard.stderr


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--type", "BE"), "TYPE 'BE' is unknown: write one of BE-CANCELLABLE"),
        ((*TYPE, "--size", "2"), "SIZE above 1 needs a NAME that all its VMs share"),
        ((*TYPE, "--name", 'x" ]\nLEASE'), "NAME 'x? ]?LEASE' is not usable"),
        ((*TYPE, "--duration", "2h"), "DURATION '2h' is not usable"),
        ((*TYPE, "--start", "tomorrow"), "START 'tomorrow' is not usable"),
        ((*TYPE, "--start", "2026-03-29 02:30 Europe/Madrid"), "--start: '2026-03-29 02:30 Europe/Madrid' does not"),
        ((*TYPE, "--start", "2026-03-29 02:30 Mars/North"), "there is no time zone 'Mars/North'"),
        ((*TYPE, "--start", "0001-01-01 00:00 Asia/Tokyo"), "START '0001-01-01 00:00 Asia/Tokyo' is not usable"),
        ((*TYPE, "--start", "2126-02-30 09:00"), "--start: '2126-02-30 09:00' is not usable: there is no such day"),
        ((*TYPE, "--start", "2126-02-30T09:00Z"), "is not usable: write a date that exists, from 1971"),
        ((*OF_AN_HOUR, "--start", "2026-03-01T09:00Z"), "has passed by this machine's clock: write a later one"),
        ((*OF_AN_HOUR, "--deadline", "+00:30:00"), "cannot be met: with DURATION 01:00:00 it would have to start"),
        ((*TYPE, "--deadline", "+x"), "--deadline: '+x' is not usable: write +hours:minutes:seconds"),
        ((*TYPE, "--wait", "--timeout", "nan"), "Invalid value for '--timeout': 'nan' is no number"),
        ((*TYPE, "--file", "x"), "give either --template or --file"),
        (TYPE[:0], "Missing option '--type'"),
    ],
    ids=str,
)
def test_terms_that_mean_nothing_are_refused_before_anything_is_asked(
    options: tuple[str, ...], told: str, users: CloudOfUsers
) -> None:
    result = users.submit("eva", *options)
    assert result.exit_code == 2
    assert told in result.stderr
    assert users.living() == []


def test_times_are_said_in_utc_and_on_the_users_own_clock(users: CloudOfUsers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    try:
        result = users.submit("eva", *TYPE, "--start", "2126-12-01 09:00 Europe/Madrid", "--duration", "01:00:00")
    finally:
        monkeypatch.undo()
        time.tzset()
    assert "2126-12-01T08:00:00Z (2126-12-01 03:00:00 -0500 here)" in result.stdout
    assert users.living()[0].user_template["LEASE"][0]["START"] == "2126-12-01T08:00:00Z"  # type: ignore[index]


@pytest.fixture
def time_passes(users: CloudOfUsers, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Waiting lets the cloud's time pass; the list has the pauses."""
    pauses: list[float] = []

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        with users.lock:
            users.cloud.advance(seconds)
        if len(pauses) == 2:
            users.start(0)

    class Time:
        monotonic = staticmethod(lambda: sum(pauses))

    Time.sleep = staticmethod(sleep)  # type: ignore[attr-defined]
    monkeypatch.setattr(waiting, "time", Time)
    return pauses


def test_waiting_ends_when_the_lease_runs(users: CloudOfUsers, time_passes: list[float]) -> None:
    result = users.submit("eva", *TYPE, "--wait")
    assert result.exit_code == 0
    assert len(time_passes) == 2
    assert result.stderr.splitlines() == ["waiting: nothing yet", "running: nothing yet", "lease 0: it runs"]


def test_waiting_ends_with_its_time_and_tells(users: CloudOfUsers, time_passes: list[float]) -> None:
    result = users.submit("eva", *TYPE, "--wait", "--timeout", "2")
    assert result.exit_code == 1
    assert time_passes == [2.0]
    assert "it does not run yet" in result.stderr


def test_waiting_asks_less_and_less_often(users: CloudOfUsers, time_passes: list[float]) -> None:
    users.cloud.vm_allocate(users.caller("lea"), 'CPU="1"\nMEMORY="1"', True)  # VM 0 is somebody else's
    assert users.submit("eva", *TYPE, "--wait", "--timeout", "900").exit_code == 1
    assert sum(time_passes) == 900
    assert time_passes[:3] == [2.0, 3.0, 4.5]
    assert max(time_passes) == 30.0


def test_a_refused_lease_is_not_waited_for(
    users: CloudOfUsers, time_passes: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_seconds: float) -> None:
        time_passes.append(_seconds)
        users.say(0, "LEASE_STATUS", "on hold: TYPE is not granted\x9b2J to eva")

    monkeypatch.setattr("one_preempt.entrypoints.cli.lease.waiting.time.sleep", refuse)
    result = users.submit("eva", *TYPE, "--wait")
    assert result.exit_code == 1
    assert len(time_passes) == 1
    assert "refused: on hold: TYPE is not granted" in result.stderr
    assert "\x9b" not in result.stderr
