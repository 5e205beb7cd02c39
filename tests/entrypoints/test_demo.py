"""The demonstration as a process: it tells the whole story, touches nothing else and leaves nothing behind."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, NoReturn

import pytest
from click.testing import CliRunner
from msgspec.structs import replace
from rich.console import Console

from one_preempt.entrypoints import demo
from one_preempt.entrypoints.cli.command_line import cli
from one_preempt.entrypoints.demo.screen import Screen
from one_preempt.entrypoints.demo.story import Event, Narration, Step, Tell
from one_preempt.errors import OnePreemptError

EXECUTABLE = Path(sys.executable).with_name("one-preempt")
# Of patience with a busy machine; how long it takes is measured by nobody here.
PATIENCE_S = 600
VICTIMS = {"crawl": [7, 8], "sweep": [9, 10, 11]}
REQUEST = [12, 13, 14, 15, 16]
EXTERNAL = list(range(12))


def start(folder: Path, *arguments: str, **variables: str) -> subprocess.Popen[str]:
    """A demonstration whose temporary folder is `folder`."""
    return subprocess.Popen(
        [EXECUTABLE, "demo", *arguments],
        env={**os.environ, "TMPDIR": str(folder), "COLUMNS": "80", **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # Whoever runs the tests may ignore SIGINT, and a child would inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
    )


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The story as JSON; the environment names a cloud and a configuration that must not count."""
    folder = tmp_path_factory.mktemp("demo")
    configuration = folder / "one_preempt.conf"
    configuration.write_text("preemption_policy: nop\nstore: {url: 'sqlite:////nowhere/leases.db'}\n")
    process = start(
        folder,
        "--json",
        ONE_XMLRPC="http://127.0.0.1:1/RPC2",
        ONE_AUTH="/nowhere/one_auth",
        ONE_PREEMPT_CONF=str(configuration),
        http_proxy="http://127.0.0.1:1",
    )
    output, errors = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, errors) == (0, "")
    assert list(folder.iterdir()) == [configuration]
    document: dict[str, Any] = json.loads(output)
    return document


