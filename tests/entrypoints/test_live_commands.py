"""The commands that talk to an endpoint, against an emulated one over a real socket."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from one_preempt.entrypoints.cli.command_line import cli
from one_preempt.simulation.emulator.process import served_cloud
from one_preempt.simulation.emulator.serving import running_emulator
from one_preempt.simulation.simulated_cloud.cloud import SimulatedCloud
from one_preempt.simulation.simulated_cloud.states import VmState

EXECUTABLE = Path(sys.executable).with_name("one-preempt")
EXTERNALS_MAY_CLAIM = """
leases:
  rights:
    - {name: externals, group: externals, may_claim: [BE-SUSPENDABLE, DC-NON-PREEMPTABLE]}
"""


@pytest.fixture
def cloud() -> SimulatedCloud:
    return served_cloud()


@pytest.fixture
def endpoint(cloud: SimulatedCloud, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """What `one-preempt emulator` serves, and the environment that leads there as its administrator."""
    auth = tmp_path / "one_auth"
    auth.write_text("oneadmin:opennebula")
    auth.chmod(0o600)
    configuration = tmp_path / "one_preempt.conf"
    configuration.write_text(
        f"store: {{url: 'sqlite:///{tmp_path}/leases.db'}}\nevents: {{enabled: false}}\n{EXTERNALS_MAY_CLAIM}"
    )
    with running_emulator(cloud) as url:
        monkeypatch.setenv("ONE_XMLRPC", url)
        monkeypatch.setenv("ONE_AUTH", str(auth))
        monkeypatch.setenv("ONE_PREEMPT_CONF", str(configuration))
        yield url


def run(*arguments: str, typed: str | None = None) -> Result:
    return CliRunner().invoke(cli, arguments, input=typed)


def schedule_once() -> None:
    """One cycle of the daemon as a process: it admits the leases that are there."""
    subprocess.run([EXECUTABLE, "daemon", "--stepwise"], input="\n", text=True, capture_output=True, check=True)


def grades() -> dict[str, str]:
    return {finding["subject"]: finding["grade"] for finding in json.loads(run("check", "--json").output)}


@pytest.mark.usefixtures("endpoint")
def test_check_finds_a_good_set_up_good() -> None:
    assert run("db", "upgrade").exit_code == 0
    result = run("check")
    assert result.exit_code == 0
    assert set(grades().values()) == {"ok"}
    assert "OpenNebula 7.4.0" in result.output


@pytest.mark.usefixtures("endpoint")
def test_check_says_that_nobody_will_be_preempted_while_paused() -> None:
    run("db", "upgrade")
    run("pause")
    result = run("check")
    assert grades()["database"] == "warn"
    assert "one-preempt resume" in result.output


@pytest.mark.usefixtures("endpoint")
def test_check_tells_wrong_credentials_and_a_user_without_rights(tmp_path: Path) -> None:
    auth = tmp_path / "one_auth"
    auth.write_text("oneadmin:wrong")
    assert run("check").exit_code == 1
    assert grades()["credentials"] == "fail"
    auth.write_text("external1:external1")
    assert run("check").exit_code == 1
    assert grades()["rights"] == "fail"


def test_check_changes_nothing(endpoint: str, tmp_path: Path) -> None:
    before = sorted(tmp_path.iterdir())
    run("check")
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.usefixtures("endpoint")
@pytest.mark.parametrize("command", [("check",), ("plan",), ("host", "list"), ("host", "energy"), ("lease", "list")])
def test_who_looks_leaves_an_empty_database_empty(command: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "leases.db").touch()
    run(*command)
    assert (tmp_path / "leases.db").read_bytes() == b""
    assert not list(tmp_path.glob("leases.db-*"))


def test_check_without_an_endpoint_fails_in_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    auth = tmp_path / "one_auth"
    auth.write_text("oneadmin:opennebula")
    monkeypatch.setenv("ONE_AUTH", str(auth))
    monkeypatch.setenv("ONE_XMLRPC", "http://127.0.0.1:1/RPC2")
    result = run("check", "--json")
    assert result.exit_code == 1
    (endpoint,) = [found for found in json.loads(result.output) if found["subject"] == "endpoint"]
    assert "nothing listens there" in endpoint["text"]


@pytest.mark.usefixtures("endpoint")
def test_hosts_are_listed_with_what_is_free() -> None:
    hosts = json.loads(run("host", "list", "--json").output)
    assert [(host["name"], host["capacity_cpu_centi"], host["free_cpu_centi"]) for host in hosts] == [
        ("node1", 400, 0),
        ("node2", 400, 0),
        ("node3", 400, 0),
    ]
    assert "0/4" in run("host", "list").output


@pytest.mark.usefixtures("endpoint")
def test_a_recording_rehearses_like_the_cloud_it_was_made_of(tmp_path: Path) -> None:
    recording = tmp_path / "cloud.recording"
    assert run("record", str(recording)).exit_code == 0
    recorded = json.loads(run("plan", "--from", str(recording), "--json").output)
    live = json.loads(run("plan", "--json").output)
    assert recorded["violations"] == live["violations"] == []
    # Whose message comes first depends on the instant.
    asked = [sorted((action["kind"], action["vm_id"]) for action in plan["actions"]) for plan in (recorded, live)]
    assert asked[0] == asked[1]
    assert json.loads(run("host", "list", "--from", str(recording), "--json").output) == json.loads(
        run("host", "list", "--json").output
    )


@pytest.mark.usefixtures("endpoint")
def test_who_records_reads_which_attributes_users_chose(cloud: SimulatedCloud, tmp_path: Path) -> None:
    assert "Before you pass it on" not in run("record", str(tmp_path / "before")).output
    for number in range(25):
        cloud.hosts[0].template[f"CHOSEN{number:02}"] = ["7"]
    vm = next(iter(cloud.vms.values()))
    vm.user_template["SCHED_RANK"] = [" + ".join(f"CHOSEN{number:02}" for number in range(25))]

    output = run("record", str(tmp_path / "after")).output
    assert "Before you pass it on: it has CHOSEN00, CHOSEN01, " in output
    assert "CHOSEN19 and 5 more, as users' requirements or ranks name them." in output


@pytest.mark.usefixtures("endpoint")
def test_a_rehearsal_with_another_policy_says_so_and_an_unknown_one_is_refused() -> None:
    assert json.loads(run("plan", "--policy", "mov", "--json").output)["policy"] == "MOV"
    result = run("plan", "--policy", "best")
    assert result.exit_code == 1
    assert "'best'" in result.stderr


@pytest.mark.usefixtures("endpoint")
def test_a_lease_is_cancelled_only_when_asked_for_twice(cloud: SimulatedCloud) -> None:
    schedule_once()
    lease_id = json.loads(run("lease", "list", "--json").output)[0]["id"]
    refused = run("lease", "cancel", str(lease_id), typed="n\n")
    assert refused.exit_code == 1
    assert cloud.vms[lease_id].state == VmState.ACTIVE
    accepted = run("lease", "cancel", str(lease_id), typed="y\n")
    assert accepted.exit_code == 0
    cloud.advance(3600)
    assert cloud.vms[lease_id].state == VmState.DONE
    story = json.loads(run("lease", "show", str(lease_id), "--json").output)
    told = [
        (action["vm_id"], action["reason"]["code"], action["outcome"])
        for action in story["actions"]
        if action["kind"] == "terminate"
    ]
    assert sorted(told) == [(vm["id"], "cancelled", "accepted") for vm in story["vms"]]


@pytest.mark.usefixtures("endpoint")
def test_a_cancelled_lease_has_ended_for_the_daemon_too(cloud: SimulatedCloud) -> None:
    schedule_once()
    lease_id = json.loads(run("lease", "list", "--json").output)[0]["id"]
    assert run("lease", "cancel", str(lease_id), "--yes").exit_code == 0
    cloud.advance(3600)
    schedule_once()
    assert lease_id not in [lease["id"] for lease in json.loads(run("lease", "list", "--json").output)]
    assert run("lease", "cancel", str(lease_id), "--yes").exit_code == 1


def test_the_emulator_as_a_process_says_where_it_listens(tmp_path: Path) -> None:
    auth = tmp_path / "one_auth"
    auth.write_text("oneadmin:opennebula")
    process = subprocess.Popen([EXECUTABLE, "emulator", "--port", "0"], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    with process:
        try:
            url = process.stdout.readline().removeprefix("listening on ").strip()
            variables = {**os.environ, "ONE_XMLRPC": url, "ONE_AUTH": str(auth)}
            listed = subprocess.run(
                [EXECUTABLE, "host", "list", "--json"], env=variables, capture_output=True, text=True, check=True
            )
            assert len(json.loads(listed.stdout)) == 3
        finally:
            process.terminate()
    assert process.returncode == 0


@pytest.mark.parametrize("option", ["--description", "--recording"])
def test_an_emulator_without_a_cloud_is_refused_in_one_line(option: str) -> None:
    result = run("emulator", option, "/nowhere")
    assert result.exit_code == 1
    assert len(result.stderr.splitlines()) == 1
