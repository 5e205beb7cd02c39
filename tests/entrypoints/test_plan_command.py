"""`plan --from`: a rehearsal on the pools recorded of both versions, for programs and for people."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from one_preempt.composition import PlannedCycle, plan_once
from one_preempt.configuration.settings import Settings
from one_preempt.core.verify import Violation
from one_preempt.entrypoints.cli import plan as command
from one_preempt.entrypoints.cli.command_line import cli

RECORDINGS = Path(__file__).parent.parent / "recordings"
RIGHTS = "leases: {rights: [{name: owners, group: oneadmin, may_claim: [BE-SUSPENDABLE]}]}\n"
VERSIONS = ("6.10.0", "7.4.0")
RULES = """
leases:
  rules:
    - {name: suspendable, match: {attributes: {LEASE_TYPE: BE-SUSPENDABLE}}, type: BE-SUSPENDABLE}
    - {name: restartable, match: {attributes: {LEASE_TYPE: BE-RESTARTABLE}}, type: BE-CANCELLABLE}
    - {name: guaranteed, match: {group: project-x, attributes: {LEASE_TYPE: GUARANTEED}}, may_preempt: true}
"""


@pytest.fixture(autouse=True)
def _as_shipped(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    empty = tmp_path / "as_shipped.conf"
    empty.write_text("")
    monkeypatch.setenv("ONE_PREEMPT_CONF", str(empty))


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["plan", *arguments])


def planned(folder: Path, *options: str) -> dict[str, Any]:
    """The plan that is made of a recording, which breaks no rule."""
    result = run("--from", str(folder), "--json", *options)
    assert result.exit_code == 0, result.output
    document: dict[str, Any] = json.loads(result.stdout)
    assert document["violations"] == []
    return document


@pytest.mark.parametrize("version", VERSIONS)
def test_the_recorded_pools_get_a_valid_explained_plan_without_preemption(version: str) -> None:
    plan = planned(RECORDINGS / version)
    assert {"made_at", "policy", "actions", "preemptions", "refusals", "wake_at"} <= plan.keys()
    assert plan["preemptions"] == []
    # VM 16 waits for a host that gets no other VM in this cycle: MAX_HOST is 1 as shipped.
    assert [action["vm_id"] for action in plan["actions"] if action["kind"] == "deploy"] == [9, 14, 18]
    for action in plan["actions"]:
        assert {"id", "kind", "vm_id", "lease", "host_id", "after", "reason"} <= action.keys()
        assert action["reason"]["text"]
    for refusal in plan["refusals"]:
        assert {"vm_ids", "code", "text"} <= refusal.keys()


def with_a_request_that_does_not_fit(version: str, folder: Path) -> Path:
    """The recorded cloud, but VM 14 of alice (GUARANTEED) insists on node04, where one CPU is free."""
    copied = folder / version
    shutil.copytree(RECORDINGS / version, copied)
    pool = copied / "vmpool.infoextended.xml"
    text = pool.read_text()
    start = text.index("<VM><ID>14</ID>")
    end = text.index("</VM>", start)
    vm = text[start:end]
    vm = vm.replace("<CPU><![CDATA[4]]></CPU>", "<CPU><![CDATA[2]]></CPU>")
    vm = vm.replace(
        "</USER_TEMPLATE>", '<SCHED_REQUIREMENTS><![CDATA[NAME="node04"]]></SCHED_REQUIREMENTS></USER_TEMPLATE>'
    )
    pool.write_text(text[:start] + vm + text[end:])
    return copied


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("mode", ["act", "advise"])
def test_under_rules_a_request_that_does_not_fit_preempts(version: str, mode: str, tmp_path: Path) -> None:
    configuration = tmp_path / "one_preempt.conf"
    configuration.write_text(f"preemption: {mode}\n{RULES}")
    cloud = with_a_request_that_does_not_fit(version, tmp_path)
    plan = planned(cloud, "--config", str(configuration))
    (preemption,) = plan["preemptions"]
    assert preemption["preemptor"] == 14
    assert preemption["advised_only"] is (mode == "advise")
    assert {victim["vm_id"] for victim in preemption["victims"]} <= {5, 6, 12}
    steps = plan["actions"] if mode == "act" else plan["advised_actions"]
    sent_out = [action["id"] for action in steps if action["kind"] in ("stop", "terminate")]
    (start,) = [action for action in steps if action["kind"] == "deploy" and action["vm_id"] == 14]
    assert sent_out
    assert sorted(start["after"]) == sorted(sent_out)


@pytest.mark.parametrize("version", VERSIONS)
def test_the_same_recording_gives_the_same_answer_every_time(version: str) -> None:
    first, second = (run("--from", str(RECORDINGS / version), "--json").output for _time in range(2))
    assert first == second


def test_people_see_hosts_by_name_and_why_others_wait() -> None:
    output = run("--from", str(RECORDINGS / "7.4.0")).output
    assert "What is done" in output
    assert "node0" in output
    assert "Who waits" in output
    assert output.endswith("The independent recount agrees with the plan; nothing was done.\n")


@pytest.mark.parametrize(
    ("lease", "code"),
    [
        ({"TYPE": "BE-SUSPENDABLE", "DURATION": "soon"}, "lease-duration"),
        ({"TYPE": "BE-SUSPENDABLE", "NAME": "pair", "SIZE": "2"}, "lease-incomplete"),
        ({"TYPE": "DC-MIGRATABLE"}, "type-not-granted"),
    ],
)
def test_a_plan_tells_who_is_on_hold_and_by_which_code(lease: dict[str, str], code: str, tmp_path: Path) -> None:
    keys = "".join(f"<{key}><![CDATA[{text}]]></{key}>" for key, text in sorted(lease.items()))
    for document in (RECORDINGS / "7.4.0").glob("*pool.info*.xml"):
        before, name, after = document.read_text().partition("<NAME>be-pending</NAME>")
        text = before + name + after.replace("<LEASE_TYPE>", f"<LEASE>{keys}</LEASE><LEASE_TYPE>", 1)
        (tmp_path / document.name).write_text(text)
    granted = tmp_path / "granted.conf"
    granted.write_text(RIGHTS)
    source = ("--from", str(tmp_path), "--config", str(granted))
    document_of_plan = json.loads(run(*source, "--json").output)
    (on_hold,) = document_of_plan["on_hold"]
    assert on_hold["code"] == code
    assert on_hold["vm_ids"] == [on_hold["lease"]]
    assert on_hold["lease"] not in [refusal["lease"] for refusal in document_of_plan["refusals"]]
    shown = run(*source).output
    assert "Who is on HOLD" in shown
    assert code in shown
    assert "Who is on HOLD" not in run("--from", str(RECORDINGS / "7.4.0")).output


def test_a_plan_that_breaks_a_rule_ends_with_1(monkeypatch: pytest.MonkeyPatch) -> None:
    planned = plan_once(Settings(), RECORDINGS / "7.4.0")
    broken = PlannedCycle(planned.plan, planned.state, (Violation("capacity", "host 1 is charged 5 of 4 CPUs"),))
    monkeypatch.setattr(command, "plan_once", lambda *_arguments: broken)
    result = run("--from", "anything")
    assert result.exit_code == 1
    assert "WRONG: host 1 is charged 5 of 4 CPUs" in result.output
    assert json.loads(run("--json").output)["violations"] == [
        {"code": "capacity", "text": "host 1 is charged 5 of 4 CPUs"}
    ]


def test_a_terminal_without_the_characters_of_a_name_is_no_error(tmp_path: Path) -> None:
    for document in (RECORDINGS / "7.4.0").glob("*pool.info*.xml"):
        text = document.read_text().replace("<NAME>be-pending</NAME>", "<NAME>données-\N{SNOWMAN}</NAME>")
        (tmp_path / document.name).write_text(text)
    executable = Path(sys.executable).with_name("one-preempt")
    variables = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run([executable, "plan", "--from", tmp_path], env=variables, capture_output=True, check=True)
    assert rb"donn\xe9es-\u2603" in done.stdout


def recordings_that_cannot_be_used(folder: Path) -> dict[str, Path]:
    whole = gzip.compress(json.dumps({"format": "one_preempt recording", "format_version": 1}).encode())
    files = {"cut": whole[: len(whole) // 2], "text": b"hello", "empty": b"", "incomplete": whole}
    for name, content in files.items():
        (folder / name).write_bytes(content)
    (folder / "nothing inside").mkdir()
    return {name: folder / name for name in (*files, "nothing inside", "does not exist")}


@pytest.mark.parametrize("name", ["cut", "text", "empty", "incomplete", "nothing inside", "does not exist"])
def test_a_recording_that_cannot_be_used_is_told_in_one_line(tmp_path: Path, name: str) -> None:
    path = recordings_that_cannot_be_used(tmp_path)[name]
    result = run("--from", str(path))
    assert result.exit_code == 1
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert line.startswith("Error: ")
    assert str(path) in line
