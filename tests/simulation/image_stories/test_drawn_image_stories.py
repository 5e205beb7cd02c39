"""Random stories about images, hundreds if asked: who is accepted starts on time, and the link is never overloaded."""

from __future__ import annotations

import os
from collections import Counter

import pytest

from one_preempt.core.model.image_transfer import ImageOrderKind, TransferPhase
from one_preempt.simulation.simulator.result import Fate
from one_preempt.simulation.simulator.simulator import Simulator
from one_preempt.simulation.simulator.site import build_cloud
from one_preempt.simulation.workload.workload import StartKind
from tests.simulation.image_stories.drawn_images import ImageStory, draw_image_story
from tests.simulation.time_stories.watched_cycle import Looked, WatchedCycle

STORIES = int(os.environ.get("ONE_PREEMPT_IMAGE_STORIES", "40"))
UNTIL_S = 20_000
# Stories that have, together, all that the stories are about: they are looked at first.
SHOWING = (27, 6, 2)


@pytest.mark.parametrize("seed", range(STORIES))
def test_what_is_accepted_starts_on_time_and_no_rate_is_exceeded(seed: int) -> None:
    story = draw_image_story(seed)
    cloud = build_cloud(story.site, keeps_logs=True)
    cycle = WatchedCycle(story.settings, "NOP", cloud)
    result = Simulator(cloud, cycle, story.workload, until_s=UNTIL_S).run()

    # Recounts, plans from scratch, and answers that are no refusals.
    assert cycle.wrong == [], story
    boot_ms = round(1000 * story.site.durations.boot_s)
    asked = {one.id: one for one in story.workload.requests}
    for record in result.records:
        request = asked[record.request_id]
        assert record.fate in (Fate.COMPLETED, Fate.REJECTED), (record, story)
        if request.start is StartKind.EXACT and record.fate is Fate.COMPLETED and not story.copies:
            assert request.start_at_s is not None
            assert record.started_at_ms == 1000 * request.start_at_s + boot_ms, (record, story)
    assert _overlaps(cycle.looked) == [], story
    assert _overfull(cycle.looked, story) == [], story


def _overlaps(looked: list[Looked]) -> list[str]:
    """Orders that were given while another one had the link by the time it was given."""
    turns: dict[str, int] = {}
    found = []
    for one in looked:
        under_way = {
            id
            for id, record in one.state.images.transfers.items()
            if record.phase is TransferPhase.UNDER_WAY and record.order.kind is ImageOrderKind.BRING
        }
        begun = [
            order for order in one.plan.image_orders if order.kind is ImageOrderKind.BRING and order.id not in under_way
        ]
        for order in begun:
            found += [f"{order.id} and {id} at {one.at_s}" for id in under_way if turns[id] > one.at_s]
            turns[order.id] = order.due_at_s
            under_way.add(order.id)
    return found


def _overfull(looked: list[Looked], story: ImageStory) -> list[str]:
    """Hosts that held more images than they may."""
    most_mib = story.settings.image_staging.pool_mib
    if most_mib is None or (story.site.images is not None and story.site.images.keeps_copies):
        # What deployments copy nobody has decided.
        return []
    return [
        f"host {host_id} at {one.at_s}"
        for one in looked
        for host_id, pool in one.state.images.held.items()
        if sum(image.size_mib for image in pool.images) > most_mib
    ]


def test_the_stories_have_what_they_are_about() -> None:
    """Transfers, refusals for each reason, and removals: else nothing of it was tried."""
    about = ("stage", "drop", "reservation-images-late", "reservation-images-no-room")
    seen: Counter[str] = Counter()
    for seed in (*SHOWING, *range(STORIES)):
        story = draw_image_story(seed)
        cycle = WatchedCycle(story.settings, "NOP", cloud := build_cloud(story.site, keeps_logs=True))
        Simulator(cloud, cycle, story.workload, until_s=UNTIL_S).run()
        for one in cycle.looked:
            seen.update(order.kind.value for order in one.plan.image_orders)
            seen.update(code for code, _ in one.waits.values())
        if all(seen[what] for what in about):
            return
    pytest.fail(f"of {about} there is only {sorted(seen)}")
