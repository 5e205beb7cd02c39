"""Who waits behind requests for which nobody can make room is looked at as well, sooner or later."""

from __future__ import annotations

import pytest

from one_preempt.core.phases.preempt_for_waiting import CHOICES_A_CYCLE, looked_at_in_turn
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
