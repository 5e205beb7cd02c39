"""SIGKILL at the boundaries of a host's way to sleep and back, and of a boot that hangs and has its power cut.

A boundary is each write, that of the energy's history too, each call to oned, each order to its power. Wherever the
daemon dies, no machine is ever off with a VM on it or without being OFFLINE, none is forgotten, its history has no
hole, and the end is the same. Of the boundaries a few are tried in each run, with ONE_PREEMPT_BOUNDARIES=all all of
them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import pytest

from one_preempt.composition import open_store
from one_preempt.configuration.settings import Settings, StoreSettings
from one_preempt.core.model.power_sequence import PowerPhase
from tests.stories.killed_daemon import ALL_BOUNDARIES, NEVER, Ending, KilledOnce, assert_same_end_whenever_killed
from tests.stories.switched_hosts import (
    BOOT_S,
    assert_nobody_is_harmed,
    power_settings,
    sequences,
    switched_by_emulator,
)
from tests.stories.world import World, description

PARTS = 1
# Enough to fall into every phase; odd, so that both what is before a call and what is after one is met.
APART = 1 if ALL_BOUNDARIES else 17
SHUTDOWN_S = 5
WHOLE_HOST = 2
WANTED = 2
BOOT_TIMEOUT_S = 90
Calls = Counter[tuple[str, int, int]]
PowerEnding = Ending[tuple[str, int, int]]


class Origin(NamedTuple):
    """A world whose daemon is at rest, what happens in a play that begins there, and the play undisturbed."""

    world: World
    play: Callable[[World, KilledOnce], list[int]]
    undisturbed: PowerEnding


def _falls_asleep(world: World, killed: KilledOnce) -> list[int]:
    killed.cycle_until(lambda: _phases(world) == [PowerPhase.ASLEEP], at_most=16)
    return []


def _is_woken(world: World, killed: KilledOnce) -> list[int]:
    vm_ids = [world.submit("paul", cpu=WHOLE_HOST) for _ in range(WANTED)]
    killed.cycle_until(lambda: all(map(world.is_running, vm_ids)), at_most=16)
    return vm_ids


def _hung_and_comes_up(world: World, killed: KilledOnce) -> list[int]:
    """The host has failed in its boot, for the only time; the VMs that it was woken for are there already."""
    killed.cycle_until(lambda: len(_running(world)) == WANTED, at_most=24)
    return sorted(world.states())


def _phases(world: World) -> list[PowerPhase]:
    return [one.phase for one in sequences(world).values() if one.is_ours]


def _running(world: World) -> list[int]:
    return [vm_id for vm_id in world.states() if world.is_running(vm_id)]


def _uses(world: World) -> list[str]:
    """What each host did, in words; what a host did follows what it did before without a hole."""
    with closing(open_store(Settings(store=StoreSettings(url=f"sqlite:///{world.ledger}")))) as store:
        stays = store.host_use(0, world.emulator.now_s + 1)
    for host_id in {stay.host_id for stay in stays}:
        of_host = [stay for stay in stays if stay.host_id == host_id]
        assert [one.until_s for one in of_host] == [*(one.since_s for one in of_host[1:]), None], of_host
    kinds = groupby((stay.host_id, stay.use.value) for stay in stays)
    return [f"host {host_id} {use}" for (host_id, use), _ in kinds]


def _play(world: World, play: Callable[[World, KilledOnce], list[int]]) -> PowerEnding:
    before = len(world.emulator.log())
    killed = KilledOnce(world, assert_nobody_is_harmed)
    vm_ids = play(world, killed)
    # Cycles in which nothing is left to do: what is done twice is done here.
    killed.cycle_until(lambda: False, at_most=2)
    assert world.emulator.audit() == []
    hosts = [f"host {host['id']} {host['state']}" for host in world.host_documents()]
    states = [*hosts, *(world.state(vm_id) for vm_id in vm_ids), *(phase.value for phase in _phases(world))]
    states += _uses(world)
    return killed.ending(states, _accepted(world, before))


def _accepted(world: World, first: int) -> Calls:
    """How often oned accepted each call of the daemon that sets a host's status or starts a VM."""
    return Counter(
        (call["method"], *call["arguments"][:2])
        for call in world.emulator.log(first)
        if call["user"] == "oneadmin" and not call["code"] and call["method"] in ("one.host.status", "one.vm.deploy")
    )


def _origin(
    folder: Path, factory: pytest.TempPathFactory, play: Callable[[World, KilledOnce], list[int]], settled: PowerPhase
) -> Origin:
    """`settled`: where the host that is switched stands when the play begins."""
    hosts = [{"name": f"node{number}", "cpu": WHOLE_HOST, "memory_mib": 8192} for number in range(2)]
    settings = power_settings(boot_timeout_s=BOOT_TIMEOUT_S)
    world = World.begin(folder, description(hosts, instant=True), settings, switched_by_emulator)
    world.emulator.control("power_times", BOOT_S, SHUTDOWN_S)
    if settled is not PowerPhase.AWAKE:
        world.until(lambda: _phases(world) == [PowerPhase.ASLEEP])
    if settled is PowerPhase.FAILED:
        (sleeper,) = (one.host_id for one in sequences(world).values() if one.is_ours)
        world.emulator.control("power_mishap", sleeper, "never-up")
        for _ in range(WANTED):
            world.submit("paul", cpu=WHOLE_HOST)
        world.until(lambda: _phases(world) == [settled])
        world.emulator.control("power_mishap", sleeper, "")
    world.daemon.kill()
    with closing(world.copy(factory.mktemp("undisturbed"), NEVER)) as copied:
        return Origin(world, play, _play(copied, play))


PLAYS = [
    (_falls_asleep, PowerPhase.AWAKE),
    (_is_woken, PowerPhase.ASLEEP),
    (_hung_and_comes_up, PowerPhase.FAILED),
]


@pytest.fixture(scope="module", params=PLAYS, ids=[play.__name__ for play, _ in PLAYS])
def origin(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Origin]:
    play, settled = request.param
    made = _origin(tmp_path_factory.mktemp("prepared"), tmp_path_factory, play, settled)
    yield made
    made.world.close()


@pytest.mark.parametrize("part", range(PARTS))
def test_whenever_the_daemon_is_killed_no_host_is_harmed_and_the_end_is_the_same(
    part: int, origin: Origin, tmp_path: Path
) -> None:
    def play(folder: Path, dies_at: int) -> PowerEnding:
        with closing(origin.world.copy(folder, dies_at)) as world:
            return _play(world, origin.play)

    assert origin.undisturbed.boundaries > 20
    assert_same_end_whenever_killed(play, origin.undisturbed, part, tmp_path, PARTS, APART)
