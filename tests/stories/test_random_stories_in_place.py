"""Random stories with victims that rest in place: what is charged may be more than a host has, what runs may not."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.stories.clouds import random_cloud
from tests.stories.judge import judge
from tests.stories.storyteller import Story
from tests.stories.world import SETTINGS, World

STORIES = int(os.environ.get("ONE_PREEMPT_STORIES", "12")) // 4
STEPS = 14
IN_PLACE: dict[str, Any] = {
    **SETTINGS,
    "victims": {
        "suspend_in_place": True,
        "methods": {"BE-SUSPENDABLE": ["suspend", "stop", "undeploy"], "DC-MIGRATABLE": ["suspend", "stop"]},
    },
}


class StoryInPlace(Story):
    """What oned charges is not what counts here."""

    def _look_at_hosts(self) -> None:
        self.overcommitted = json.loads(self.world.emulator.control("overloads"))


@pytest.mark.parametrize("seed", range(STORIES))
def test_a_random_story_with_resting_victims_ends_well(seed: int, tmp_path: Path) -> None:
    world = World.begin(tmp_path, random_cloud(seed), settings=IN_PLACE)
    try:
        story = StoryInPlace(world, seed)
        story.tell(STEPS)
        wrong = judge(story)
        wrong += [f"VM {vm_id} is locked for ever" for vm_id in story.vms if _is_locked_by_daemon(world, vm_id)]
        assert not wrong, "\n".join(["", *wrong, "", *story.events, "", world.daemon.log])
    finally:
        world.close()


def _is_locked_by_daemon(world: World, vm_id: int) -> bool:
    lock = world.vm(vm_id).find("LOCK")
    return lock is not None and lock.findtext("OWNER") == "0" and not world.state(vm_id).startswith("6/")
