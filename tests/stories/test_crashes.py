"""SIGKILL at the boundaries of a preemption: after a write to the store or a call to oned, before the next.

A lease of three VMs is preempted for a request of two. Wherever the daemon dies, the one started after it comes to
the same end, and oned has accepted every call exactly once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.stories.killed_daemon import (
    NEVER,
    PARTS,
    Ending,
    KilledOnce,
    assert_same_end_whenever_killed,
    running_lease,
)
from tests.stories.world import World, description

GANG = {"TYPE": "BE-SUSPENDABLE", "NAME": "sweep", "SIZE": 3}
REQUEST = {"TYPE": "DC-NON-PREEMPTABLE", "NAME": "assay", "SIZE": 2}
Calls = Counter[tuple[str, str, int]]
CrashEnding = Ending[tuple[str, str, int]]


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[World, list[int]]]:
    """A world in which the lease runs, to be copied for each play."""
    cloud = description([{"name": "node0", "cpu": 3, "memory_mib": 8192}], instant=True)
    with running_lease(World.begin(tmp_path_factory.mktemp("prepared"), cloud), GANG) as running:
        yield running


def _play(prepared: tuple[World, list[int]], folder: Path, dies_at: int) -> CrashEnding:
    origin, lease = prepared
    with closing(origin.copy(folder, dies_at)) as world:
        killed = KilledOnce(world)
        before = len(world.emulator.log())
        request = [world.submit("lea", lease=REQUEST) for _ in range(2)]
        killed.cycle_until(lambda: all(map(world.is_running, request)), at_most=9)
        assert all(map(world.is_running, request)), world.daemon.log
        killed.cycle_until(lambda: True, at_most=1)
        for vm_id in request:
            assert world.action("lea", "terminate", vm_id)
        killed.cycle_until(lambda: all(map(world.is_running, lease)), at_most=5)
        # The cycles in which nothing is left to do: what is done twice is done here.
        killed.cycle_until(lambda: False, at_most=2)
        states = [world.state(vm_id) for vm_id in (*lease, *request)]
        assert world.emulator.audit() == []
        return killed.ending(states, _accepted(world, before))


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
def undisturbed(prepared: tuple[World, list[int]], tmp_path_factory: pytest.TempPathFactory) -> CrashEnding:
    return _play(prepared, tmp_path_factory.mktemp("undisturbed"), NEVER)


def test_undisturbed_the_lease_leaves_once_and_returns(undisturbed: CrashEnding) -> None:
    assert undisturbed.states == ["3/3", "3/3", "3/3", "6/0", "6/0"]
    calls = undisturbed.calls
    assert {name: sum(n for (_, of, _), n in calls.items() if of == name) for name in ("stop", "deploy")} == {
        "stop": 3,
        "deploy": 5,
    }


@pytest.mark.parametrize("part", range(PARTS))
def test_whenever_the_daemon_is_killed_the_end_is_the_same(
    part: int, prepared: tuple[World, list[int]], undisturbed: CrashEnding, tmp_path: Path
) -> None:
    assert undisturbed.boundaries > 40
    assert_same_end_whenever_killed(
        lambda folder, dies_at: _play(prepared, folder, dies_at), undisturbed, part, tmp_path
    )
