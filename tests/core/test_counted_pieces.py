"""Where hosts are alike they are counted, also while a lease with a deadline has its room in pieces."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from one_preempt.configuration.chosen_policies import admission_rules, policies
from one_preempt.core.availability.alike_nodes import AlikeNodes, HeldNodes
from one_preempt.core.availability.timed_request import TimedRequest
from one_preempt.core.availability.timeline import ObservedRoom, Stay, Timeline
from one_preempt.core.decide import deliberate
from one_preempt.core.memory.decision_memory import DecisionMemory
from one_preempt.core.model.cluster_state import ClusterState
from one_preempt.core.phases.draft import PlanDraft
from one_preempt.core.reconcile import reconcile
from tests import scenario_reader
from tests.scenario_reader import NOW_S

HOSTS, ONE_VM = 4, (100, 1024)
# VM 5 has an hour of work, half of it at once on host 1 and the rest two hours later. VM 6 would like to run for two
# hours, VM 7 for one.
DOCUMENT: dict[str, Any] = {
    "settings": {
        "time": {"backfilling": "conservative"},
        "leases": {"rights": [{"name": "plain", "group": "plain", "may_claim": ["DC-MIGRATABLE"]}]},
    },
    "hosts": {0: {"cpu": 1}, 1: {"cpu": 1}},
    "vms": {
        4: {
            "user": "paul", "running_for_s": 1800, "host": 0,
            "lease": {"TYPE": "DC-NON-PREEMPTABLE", "DURATION_S": 10_800},
        },
        5: {
            "user": "paul", "running_for_s": 0, "host": 1,
            "lease": {"TYPE": "DC-MIGRATABLE", "DURATION_S": 3600, "DEADLINE_IN_S": 40_000},
        },
        6: {"user": "paul", "state": "HOLD", "lease": {"TYPE": "DC-NON-PREEMPTABLE", "DURATION_S": 7200}},
        7: {"user": "paul", "state": "HOLD", "lease": {"TYPE": "DC-NON-PREEMPTABLE", "DURATION_S": 3600}},
    },
    "ledger": {
        "leases": {5: {"verdict": "accepted", "run_began_ago_s": 0}},
        "reservations": {
            5: [
                {"start_in_s": 0, "end_in_s": 1800, "hosts": [1], "firm": True},
                {"start_in_s": 7200, "end_in_s": 9000, "hosts": [1], "firm": True},
            ]
        },
    },
}  # fmt: skip
POLICIES = policies(scenario_reader.settings_of(DOCUMENT))


def _state(document: dict[str, Any]) -> ClusterState:
    snapshot = scenario_reader.snapshot_of(document)
    ledger = scenario_reader.ledger_of(document, snapshot)
    return reconcile(snapshot, ledger, admission_rules(scenario_reader.settings_of(document)), NOW_S).state


def _promised(draft: PlanDraft) -> dict[int, int]:
    return {lease_id: stays[0].start_s - NOW_S for lease_id, stays in draft.timeline.stays.items() if stays[0].promise}


@pytest.fixture
def state() -> ClusterState:
    return _state(DOCUMENT)


def test_pieces_are_counted(state: ClusterState) -> None:
    draft = deliberate(state, POLICIES)
    assert draft.timeline.alike is not None
    assert len(draft.timeline.stays[5]) == 2
    # VM 6 waits until nothing comes after it; the gap between the two pieces is long enough for VM 7.
    assert _promised(draft) == {6: 9000, 7: 1800}


def test_hosts_that_are_named_are_promised_at_the_same_instants(state: ClusterState) -> None:
    """A pool of a host that nobody may use, with other capacity, is not counted."""
    unlike = _state({**DOCUMENT, "hosts": {**DOCUMENT["hosts"], 2: {"cpu": 0.5}}})
    draft = deliberate(unlike, POLICIES)
    assert draft.timeline.alike is None
    assert _promised(draft) == _promised(deliberate(state, POLICIES))


def test_what_was_counted_before_changes_nothing(state: ClusterState) -> None:
    memory = DecisionMemory()
    plans = [deliberate(state, POLICIES, memory).plan() for _ in range(3)]
    assert plans[1:] == [plans[0]] * 2


# -- the timeline's count ------------------------------------------------------------------------------------


def _room(stays: dict[int, tuple[Stay, ...]]) -> ObservedRoom:
    base = np.tile(np.array(ONE_VM, dtype=np.int64), (HOSTS, 1))
    return ObservedRoom(tuple(range(HOSTS)), base, base, stays, np.ones(HOSTS, dtype=np.bool_))


def _stay(lease_id: int, start_s: int, end_s: int, *rows: int, promise: bool = False) -> Stay:
    return Stay(lease_id, start_s, end_s, rows, (ONE_VM,) * max(1, len(rows)), firm=not promise, promise=promise)


def _steps(nodes: AlikeNodes) -> list[tuple[int, int]]:
    times, free = nodes.profile.as_steps()
    return list(zip(times.tolist(), free.tolist(), strict=True))


IN_PIECES = (_stay(1, 0, 10, 0, 1), _stay(1, 30, 40, 0, 1), _stay(1, 50, 60, 2, 3))


def test_all_stays_of_a_lease_are_counted_and_given_back() -> None:
    timeline = Timeline(_room({1: IN_PIECES}), 0, HOSTS)
    assert timeline.alike is not None
    assert _steps(timeline.alike) == [(0, 2), (10, 4), (30, 2), (40, 4), (50, 2), (60, 4)]
    before = timeline.withdraw(1)
    assert _steps(timeline.alike) == [(0, 4)]
    timeline.hold(before[1:])
    assert _steps(timeline.alike) == [(0, 4), (30, 2), (40, 4), (50, 2), (60, 4)]


def test_no_policy_takes_a_piece_for_a_promise_of_its_own() -> None:
    timeline = Timeline(_room({1: IN_PIECES, 2: (_stay(2, 5, 15, promise=True),)}), 0, HOSTS)
    assert timeline.alike is not None
    assert timeline.alike.start_of(1) is None
    assert timeline.alike.start_of(2) == 5


def test_time_passes_over_the_pieces() -> None:
    timeline = Timeline(_room({1: IN_PIECES}), 0, HOSTS)
    later = _room({1: IN_PIECES[1:]})
    timeline.observe(later, 35, HOSTS)
    assert timeline.alike is not None
    assert _steps(timeline.alike) == [(35, 2), (40, 4), (50, 2), (60, 4)]
    timeline.observe(_room({}), 55, HOSTS)
    assert _steps(timeline.alike) == [(55, 4)]


def test_a_promise_for_the_rest_of_a_gang_is_given_back_with_what_it_has() -> None:
    timeline = Timeline(_room({1: (_stay(1, 0, 20, 0),)}), 0, HOSTS)
    assert timeline.alike is not None
    timeline.alike.hold(TimedRequest(1, 2, 10), 30)
    promised = timeline.as_promised(1, (ONE_VM,) * 2)
    assert promised is not None
    timeline.adopt_promise(promised)
    assert _steps(timeline.alike) == [(0, 3), (20, 4), (30, 2), (40, 4)]
    timeline.withdraw(1)
    assert _steps(timeline.alike) == [(0, 4)]


def test_a_shield_knows_of_each_stay_that_ends() -> None:
    nodes = AlikeNodes(4)
    nodes.take(1, [HeldNodes(1, 0, 5), HeldNodes(2, 8, 20)])
    nodes.take(2, [HeldNodes(1, 0, 20)])
    nodes.take(3, [HeldNodes(1, 8, 20)])
    nodes.hold(TimedRequest(4, 2, 10), 20)
    # Two of the four that come free then are waited for: the two of lease 1. Nobody else may count on the others.
    nodes.shield(4)
    assert nodes.profile.free_at(20) == 0
    nodes.unshield()
    assert nodes.profile.free_at(20) == 2
