"""Who waits behind requests for which nobody can make room is looked at as well, sooner or later."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from one_preempt.configuration.chosen_policies import admission_rules, policies
from one_preempt.core.decide import decide
from one_preempt.core.model.cluster_state import ClusterState
from one_preempt.core.phases.preempt_for_waiting import looked_at_in_turn
from one_preempt.core.phases.preempting.room_made import CHOICES_A_CYCLE, CHOICES_AHEAD_A_CYCLE
from one_preempt.core.reconcile import reconcile
from tests import scenario_reader
from tests.core.recounted_cluster import NOW_S, lease


@pytest.mark.parametrize("interval_s", [1, 7, 15, 30, 60, 300])
@pytest.mark.parametrize("waiting", [CHOICES_A_CYCLE + 1, 12, 30, 64])
def test_everybody_is_looked_at_whatever_the_interval_of_cycles(interval_s: int, waiting: int) -> None:
    requests = [lease(lease_id) for lease_id in range(waiting)]
    last = set()
    for cycle in range(20 * waiting):
        in_turn = looked_at_in_turn(requests, NOW_S + cycle * interval_s)
        assert sorted(one.id for one in in_turn) == list(range(waiting))
        assert list(in_turn[: CHOICES_A_CYCLE - 1]) == requests[: CHOICES_A_CYCLE - 1]
        last.add(in_turn[CHOICES_A_CYCLE - 1].id)
    assert last == set(range(CHOICES_A_CYCLE - 1, waiting))


def test_few_requests_are_looked_at_in_the_order_of_the_queue() -> None:
    requests = [lease(lease_id) for lease_id in range(CHOICES_A_CYCLE)]
    assert list(looked_at_in_turn(requests, NOW_S)) == requests


HOPELESS, HELPED, WAITS, START_IN_S = CHOICES_AHEAD_A_CYCLE + 1, 900, 200, 3600
RESERVATION = {"TYPE": "DC-NON-PREEMPTABLE", "START_IN_S": START_IN_S, "DURATION_S": 600}


def beside_hopeless_reservations() -> dict[str, Any]:
    """The memory of the two VMs on each reserved host has no room on the datastore, but for that of `HELPED`."""
    hosts = {number: {"cpu": 2} for number in range(HOPELESS)} | {20: {"cpu": 1}, 21: {"cpu": 1}}
    vms: dict[int, dict[str, Any]] = {
        10 + number: {"user": "eva", "host": number // 2, "cpu": 1, "memory": 2000} for number in range(2 * HOPELESS)
    }
    vms[70] = {"user": "eva", "host": 20, "cpu": 1, "memory": 100, "lease": {"TYPE": "BE-CANCELLABLE"}}
    vms[71] = {"user": "eva", "host": 21, "cpu": 1, "memory": 100, "requirements": "ID = 21"}
    vms[WAITS] = {"user": "lea", "cpu": 1, "state": "HOLD", "requirements": "ID = 20"}
    vms[WAITS]["lease"] = {"TYPE": "DC-NON-PREEMPTABLE", "START": "now", "DURATION_S": 600}
    for number in range(HOPELESS):
        vms[100 + number] = {"user": "lea", "cpu": 2, "memory": 2000, "state": "HOLD", "lease": RESERVATION}
    vms[HELPED] = {"user": "lea", "cpu": 1, "state": "HOLD", "requirements": "ID = 21", "lease": RESERVATION}
    on_host = {100 + number: number for number in range(HOPELESS)} | {HELPED: 21}
    stays = {
        lease_id: [{"start_in_s": START_IN_S, "end_in_s": 4300, "hosts": [host_id], "firm": True}]
        for lease_id, host_id in on_host.items()
    }
    ledger = {"leases": {lease_id: {"verdict": "accepted"} for lease_id in on_host}, "reservations": stays}
    return {"story": "", "hosts": hosts, "vms": vms, "datastore": {"free": 3000}, "ledger": ledger} | {
        "settings": {"overhead": {"suspend_mib_per_s": 10}}
    }


def state_of(document: dict[str, Any]) -> ClusterState:
    snapshot, rules = scenario_reader.snapshot_of(document), admission_rules(scenario_reader.settings_of(document))
    return reconcile(snapshot, scenario_reader.ledger_of(document, snapshot), rules, scenario_reader.NOW_S).state


def test_reservations_for_which_nobody_can_leave_hold_up_nobody() -> None:
    document = beside_hopeless_reservations()
    state, rules = state_of(document), policies(scenario_reader.settings_of(document), None)
    looked_at: set[int] = set()
    for in_s in range(START_IN_S - 60, START_IN_S):
        plan = decide(replace(state, now_s=scenario_reader.NOW_S + in_s), rules)
        room_for = {one.preemptor_lease_id for one in plan.preemptions}
        assert WAITS in room_for, "it is looked at in each cycle"
        looked_at |= room_for | {one.lease_id for one in plan.refusals if "no room on datastore" in one.reason.text}
    assert looked_at == {WAITS, HELPED, *range(100, 100 + HOPELESS)}
