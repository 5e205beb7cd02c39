"""The programs that power control runs: begun only as long as their orders are wanted, and ended together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from one_preempt.adapters.power_control.wanted import demand_wanted
from one_preempt.bounded_io.child_process import Children, Finished

_children = Children()


def run(arguments: Sequence[str], timeout_s: float, extra_environment: Mapping[str, str] | None = None) -> Finished:
    """As `Children.run`; raises `NotWanted` as well, where it was dropped before it was begun."""
    return _children.run(arguments, timeout_s, extra_environment, before_start=demand_wanted)


def end_all() -> None:
    """Kill all that runs now, with all that it started: to whoever waits for it, it ended by signal 9."""
    _children.end()
