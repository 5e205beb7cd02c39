"""Leases that a gateway between zones sent here: they may have rights and rules of their own."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from one_preempt.configuration.doubts import doubts
from one_preempt.configuration.settings import SettingsError, parse_settings
from one_preempt.core.admission.rules import AdmissionRules, GroupRights, LeaseRule, VmMatch
from one_preempt.core.admission.standing import may_preempt
from one_preempt.core.model.lease import LeaseType
from one_preempt.core.model.virtual_machine import VirtualMachine
from tests.core.admission.test_admit import vm

LEASE = {"LEASE": ({"TYPE": "BE-SUSPENDABLE"},)}
OWN = GroupRights("own", group="users", may_claim=tuple(LeaseType), may_preempt=True)
FROM_ELSEWHERE = GroupRights(
    "from elsewhere", group="users", may_claim=(LeaseType.BE_SUSPENDABLE,), through_gateway=True
)


def leased(through_gateway: bool) -> VirtualMachine:
    marks = {"LEASE_GATEWAY": ("12",)} if through_gateway else {}
    return replace(vm(1), user_template={**LEASE, **marks})


def preempts(rules: AdmissionRules, vms: Sequence[VirtualMachine]) -> list[bool]:
    return [may_preempt([one], rules, by_rights=True) for one in vms]


def test_rights_can_be_for_what_came_through_a_gateway_alone() -> None:
    rules = AdmissionRules(rights=(FROM_ELSEWHERE, OWN))
    own, external = leased(False), leased(True)
    assert [rules.rights_of(one).name for one in (own, external, own)] == ["own", "from elsewhere", "own"]
    assert preempts(rules, [own, external]) == [True, False]


def test_or_for_all_others() -> None:
    rules = AdmissionRules(rights=(replace(OWN, through_gateway=False),))
    assert preempts(rules, [leased(False), leased(True)]) == [True, False]


def test_rules_too() -> None:
    match = VmMatch(group="users", through_gateway=False)
    rules = AdmissionRules(rules=(LeaseRule("locals", match, may_preempt=True),))
    assert preempts(rules, [leased(False), leased(True)]) == [True, False]


def test_an_entry_for_gateways_does_not_hide_the_one_behind_it() -> None:
    text = """
leases:
  rights:
    - {name: external, group: g, through_gateway: true, may_claim: [BE-SUSPENDABLE], max_ahead_s: 0}
    - {name: own, group: g, may_claim: [BE-SUSPENDABLE], max_ahead_s: 0}
    - {name: late, group: g, through_gateway: true, max_ahead_s: 0}
"""
    told = doubts(parse_settings(text, "test"))
    assert [doubt for doubt in told if "has no effect" in doubt] == [
        "right 'late' has no effect: right 'external' comes before it, for the same owners"
    ]


def test_preempting_by_a_mark_of_ones_own_is_doubted() -> None:
    text = "leases: {rights: [{name: x, group: g, through_gateway: true, may_preempt: true, max_ahead_s: 0}]}"
    assert any("their owners write LEASE_GATEWAY themselves" in doubt for doubt in doubts(parse_settings(text, "test")))


def test_a_rule_for_all_others_alone_matches_every_vm() -> None:
    with pytest.raises(SettingsError, match="matches every VM"):
        parse_settings("leases: {rules: [{name: x, match: {through_gateway: false}, may_preempt: true}]}", "test")
