"""The numbers that CCPE13 prints: Tables II and III (section 8.3), and the times of its simulations (7.2)."""

from __future__ import annotations

from math import ceil

import pytest

from one_preempt.core.overhead.ccpe13 import copy_ms, resume_ms, suspend_ms
from one_preempt.core.overhead.rates import OverheadRates
from one_preempt.core.preemption.problem import Choice
from one_preempt.core.preemption.victim_choice import choose_victims
from one_preempt.errors import OnePreemptError
from one_preempt.policy_registry import PREEMPTION_POLICIES
from one_preempt.simulation.experiments.ccpe13_table3 import replay
from one_preempt.simulation.experiments.ccpe13_testbed import CORES_PER_HOST, EXTERNAL_REQUESTS, HOSTS, RATES
from one_preempt.simulation.experiments.experiment import Row
from one_preempt.simulation.experiments.registry import experiment, experiments
from one_preempt.simulation.simulator.result import Fate
from tests.papers.contended_testbed import contended_testbed, hosts_of_leases


def table_3() -> dict[str, Row]:
    return {str(row["policy"]): row for row in experiment("ccpe13-table3").run().rows}


@pytest.mark.parametrize(
    ("policy", "preempted", "overhead_s", "makespan_s"),
    [("MLIP", (1, 6), 59.9, 7800), ("MOV", (2, 3, 5), 27.8, 8479), ("MOML", (5, 6), 27.8, 7800)],
)
def test_table_3_comes_out(policy: str, preempted: tuple[int, ...], overhead_s: float, makespan_s: int) -> None:
    row = table_3()[policy]
    assert row["preempted"] == preempted
    assert row["overhead_s"] == pytest.approx(overhead_s, rel=0.01)
    assert row["makespan_s"] == pytest.approx(makespan_s, rel=0.03)
    assert row["rejected"] is False
    assert row["within"] is True


@pytest.mark.parametrize("policy", ["MLIP", "MOV", "MOML"])
def test_the_replay_preempts_whom_the_policy_picks_in_the_situation_by_itself(policy: str) -> None:
    choice = choose_victims(contended_testbed(), PREEMPTION_POLICIES.named(policy))
    row = table_3()[policy]
    assert isinstance(choice, Choice)
    assert row["preempted"] == choice.lease_ids
    assert row["overhead_s"] == choice.overhead_ms / 1000


def test_the_preempted_run_for_their_whole_duration_and_wait_for_nothing_but_the_overhead_and_room() -> None:
    records = {record.request_id: record for record in replay("MOV").result.records}
    for number in (2, 3, 5):
        record = records[number]
        assert (record.fate, record.suspensions) == (Fate.COMPLETED, 1)
        duration_ms = 1000 * EXTERNAL_REQUESTS[number - 1].actual_duration_s
        assert record.served_vm_ms == record.virtual_machines * duration_ms
    # 512 MiB are saved one after the other before the local request starts, at the next whole second.
    saving_s = 512 / RATES.suspend_mib_per_s + 5 * 0.005
    assert records[7].started_at_ms == 1000 * ceil(720 + saving_s)
    # Lease 2 returns into the room of lease 1, and takes the time that its memory needs.
    (interruption,) = records[2].interruptions
    assert interruption.until_ms == pytest.approx(1000 * (3600 + 128 / RATES.resume_mib_per_s + 0.005), abs=5)


def test_without_a_policy_request_7_is_rejected() -> None:
    row = table_3()["NOP"]
    assert (row["rejected"], row["preempted"], row["overhead_s"], row["within"]) == (True, (), 0.0, True)


def test_table_3_has_the_four_policies_in_flat_rows_with_equal_columns() -> None:
    rows = experiment("ccpe13-table3").run().rows
    assert [row["policy"] for row in rows] == ["NOP", "MLIP", "MOV", "MOML"]
    assert len({tuple(row) for row in rows}) == 1


def test_the_external_leases_fill_the_testbed() -> None:
    hosts = [host for hosts in hosts_of_leases().values() for host in hosts]
    assert [hosts.count(host) for host in range(HOSTS)] == [CORES_PER_HOST] * HOSTS


def test_the_times_of_the_simulations_follow_from_the_default_rates() -> None:
    rates = OverheadRates()
    assert suspend_ms(1024, rates) == pytest.approx(161_000, abs=100)
    assert resume_ms(1024, rates) == pytest.approx(126_100, abs=100)
    assert copy_ms(1024, rates) == 160_200


def test_an_experiment_that_does_not_exist_is_answered_with_those_that_do() -> None:
    assert "ccpe13-table3" in experiments()
    with pytest.raises(OnePreemptError, match="ccpe13-table3"):
        experiment("table4")
