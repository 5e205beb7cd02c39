"""The hosts of members of a gang that are still to start are kept, beside all that it has."""

from __future__ import annotations

from pathlib import Path

from one_preempt.configuration.chosen_policies import policies
from one_preempt.core.memory.decision_memory import DecisionMemory
from one_preempt.core.phases.draft import PlanDraft
from one_preempt.core.phases.reservations.half_started_gangs import keep_hosts_of_half_started_gangs, without_the_rest
from tests import scenario_reader

HALF_STARTED = (
    Path(__file__).parents[1] / "scenarios" / "gang_of_which_one_runs_keeps_the_host_of_the_one_still_to_start.yaml"
)


def free_later(draft: PlanDraft) -> list[list[int]]:
    """What the table has free on each host some minutes from now on."""
    now_s = draft.state.now_s
    free: list[list[int]] = draft.timeline.free_without((), now_s + 300, now_s + 900, firmly=True).tolist()
    return free


def test_the_rest_is_kept_beside_what_the_gang_has() -> None:
    document = scenario_reader.load(HALF_STARTED)
    state = scenario_reader.play(document).state
    draft = PlanDraft.begin(state, policies(scenario_reader.settings_of(document)), DecisionMemory())
    before, stays = free_later(draft), draft.timeline.stays[5]
    keep_hosts_of_half_started_gangs(draft)
    assert free_later(draft) == [before[0], [before[1][0] - 100, before[1][1] - 1024]]
    assert without_the_rest(draft.timeline.stays[5]) == stays
    rest = draft.timeline.stays[5][-1]
    assert (rest.vm_ids, rest.host_rows, rest.end_s) == ((6,), (1,), state.now_s + 3620)
