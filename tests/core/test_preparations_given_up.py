"""What is laid down for a try of which nothing comes is taken out of the lanes, and what was there before is back."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from one_preempt.core.availability.lanes import SHARED_STORAGE, ExclusiveLanes, Operation
from one_preempt.core.phases.draft import PlanDraft, Preparation
from one_preempt.core.phases.reservations.leaving_in_time import lay_back

EARLIER = Preparation(100, ((SHARED_STORAGE, 100, 200),))
TRIED = Preparation(300, ((SHARED_STORAGE, 300, 400), (7, 350, 400)))


def draft_with(prepared: Preparation | None) -> PlanDraft:
    lanes = ExclusiveLanes()
    for lane, start_s, end_s in prepared.slots if prepared is not None else ():
        lanes.occupy(lane, start_s, end_s)
    laid_down = {} if prepared is None else {5: prepared}
    return cast("PlanDraft", SimpleNamespace(lanes=lanes, preparations=laid_down))


def latest_start_s(draft: PlanDraft, lane: int, end_by_s: int) -> tuple[int, ...] | None:
    return draft.lanes.as_late_as_possible([Operation(lane, 100)], 0, end_by_s)


@pytest.mark.parametrize("now", [None, EARLIER, TRIED], ids=["none", "the same", "another"])
@pytest.mark.parametrize("before", [None, EARLIER], ids=["none before", "one before"])
def test_what_was_laid_down_before_is_all_that_is_in_the_lanes(
    before: Preparation | None, now: Preparation | None
) -> None:
    draft = draft_with(now)
    lay_back(draft, 5, before)
    assert draft.preparations == ({} if before is None else {5: before})
    assert latest_start_s(draft, SHARED_STORAGE, 400) == (300,)
    assert latest_start_s(draft, SHARED_STORAGE, 200) == ((100,) if before is None else (0,))
    assert latest_start_s(draft, 7, 400) == (300,)
