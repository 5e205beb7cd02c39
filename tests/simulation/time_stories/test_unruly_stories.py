"""The stories about time once more, with an administrator who does things by hand: no promise of a time is judged."""

from __future__ import annotations

import dataclasses
import os

import pytest

from one_preempt.simulation.simulator.simulator import Simulator
from one_preempt.simulation.simulator.site import build_cloud
from tests.simulation.time_stories.drawn_story import UNTIL_S, draw_story
from tests.simulation.time_stories.unruly_acts import unruly_acts
from tests.simulation.time_stories.watched_cycle import WatchedCycle

STORIES = int(os.environ.get("ONE_PREEMPT_UNRULY_STORIES", "24"))


# One VM of a gang was deployed by hand: before its START or its slot, from which the others are promised room (1153),
# or while the queue was promised a start for all of it, which was not looked for anew (1422, 1486, 1862).
BESIDES = (1153, 1422, 1486, 1862)


@pytest.mark.parametrize("seed", sorted({*range(STORIES), *BESIDES}))
def test_nothing_done_by_hand_has_a_plan_refused(seed: int) -> None:
    drawn = draw_story(seed)
    story = dataclasses.replace(drawn, happenings=(*drawn.happenings, *unruly_acts(drawn)))
    cloud = build_cloud(story.site, keeps_logs=True)
    watched = WatchedCycle(story.settings, story.policy, cloud, story.stubborn)
    Simulator(cloud, watched, story.workload, story.happenings, UNTIL_S).run()
    wrong = [*watched.wrong, *cloud.audit(), *map(str, cloud.overcommits)]
    assert not wrong, "\n".join(["", *wrong, "", *story.told(), "", *watched.told()])
