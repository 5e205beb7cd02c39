"""``python -m one_preempt.simulation.emulator``: the emulator as a process, for tests."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from one_preempt.errors import OnePreemptError
from one_preempt.simulation.emulator.process import run_emulator
from one_preempt.simulation.emulator.server import LOOPBACK


def main() -> int:
    """Read the arguments and serve; 1 where the cloud cannot be built."""
    parser = argparse.ArgumentParser(prog="python -m one_preempt.simulation.emulator", description=__doc__)
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--description", type=Path, help="YAML description of a cloud (default: the demonstration)")
    source.add_argument("--recording", type=Path, help="folder of raw pool documents")
    parser.add_argument("--host", default=LOOPBACK)
    parser.add_argument("--port", type=int, choices=range(65536), metavar="PORT", default=0, help="0: a free one")
    parser.add_argument("--speed", type=float, default=1.0, help="seconds of the cloud a second")
    parser.add_argument("--virtual-time", action="store_true", help="time moves by the control method only")
    parser.add_argument("--control", action="store_true", help="offer the methods one_preempt.emulator.*")
    parser.add_argument("--events", metavar="ENDPOINT", help="publish changes of state over ZeroMQ there")
    arguments = parser.parse_args()
    try:
        run_emulator(**vars(arguments))
    except OnePreemptError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
