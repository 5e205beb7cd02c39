"""The stories about time once more, with a queue by what owners have used: what is promised is kept all the same."""

from __future__ import annotations

import dataclasses
import os

import msgspec
import pytest
from msgspec.structs import replace

from one_preempt.configuration.settings import FairShareSettings
from one_preempt.simulation.simulator.owners import add_owners, with_rights_of_owners
from one_preempt.simulation.simulator.simulator import Simulator
from one_preempt.simulation.simulator.site import build_cloud
from tests.simulation.time_stories.drawn_story import UNTIL_S, DrawnStory, draw_story
from tests.simulation.time_stories.time_judge import judge
from tests.simulation.time_stories.watched_cycle import WatchedCycle

STORIES = int(os.environ.get("ONE_PREEMPT_FAIR_STORIES", "24"))


def owned_story(seed: int) -> DrawnStory:
    """A drawn story whose requests are those of four users in two groups, of whose use half fades in a quarter hour."""
    story = draw_story(seed)
    requests = [replace(one, user=one.id * (seed + 7) % 2, group=one.id % 2) for one in story.workload.requests]
    given = FairShareSettings(half_life_days=0.01, shares={"group1": 2.5})
    return dataclasses.replace(
        story,
        workload=replace(story.workload, requests=tuple(requests)),
        settings=msgspec.structs.replace(story.settings, queue_order="fair-share", fair_share=given),
    )


@pytest.mark.parametrize("seed", range(STORIES))
def test_a_story_in_a_queue_by_use_ends_well(seed: int) -> None:
    story = owned_story(seed)
    cloud = build_cloud(story.site, keeps_logs=True)
    owners = add_owners(cloud, story.workload)
    watched = WatchedCycle(with_rights_of_owners(story.settings, owners), story.policy, cloud, story.stubborn)
    result = Simulator(cloud, watched, story.workload, story.happenings, UNTIL_S, owners=owners).run()
    wrong = judge(story, watched, result, cloud)
    assert not wrong, "\n".join(["", *wrong, "", *story.told(), "", *watched.told()])
    assert any(one.state.use.owners for one in watched.looked)
