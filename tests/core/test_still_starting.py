"""The hosts of members of a gang that are still to start are kept while others' wishes are judged, and no longer."""

from __future__ import annotations

from pathlib import Path

from one_preempt.configuration.chosen_policies import policies
from one_preempt.core.memory.decision_memory import DecisionMemory
from one_preempt.core.phases.draft import PlanDraft
from one_preempt.core.phases.reservations.still_starting import their_hosts_kept
from tests import scenario_reader

HALF_STARTED = (
    Path(__file__).parents[1] / "scenarios" / "gang_of_which_one_runs_keeps_the_host_of_the_one_still_to_start.yaml"
)


def free_later(draft: PlanDraft) -> list[list[int]]:
    """What the table has free on each host some minutes from now on."""
    now_s = draft.state.now_s
    free: list[list[int]] = draft.timeline.free_without((), now_s + 300, now_s + 900, firmly=True).tolist()
    return free


def test_what_is_kept_meanwhile_is_given_back() -> None:
    document = scenario_reader.load(HALF_STARTED)
    state = scenario_reader.play(document).state
    draft = PlanDraft.begin(state, policies(scenario_reader.settings_of(document)), DecisionMemory())
    before, stays = free_later(draft), dict(draft.timeline.stays)
    with their_hosts_kept(draft):
        meanwhile = free_later(draft)
    assert before[1][0] == meanwhile[1][0] + 100
    assert before[0] == meanwhile[0]
    assert free_later(draft) == before
    assert dict(draft.timeline.stays) == stays
