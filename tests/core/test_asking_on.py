"""Requests of which nobody knows at first whether they can be helped: how often it is searched who leaves for them."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import patch

from msgspec.structs import replace

from one_preempt.configuration.chosen_policies import admission_rules, policies
from one_preempt.core.decide import decide
from one_preempt.core.memory import remembered_choices
from one_preempt.core.memory.decision_memory import DecisionMemory
from one_preempt.core.phases.preempting.room_made import CHOICES_A_REQUEST
from one_preempt.core.preemption.victim_choice import choose_victims
from one_preempt.core.reconcile import reconcile
from tests import scenario_reader

HOPELESS = """
story: Two have to leave, and the memory of no two of those who might has room where it is written.
datastore: {free: 1500}
hosts: {0: {cpu: 1}, 1: {cpu: 1}, 2: {cpu: 1}, 3: {cpu: 1}, 4: {cpu: 1}, 5: {cpu: 1}}
vms:
  1: {user: eva, host: 0, cpu: 1, memory: 1000}
  2: {user: eva, host: 1, cpu: 1, memory: 1010}
  3: {user: eva, host: 2, cpu: 1, memory: 1020}
  4: {user: eva, host: 3, cpu: 1, memory: 1030}
  5: {user: eva, host: 4, cpu: 1, memory: 1040}
  6: {user: eva, host: 5, cpu: 1, memory: 1050}
  11: {user: lea, cpu: 1, state: HOLD, lease: {TYPE: DC-NON-PREEMPTABLE, SIZE: 2, NAME: pair}}
  12: {user: lea, cpu: 1, state: HOLD, lease: {TYPE: DC-NON-PREEMPTABLE, SIZE: 2, NAME: pair}}
expect: {}
"""


def test_who_cannot_be_helped_costs_no_search_while_nothing_changes(tmp_path: Path) -> None:
    path = tmp_path / "story.yaml"
    path.write_text(HOPELESS)
    document = scenario_reader.load(path)
    settings, snapshot = scenario_reader.settings_of(document), scenario_reader.snapshot_of(document)
    ledger, rules = scenario_reader.ledger_of(document, snapshot), policies(settings, None)
    state = reconcile(snapshot, ledger, admission_rules(settings), scenario_reader.NOW_S).state
    memory, searches = DecisionMemory(), []
    for cycle in range(3):
        with patch.object(remembered_choices, "choose_victims", wraps=choose_victims) as chooses:
            plan = decide(replace(state, now_s=scenario_reader.NOW_S + cycle), rules, memory)
        assert {one.reason.code for one in plan.refusals} == {"datastore-full"}
        searches.append(chooses.call_count)
    assert searches == [CHOICES_A_REQUEST, 0, 0]
