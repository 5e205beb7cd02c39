"""Commands with wrong arguments, files, databases, credentials and endpoints: one line each, never a traceback."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from one_preempt.adapters.opennebula.credentials import Credentials
from one_preempt.adapters.opennebula.transport import Limits, OnedTransport
from one_preempt.entrypoints.cli.command_line import cli
from one_preempt.errors import OnePreemptError


@pytest.fixture(autouse=True)
def surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An administrator's shell, with an endpoint where nothing listens."""
    auth = tmp_path / "one_auth"
    auth.write_text("oneadmin:opennebula")
    monkeypatch.setenv("ONE_AUTH", str(auth))
    monkeypatch.setenv("ONE_XMLRPC", "http://127.0.0.1:1/RPC2")
    monkeypatch.setenv("ONE_PREEMPT_CONF", str(configure(tmp_path)))


def configure(folder: Path, **settings: object) -> Path:
    file = folder / "one_preempt.conf"
    file.write_text(json.dumps({"store": {"url": f"sqlite:///{folder}/leases.db"}, **settings}))
    return file


def told_in_one_line(*arguments: str, exit_code: int = 1) -> str:
    """What the command says about the mistake."""
    result = CliRunner().invoke(cli, arguments, input="")
    assert isinstance(result.exception, SystemExit), result.exception
    assert result.exit_code == exit_code, result.output
    line = result.output.splitlines()[-1]
    assert line.startswith("Error: ")
    assert line.isprintable()
    assert len(line) < 1100
    return line


@pytest.mark.parametrize("path", ["nowhere", "/", "/dev/null", "/proc/self/mem", "x" * 5000, "\x1b[31m", "\udcff"])
@pytest.mark.parametrize(
    "command",
    [
        ("plan", "--from"),
        ("host", "list", "--from"),
        ("emulator", "--description"),
        ("emulator", "--recording"),
        ("config", "import"),
    ],
    ids=" ".join,
)
def test_a_file_that_cannot_be_used_is_told(command: tuple[str, ...], path: str) -> None:
    if (command, path) != (("config", "import"), "/dev/null"):  # nothing written there is what the matchmaker ships
        told_in_one_line(*command, path)


@pytest.mark.parametrize(
    ("arguments", "exit_code"),
    [
        (("plan", "--policy", "\x1b[31m"), 1),
        (("experiment", "run", "\x1b]0;owned\x07"), 1),
        (("lease", "show", "9" * 30), 1),
        (("lease", "cancel", "9" * 30, "--yes"), 1),
        (("lease", "show", "1.5"), 2),
        (("emulator", "--speed", "nan"), 2),
        (("demo", "--speed", "nan"), 2),
        (("emulator", "--port", "70000"), 2),
        (("emulator", "--host", "nowhere.invalid", "--port", "0"), 1),
        (("nosuch",), 2),
        (("plan", "--nosuch"), 2),
    ],
    ids=str,
)
def test_a_wrong_argument_is_told(arguments: tuple[str, ...], exit_code: int) -> None:
    told_in_one_line(*arguments, exit_code=exit_code)


DATABASES = {
    "a folder": ("sqlite:///{folder}", "Is a directory|must be a file"),
    "another file": ("sqlite:///{folder}/one_auth", "is not a database"),
    "a device": ("sqlite:////dev/full", "the disk is full|must be a file"),
    "a path without end": ("sqlite:///" + "a" * 5000, "File name too long"),
    "no URL": ("leases.db", "is no database URL"),
    "in memory": ("sqlite://", "must be a file"),
    "an unknown kind": ("nosuch://x/y", "is no database URL"),
    "a server without its driver": ("mysql://u:canary@127.0.0.1:1/x", "is not installed"),
}


@pytest.mark.parametrize(("url", "told"), DATABASES.values(), ids=DATABASES.keys())
@pytest.mark.parametrize("command", [("lease", "list"), ("pause",), ("daemon", "--stepwise")], ids=" ".join)
def test_a_database_that_cannot_be_used_is_told(command: tuple[str, ...], url: str, told: str, tmp_path: Path) -> None:
    configure(tmp_path, store={"url": url.format(folder=tmp_path)})
    line = told_in_one_line(*command)
    assert re.search(told, line) or len(url) > 1000
    assert "canary" not in line


@pytest.mark.parametrize(
    ("command", "told"),
    [
        (("lease", "list"), "there is no database of leases at /nowhere/x/leases.db yet"),
        (("pause",), "Nothing was switched: a daemon that runs has another configuration"),
        (("daemon", "--stepwise"), "No such file or directory"),
    ],
    ids=str,
)
def test_a_database_in_a_folder_that_is_not_there_is_told(command: tuple[str, ...], told: str, tmp_path: Path) -> None:
    configure(tmp_path, store={"url": "sqlite:////nowhere/x/leases.db"})
    assert told in told_in_one_line(*command)


@pytest.mark.parametrize(
    "content",
    [b"", b"oneadmin", b"oneadmin:", b":canary", b"a:canary\nc:d", b"\xff\xfe:canary", b"\x00", b"canary" * 100_000],
)
def test_credentials_that_are_none_are_told_without_their_content(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "one_auth").write_bytes(content)
    line = told_in_one_line("plan")
    assert "ONE_AUTH" in line
    assert "canary" not in line


@pytest.mark.parametrize("endpoint", [
    "nonsense", "http://", "ftp://x", "http://[::1", "http://a b/RPC2", "http://.x/", "http://x:99999/", "http://x:y/",
    "http://" + "a" * 70 + ".invalid/", "http://\u202eevil/", "http://127.0.0.1:1/\x1b[31m", "http://*/", "http://%zz/",
    "http://\u0661.1/", "http://127.0.0.1:1/" + "x" * 100_000,
])  # fmt: skip
def test_an_endpoint_that_is_none_is_told(endpoint: str) -> None:
    with pytest.raises(OnePreemptError) as caught:
        OnedTransport(endpoint, Credentials("u:canary"), Limits(attempts=1)).call("one.system.version")
    assert "canary" not in str(caught.value)


def test_an_endpoint_that_would_control_the_terminal_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONE_XMLRPC", "http://127.0.0.1:1/\x1b[31m\u202e")
    assert "nothing listens there" in told_in_one_line("plan")


@pytest.mark.parametrize("log", ["/usr", "/nowhere/daemon.log", "/dev/full/x", "/" + "x" * 5000])
def test_a_log_that_cannot_be_written_is_told(log: str, tmp_path: Path) -> None:
    configure(tmp_path, log={"file": log})
    assert "cannot write the log" in told_in_one_line("daemon", "--stepwise")


@pytest.mark.parametrize("step", ["abc", "1e5", "9" * 20, "9" * 5000, "-1", "\x00"])
def test_a_step_that_is_no_instant_ends_the_daemon_in_words(step: str) -> None:
    result = CliRunner().invoke(cli, ["daemon", "--stepwise"], input=f"{step}\n")
    assert result.exit_code == 2
    assert len(result.output.splitlines()) == 1
    assert result.output.strip().isprintable()
