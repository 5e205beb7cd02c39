"""A start that oned refused, of a VM to which somebody has seen since: its refusals are not held against it."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from one_preempt.configuration.chosen_policies import admission_rules
from one_preempt.core.reconcile import reconcile
from tests import scenario_reader


@pytest.mark.parametrize(
    ("now", "seen_before", "attempts"),
    [
        ({}, "HOLD", 9),
        ({"state": "PENDING"}, "HOLD", 1),
        ({"given_to": "evan"}, "HOLD", 1),
        ({"state": "PENDING"}, None, 9),
    ],
)
def test_refusals_count_until_its_owner_or_its_state_is_another(
    now: dict[str, Any], seen_before: str | None, attempts: int
) -> None:
    vm = {"user": "eva", "state": "HOLD", "lease": {"TYPE": "BE-SUSPENDABLE", "DURATION_S": 600}}
    refused = {"kind": "deploy", "vm": 7, "host": 0, "attempts": 9, "failed_ago_s": 50, "outcome": "refused"}
    document = {"hosts": {0: {}}, "vms": {7: {**vm, **now}}, "ledger": {"actions": {"deploy/7/0": refused}}}
    before = scenario_reader.snapshot_of(document, gone=True)
    ledger = scenario_reader.ledger_of(document, before)
    ledger = replace(ledger, vm_states={} if seen_before is None else {7: seen_before})
    rules = admission_rules(scenario_reader.settings_of(document))
    reconciled = reconcile(scenario_reader.snapshot_of(document), ledger, rules, scenario_reader.NOW_S)
    assert [one.attempts for one in reconciled.state.failed_actions] == [attempts]
    assert reconciled.changes.closed_actions == ()
