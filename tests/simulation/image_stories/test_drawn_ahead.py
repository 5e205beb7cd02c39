"""Random stories in which images come ahead of expected starts: nobody who was promised a start loses by it."""

from __future__ import annotations

import os
import random
from collections import Counter

import msgspec
import pytest
from msgspec.structs import replace

from one_preempt.core.model.image_transfer import ImageOrderKind
from one_preempt.core.model.lease import LeaseType
from one_preempt.simulation.experiments.trial import switched_machines
from one_preempt.simulation.simulator.result import Fate
from one_preempt.simulation.simulator.simulator import Simulator
from one_preempt.simulation.simulator.site import build_cloud
from one_preempt.simulation.simulator.timed_fault import TimedFault
from one_preempt.simulation.workload.workload import MachineSet, StartKind, Workload, WorkloadRequest
from tests.simulation.image_stories.drawn_images import IMAGES, ImageStory, draw_faults, draw_image_story
from tests.simulation.power_stories.drawn_power import draw_power
from tests.simulation.time_stories.watched_cycle import WatchedCycle

# They take several times as long as those of `test_drawn_image_stories.py`.
STORIES = int(os.environ.get("ONE_PREEMPT_IMAGE_STORIES", "40")) // 4
# Stories in which images come and go, ahead and as promised: they are looked at first.
SHOWING = (0, 3)
UNTIL_S = 40_000


def draw_crowded(seed: int) -> ImageStory:
    """Best effort and deadlines in a crowd, with images, and a few reservations among them."""
    chance = random.Random(f"crowd {seed}")
    story = draw_image_story(seed)
    staging = replace(story.settings.image_staging, ahead_s=chance.choice((200, 3600, 3600)))
    time = replace(story.settings.time, backfilling=chance.choice(("easy", "intermediate", "conservative")))
    settings = msgspec.structs.replace(story.settings, image_staging=staging, time=time)
    requests = [_request(chance, number) for number in range(1, chance.randint(15, 25))]
    in_turn = sorted(requests, key=lambda one: (one.submitted_at_s, one.id))
    return replace(story, copies=True, settings=settings, workload=Workload(tuple(in_turn)))


def _request(chance: random.Random, number: int) -> WorkloadRequest:
    at_s, lasts_s, kind = chance.randint(0, 900), chance.choice((200, 400, 900)), chance.random()
    image, image_mib = chance.choice(IMAGES[:2] if chance.random() < 0.8 else IMAGES)
    plain = WorkloadRequest(
        number, at_s, (MachineSet(chance.randint(1, 2), 100, 512),), lasts_s, lasts_s, external=True,
        image=f"{image} {chance.randrange(3)}", image_mib=image_mib,
    )  # fmt: skip
    if kind < 0.65:
        return plain
    firm = replace(plain, lease_type=LeaseType.DC_NON_PREEMPTABLE, external=False)
    if kind < 0.8:
        return replace(firm, start=StartKind.EXACT, start_at_s=at_s + chance.choice((100, 300, 900, 2000)))
    return replace(firm, start=StartKind.DEADLINE, deadline_at_s=at_s + lasts_s + chance.choice((600, 1500, 3000)))


def play(seed: int, *, is_rough: bool = False) -> tuple[WatchedCycle, ImageStory, list[Fate]]:
    """`is_rough`: hosts sleep and are lost, transfers fail, owners end what they asked for."""
    story, chance = draw_crowded(seed), random.Random(f"rough crowd {seed}")
    settings, faults = story.settings, list[TimedFault]()
    if is_rough and chance.random() < 0.5:
        settings = msgspec.structs.replace(settings, power=draw_power(seed))
    cloud = build_cloud(story.site, keeps_logs=True)
    machines = switched_machines(cloud, settings.power)
    if is_rough:
        faults = sorted(draw_faults(chance, len(cloud.hosts)), key=lambda one: one.at_s)
    cycle = WatchedCycle(settings, chance.choice(("NOP", "MOML")), cloud, control=machines)
    result = Simulator(cloud, cycle, story.workload, tuple(faults), UNTIL_S).run()
    return cycle, story, [record.fate for record in result.records]


@pytest.mark.parametrize("seed", range(STORIES))
def test_no_plan_is_refused_and_no_promised_image_is_late(seed: int) -> None:
    cycle, story, fates = play(seed)
    assert cycle.wrong == [], story
    assert set(fates) <= {Fate.COMPLETED, Fate.REJECTED}, story
    if story.settings.image_staging.policy != "FIFO":
        # Where others leave for it a START may get other hosts than it was promised, without its images.
        told = [text for one in cycle.looked for action in one.done for _, text in action.attributes]
        late = [text for text in told if "wait for their disks" in text]
        assert [text for text in late if "made" not in text] == [], story


@pytest.mark.parametrize("seed", range(STORIES // 2))
def test_no_plan_is_refused_whatever_goes_wrong(seed: int) -> None:
    cycle, story, _ = play(seed, is_rough=True)
    assert cycle.wrong == [], "\n".join([*cycle.wrong, f"{story}", *cycle.told()])


def test_images_come_ahead_in_these_stories_and_make_room_for_others() -> None:
    seen: Counter[tuple[str, ImageOrderKind]] = Counter()
    for seed in (*SHOWING, *range(STORIES)):
        cycle, _, _ = play(seed)
        orders = [order for one in cycle.looked for order in one.plan.image_orders]
        once = {(order.id, order.begin_at_s): order for order in orders}
        seen.update(("ahead" if one.needed_at_s is None else "promised", one.kind) for one in once.values())
        brings = seen["ahead", ImageOrderKind.BRING], seen["promised", ImageOrderKind.BRING]
        if min(brings) > 3 and seen["ahead", ImageOrderKind.DROP] > 0:
            return
    pytest.fail(f"there is too little of it: {seen}")
