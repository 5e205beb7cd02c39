"""What an administrator is warned of: a call that came to nothing, not a VM that its owner ended."""

from __future__ import annotations

from typing import Any

import pytest

from one_preempt.configuration.chosen_policies import admission_rules
from one_preempt.core.reconcile import Reconciliation, reconcile
from tests import scenario_reader

HOSTS = {0: {"cpu": 4}}


def observed(vms: dict[int, Any], **answer: Any) -> Reconciliation:
    """VM 7 was to start a moment ago."""
    deploy = {"kind": "deploy", "vm": 7, "host": 0, **answer}
    document = {"hosts": HOSTS, "vms": vms, "ledger": {"actions": {"deploy/7/0": deploy}}}
    snapshot = scenario_reader.snapshot_of(document)
    ledger = scenario_reader.ledger_of(document, snapshot)
    return reconcile(snapshot, ledger, admission_rules(scenario_reader.settings_of(document)), scenario_reader.NOW_S)


def test_a_vm_that_was_ended_while_it_was_to_start_is_no_failure() -> None:
    reconciled = observed({})
    assert [one.succeeded for one in reconciled.changes.closed_actions] == [False]
    assert reconciled.state.discrepancies == ()


@pytest.mark.parametrize("state", ["BOOT_FAILURE", "PROLOG_FAILURE"])
def test_a_vm_that_failed_to_start_is_one(state: str) -> None:
    reconciled = observed({7: {"user": "eva", "host": 0, "state": state}})
    (told,) = reconciled.state.discrepancies
    assert (told.code, told.text) == ("action-failed", f"deploy of VM 7: the VM is {state}")
