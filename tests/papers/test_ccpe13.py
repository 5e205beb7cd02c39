"""The numbers that CCPE13 prints (ALGORITHMS section 1)."""

from __future__ import annotations

import pytest

from one_preempt.core.overhead.ccpe13 import copy_ms, resume_ms, suspend_ms
from one_preempt.core.overhead.rates import OverheadRates
from one_preempt.errors import OnePreemptError
from one_preempt.simulation.experiments.ccpe13_testbed import CORES_PER_HOST, HOSTS, hosts_of_leases
from one_preempt.simulation.experiments.experiment import Row
from one_preempt.simulation.experiments.registry import experiment, experiments


def table_3() -> dict[str, Row]:
    return {str(row["policy"]): row for row in experiment("ccpe13-table3").run().rows}


@pytest.mark.parametrize(
    ("policy", "preempted", "overhead_s"),
    [("MLIP", (1, 6), 59.9), ("MOV", (2, 3, 5), 27.8), ("MOML", (5, 6), 27.8)],
)
def test_table_3_comes_out(policy: str, preempted: tuple[int, ...], overhead_s: float) -> None:
    row = table_3()[policy]
    assert row["preempted"] == preempted
    assert row["overhead_s"] == pytest.approx(overhead_s, rel=0.01)
    assert row["makespan_s"] is None
    assert row["rejected"] is False
    assert row["within"] is True


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
