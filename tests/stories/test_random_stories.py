"""Random stories with fixed seeds, and some on the configuration as shipped; `make stories` tells all of them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.stories.clouds import random_cloud
from tests.stories.judge import judge, unasked_moves
from tests.stories.storyteller import Story
from tests.stories.timed_requests import settings_about_time
from tests.stories.world import World

STORIES = int(os.environ.get("ONE_PREEMPT_STORIES", "12"))
SHIPPED_STORIES = STORIES // 4
STEPS = 13


@pytest.mark.parametrize("seed", range(STORIES))
def test_a_random_story_ends_well(seed: int, tmp_path: Path) -> None:
    world = World.begin(tmp_path, random_cloud(seed), settings_about_time(seed))
    try:
        story = Story(world, seed)
        story.tell(STEPS)
        wrong = judge(story)
        assert not wrong, "\n".join(["", *wrong, "", *story.events, "", world.daemon.log])
    finally:
        world.close()


@pytest.mark.parametrize("seed", range(SHIPPED_STORIES))
def test_as_shipped_nothing_is_sent_out_but_what_was_marked(seed: int, tmp_path: Path) -> None:
    world = World.begin(tmp_path, random_cloud(seed), settings={})
    try:
        Story(world, seed).tell(STEPS)
        assert unasked_moves(world.emulator.log()) == []
        for call in world.emulator.log():
            if call["user"] == "oneadmin" and not call["method"].startswith("one_preempt."):
                assert call["method"] != "one.host.status", call
                if call["method"] == "one.vm.action":
                    assert call["arguments"][0] == "hold", call
    finally:
        world.close()
