"""`hooks install|list|remove` against an emulated endpoint, and the shipped definitions."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from one_preempt.adapters.opennebula.hooks import definitions
from one_preempt.core.model.host import HostState
from one_preempt.core.model.virtual_machine import LcmState, VmState
from one_preempt.entrypoints.cli import hooks
from one_preempt.entrypoints.cli.command_line import cli
from one_preempt.simulation.emulator.process import shipped_cloud
from one_preempt.simulation.emulator.serving import running_emulator
from one_preempt.simulation.simulated_cloud.cloud import SimulatedCloud
from one_preempt.simulation.simulated_cloud.objects import ONEADMIN

SHIPPED = Path(__file__).parents[2] / "hooks"
OTHERS = "<TEMPLATE><NAME>sites-own</NAME><TYPE>api</TYPE><COMMAND>x</COMMAND><CALL>one.vm.deploy</CALL></TEMPLATE>"
NAMES = ["one_preempt-host-monitored", "one_preempt-vm-done", "one_preempt-vm-stopped", "one_preempt-vm-undeployed"]


@pytest.fixture
def cloud(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SimulatedCloud]:
    built = shipped_cloud("demo")
    (tmp_path / "one_auth").write_text("oneadmin:opennebula")
    for name in ("hook", "former"):
        (tmp_path / name).touch(0o755)
    with running_emulator(built) as url:
        monkeypatch.setenv("ONE_XMLRPC", url)
        monkeypatch.setenv("ONE_AUTH", str(tmp_path / "one_auth"))
        monkeypatch.delenv("ONE_PREEMPT_CONF", raising=False)
        built.hook_allocate(ONEADMIN, OTHERS)
        yield built


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["hooks", *arguments])


def conditions(*arguments: str) -> dict[str, str]:
    rows = json.loads(run("list", "--json", *arguments).output)
    return {row["name"]: row["condition"] for row in rows}


def test_hooks_are_installed_once_listed_and_removed_and_others_are_left_alone(
    cloud: SimulatedCloud, tmp_path: Path
) -> None:
    command = ("--command", str(tmp_path / "hook"))
    assert conditions(*command) == dict.fromkeys(NAMES, "missing")
    assert run("install", *command).output.count(": installed") == 4
    assert conditions(*command) == dict.fromkeys(NAMES, "installed")
    assert run("install", *command).output.count("was there already") == 4
    assert len(cloud.hooks) == 5
    assert run("remove").output.splitlines() == [f"{name}: removed" for name in NAMES]
    assert run("remove").output == "there are none of ours\n"
    assert [hook["NAME"] for hook in cloud.hooks.values()] == [["sites-own"]]


def test_a_hook_that_differs_is_shown_and_replaced(cloud: SimulatedCloud, tmp_path: Path) -> None:
    former, present = tmp_path / "former", tmp_path / "hook"
    run("install", "--command", str(former))
    assert set(conditions("--command", str(present)).values()) == {"differs"}
    assert run("install", "--command", str(present)).output.count(": replaced") == 4
    commands = {str(hook["COMMAND"][0]) for hook in cloud.hooks.values()}
    assert commands == {str(present), "x"}


@pytest.mark.usefixtures("cloud")
@pytest.mark.parametrize(
    "command", ["one-preempt-hook", "/no/such/program", "/bin/true; rm x", "/opt/a b", "", "/", "/etc/passwd"]
)
def test_a_command_that_oned_could_not_start_is_refused(command: str) -> None:
    result = run("install", "--command", command)
    assert result.exit_code == 1
    assert "--command" in result.output
    assert set(conditions().values()) == {"missing"}


def test_a_refusal_by_oned_is_one_line(cloud: SimulatedCloud, tmp_path: Path) -> None:
    (tmp_path / "one_auth").write_text("external1:external1")
    result = run("list")
    assert result.exit_code == 1
    assert "AUTHORIZATION" in result.output


def test_every_definition_names_a_state_that_oned_has() -> None:
    for definition in definitions("/x").values():
        if definition["RESOURCE"] == "VM":
            assert VmState[definition["STATE"]]
            assert LcmState[definition["LCM_STATE"]] is LcmState.LCM_INIT
        else:
            assert HostState[definition["STATE"]]
        assert (definition["ARGUMENTS"], definition["ARGUMENTS_STDIN"]) == ("$TEMPLATE", "yes")


def test_the_shipped_definitions_are_those_that_install_creates() -> None:
    wanted = definitions("/opt/one_preempt/bin/one-preempt-hook")
    shipped = {
        path.stem: dict(re.findall(r'^(\w+) *= *"([^"]*)"$', path.read_text(), re.MULTILINE))
        for path in SHIPPED.glob("*.hook")
    }
    assert shipped == wanted


def test_the_hook_of_the_package_is_named_by_the_path_that_outlives_an_upgrade(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment, installed = tmp_path / "environments/3.11.x/bin", tmp_path / "opt/bin/one-preempt-hook"
    environment.mkdir(parents=True)
    (environment / "one-preempt-hook").touch(0o755)
    monkeypatch.setattr(sys, "executable", str(environment / "python"))
    monkeypatch.setattr(hooks, "INSTALLED", installed)
    assert hooks.beside() == environment / "one-preempt-hook"
    installed.parent.parent.symlink_to(environment.parent)
    assert hooks.beside() == installed
    (environment / "one-preempt-hook").rename(environment / "another")
    assert hooks.beside() == environment / "one-preempt-hook"
