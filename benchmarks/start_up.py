"""What starting costs each command that is started again and again, as a ratio to starting Python with nothing to do.

The hook, `one-preempt-place` that asks the daemon (one that answers is at hand), and `one-preempt --version`. Times are
CPU times (user and system) of the processes, each the fastest of some runs; it exits with 1 when a limit is missed.

    python benchmarks/start_up.py [--rounds 10]
"""

from __future__ import annotations

import argparse
import os
import socket
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

RECORDED = Path(__file__).resolve().parent.parent / "tests" / "recordings" / "7.4.0"
EXECUTABLES = Path(sys.executable).parent
NOTHING = [sys.executable, "-c", "pass"]
# Each with what it is given on standard input, and how many starts of Python it may cost.
COMMANDS: dict[str, tuple[list[str], Path | None, float]] = {
    "one-preempt-hook": ([str(EXECUTABLES / "one-preempt-hook")], RECORDED / "hook.vm_state.stdin.base64.txt", 4),
    "one-preempt-place": ([str(EXECUTABLES / "one-preempt-place")], RECORDED / "place.stdin.base64.txt", 4),
    "one-preempt --version": ([str(EXECUTABLES / "one-preempt"), "--version"], None, 3),
}


def answer(listening: socket.socket) -> None:
    """Be the daemon: say yes to whoever asks, until the process ends."""
    while True:
        connection, _ = listening.accept()
        with connection:
            while not connection.recv(1 << 16).endswith(b"\n"):
                pass
            connection.sendall(b'{"ok": true}\n')


def cpu_s(command: list[str], standard_input: Path | None, environment: dict[str, str]) -> float:
    """CPU time of one run."""
    with (standard_input or Path(os.devnull)).open("rb") as stream:
        process = subprocess.Popen(command, stdin=stream, stdout=subprocess.DEVNULL, env=environment)
        _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{command[0]} ended with status {status}")
    return usage.ru_utime + usage.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10)
    options = parser.parse_args()

    fastest = dict.fromkeys(COMMANDS, float("inf"))
    nothing = float("inf")
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as listening:
        configuration = Path(folder) / "one_preempt.conf"
        configuration.write_text(f"socket:\n  path: {folder}/daemon.sock\n")
        environment = {**os.environ, "ONE_PREEMPT_CONF": str(configuration)}
        listening.bind(f"{folder}/daemon.sock")
        listening.listen()
        threading.Thread(target=answer, args=(listening,), daemon=True).start()
        for _ in range(options.rounds):
            nothing = min(nothing, cpu_s(NOTHING, None, environment))
            for name, (command, standard_input, _) in COMMANDS.items():
                fastest[name] = min(fastest[name], cpu_s(command, standard_input, environment))

    print(f"{'python -c pass':<24}{nothing * 1000:6.0f} ms")
    for name, (_, _, limit) in COMMANDS.items():
        print(f"{name:<24}{fastest[name] * 1000:6.0f} ms, ratio {fastest[name] / nothing:.1f}, limit {limit}")
    missed = [name for name, (_, _, limit) in COMMANDS.items() if fastest[name] > limit * nothing]
    if missed:
        raise SystemExit(f"slower than the limit: {', '.join(missed)}")


if __name__ == "__main__":
    main()
