"""Replicated experiments: the same bytes with any number of processes, and after the run was killed."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from one_preempt.errors import OnePreemptError
from one_preempt.simulation.experiments import runner
from one_preempt.simulation.experiments.experiment import ExperimentResult
from one_preempt.simulation.experiments.played_code import code_digest
from one_preempt.simulation.experiments.registry import experiment
from one_preempt.simulation.experiments.replicated import (
    REFUSED_PLANS,
    Figures,
    ReplicatedExperiment,
    Task,
    TaskResult,
)
from one_preempt.simulation.experiments.runner import run
from one_preempt.simulation.experiments.state_folder import IDENTITY, RESULTS, opened
from one_preempt.simulation.simulator.simulator import Simulator

NAME = "sr11-starvation"
WORDS = b'{"point":"7","replication":0,"policy":"none","small":false,"figures":{"square":"much"}}'
NO_TEXT = WORDS.replace(b"7", b"\xff")

# Kills itself in the middle of the experiment; its workers hold the pipe of its output until they end too.
KILLED = f"""
import os, signal, sys
from pathlib import Path
from one_preempt.simulation.experiments.registry import experiment
from one_preempt.simulation.experiments.runner import run

def stop(done):
    if done == 3:
        os.kill(os.getpid(), signal.SIGKILL)

if __name__ == "__main__":
    run(experiment("{NAME}"), Path(sys.argv[1]), small=True, jobs=2, on_done=stop)
