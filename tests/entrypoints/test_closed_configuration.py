"""Users who may not read the configuration: OpenNebula 7.x closes the folder where it usually stands."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from one_preempt.configuration import settings
from one_preempt.entrypoints.cli.command_line import cli
from tests.other_users import InClosedFolder

RECORDING = str(Path(__file__).parent.parent / "recordings" / "7.4.0")
USUAL = InClosedFolder("/etc/one/schedulers/one_preempt.conf")


@pytest.fixture(autouse=True)
def _closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "DEFAULT_CONFIGURATION", USUAL)
    monkeypatch.delenv("ONE_PREEMPT_CONF", raising=False)


@pytest.fixture
def log(tmp_path: Path) -> str:
    path = tmp_path / "log.swf"
    path.write_text("; MaxNodes: 2\n; MaxProcs: 2\n1 0 -1 60 1 -1 -1 1 60 -1 1 1 1 -1 1 -1 -1 -1\n")
    return str(path)


@pytest.mark.parametrize("command", [("plan", "--from"), ("host", "list", "--from"), ("simulate",)])
def test_what_needs_no_administrator_goes_on_with_the_values_as_shipped(command: tuple[str, ...], log: str) -> None:
    result = CliRunner().invoke(cli, [*command, RECORDING if "--from" in command else log])
    assert result.exit_code == 0, result.output
    assert f"cannot read the configuration {USUAL}: Permission denied; " in result.stderr
    assert "The values as shipped are taken." in result.stderr


@pytest.mark.parametrize("command", [("plan",), ("host", "list"), ("pause",), ("daemon",), ("config", "show")])
def test_what_is_the_administrators_ends_and_says_who_may(command: tuple[str, ...]) -> None:
    result = CliRunner().invoke(cli, command)
    assert result.exit_code == 1
    assert "Permission denied; run this as the user that runs the scheduler" in result.stderr


def test_users_find_the_gateway_where_it_is_as_shipped() -> None:
    result = CliRunner().invoke(cli, ["gateway", "list"])
    assert result.exit_code == 1
    assert "gateway at /run/one_preempt/gateway.sock" in result.stderr.replace("socket ", "gateway at ")
    assert "Permission denied" not in result.stderr


def test_a_file_that_was_named_is_not_passed_over(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(Path, "open", InClosedFolder.open)
    result = CliRunner().invoke(cli, ["plan", "--from", RECORDING, "--config", str(tmp_path / "other.conf")])
    assert result.exit_code == 1
    assert "other.conf: Permission denied" in result.stderr
