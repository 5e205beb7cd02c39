"""Images come to hosts before reservations start there: daemon and emulator as processes, and programs that copy."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from one_preempt.composition import open_store
from one_preempt.configuration.settings import Settings, StoreSettings
from tests.stories.images_at_hosts import (
    LINK_S,
    MARGIN_S,
    cloud_with_images,
    copies_awaited,
    disk,
    held,
    host_of,
    known,
    reservation,
    settings_with_programs,
)
from tests.stories.world import CYCLE_S, World

PATIENCE_S = 60
START_IN_S = 600


def cycle_until(world: World, at_s: int, done: Callable[[], bool]) -> None:
    """Cycles at their pace until then, and after that as many as it takes while hardly any time passes."""
    gives_up_at_s = time.monotonic() + PATIENCE_S
    while world.emulator.now_s < at_s or not done():
        assert time.monotonic() < gives_up_at_s, world.daemon.log
        world.cycle(CYCLE_S if world.emulator.now_s < at_s else 0)


def test_images_are_there_when_their_reservation_starts(tmp_path: Path) -> None:
    world = World.begin(tmp_path, cloud_with_images(tmp_path), settings_with_programs(tmp_path))
    with closing(world):
        start_s = world.emulator.now_s + START_IN_S
        vm = world.submit("eva", lease=reservation(START_IN_S, world.emulator.now_s), more=disk(1), hold=True)
        world.cycles(2)
        # Just in time: nothing is copied ten minutes ahead.
        assert held(tmp_path) == {}
        world.cycle(start_s - MARGIN_S - LINK_S - CYCLE_S - world.emulator.now_s)
        assert held(tmp_path) == {}
        cycle_until(world, start_s - MARGIN_S, lambda: bool(known(world)[1]))
        assert world.emulator.now_s < start_s
        (host,) = held(tmp_path)
        assert held(tmp_path) == {host: {"1"}}
        assert not world.is_deployed(vm)
        world.until(lambda: world.is_running(vm))
        assert host_of(world, vm) == host
        assert (tmp_path / "copies").read_text() == f"1 {host}\n"
        assert f"image 1 is brought to host {host}" in world.daemon.log
        assert f"image 1 on host {host}: is there" in world.daemon.log


def test_what_a_host_holds_already_is_seen_and_not_copied_again(tmp_path: Path) -> None:
    world = World.begin(tmp_path, cloud_with_images(tmp_path, hosts=1), settings_with_programs(tmp_path))
    with closing(world):
        disks = tmp_path / "hosts" / "node0"
        disks.mkdir(parents=True)
        (disks / "0").write_bytes(b"x")
        cycle_until(world, world.emulator.now_s, lambda: bool(known(world)[1]))
        # There is no time for a copy any more.
        vm = world.submit("eva", lease=reservation(60, world.emulator.now_s), more=disk(0), hold=True)
        world.until(lambda: world.is_running(vm))
        assert not (tmp_path / "copies").exists()


@pytest.mark.parametrize(
    ("bring", "more", "why"),
    [
        ("#!/bin/sh\necho no room on $2 >&2; exit 3\n", {}, "ended with exit code 3: no room on node"),
        ("#!/bin/sh\nsleep 600\n", {"timeout_s": 0.2}, "did not end within 0.2 s and was killed"),
        ("#!/bin/sh\nyes\n", {}, "wrote without end and was killed"),
        ("#!/nonexistent/interpreter\n", {}, "cannot run"),
        ("#!/bin/sh\nkill -9 $$\n", {}, "was ended by a signal"),
    ],
)
def test_whatever_the_programs_do_the_reservation_starts_in_time(
    tmp_path: Path, bring: str, more: dict[str, object], why: str
) -> None:
    world = World.begin(
        tmp_path, cloud_with_images(tmp_path), settings_with_programs(tmp_path, bring, **more), copies_awaited
    )
    with closing(world):
        start_s = world.emulator.now_s + START_IN_S
        vm = world.submit("eva", lease=reservation(START_IN_S, world.emulator.now_s), more=disk(0), hold=True)
        world.cycle()
        world.cycle(START_IN_S - MARGIN_S - LINK_S - 2 * CYCLE_S)
        while world.emulator.now_s < start_s:
            world.cycle()
        world.until(lambda: world.is_deployed(vm), cycles=4)
        assert why in world.daemon.log
        # As often as is configured, and no more.
        assert world.daemon.log.count("stage/0/") == 3, world.daemon.log
        assert "(attempt 3)" in world.daemon.log
        assert "Traceback" not in world.daemon.log


def test_while_it_is_paused_nothing_is_copied(tmp_path: Path) -> None:
    world = World.begin(tmp_path, cloud_with_images(tmp_path), settings_with_programs(tmp_path), copies_awaited)
    with closing(world):
        start_s = world.emulator.now_s + START_IN_S
        world.submit("eva", lease=reservation(START_IN_S, world.emulator.now_s), more=disk(0), hold=True)
        world.cycle()
        with closing(open_store(Settings(store=StoreSettings(url=f"sqlite:///{world.ledger}")))) as store:
            store.set_paused(True, world.emulator.now_s)
            while world.emulator.now_s < start_s - 110:
                world.cycle(60)
            assert held(tmp_path) == {}
            store.set_paused(False, world.emulator.now_s)
        world.cycle()
        assert list(held(tmp_path).values()) == [{"0"}]
