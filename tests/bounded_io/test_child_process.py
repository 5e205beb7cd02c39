"""Programs that end, hang, write without end, leave children behind: each is heard in part, and for a bounded time."""

from __future__ import annotations

import os
import time
from pathlib import Path
from threading import Thread

import pytest

from one_preempt.bounded_io.child_process import MOST_WRITTEN_BYTES, Children, NotStarted, TookTooLong, WroteTooMuch

PATIENCE_S = 60


def shell(script: str, timeout_s: float = PATIENCE_S) -> tuple[int, str, str]:
    finished = Children().run(["/bin/sh", "-c", script], timeout_s)
    return finished.code, finished.output, finished.errors


def test_what_a_program_says_and_how_it_ends_is_told() -> None:
    assert shell("echo out; echo err >&2; exit 3") == (3, "out\n", "err\n")


def test_of_megabytes_only_the_start_is_kept() -> None:
    code, output, errors = shell("yes | head -c 8000000; yes no | head -c 8000000 >&2")
    assert code == 0
    assert output == "y\n" * 8192
    assert errors.startswith("no\nno\n")
    assert len(errors) == 16384


def test_who_writes_without_end_is_killed_and_not_waited_for() -> None:
    assert MOST_WRITTEN_BYTES < 1 << 30
    with pytest.raises(WroteTooMuch):
        shell("yes")


def test_who_hangs_is_killed_with_its_children(tmp_path: Path) -> None:
    with pytest.raises(TookTooLong):
        shell(f"sleep 600 & echo $! > {tmp_path}/child; wait", 0.3)
    child = int((tmp_path / "child").read_text())
    gives_up_at = time.monotonic() + PATIENCE_S
    while _runs(child):
        assert time.monotonic() < gives_up_at


def test_a_child_that_stays_behind_may_go_on_writing(tmp_path: Path) -> None:
    go, done = tmp_path / "go", tmp_path / "done"
    os.mkfifo(go)
    code, output, _ = shell(f"(read word < {go}; yes | head -c 200000; echo there > {done}) & echo begun")
    assert (code, output) == (0, "begun\n")
    go.write_text("on\n")
    gives_up_at = time.monotonic() + PATIENCE_S
    while not done.exists():
        assert time.monotonic() < gives_up_at


def test_a_program_that_is_missing_is_told() -> None:
    with pytest.raises(NotStarted, match="No such file"):
        Children().run(["/nonexistent/program"], PATIENCE_S)


def test_all_of_a_purpose_are_ended_together_and_others_go_on(tmp_path: Path) -> None:
    mine, others = Children(), Children()
    codes: dict[str, int] = {}

    def run(name: str, children: Children, script: str) -> None:
        codes[name] = children.run(["/bin/sh", "-c", f"echo > {tmp_path}/{name}; {script}"], PATIENCE_S).code

    os.mkfifo(tmp_path / "go")
    threads = [
        Thread(target=run, args=("mine", mine, "exec sleep 600")),
        Thread(target=run, args=("theirs", others, f"read word < {tmp_path}/go")),
    ]
    for thread in threads:
        thread.start()
    while not ((tmp_path / "mine").exists() and (tmp_path / "theirs").exists()):
        pass
    mine.end()
    threads[0].join(PATIENCE_S)
    assert codes == {"mine": -9}
    (tmp_path / "go").write_text("on\n")
    threads[1].join(PATIENCE_S)
    assert codes == {"mine": -9, "theirs": 0}


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split(") ")[1][0] != "Z"
    except OSError:
        return False
