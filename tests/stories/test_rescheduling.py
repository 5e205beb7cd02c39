"""What `onehost flush` asks for is done, on the configuration as shipped, and nothing that nobody asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.stories.judge import unasked_moves
from tests.stories.world import World, description

CLOUD = description([{"name": "node0", "cpu": 4, "memory_mib": 8192}, {"name": "node1", "cpu": 4, "memory_mib": 8192}])
DISABLED = 1


@pytest.mark.parametrize(
    ("settings", "live", "stopped_by"),
    [
        ({}, False, 0),
        ({"matchmaker": {"cold_migrate_mode": "poweroff-hard"}}, False, 2),
        ({"matchmaker": {"live_rescheds": True}}, True, 0),
    ],
)
def test_a_flushed_host_is_emptied(settings: dict[str, Any], live: bool, stopped_by: int, tmp_path: Path) -> None:
    world = World.begin(tmp_path, CLOUD, settings)
    try:
        running, powered_off = world.submit("paul", cpu=1), world.submit("paul", cpu=1)
        world.until(lambda: world.is_running(running) and world.is_running(powered_off))
        world.action("paul", "poweroff", powered_off)
        world.until(lambda: world.state(powered_off).startswith("8/"))
        flushed = _host_of(world, running)
        world.emulator.must("root", "one.host.status", flushed, DISABLED)
        for vm_id in world.running_on(flushed):
            assert world.action("root", "resched", vm_id)
        world.until(lambda: not world.running_on(flushed) and world.is_running(running))
        world.cycles(3)

        moves = [call for call in world.emulator.log() if call["method"] == "one.vm.migrate"]
        assert [call["arguments"][0] for call in moves] == sorted({call["arguments"][0] for call in moves})
        assert running in {call["arguments"][0] for call in moves}
        assert all(call["arguments"][1:] == [1 - flushed, live, True, -1, stopped_by] for call in moves[:1])
        assert unasked_moves(world.emulator.log()) == []
        assert world.state(powered_off).startswith("8/")
        assert "Traceback" not in world.daemon.log
    finally:
        world.close()


def test_the_judge_tells_who_was_marked() -> None:
    def called(user: str, method: str, *arguments: Any, code: int = 0) -> dict[str, Any]:
        return {"user": user, "method": method, "arguments": list(arguments), "code": code}

    mark, move = called("root", "one.vm.action", "resched", 1), called("oneadmin", "one.vm.migrate", 1, 0)
    assert unasked_moves([mark, move]) == []
    assert unasked_moves([move]) == [move]
    assert unasked_moves([mark, move, move]) == [move]
    assert unasked_moves([mark, called("root", "one.vm.action", "unresched", 1), move]) == [move]
    assert unasked_moves([called("root", "one.vm.action", "resched", 1, code=512), move]) == [move]
    assert unasked_moves([called("oneadmin", "one.vm.action", "resched", 1), move]) == [move]


def _host_of(world: World, vm_id: int) -> int:
    return int(world.vm(vm_id).findall("HISTORY_RECORDS/HISTORY")[-1].findtext("HID", "-1"))
