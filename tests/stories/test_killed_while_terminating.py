"""SIGKILL at the boundaries of a preemption that terminates: the victim's owner has read why before it goes."""

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

GANG = {"TYPE": "BE-CANCELLABLE", "NAME": "sweep", "SIZE": 2}
Told = tuple[int, str]


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[World, list[int]]]:
    cloud = description([{"name": "node0", "cpu": 2, "memory_mib": 8192}], instant=True)
    with running_lease(World.begin(tmp_path_factory.mktemp("prepared"), cloud), GANG) as running:
        yield running


def _play(prepared: tuple[World, list[int]], folder: Path, dies_at: int) -> Ending[Told]:
    origin, lease = prepared
    with closing(origin.copy(folder, dies_at)) as world:
        killed = KilledOnce(world)
        before = len(world.emulator.log())
        request = world.submit("lea", lease={"TYPE": "DC-NON-PREEMPTABLE"}, cpu=2)
        killed.cycle_until(lambda: world.is_running(request), at_most=9)
        killed.cycle_until(lambda: False, at_most=2)
        states = [world.state(vm_id) for vm_id in (*lease, request)]
        assert world.emulator.audit() == []
        return killed.ending(states, _told_then_ended(world, before, lease))


def _told_then_ended(world: World, first: int, vm_ids: list[int]) -> Counter[Told]:
    """Who had been told what when its termination was accepted."""
    told: dict[int, str] = {}
    found: list[Told] = []
    for call in world.emulator.log(first):
        if call["user"] != "oneadmin" or call["code"]:
            continue
        arguments = call["arguments"]
        if call["method"] == "one.vm.update" and "terminated to make room" in arguments[1]:
            told[arguments[0]] = "told why"
        elif call["method"] == "one.vm.action" and arguments[0].startswith("terminate"):
            found.append((arguments[1], told.get(arguments[1], "told nothing")))
    assert len(found) <= len(vm_ids)
    return Counter(found)


@pytest.fixture(scope="module")
def undisturbed(prepared: tuple[World, list[int]], tmp_path_factory: pytest.TempPathFactory) -> Ending[Told]:
    return _play(prepared, tmp_path_factory.mktemp("undisturbed"), NEVER)


def test_undisturbed_all_are_told_before_they_go(undisturbed: Ending[Told]) -> None:
    assert undisturbed.states == ["6/0", "6/0", "3/3"]
    assert {told for _, told in undisturbed.calls} == {"told why"}
    assert len(undisturbed.calls) == 2


@pytest.mark.parametrize("part", range(PARTS))
def test_whenever_the_daemon_is_killed_all_are_told_before_they_go(
    part: int, prepared: tuple[World, list[int]], undisturbed: Ending[Told], tmp_path: Path
) -> None:
    assert undisturbed.boundaries > 20
    assert_same_end_whenever_killed(
        lambda folder, dies_at: _play(prepared, folder, dies_at), undisturbed, part, tmp_path
    )
