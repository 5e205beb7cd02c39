"""What a preemption says of itself once it is decided upon."""

from __future__ import annotations

from tests.scenario_reader import play


def test_a_preemption_of_several_leases_costs_what_their_set_was_chosen_for() -> None:
    decided = play(
        {
            "hosts": {0: {"cpu": 2}},
            "vms": {
                1: {"user": "eva", "host": 0, "memory": 512},
                2: {"user": "evan", "host": 0, "memory": 2048},
                5: {"user": "lea", "cpu": 2},
            },
        }
    )
    (preemption,) = decided.plan.preemptions
    (chosen,) = preemption.considered
    assert chosen.lease_ids == preemption.victim_lease_ids == (1, 2)
    assert preemption.overhead_ms == chosen.overhead_ms > 0
