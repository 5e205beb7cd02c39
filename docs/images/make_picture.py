"""Makes demo.svg of this folder: the demonstration as a terminal shows it. `make picture` runs it."""

from __future__ import annotations

import io
import re
from pathlib import Path

from rich.console import Console

from one_preempt.entrypoints.demo import run_demo
from one_preempt.entrypoints.demo.screen import Screen
from one_preempt.entrypoints.demo.story import Machines, Step

PICTURE = Path(__file__).with_name("demo.svg")
COLUMNS = 110
# Whoever looks at the picture shall need no font server, and be counted by none.
FROM_ELSEWHERE = re.compile(r"@font-face\s*\{[^}]*\}\s*|<!--.*?-->\s*", re.DOTALL)


class FromTheFullCloud:
    """Shows a demonstration from the moment at which the cloud is full, so that the picture is not too tall."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._full = False

    def show(self, step: Step) -> None:
        self._full = self._full or isinstance(step, Machines)
        if self._full:
            self._screen.show(step)


def main() -> int:
    """Play the demonstration without waiting and write what it showed; 1 where it did not end well."""
    console = Console(
        record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True, color_system="truecolor", highlight=False
    )
    if not run_demo("preemption", FromTheFullCloud(Screen(console)).show, speed=0):
        return 1
    picture = console.export_svg(title="make demo", unique_id="demo")
    PICTURE.write_text(FROM_ELSEWHERE.sub("", picture), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