"""


def squares(calls: list[Task]) -> ReplicatedExperiment:
    """Takes no time; notes what is simulated."""

    def simulate(task: Task) -> Figures:
        calls.append(task)
        return {"square": int(task.point) ** 2, "nothing": None, "third": int(task.point) / 3}

    def conclude(results: Sequence[TaskResult]) -> ExperimentResult:
        rows = tuple({"point": result.task.point, "square": result.figures["square"]} for result in results)
        return ExperimentResult("squares", rows, pictures={"drawn": "<svg/>"})

    return ReplicatedExperiment(
        "squares", "squares numbers", "none", {"numbers": "whole"},
        lambda small: [Task(str(point), 0, "none", small) for point in range(2 if small else 5)], simulate, conclude,
    )  # fmt: skip


def real() -> ReplicatedExperiment:
    found = experiment(NAME)
    assert isinstance(found, ReplicatedExperiment)
    return found


@pytest.fixture(scope="module")
def in_one_go(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("in-one-go")
    run(real(), folder, small=True)
    return folder


def files_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def test_two_processes_write_the_same_bytes_as_one(in_one_go: Path, tmp_path: Path) -> None:
    run(real(), tmp_path, small=True, jobs=2)
    assert files_of(tmp_path) == files_of(in_one_go)


def test_a_run_that_was_killed_goes_on_and_ends_with_the_same_bytes(in_one_go: Path, tmp_path: Path) -> None:
    script, folder = tmp_path / "killed.py", tmp_path / "results"
    script.write_text(KILLED)
    root = str(Path(__file__).parents[3])
    killed = subprocess.run(
        [sys.executable, str(script), str(folder)],
        env=os.environ | {"PYTHONPATH": root}, capture_output=True, timeout=120, check=False,
    )  # fmt: skip
    assert killed.returncode == -9, killed.stderr.decode()
    kept = (folder / RESULTS).read_bytes()
    assert kept.count(b"\n") == 3
    # What was being written when the machine went down.
    (folder / RESULTS).write_bytes(kept + b'{"point":"10","repl')
    done: list[int] = []
    run(real(), folder, small=True, on_done=done.append)
    assert done == list(range(3, 9))
    assert files_of(folder) == files_of(in_one_go)


def test_a_worker_that_was_killed_is_told_and_what_was_done_is_kept(
    in_one_go: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / IDENTITY).write_bytes((in_one_go / IDENTITY).read_bytes())
    (tmp_path / RESULTS).write_bytes(b"".join((in_one_go / RESULTS).read_bytes().splitlines(keepends=True)[:3]))
    with monkeypatch.context() as patched:
        patched.setattr(runner, "_begin_worker", os.abort)
        with pytest.raises(OnePreemptError, match=rf"was killed, .* kept in {tmp_path}: run again, with fewer --jobs"):
            run(real(), tmp_path, small=True, jobs=2)
    assert (tmp_path / RESULTS).read_bytes().count(b"\n") == 3
    run(real(), tmp_path, small=True)
    assert files_of(tmp_path) == files_of(in_one_go)


def test_what_is_kept_is_on_disk_before_it_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    through: set[int] = set()
    original = os.fsync

    def note(descriptor: int) -> None:
        through.add(os.fstat(descriptor).st_ino)
        original(descriptor)

    monkeypatch.setattr(os, "fsync", note)
    run(squares([]), tmp_path)
    kept = [tmp_path, *(path for path in tmp_path.iterdir() if path.name != ".lock")]
    assert {path.name for path in kept if path.stat().st_ino not in through} == set()


def test_what_is_there_is_not_simulated_again(tmp_path: Path) -> None:
    calls: list[Task] = []
    first = run(squares(calls), tmp_path)
    assert len(calls) == 5
    assert run(squares(calls), tmp_path) == first
    assert len(calls) == 5
    assert (tmp_path / "rows.csv").read_text() == "point,square\n0,0\n1,1\n2,4\n3,9\n4,16\n"
    assert (tmp_path / "drawn.svg").read_text() == "<svg/>"


@pytest.mark.parametrize(("refused", "told"), [((0, 0, 0), "none"), ((0, 3, 1), "4 in 2 of 3 simulations")])
def test_an_experiment_tells_how_many_plans_were_refused(refused: Sequence[int], told: str) -> None:
    results = [
        TaskResult(Task(str(number), 0, "none"), {"square": number, REFUSED_PLANS: count})
        for number, count in enumerate(refused)
    ]
    (claim,) = squares([]).concluded(results).claims
    assert (claim.ours, claim.holds, claim.required) == (told, not any(refused), True)


def test_results_of_other_choices_are_not_mixed_with_ours(tmp_path: Path) -> None:
    run(squares([]), tmp_path)
    with pytest.raises(OnePreemptError, match="holds results of other choices"):
        run(replace(squares([]), choices={"numbers": "odd"}), tmp_path)
    with pytest.raises(OnePreemptError, match="remove it or name another folder"):
        run(squares([]), tmp_path, small=True)
    assert b"whole" in (tmp_path / IDENTITY).read_bytes()


@pytest.mark.parametrize(
    "line", [b"{", b"[]", b'{"point":"1"}', b'{"figures":{}}', b'{"figures":{},"colour":1}', WORDS, NO_TEXT]
)
def test_a_file_that_somebody_else_wrote_into_is_named(tmp_path: Path, line: bytes) -> None:
    run(squares([]), tmp_path)
    with (tmp_path / RESULTS).open("ab") as file:
        file.write(line + b"\n")
    with pytest.raises(OnePreemptError, match="holds what is no result"):
        run(squares([]), tmp_path)


def test_what_is_the_same_simulation_is_played_once(tmp_path: Path) -> None:
    calls: list[Task] = []
    even = replace(squares(calls), played_as=lambda task: replace(task, point=str(int(task.point) // 2 * 2)))
    done: list[int] = []
    result = run(even, tmp_path, on_done=done.append, first=3)
    assert [task.point for task in calls] == ["0", "2"]
    # The fourth is not among the first three, and the third again.
    assert [row["square"] for row in result.rows] == [0, 0, 4, 4]
    assert [row["square"] for row in run(even, tmp_path, on_done=done.append).rows] == [0, 0, 4, 4, 16]
    assert [task.point for task in calls] == ["0", "2", "4"]
    assert done == [0, 1, 2, 3, 4, 4, 5]


def test_what_another_experiment_played_beside_ours_is_taken_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[Task] = []
    other = replace(squares(calls), name="same-squares")
    ours = replace(squares(calls), shares_with=("same-squares",))
    monkeypatch.setattr(runner, "experiment_named", {"same-squares": other}.__getitem__)
    theirs = runner.folder_of(tmp_path, other, small=False)
    run(other, theirs, first=3)
    with (theirs / RESULTS).open("ab") as file:
        file.write(b'{"point":"3","repl')
    calls.clear()
    alone, beside = tmp_path / "alone" / "squares", runner.folder_of(tmp_path, ours, small=False)
    run(ours, beside)
    assert [task.point for task in calls] == ["3", "4"]
    run(ours, alone)
    assert files_of(alone) == files_of(beside)
    # Of other choices nothing is taken.
    calls.clear()
    run(replace(ours, choices={"numbers": "odd"}), tmp_path / "odd")
    assert len(calls) == 5


def told_of_code(result: ExperimentResult) -> tuple[str, bool | None]:
    claim = result.claims[-1]
    assert (claim.text, claim.required) == ("all results are of one state of the code", False)
    return claim.ours, claim.holds


def test_results_say_which_code_has_played_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "code_digest", lambda: "aaaa")
    result = run(squares([]), tmp_path)
    assert told_of_code(result) == ("5 by aaaa", True)
    assert (tmp_path / RESULTS).read_bytes().count(b',"code":"aaaa"}\n') == 5
    assert json.loads((tmp_path / "claims.json").read_bytes())[-1]["ours"] == "5 by aaaa"
    # Later code that has nothing to play tells the same, to the byte.
    before = files_of(tmp_path)
    monkeypatch.setattr(runner, "code_digest", lambda: "bbbb")
    assert run(squares([]), tmp_path) == result
    assert files_of(tmp_path) == before


def test_results_of_another_code_are_kept_and_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Task] = []
    for code, first in (("aaaa", 2), ("bbbb", 3)):
        monkeypatch.setattr(runner, "code_digest", lambda code=code: code)
        run(squares(calls), tmp_path, first=first)
    # As earlier releases wrote them.
    lines = (tmp_path / RESULTS).read_bytes()
    (tmp_path / RESULTS).write_bytes(lines.replace(b',"code":"aaaa"', b""))
    assert told_of_code(run(squares(calls), tmp_path)) == ("3 by bbbb, 2 of unknown code", False)
    assert len(calls) == 5
    assert (tmp_path / RESULTS).read_bytes().splitlines()[0].endswith(b'"third":0.0}}')


def test_results_of_which_no_code_is_known_stay_as_they_are(tmp_path: Path) -> None:
    run(squares([]), tmp_path)
    lines = [line.partition(b',"code"')[0] + b"}\n" for line in (tmp_path / RESULTS).read_bytes().splitlines()]
    (tmp_path / RESULTS).write_bytes(b"".join(lines))
    assert told_of_code(run(squares([]), tmp_path)) == ("5 of unknown code", None)
    assert (tmp_path / RESULTS).read_bytes() == b"".join(lines)


def test_the_digest_is_of_all_that_a_simulation_may_import(tmp_path: Path) -> None:
    package = tmp_path / "package"
    (package / "core").mkdir(parents=True)
    (package / "entrypoints").mkdir()
    (package / "core" / "rule.py").write_text("A = 1\n")
    (package / "entrypoints" / "shown.py").write_text("A = 1\n")
    digest = code_digest(package)
    assert len(digest) == 12
    (package / "entrypoints" / "shown.py").write_text("A = 2\n")
    assert code_digest(package) == digest
    (package / "core" / "rule.py").rename(package / "core" / "law.py")
    renamed = code_digest(package)
    (package / "core" / "law.py").write_text("A = 2\n")
    assert len({digest, renamed, code_digest(package)}) == 3
    assert code_digest() == code_digest()


def test_a_folder_in_use_is_refused(tmp_path: Path) -> None:
    with opened(tmp_path, squares([]), small=False), pytest.raises(OnePreemptError, match="another process"):
        run(squares([]), tmp_path)


def test_an_experiment_runs_without_a_folder_too() -> None:
    assert [row["square"] for row in squares([]).run().rows] == [0, 1, 4, 9, 16]


def test_nothing_of_a_simulation_stays_in_memory() -> None:
    found = experiment(NAME)
    assert isinstance(found, ReplicatedExperiment)
    task = found.tasks(True)[0]
    gc.collect()
    gc.disable()
    try:
        runner._simulate(NAME, None, task)
        left = [one for one in gc.get_objects() if isinstance(one, Simulator)]
    finally:
        gc.enable()
    assert not left
