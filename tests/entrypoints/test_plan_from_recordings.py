"""`plan --from` on the pools recorded of both versions: a placement as shipped, a preemption under rules."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from one_preempt.entrypoints.cli.command_line import cli

RECORDINGS = Path(__file__).parent.parent / "recordings"
VERSIONS = ["6.10.0", "7.4.0"]
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


def planned(folder: Path, *options: str) -> dict[str, Any]:
    result = CliRunner().invoke(cli, ["plan", "--from", str(folder), "--json", *options])
    assert result.exit_code == 0, result.output
    document: dict[str, Any] = json.loads(result.stdout)
    assert document["violations"] == []
    return document


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
def test_as_shipped_vms_are_placed_and_nobody_is_preempted(version: str) -> None:
    # VM 16 waits for a host that gets no other VM in this cycle: MAX_HOST is 1 as shipped.
    plan = planned(RECORDINGS / version)
    assert [action["vm_id"] for action in plan["actions"] if action["kind"] == "deploy"] == [9, 14, 18]
    assert plan["preemptions"] == []
    assert all(action["reason"]["text"] for action in plan["actions"])


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