def steps(story: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [step for step in story["steps"] if step["kind"] == kind]


def changes(story: dict[str, Any], change: str, by: str) -> list[tuple[int, int]]:
    """(instant, VM) of every event of that kind."""
    return [
        (event["at_s"], vm_id)
        for event in steps(story, "event")
        if (event["change"], event["by"]) == (change, by)
        for vm_id in event["vm_ids"]
    ]


def test_it_ends_well_and_says_what_was_checked(story: dict[str, Any]) -> None:
    (ending,) = steps(story, "ending")
    assert story["ended_well"]
    assert len(ending["checks"]) == 8
    assert all(check["holds"] for check in ending["checks"])


def test_every_policy_chooses_what_the_paper_published_and_the_chosen_victims_are_those_of_moml(
    story: dict[str, Any],
) -> None:
    (decision,) = steps(story, "decision")
    published = {
        "NOP": [],
        "MLIP": ["climate", "sweep"],
        "MOV": ["index", "render", "crawl"],
        "MOML": ["crawl", "sweep"],
    }
    assert {name: decision["choices"][name] for name in published} == published
    assert (decision["policy"], decision["chosen"]["leases"]) == ("MOML", ["crawl", "sweep"])
    assert decision["victims"] == [*VICTIMS["crawl"], *VICTIMS["sweep"]]
    assert decision["chosen"]["overhead_s"] == pytest.approx(27.8, abs=0.05)
    assert decision["optimal"]


def test_all_candidate_sets_are_told_cheapest_first_around_their_median(story: dict[str, Any]) -> None:
    (decision,) = steps(story, "decision")
    overheads = [candidate["overhead_s"] for candidate in decision["candidates"]]
    assert len(overheads) == decision["candidate_count"] == 9
    assert overheads == sorted(overheads)
    assert overheads[4] == decision["median_overhead_s"]


def test_the_victims_stop_then_the_request_runs_then_it_ends_then_they_return(story: dict[str, Any]) -> None:
    victims = [vm_id for members in VICTIMS.values() for vm_id in members]
    asked = changes(story, "stop", "scheduler")
    out = changes(story, "STOPPED", "cloud")
    started = changes(story, "deploy", "scheduler")
    running = changes(story, "RUNNING", "cloud")
    ended = changes(story, "DONE", "cloud")
    assert [vm_id for _, vm_id in asked] == victims
    assert sorted({vm_id for _, vm_id in out}) == victims
    assert sorted(vm_id for _, vm_id in started) == sorted([*EXTERNAL, *REQUEST, *victims]), "each is started once"
    request_asked_s = min(at_s for at_s, vm_id in started if vm_id in REQUEST)
    request_runs_s = max(at_s for at_s, vm_id in running if vm_id in REQUEST)
    assert max(at_s for at_s, _ in out) <= request_asked_s < request_runs_s
    returned_s = {vm_id: max(at_s for at_s, found in running if found == vm_id) for vm_id in victims}
    assert min(returned_s.values()) > min(at_s for at_s, vm_id in ended if vm_id in REQUEST) > request_runs_s


def test_the_cloud_is_full_of_external_leases_before_and_after(story: dict[str, Any]) -> None:
    before, during, after = (
        sorted(lease for machine in picture["machines"] for lease in machine["cpus"])
        for picture in steps(story, "machines")
    )
    assert before == after
    assert before.count("sweep") == 3
    assert "" not in before
    assert during.count("urgent") == 5
    assert "sweep" not in during


def test_without_a_terminal_it_is_plain_text_of_eighty_columns(tmp_path: Path) -> None:
    output, errors = start(tmp_path, "--speed", "0", NO_COLOR="1").communicate(timeout=PATIENCE_S)
    lines = output.splitlines()
    assert errors == ""
    assert max(map(len, lines)) <= 80
    assert output.isascii()
    assert "\x1b" not in output
    assert lines[-2:] == ["Nothing was lost.", "There are more acts: one-preempt demo reservation or energy"]
    assert any(line.split() == ["crawl", "+", "sweep", "5", "27.8", "s", "MOML"] for line in lines)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_demonstration_leaves_nothing_behind(tmp_path: Path, number: signal.Signals) -> None:
    process = start(tmp_path, PYTHONUNBUFFERED="1")
    assert process.stdout is not None
    while "submit" not in process.stdout.readline():
        assert process.poll() is None
    assert list(tmp_path.iterdir())
    process.send_signal(number)
    output, errors = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, errors.strip()) == (1, "Aborted!")
    assert "Nothing was lost" not in output
    assert list(tmp_path.iterdir()) == []


def shown(*steps: Step, **environment: str) -> str:
    """What a terminal of 100 columns gets to see."""
    console = Console(file=io.StringIO(), width=100, force_terminal=True, highlight=False, _environ=environment)
    screen = Screen(console)
    for step in steps:
        screen.show(step)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


STOPPED = Event(1_800_000_000, "sweep", (3, 9, 10, 11), "STOPPED", "cloud", "memory saved, room free")


def test_colours_are_for_terminals_without_no_color() -> None:
    coloured = re.compile(r"\x1b\[[0-9;]*3[0-9]")
    assert coloured.search(shown(STOPPED, TERM="xterm-256color"))
    assert not coloured.search(shown(STOPPED, TERM="xterm-256color", NO_COLOR="1"))


def test_an_event_names_time_lease_and_vms_and_a_detail_is_not_shown() -> None:
    words = "08:00:00 cloud STOPPED sweep VM 3, 9-11 memory saved, room free"
    assert " ".join(re.sub(r"\x1b\[[0-9;]*m", "", shown(STOPPED)).split()) == words
    assert shown(replace(STOPPED, detail=True)) == ""


def test_what_a_text_holds_is_neither_markup_nor_a_control() -> None:
    assert "[red]a?b".replace("?", "\ufffd") in shown(Narration("[red]a\x1bb"))


def test_what_went_wrong_is_named_and_ends_with_code_1(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_stage(_tell: Tell, _speed: float, _more: str) -> NoReturn:
        raise OnePreemptError("nothing listens there")

    monkeypatch.setattr(demo, "open_stage", no_stage)
    result = CliRunner().invoke(cli, ["demo"])
    assert result.exit_code == 1
    assert "FAIL nothing listens there" in result.output
    document = json.loads(CliRunner().invoke(cli, ["demo", "--json"]).output)
    assert not document["ended_well"]
    assert document["steps"][-1]["checks"] == [{"text": "nothing listens there", "holds": False}]
