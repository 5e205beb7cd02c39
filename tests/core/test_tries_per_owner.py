"""Room is looked for beside what others were promised, so often for each owner: nobody uses it up for all."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import pytest

from one_preempt.core.decide import decide
from one_preempt.core.phases.devices_and_groups import beside_promised, tries_per_owner
from tests import scenario_reader
from tests.core.promised_places import cloud

HOSTS = 6


def refused_and_one_more(refused: int, **asks: Any) -> dict[str, Any]:
    """One of two devices of each host was promised; paul's VMs ask for both, evan's, which comes last, for one."""
    start = {"TYPE": "DC-NON-PREEMPTABLE", "START_IN_S": 600, "DURATION_S": 600}
    promised = {20 + host_id: [host_id] for host_id in range(HOSTS)}
    stay = {"start_in_s": 600, "end_in_s": 1240, "firm": True}
    return {
        "story": "",
        "hosts": {host_id: {"gpus": [-1, -1], "cpu": 64, "memory": 90000} for host_id in range(HOSTS)},
        "vms": {
            **{vm_id: {"user": "lea", "state": "HOLD", "gpus": 1, "lease": start} for vm_id in promised},
            **{100 + number: {"user": "paul", "gpus": 2} | asks for number in range(refused)},
            500: {"user": "evan", "gpus": 1},
        },
        "ledger": {
            "leases": {vm_id: {"verdict": "accepted"} for vm_id in promised},
            "reservations": {vm_id: [stay | {"hosts": rows}] for vm_id, rows in promised.items()},
        },
    }


def unlike(given: dict[str, Any]) -> dict[str, Any]:
    """Paul's VMs ask each for another amount of memory."""
    for vm_id, vm in given["vms"].items():
        if vm["user"] == "paul":
            vm["memory"] = vm_id
    return given


def test_what_one_owner_asks_for_in_vain_keeps_nobody_else_off_the_hosts_of_promises() -> None:
    decision = scenario_reader.play(unlike(refused_and_one_more(40)))
    assert [sentence.split(" on ")[0] for sentence in scenario_reader.sentences(decision.plan)] == ["deploy 500"]
    assert not decision.violations


def test_for_an_owner_so_many_placements_are_held_against_promises_and_no_more() -> None:
    state, chosen = cloud(unlike(refused_and_one_more(40)))
    with patch.object(beside_promised, "_lost_by", side_effect=beside_promised._lost_by) as looks:
        decide(state, chosen)
    # Each is looked at in two steps.
    assert looks.call_count <= 2 * (tries_per_owner.PLACEMENTS_AN_OWNER + 1)


def test_what_was_refused_is_not_looked_at_again_for_who_asks_for_the_same() -> None:
    counts = []
    for refused in (1, 10):
        state, chosen = cloud(refused_and_one_more(refused))
        with patch.object(beside_promised, "_lost_by", side_effect=beside_promised._lost_by) as looks:
            assert len(decide(state, chosen).refusals) == refused
        counts.append(looks.call_count)
    assert counts[0] == counts[1]


def test_once_enough_was_put_for_all_each_owner_still_has_one_look(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tries_per_owner, "PUT_FOR_ALL", 0)
    decision = scenario_reader.play(unlike(refused_and_one_more(10)))
    assert [sentence.split(" on ")[0] for sentence in scenario_reader.sentences(decision.plan)] == ["deploy 500"]


def test_a_gang_that_was_promised_weighs_as_much_as_its_vms(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tries_per_owner, "PUT_AN_OWNER", 4)
    terms = {"TYPE": "DC-NON-PREEMPTABLE", "NAME": "g", "SIZE": 5, "START_IN_S": 600, "DURATION_S": 600}
    given = {
        "story": "",
        "hosts": {0: {"gpus": [-1] * 16, "cpu": 64}},
        "vms": {
            **{vm_id: {"user": "lea", "state": "HOLD", "gpus": 1, "lease": terms} for vm_id in range(20, 25)},
            **{vm_id: {"user": "paul", "gpus": 1, "memory": vm_id} for vm_id in (100, 101)},
        },
        "settings": {"matchmaker": {"max_host": 0}},
        "ledger": {
            "leases": {20: {"verdict": "accepted"}},
            "reservations": {20: [{"start_in_s": 600, "end_in_s": 1240, "hosts": [0] * 5, "firm": True}]},
        },
    }
    assert scenario_reader.sentences(scenario_reader.play(given).plan) == ["deploy 100 on 0"]
