"""SIGKILL at every boundary of a preemption: before and after each write to the store and each call to oned.

A lease of three VMs is preempted for a request of two. Wherever the daemon dies, the one started after it comes to
the same end, and oned has accepted every call exactly once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.stories.processes import DaemonDied
from tests.stories.world import World, description

NEVER = 10_000
GANG = {"TYPE": "BE-SUSPENDABLE", "NAME": "sweep", "SIZE": 3}
REQUEST = {"TYPE": "DC-NON-PREEMPTABLE", "NAME": "assay", "SIZE": 2}
Calls = Counter[tuple[str, str, int]]


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[World, list[int]]]:
    """A world in which the lease runs, to be copied for each play."""
    cloud = description([{"name": "node0", "cpu": 3, "memory_mib": 8192}], instant=True)
    world = World.begin(tmp_path_factory.mktemp("prepared"), cloud)
    try:
        lease = [world.submit("eva", lease=GANG) for _ in range(3)]
        world.until(lambda: all(map(world.is_running, lease)))
        world.cycle()
        world.daemon.kill()
        yield world, lease
    finally:
        world.close()


def _play(prepared: tuple[World, list[int]], folder: Path, dies_at: int) -> tuple[list[str], Calls, int, bool]:
    """Final states, the calls that oned accepted, how many boundaries there were, and whether the daemon died."""
    died = False
    origin, lease = prepared
    world = origin.copy(folder, dies_at)

    def cycle_until(end: Callable[[], bool], at_most: int) -> None:
        nonlocal died
        for _ in range(at_most):
            try:
                world.cycle()
            except DaemonDied:
                died = True
                world.restart_daemon()
                world.cycle()
            if end():
                return

    try:
        before = len(world.emulator.log())
        request = [world.submit("lea", lease=REQUEST) for _ in range(2)]
        cycle_until(lambda: all(map(world.is_running, request)), at_most=9)
        assert all(map(world.is_running, request)), world.daemon.log
        cycle_until(lambda: True, at_most=1)
        for vm_id in request:
            assert world.action("lea", "terminate", vm_id)
        cycle_until(lambda: all(map(world.is_running, lease)), at_most=5)
        # The cycles in which nothing is left to do: what is done twice is done here.
        cycle_until(lambda: False, at_most=2)
        states = [world.state(vm_id) for vm_id in (*lease, *request)]
        assert world.emulator.audit() == []
        return states, _accepted(world, before), int(world.daemon.boundary_file.read_text()), died
    finally:
        world.close()


def _accepted(world: World, first: int) -> Calls:
    """How often oned accepted each call of the daemon on a VM; without HOLDs, of which there is one at most."""
    calls: Calls = Counter()
    for call in world.emulator.log(first):
        if call["user"] == "oneadmin" and not call["code"] and call["method"] in ("one.vm.action", "one.vm.deploy"):
            arguments = call["arguments"]
            name, vm_id = arguments if call["method"] == "one.vm.action" else ("deploy", arguments[0])
            calls[(call["method"], name, vm_id)] += 1
    holds = [call for call in calls if call[1] == "hold"]
    # Room that came free while the daemon was away spares a VM its HOLD; twice it must not happen either.
    assert all(calls.pop(hold) == 1 for hold in holds)
    return calls


@pytest.fixture(scope="module")
def undisturbed(
    prepared: tuple[World, list[int]], tmp_path_factory: pytest.TempPathFactory
) -> tuple[list[str], Calls, int]:
    states, calls, boundaries, _ = _play(prepared, tmp_path_factory.mktemp("undisturbed"), NEVER)
    return states, calls, boundaries


def test_undisturbed_the_lease_leaves_once_and_returns(undisturbed: tuple[list[str], Calls, int]) -> None:
    states, calls, _ = undisturbed
    assert states == ["3/3", "3/3", "3/3", "6/0", "6/0"]
    assert {name: sum(n for (_, of, _), n in calls.items() if of == name) for name in ("stop", "deploy")} == {
        "stop": 3,
        "deploy": 5,
    }


# As many parts as keep both processors busy; each looks at every boundary that falls to it.
PARTS = 8


@pytest.mark.parametrize("part", range(PARTS))
def test_whenever_the_daemon_is_killed_the_end_is_the_same(
    part: int,
    prepared: tuple[World, list[int]],
    undisturbed: tuple[list[str], Calls, int],
    tmp_path: Path,
) -> None:
    states, calls, boundaries = undisturbed
    assert boundaries > 40
    for dies_at in range(1 + part, boundaries + 1, PARTS):
        folder = tmp_path / str(dies_at)
        folder.mkdir()
        end, seen, _, died = _play(prepared, folder, dies_at)
        assert died, f"boundary {dies_at} was never reached"
        assert end == states, f"killed at boundary {dies_at}"
        assert seen == calls, f"killed at boundary {dies_at}: {seen - calls} more, {calls - seen} fewer"
