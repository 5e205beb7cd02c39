"""The whole way over a real socket: a daemon process against an emulator process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.stories.world import World, description

SUSPENDABLE = {"TYPE": "BE-SUSPENDABLE"}


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World.begin(tmp_path, description([{"name": "node{}", "count": 2, "cpu": 2, "memory_mib": 8192}]))
    yield made
    made.close()


def test_external_leases_leave_for_a_local_request_and_return_after_it(world: World) -> None:
    externals = [world.submit("eva", lease=SUSPENDABLE) for _ in range(4)]
    world.until(lambda: all(map(world.is_running, externals)))
    request = world.submit("lea", cpu=2)
    world.until(lambda: world.is_running(request))
    away = [vm_id for vm_id in externals if not world.is_running(vm_id)]
    assert len(away) == 2
    assert all(world.state(vm_id) == "4/0" for vm_id in away), "the victims are STOPPED"
    assert world.action("lea", "terminate", request)
    world.until(lambda: all(map(world.is_running, externals)))
    assert world.emulator.audit() == []
