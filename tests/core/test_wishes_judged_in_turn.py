"""Wishes that take long, for devices or for VMs that differ: a few of an owner are judged a cycle, others are next."""

from __future__ import annotations

from pathlib import Path

import pytest

from one_preempt.core.model.reservation import Verdict
from one_preempt.core.phases import book_reservations
from tests import scenario_reader

STORY = """
story: Of two owners, reservations for a device each, and one for none.
hosts: {0: {cpu: 8, gpus: [-1, -1, -1, -1]}}
vms:
  1: {user: lea, state: HOLD, gpus: 1, lease: {TYPE: DC-NON-PREEMPTABLE, START_IN_S: 600, DURATION_S: 60}}
  2: {user: lea, state: HOLD, gpus: 1, lease: {TYPE: DC-NON-PREEMPTABLE, START_IN_S: 600, DURATION_S: 60}}
  3: {user: lea, state: HOLD, gpus: 1, lease: {TYPE: DC-NON-PREEMPTABLE, START_IN_S: 600, DURATION_S: 60}}
  4: {user: lea, state: HOLD, lease: {TYPE: DC-NON-PREEMPTABLE, START_IN_S: 600, DURATION_S: 60}}
  5: {user: eva, state: HOLD, gpus: 1, lease: {TYPE: DC-MIGRATABLE, START_IN_S: 600, DURATION_S: 60}}
expect: {}
"""


@pytest.mark.parametrize(
    "bounds", [{"MATCHED_AN_OWNER": 2}, {"PLACES_AN_OWNER": 2}, {"PLACES_FOR_ALL": 2, "FEW_PLACES": 2}]
)
def test_whoever_is_not_judged_in_this_cycle_is_next(
    bounds: dict[str, int], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name, bound in bounds.items():
        monkeypatch.setattr(book_reservations, name, bound)
    path = tmp_path / "story.yaml"
    path.write_text(STORY)
    decided = scenario_reader.play(scenario_reader.load(path))
    assert {one.lease_id: one.verdict for one in decided.plan.verdicts} == dict.fromkeys((1, 2, 4, 5), Verdict.ACCEPTED)
    assert [(one.lease_id, one.reason.code) for one in decided.plan.refusals] == [(3, "next-cycle")]
    assert decided.plan.wake_at_s == scenario_reader.NOW_S + book_reservations.JUDGED_AGAIN_S


@pytest.mark.parametrize("bounds", [{"PACKED_AN_OWNER": 2}, {"PACKED_FOR_ALL": 2}])
def test_of_leases_whose_vms_differ_a_few_of_an_owner_are_judged_in_a_cycle(
    bounds: dict[str, int], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Each is packed, and of unlike gangs an owner may ask as many as he has quota for."""
    for name, bound in bounds.items():
        monkeypatch.setattr(book_reservations, name, bound)
    owners = ["lea", "lea", "lea", "eva"]
    lines = []
    for number, owner in enumerate(owners):
        for member in range(2):
            terms = f"TYPE: DC-MIGRATABLE, NAME: n{number}, SIZE: 2, START_IN_S: 600, DURATION_S: 60"
            who = f"user: {owner}, state: HOLD, cpu: {member + 1}"
            lines.append(f"  {10 * number + member}: {{{who}, lease: {{{terms}}}}}")
    path = tmp_path / "story.yaml"
    path.write_text("story: Gangs of unlike VMs.\nhosts: {0: {cpu: 16}}\nvms:\n" + "\n".join(lines) + "\nexpect: {}\n")
    decided = scenario_reader.play(scenario_reader.load(path))
    assert [one.lease_id for one in decided.plan.verdicts] == [0, 10, 30]
    assert [(one.lease_id, one.reason.code) for one in decided.plan.refusals] == [(20, "next-cycle")]
