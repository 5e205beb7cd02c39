"""How much work a call does, counted instead of timed: the same on every machine, however busy it is."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def lines_run(work: Callable[[], object]) -> int:
    """The lines of Python that one call of `work` runs, each turn of a loop counted again.

    What a single step of the interpreter does inside C, such as copying a tuple, counts as nothing.
    """
    count = 0

    def within(_frame: FrameType, event: str, _argument: Any) -> Any:
        nonlocal count
        count += event == "line"
        return within

    before = sys.gettrace()
    sys.settrace(within)
    try:
        work()
    finally:
        sys.settrace(before)
    return count
