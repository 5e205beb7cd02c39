"""Random stories about images in which hosts sleep, others leave, and things go wrong: no plan is refused."""

from __future__ import annotations

import os
import random

import msgspec
import pytest

from one_preempt.simulation.experiments.trial import switched_machines
from one_preempt.simulation.simulator.simulator import Simulator
from one_preempt.simulation.simulator.site import build_cloud
from tests.simulation.image_stories.drawn_images import draw_faults, draw_image_story
from tests.simulation.power_stories.drawn_power import draw_mishaps, draw_power
from tests.simulation.time_stories.watched_cycle import WatchedCycle

STORIES = int(os.environ.get("ONE_PREEMPT_IMAGE_STORIES", "40")) // 4
UNTIL_S = 20_000


@pytest.mark.parametrize("seed", range(STORIES))
def test_no_plan_is_refused_whatever_goes_wrong(seed: int) -> None:
    chance = random.Random(f"rough {seed}")
    story = draw_image_story(seed)
    settings = story.settings
    if chance.random() < 0.6:
        settings = msgspec.structs.replace(settings, power=draw_power(seed))
    if chance.random() < 0.4:
        settings = msgspec.structs.replace(settings, queue_order="fair-share")
    cloud = build_cloud(story.site, keeps_logs=True)
    machines = switched_machines(cloud, settings.power)
    mishaps = [] if machines is None else [*draw_mishaps(seed, machines, len(cloud.hosts))]
    faults = sorted([*mishaps, *draw_faults(chance, len(cloud.hosts))], key=lambda one: one.at_s)
    watched = WatchedCycle(settings, chance.choice(("NOP", "MOML", "MLIP")), cloud, control=machines)
    Simulator(cloud, watched, story.workload, tuple(faults), UNTIL_S).run()
    assert watched.wrong == [], "\n".join([*watched.wrong, f"{story}", *map(str, faults), *watched.told()])


@pytest.mark.parametrize("seed", [58, 151, 361])
def test_images_come_to_the_hosts_on_which_room_is_made_for_a_start(seed: int) -> None:
    """Others leave for it, and it gets other hosts by that than it was promised."""
    story = draw_image_story(seed)
    cloud = build_cloud(story.site, keeps_logs=True)
    watched = WatchedCycle(story.settings, "MLIP", cloud)
    Simulator(cloud, watched, story.workload, until_s=UNTIL_S).run()
    assert watched.wrong == [], "\n".join([*watched.wrong, f"{story}", *watched.told()])
