"""SIGKILL at the boundaries of an image that comes to a host, and of one that makes room: each is where it was to be.

A boundary is each write, each call to oned, each order for an image.
"""

from __future__ import annotations

import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.stories.images_at_hosts import (
    LINK_S,
    MARGIN_S,
    cloud_with_images,
    copies_awaited,
    disk,
    held,
    known,
    reservation,
    settings_with_programs,
)
from tests.stories.killed_daemon import APART, NEVER, Ending, KilledOnce, assert_same_end_whenever_killed
from tests.stories.world import World

START_IN_S = 600
PARTS = 1
PATIENCE_S = 60
ImageEnding = Ending[str]


class Origin(NamedTuple):
    """A world whose daemon is at rest right before the order is due, with the folder in which its hosts' disks are."""

    world: World
    disks: Path
    before: dict[str, set[str]]
    wanted: dict[str, set[str]]
    undisturbed: ImageEnding


def _play(origin_disks: Path, before: dict[str, set[str]], wanted: dict[str, set[str]], world: World) -> ImageEnding:
    """Until the ledger and the disks say what is wanted; the calls are the orders that programs got."""
    shutil.rmtree(origin_disks / "hosts", ignore_errors=True)
    (origin_disks / "copies").unlink(missing_ok=True)
    for host, files in before.items():
        (origin_disks / "hosts" / host).mkdir(parents=True)
        for file in files:
            (origin_disks / "hosts" / host / file).write_bytes(b"x")
    killed = KilledOnce(world)

    def is_over() -> bool:
        transfers, pools = known(world)
        return not transfers and _by_name(world, pools) == wanted

    killed.cycle_until(is_over, at_most=12)
    assert is_over(), world.daemon.log
    states = [f"{host} holds {', '.join(sorted(files))}" for host, files in sorted(held(origin_disks).items())]
    return killed.ending(states, Counter())


def _by_name(world: World, pools: dict[int, set[int]]) -> dict[str, set[str]]:
    return {f"node{host_id}": {str(image) for image in images} for host_id, images in pools.items()}


def _world(folder: Path, **staging: object) -> World:
    cloud = cloud_with_images(folder, hosts=1)
    settings = settings_with_programs(folder)
    settings["image_staging"] |= staging
    return World.begin(folder, cloud, settings, copies_awaited)


def _at_rest_before_the_order(world: World) -> None:
    start_s = world.emulator.now_s + START_IN_S
    world.submit("eva", lease=reservation(START_IN_S, world.emulator.now_s), more=disk(1), hold=True)
    world.cycle()
    world.cycle(start_s - MARGIN_S - LINK_S - 90 - world.emulator.now_s)
    world.daemon.kill()


@pytest.fixture(scope="module", params=["an image comes", "another makes room for it"])
def origin(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Origin]:
    folder = tmp_path_factory.mktemp("origin")
    makes_room = request.param == "another makes room for it"
    world = _world(folder, **({"pool_mib": 1500} if makes_room else {}))
    with closing(world):
        before: dict[str, set[str]] = {}
        if makes_room:
            before = {"node0": {"0"}}
            (folder / "hosts" / "node0").mkdir(parents=True)
            (folder / "hosts" / "node0" / "0").write_bytes(b"x")
            gives_up_at_s = time.monotonic() + PATIENCE_S
            while not known(world)[1]:
                assert time.monotonic() < gives_up_at_s, world.daemon.log
                world.cycle(0)
        _at_rest_before_the_order(world)
        own = folder / "undisturbed"
        own.mkdir()
        wanted = {"node0": {"1"}}
        with closing(world.copy(own, NEVER)) as twin:
            undisturbed = _play(folder, before, wanted, twin)
        assert undisturbed.states == ["node0 holds 1"]
        assert undisturbed.boundaries > 5
        yield Origin(world, folder, before, wanted, undisturbed)


@pytest.mark.parametrize("part", range(PARTS))
def test_killed_anywhere_the_image_is_where_it_was_to_be(origin: Origin, part: int, tmp_path: Path) -> None:
    def play(own_folder: Path, dies_at: int) -> ImageEnding:
        with closing(origin.world.copy(own_folder, dies_at)) as world:
            return _play(origin.disks, origin.before, origin.wanted, world)

    assert_same_end_whenever_killed(play, origin.undisturbed, part, tmp_path, PARTS, APART)


def until(done: Callable[[], bool]) -> None:
    gives_up_at_s = time.monotonic() + PATIENCE_S
    while not done():
        assert time.monotonic() < gives_up_at_s


def test_a_copy_that_outlives_its_daemon_and_its_successor_do_not_disturb_each_other(tmp_path: Path) -> None:
    """The program goes on after SIGKILL, and the next daemon orders the same at once: both end, and all is well."""
    waits = (
        '#!/bin/sh\nset -e\nmkdir -p "{folder}/hosts/$2"\necho "$$" >> "{folder}/copies"\n'
        'until [ -e "{folder}/go" ]; do sleep 0.02; done\n'
        'cp "$1" "{folder}/hosts/$2/.$3.$$"\nmv "{folder}/hosts/$2/.$3.$$" "{folder}/hosts/$2/$3"\n'
    )
    world = World.begin(tmp_path, cloud_with_images(tmp_path, hosts=1), settings_with_programs(tmp_path, waits))
    copies = tmp_path / "copies"

    def begun() -> int:
        return len(copies.read_text().split()) if copies.exists() else 0

    with closing(world):
        _at_rest_before_the_order(world)
        for number in (1, 2):
            world.restart_daemon()
            world.cycle(90 if number == 1 else 15)
            until(lambda number=number: begun() == number)  # type: ignore[misc]
        assert known(world)[1] == {}
        (tmp_path / "go").touch()
        gives_up_at_s = time.monotonic() + PATIENCE_S
        while not known(world)[1]:
            assert time.monotonic() < gives_up_at_s, world.daemon.log
            world.cycle(0)
        until(lambda: held(tmp_path) == {"node0": {"1"}})
        assert begun() == 2
        assert known(world) == ({}, {0: {1}})
