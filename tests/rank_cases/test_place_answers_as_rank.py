"""`one-preempt-place`, configured by `config import` of each case's rank.conf, against what `rank` answered.

All cases go through the entry point in this process, a sample through the installed executables; `make rank-cases`
takes all of them there.
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from click.testing import CliRunner

from one_preempt.entrypoints.cli.command_line import cli
from one_preempt.entrypoints.driver.driver_process import Messages
from one_preempt.entrypoints.driver.place import decide
from tests.rank_cases.cases import DEVICES, Action, Case, actions, cases

EXECUTABLES = Path(sys.executable).parent
AS_PROCESSES = 320 if os.environ.get("RANK_CASES") == "all" else 8

# Defects of `rank` that are not followed, with the actions that only one of the two has (decision 0026).
ONLY_RANK: dict[tuple[int, int], set[Action]] = {
    (2016, DEVICES): {(8, "deploy", 3, 200, ())},
    (2022, DEVICES): {(7, "deploy", 4, 200, ())},
    (2038, DEVICES): {(6, "deploy", 4, 200, ())},
}
ONLY_OURS: dict[tuple[int, int], set[Action]] = {(1091, 3): {(1, "deploy", 0, 200, ())}}


def wanted(case: Case) -> frozenset[Action]:
    key = (case.seed, case.kind)
    return actions(case.plan) - ONLY_RANK.get(key, set()) | ONLY_OURS.get(key, set())


def environment(configuration: Path) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "ONE_PREEMPT_CONF": str(configuration)}


def nobody_answers(configuration: str, folder: Path) -> str:
    """The configuration, with a socket and a file of promises that are not there."""
    return configuration + f"socket:\n  path: {folder}/none.sock\nstore:\n  held_capacity_file: {folder}/none.json\n"


def test_there_are_320_cases_with_and_without_actions() -> None:
    assert len(cases()) == 320
    assert len({case.name for case in cases()}) == 320
    assert sum(len(actions(case.plan)) for case in cases()) > 1000
    assert {case.kind for case in cases()} == set(range(10))


def test_every_case_is_answered_as_rank_did(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    conf, configuration = tmp_path / "rank.conf", tmp_path / "one_preempt.conf"
    monkeypatch.setenv("ONE_PREEMPT_CONF", str(configuration))
    different = {}
    for case in cases():
        conf.write_text(case.rank_conf)
        imported = CliRunner().invoke(cli, ["config", "import", str(conf)], catch_exceptions=False)
        configuration.write_text(nobody_answers(imported.stdout, tmp_path))
        said = io.StringIO()
        ours = actions(decide(io.BytesIO(case.stdin), Messages(said)))
        if ours != wanted(case):
            different[case.name] = (sorted(ours - wanted(case)), sorted(wanted(case) - ours), said.getvalue())
    assert different == {}


def test_the_installed_executables_answer_as_rank_did(tmp_path: Path) -> None:
    def different(case: Case) -> str | None:
        folder = tmp_path / case.name
        folder.mkdir()
        (folder / "rank.conf").write_text(case.rank_conf)
        imported = subprocess.run(
            [EXECUTABLES / "one-preempt", "config", "import", folder / "rank.conf"],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        configuration = folder / "one_preempt.conf"
        configuration.write_text(nobody_answers(imported.stdout, folder))
        ran = subprocess.run(
            [EXECUTABLES / "one-preempt-place"],
            input=case.stdin, capture_output=True, check=True, env=environment(configuration),
        )  # fmt: skip
        assert b"Traceback" not in ran.stderr
        return None if actions(ran.stdout) == wanted(case) else case.name

    step = len(cases()) // AS_PROCESSES
    with ThreadPoolExecutor(max_workers=2) as pool:
        assert [name for name in pool.map(different, cases()[::step]) if name] == []
