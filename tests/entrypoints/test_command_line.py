"""What all commands share: starting at once, exit codes, one clear line for a mistake, no colours in a pipe."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from one_preempt import __version__
from one_preempt.entrypoints.cli.command_line import COMMANDS, cli
from one_preempt.entrypoints.cli.gateway import COMMANDS as OF_GATEWAY

EXECUTABLE = Path(sys.executable).with_name("one-preempt")


@pytest.fixture(autouse=True)
def _no_configuration_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ONE_PREEMPT_CONF", raising=False)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, arguments)


def modules_after(*arguments: str) -> set[str]:
    """The top-level modules and those of this package that a command has imported when it is done."""
    program = (
        "import sys, json\n"
        "from one_preempt.entrypoints.cli import main\n"
        "try: main(sys.argv[1:])\n"
        "except SystemExit: pass\n"
        "print(json.dumps(sorted(sys.modules)), file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=True)
    return set(json.loads(done.stderr.splitlines()[-1]))


def test_the_version_is_told_by_the_installed_command() -> None:
    done = subprocess.run([EXECUTABLE, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"one-preempt {__version__}\n"


def test_the_package_is_run_as_the_command() -> None:
    asked = [sys.executable, "-m", "one_preempt", "--version"]
    assert subprocess.run(asked, capture_output=True, text=True, check=True).stdout == f"one-preempt {__version__}\n"


def test_the_version_is_also_told_beside_other_options() -> None:
    assert run("--version").output == f"one-preempt {__version__}\n"


@pytest.mark.parametrize("arguments", ["policies", "policies --json", "--version", "--help"])
def test_who_closes_standard_output_gets_nothing_and_no_traceback(arguments: str) -> None:
    command = f'"$0" {arguments} >&-'
    done = subprocess.run(["/bin/sh", "-c", command, EXECUTABLE], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")


@pytest.mark.parametrize("arguments", ["policies", "policies --json", "--version", "--help", "plan --help"])
def test_a_full_disk_is_told_in_one_line(arguments: str) -> None:
    command = f'"$0" {arguments} >/dev/full'
    done = subprocess.run(["/bin/sh", "-c", command, EXECUTABLE], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert re.fullmatch(r"Error: .*writing failed: No space left on device\n", done.stderr)


def test_who_interrupts_while_commands_are_loaded_gets_one_word_and_no_traceback() -> None:
    interrupting = (
        "import sys; from one_preempt.entrypoints.cli import main\n"
        "class Interrupted:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'click': raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupted())\n"
        "main(['policies'])"
    )
    ended = subprocess.run([sys.executable, "-c", interrupting], check=False, capture_output=True, text=True)
    assert (ended.returncode, ended.stdout, ended.stderr) == (1, "", "Aborted!\n")


def test_a_daemon_whose_standard_input_is_closed_takes_no_steps(tmp_path: Path) -> None:
    configuration, auth = tmp_path / "one_preempt.conf", tmp_path / "one_auth"
    configuration.write_text(f"store: {{url: 'sqlite:///{tmp_path}/leases.db'}}\n")
    auth.write_text("oneadmin:opennebula")
    command = ["/bin/sh", "-c", f'"$0" daemon --stepwise --config {configuration} <&-', str(EXECUTABLE)]
    environment = {**os.environ, "ONE_AUTH": str(auth), "ONE_XMLRPC": "http://127.0.0.1:1/RPC2"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize(
    ("group", "package", "commands"),
    [((), "one_preempt.entrypoints.cli", COMMANDS), (("gateway",), "one_preempt.entrypoints.cli.gateway", OF_GATEWAY)],
)
def test_help_lists_every_command_and_imports_none(
    group: tuple[str, ...], package: str, commands: dict[str, tuple[str, str]]
) -> None:
    listed = run(*group, "--help").output
    assert all(f"\n  {name} " in listed for name in commands)
    loaded = modules_after(*group, "--help")
    assert not {f"{package}.{module}" for module, _text in commands.values()} & loaded


@pytest.mark.parametrize(
    ("arguments", "unused"),
    [
        (("--version",), {"click", "rich", "numpy"}),
        (("--help",), {"rich", "numpy", "yaml", "sqlalchemy", "lxml", "pyone", "requests"}),
        (("policies", "--json"), {"rich", "yaml", "sqlalchemy", "lxml", "pyone", "requests"}),
        (("gateway", "list"), {"numpy", "sqlalchemy", "lxml", "pyone", "requests"}),
        (("config", "show"), {"rich", "numpy", "sqlalchemy", "lxml", "pyone", "requests"}),
    ],
)
def test_a_command_imports_only_what_it_uses(arguments: tuple[str, ...], unused: set[str]) -> None:
    """What costs most at its start; the time itself is measured by benchmarks/start_up.py."""
    assert not unused & modules_after(*arguments)


@pytest.mark.parametrize("names", [(name,) for name in COMMANDS] + [("gateway", name) for name in OF_GATEWAY])
def test_every_command_has_help(names: tuple[str, ...]) -> None:
    result = run(*names, "--help")
    assert result.exit_code == 0
    assert result.output.startswith("Usage: ")


@pytest.mark.parametrize("arguments", [("frobnicate",), ("policies", "--frobnicate"), ("config", "show", "extra")])
def test_what_is_not_understood_ends_with_2(arguments: tuple[str, ...]) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert "Usage: " in result.stderr


def test_a_mistake_is_told_in_one_line_without_a_traceback(tmp_path: Path) -> None:
    configuration = tmp_path / "one_preempt.conf"
    configuration.write_text("preemptoin: act\n")
    done = subprocess.run(
        [EXECUTABLE, "config", "check", "--config", configuration], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert str(configuration) in line
    assert "preemptoin" in line


def test_the_environment_names_the_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    configuration = tmp_path / "one_preempt.conf"
    configuration.write_text("cycle_interval_s: 77\n")
    monkeypatch.setenv("ONE_PREEMPT_CONF", str(configuration))
    assert json.loads(run("config", "show", "--json").output)["cycle_interval_s"] == 77


def test_passwords_inside_urls_are_not_shown(tmp_path: Path) -> None:
    configuration = tmp_path / "one_preempt.conf"
    configuration.write_text(
        "store: {url: 'postgresql://one:secret1@db/leases'}\n"
        "opennebula: {endpoint: 'http://admin:secret2@front:2633/RPC2'}\n"
    )
    output = run("config", "show", "--config", str(configuration)).output
    assert "secret" not in output
    assert "postgresql://one:***@db/leases" in output


def test_a_database_url_that_is_none_is_found_wrong(tmp_path: Path) -> None:
    configuration = tmp_path / "one_preempt.conf"
    configuration.write_text("store: {url: 'postgres://one:canary@db/leases'}\n")
    result = run("config", "check", "--config", str(configuration))
    assert result.exit_code == 1
    assert "'postgres://one:***@db/leases' is no database URL: write into store.url" in result.output


def test_a_password_in_the_query_of_a_url_is_not_shown(tmp_path: Path) -> None:
    configuration = tmp_path / "one_preempt.conf"
    configuration.write_text("store: {url: 'mysql+pymysql://db/leases?user=one&password=canary'}\n")
    shown = run("config", "show", "--config", str(configuration)).output
    assert "db/leases?user=one&password=***" in shown
    assert "canary" not in shown


def test_a_configured_policy_that_does_not_exist_is_found_wrong(tmp_path: Path) -> None:
    configuration = tmp_path / "one_preempt.conf"
    configuration.write_text("preemption_policy: best\n")
    result = run("config", "check", "--config", str(configuration))
    assert result.exit_code == 1
    assert "'best'" in result.stderr


def test_the_policies_are_listed_for_people_and_for_programs() -> None:
    listed = json.loads(run("policies", "--json").output)
    named = {(policy["family"], policy["name"]) for policy in listed}
    assert {("preemption", name) for name in ("NOP", "MOV", "MLIP", "MOML")} <= named
    assert {("backfilling", name) for name in ("none", "easy", "intermediate", "conservative")} <= named
    assert {("energy", name) for name in ("always-on", "PEMP", "SESP", "GESP", "look-ahead")} <= named
    assert ("queue order", "user-priority") in named
    assert {("host selection", name) for name in ("custom", "fixed", "load-aware", "packing", "striping")} <= named
    assert {("image staging", name) for name in ("EDF", "EDF/JIT", "FIFO", "job-style", "JIT", "aggressive")} <= named
    assert all(policy["description"] for policy in listed)
    table = run("policies").output
    assert all(policy["description"] in table for policy in listed)


def test_there_are_colours_on_a_terminal_only_and_none_with_no_color() -> None:
    assert on_terminal({}) == "\x1b[31mstopped\x1b[0m\r\n"
    assert on_terminal({"NO_COLOR": "1"}) == "stopped\r\n"
    assert subprocess.run([sys.executable, "-c", RED], capture_output=True, check=True).stdout == b"stopped\n"


RED = """
from rich.text import Text
from one_preempt.entrypoints.cli.options import write_renderables
write_renderables([Text("stopped", style="red")])
"""


def on_terminal(environment: dict[str, str]) -> str:
    """What a red word becomes on a terminal."""
    ours, theirs = os.openpty()
    variables = {"PATH": os.environ["PATH"], "TERM": "xterm-256color", **environment}
    process = subprocess.Popen([sys.executable, "-c", RED], stdout=theirs, stdin=subprocess.DEVNULL, env=variables)
    assert process.wait() == 0
    os.close(theirs)
    with os.fdopen(ours, "rb", buffering=0) as terminal:
        return terminal.read(4096).decode()
