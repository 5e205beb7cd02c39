"""A play that is repeated with the daemon killed at another boundary each time: the end must be the same.

Every boundary is tried in one process (`tests/test_preemption_crashes.py`). Here, where a process is really killed,
every seventh is in each run, and with ONE_PREEMPT_BOUNDARIES=all every one: an action has three of them, its attempt
written down, its call, and the answer written down, and seven is no multiple of three, so that all kinds are met.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Hashable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from tests.stories.processes import DaemonDied
from tests.stories.world import World

# Later than any boundary: nobody is killed.
NEVER = 10_000
# As many parts as keep both processors busy; each looks at every boundary that falls to it.
PARTS = 4
ALL_BOUNDARIES = os.environ.get("ONE_PREEMPT_BOUNDARIES") == "all"
APART = 1 if ALL_BOUNDARIES else 7
CallT = TypeVar("CallT", bound=Hashable)


@dataclass(frozen=True)
class Ending(Generic[CallT]):
    """Final states, the calls that oned accepted, how many boundaries there were, and whether the daemon died."""

    states: list[str]
    calls: Counter[CallT]
    boundaries: int
    died: bool


class KilledOnce:
    """Cycles of a world whose daemon may die, and is then started again. `watch` looks after each, and at the death."""

    def __init__(self, world: World, watch: Callable[[World], None] = lambda _world: None) -> None:
        self.world = world
        self.died = False
        self._watch = watch

    def cycle_until(self, end: Callable[[], bool], at_most: int) -> None:
        for _ in range(at_most):
            try:
                self.world.cycle()
            except DaemonDied:
                self.died = True
                self._watch(self.world)
                self.world.restart_daemon()
                self.world.cycle()
            self._watch(self.world)
            if end():
                return

    def ending(self, states: list[str], calls: Counter[CallT]) -> Ending[CallT]:
        return Ending(states, calls, int(self.world.daemon.boundary_file.read_text()), self.died)


@contextmanager
def running_lease(world: World, terms: dict[str, Any]) -> Iterator[tuple[World, list[int]]]:
    """A world in which a lease of eva's runs, its daemon at rest, to be copied for each play."""
    with closing(world):
        lease = [world.submit("eva", lease=terms) for _ in range(int(terms["SIZE"]))]
        world.until(lambda: all(map(world.is_running, lease)))
        world.cycle()
        world.daemon.kill()
        yield world, lease


def assert_same_end_whenever_killed(
    play: Callable[[Path, int], Ending[CallT]],
    undisturbed: Ending[CallT],
    part: int,
    folder: Path,
    parts: int = PARTS,
    apart: int = APART,
) -> None:
    """Play with a kill at each boundary that falls to `part`; `play` takes a folder of its own and the boundary.

    Boundaries that lie `apart` are dealt out to all parts in turn.
    """
    for dies_at in range(1 + part * apart, undisturbed.boundaries + 1, parts * apart):
        own_folder = folder / str(dies_at)
        own_folder.mkdir()
        end = play(own_folder, dies_at)
        assert end.died, f"boundary {dies_at} was never reached"
        assert end.states == undisturbed.states, f"killed at boundary {dies_at}: {end.states}"
        more, fewer = end.calls - undisturbed.calls, undisturbed.calls - end.calls
        assert end.calls == undisturbed.calls, f"killed at boundary {dies_at}: {more} more, {fewer} fewer"
