"""Suspended in place, over the wire: SIGKILL at every boundary, and everybody who acts meanwhile.

Whatever happens, no host ever runs more than it has, and no VM stays locked by the daemon for ever.
"""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.stories.processes import DaemonDied
from tests.stories.world import SETTINGS, World, description

NEVER = 10_000
GANG = {"TYPE": "BE-SUSPENDABLE", "NAME": "sweep", "SIZE": 2}
SERIAL = {"TYPE": "BE-SUSPENDABLE"}
REQUEST = {"TYPE": "DC-NON-PREEMPTABLE", "NAME": "assay", "SIZE": 2}
URGENT = {"TYPE": "DC-NON-PREEMPTABLE"}
IN_PLACE: dict[str, Any] = {
    **SETTINGS,
    "victims": {"suspend_in_place": True, "methods": {"BE-SUSPENDABLE": ["suspend", "stop"]}},
}
RUNNING, SUSPENDED, STOPPED, DONE = "3/3", "5/0", "4/0", "6/0"
MANAGE, USE = 2, 1
CALLS = ("one.vm.action", "one.vm.deploy", "one.vm.lock", "one.vm.unlock")
Calls = Counter[tuple[str, int]]


def _begin(folder: Path, hosts: list[dict[str, Any]]) -> World:
    return World.begin(folder, description(hosts, instant=True), IN_PLACE)


def _lock_of(world: World, vm_id: int) -> tuple[int, int] | None:
    """(level, owner) of the lock of a VM."""
    lock = world.vm(vm_id).find("LOCK")
    return None if lock is None else (int(lock.findtext("LOCKED", "0")), int(lock.findtext("OWNER", "-1")))


def _is_sound(world: World) -> bool:
    """The books are right, no host ran too much, and of the daemon's calls none was refused."""
    assert world.emulator.audit() == []
    assert json.loads(world.emulator.control("overloads")) == []
    assert "Traceback" not in world.daemon.log
    return True


def _refused(world: World) -> list[dict[str, Any]]:
    return [call for call in world.emulator.log() if call["user"] == "oneadmin" and call["code"]]


# -- SIGKILL ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[World, list[int]]]:
    """A world in which the lease runs, to be copied for each play."""
    world = _begin(tmp_path_factory.mktemp("prepared"), [{"name": "node0", "cpu": 2, "memory_mib": 8192}])
    try:
        lease = [world.submit("eva", lease=GANG) for _ in range(2)]
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
        cycle_until(lambda: all(map(world.is_running, request)), at_most=12)
        assert all(map(world.is_running, request)), world.daemon.log
        assert [world.state(vm_id) for vm_id in lease] == [SUSPENDED, SUSPENDED]
        assert [_lock_of(world, vm_id) for vm_id in lease] == [(MANAGE, 0), (MANAGE, 0)]
        cycle_until(lambda: False, at_most=2)
        for vm_id in request:
            assert world.action("lea", "terminate", vm_id)
        cycle_until(lambda: all(map(world.is_running, lease)), at_most=8)
        cycle_until(lambda: False, at_most=2)
        states = [world.state(vm_id) for vm_id in (*lease, *request)]
        assert [_lock_of(world, vm_id) for vm_id in lease] == [None, None]
        assert _is_sound(world)
        assert [call for call in _refused(world) if call["method"] != "one.vm.update"] == []
        return states, _accepted(world, before), int(world.daemon.boundary_file.read_text()), died
    finally:
        world.close()


def _accepted(world: World, first: int) -> Calls:
    """How often oned accepted each call of the daemon on a VM; without HOLDs, of which there is one at most."""
    calls: Calls = Counter()
    for call in world.emulator.log(first):
        if call["user"] == "oneadmin" and not call["code"] and call["method"] in CALLS:
            arguments = call["arguments"]
            name, vm_id = arguments if call["method"] == "one.vm.action" else (call["method"], arguments[0])
            calls[(name, vm_id)] += 1
    return Counter({call: count for call, count in calls.items() if call[0] != "hold"})


@pytest.fixture(scope="module")
def undisturbed(
    prepared: tuple[World, list[int]], tmp_path_factory: pytest.TempPathFactory
) -> tuple[list[str], Calls, int]:
    states, calls, boundaries, _ = _play(prepared, tmp_path_factory.mktemp("undisturbed"), NEVER)
    return states, calls, boundaries


def test_undisturbed_each_step_is_taken_once(undisturbed: tuple[list[str], Calls, int]) -> None:
    states, calls, _ = undisturbed
    assert states == [RUNNING, RUNNING, DONE, DONE]
    assert Counter(name for (name, _), count in calls.items() for _ in range(count)) == {
        "suspend": 2, "one.vm.lock": 2, "one.vm.deploy": 2, "one.vm.unlock": 2, "resume": 2,
    }  # fmt: skip


PARTS = 8


@pytest.mark.parametrize("part", range(PARTS))
def test_whenever_the_daemon_is_killed_the_end_is_the_same(
    part: int,
    prepared: tuple[World, list[int]],
    undisturbed: tuple[list[str], Calls, int],
    tmp_path: Path,
) -> None:
    states, calls, boundaries = undisturbed
    assert boundaries > 60
    for dies_at in range(1 + part, boundaries + 1, PARTS):
        folder = tmp_path / str(dies_at)
        folder.mkdir()
        end, seen, _, died = _play(prepared, folder, dies_at)
        assert died, f"boundary {dies_at} was never reached"
        assert end == states, f"killed at boundary {dies_at}"
        assert seen == calls, f"killed at boundary {dies_at}: {seen - calls} more, {calls - seen} fewer"
