"""What OpenNebula's own placement scheduler answered, case by case (the README of the recordings tells of them)."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from tests.core.matching.driver_document import answer, expected

SAMPLE = Path(__file__).parents[2] / "recordings" / "rank-cases-sample.jsonl.gz"
with gzip.open(SAMPLE, "rt", encoding="utf-8") as lines:
    CASES = [json.loads(line) for line in lines]


@pytest.mark.parametrize("case", CASES, ids=[f"case-{case['seed']}" for case in CASES])
def test_the_same_vms_go_to_the_same_places(case: dict) -> None:  # type: ignore[type-arg]
    actions, refused = answer(case["stdin_xml"], case["conf"])

    assert actions == expected(case["plan"])
    assert all(refusal.reason.text for refusal in refused.values())


def test_the_sample_places_and_refuses_vms() -> None:
    assert len(CASES) == 40
    assert sum(len(expected(case["plan"])) for case in CASES) > 100
    assert sum(1 for case in CASES if case["stderr"]) > 10
