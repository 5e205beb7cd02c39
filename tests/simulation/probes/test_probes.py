"""Figures of small simulations, recounted by hand."""

from __future__ import annotations

from itertools import pairwise

import msgspec
import pytest
from msgspec.structs import replace

from one_preempt.core.model.lease import LeaseType
from one_preempt.errors import OnePreemptError
from one_preempt.simulation.experiments.trial import Played, Trial, play, play_whole
from one_preempt.simulation.probes.acceptance import acceptance, missed_deadlines
from one_preempt.simulation.probes.comparison import compare, in_words
from one_preempt.simulation.probes.outcome import Outcome, outcomes
from one_preempt.simulation.probes.utilization import useful_share, utilization
from one_preempt.simulation.probes.waiting import bounded_slowdowns, distribution, percentile
from one_preempt.simulation.probes.watch import Activity
from one_preempt.simulation.probes.writing import Row, csv_text
from one_preempt.simulation.simulator.result import Fate, Interruption, RequestRecord, SimulationResult
from one_preempt.simulation.simulator.site import Site, simulation_settings
from one_preempt.simulation.workload.workload import StartKind, Workload, WorkloadRequest
from tests.simulation.simulator.small_stories import SLOW_STORAGE, TWO_HOSTS, local, random_workload, request


def played(
    *requests: WorkloadRequest, site: Site = TWO_HOSTS, policy: str = "moml", until_s: int | None = None
) -> Played:
    return play(Trial(Workload(requests), site, simulation_settings(), policy, until_s=until_s, keeps_stays=True))


def test_waits_slowdowns_and_utilization_of_two_that_follow_one_another() -> None:
    # 4 CPUs: the first takes all for 100 s, the second waits 90 s for its 50 s on half of them.
    found = played(request(1, 0, 4, 100), request(2, 10, 2, 50)).figures
    everybody = found.everybody
    assert everybody.wait_s is not None
    assert (everybody.wait_s.mean, everybody.wait_s.median, everybody.wait_s.largest) == (45, 45, 90)
    assert everybody.slowdown is not None
    assert everybody.slowdown.mean == pytest.approx((1 + 140 / 50) / 2)
    assert found.makespan_s == 150
    assert found.utilization == pytest.approx((400 + 100) / (4 * 150))
    assert found.utilization_of_arrivals == pytest.approx(1)
    assert found.best_effort_makespan_s == pytest.approx((100 + 140) / 2)


def test_what_starts_before_the_start_that_it_was_not_given_did_not_wait_for_it() -> None:
    shipped = simulation_settings()
    queued = msgspec.structs.replace(
        shipped,
        time=msgspec.structs.replace(shipped.time, refused_reservation="queue", least_run_before_suspension_s=1),
    )
    # Both would have all of the cloud for the same time; the second has it an hour before.
    first = replace(local(1, 0, 4, 100), start=StartKind.EXACT, start_at_s=3600)
    told = play(Trial(Workload((first, replace(first, id=2))), TWO_HOSTS, queued, "moml")).figures.everybody
    assert (told.acceptance.completed, told.acceptance.rejected) == (2, 0)
    for spread, each in ((told.wait_s, 0), (told.slowdown, 1), (told.makespan_s, 100)):
        assert spread is not None
        assert (spread.mean, spread.largest) == (each, each)


def test_a_simulation_that_is_ended_early_is_as_long_as_was_asked_for_though_nobody_is_there() -> None:
    told = played(request(1, 0, 4, 100), request(2, 5000, 4, 100), until_s=1000)
    assert told.result.ended_at_ms == 1_000_000
    assert told.figures.utilization == pytest.approx(0.1)
    assert told.seen.host_on_ms == 2 * 1_000_000
    assert played(request(1, 0, 4, 100), until_s=1000).result.ended_at_ms == 100_000


def test_of_a_simulation_that_ends_before_its_requests_nothing_is_told() -> None:
    two = Workload((request(1, 0, 4, 100), request(2, 5000, 4, 100)), name="two")
    trial = Trial(two, TWO_HOSTS, simulation_settings(), "moml")
    assert play_whole(trial).result.ended_at_ms == 5_100_000
    for until_s, over in ((5050, 1), (1000, 1), (50, 0)):
        with pytest.raises(OnePreemptError, match=f"simulation of two under moml.* {over} of 2 requests were over"):
            play_whole(replace(trial, until_s=until_s))


def test_a_preemption_is_counted_priced_and_seen_over_time() -> None:
    told = played(request(1, 0, 4, 300), local(2, 100, 4, 50), site=SLOW_STORAGE)
    found = told.figures
    assert (found.preemptions, found.everybody.preemptions, found.everybody.suspensions) == (1, 1, 1)
    # Four VMs save for 16 s and restore for 8 s; they ran 300 s, the others 50 s.
    assert told.seen.vm_ms[Activity.LEAVE] == 4 * 16_000
    assert told.seen.vm_ms[Activity.RETURN] == 4 * 8_000
    assert found.overhead_vm_s == 96
    assert found.useful_share == pytest.approx(1 - 96 / (4 * 350))
    assert found.planned_overhead_s > 0
    assert found.refused_plans == 0


@pytest.mark.parametrize("site", [TWO_HOSTS, SLOW_STORAGE])
def test_a_lease_that_is_terminated_for_another_has_left_and_was_not_suspended(site: Site) -> None:
    told = played(request(1, 0, 4, 300, lease_type=LeaseType.BE_CANCELLABLE), local(2, 100, 2, 50), site=site)
    (interruption,) = told.result.records[0].interruptions
    assert (interruption.by_request_id, interruption.until_ms, interruption.terminated) == (2, None, True)
    everybody = told.figures.everybody
    assert (everybody.acceptance.cut_short, everybody.preemptions, everybody.suspensions) == (1, 1, 0)


def test_stays_cover_what_hosts_were_used_for_without_two_of_one_vm_at_once() -> None:
    seen = played(request(1, 0, 4, 300), local(2, 100, 2, 50), site=SLOW_STORAGE).seen
    assert {stay.host_id for stay in seen.stays} == {0, 1}
    by_vm: dict[int, list[tuple[int, int]]] = {}
    for stay in seen.stays:
        by_vm.setdefault(stay.vm_id, []).append((stay.from_ms, stay.until_ms))
    for spans in by_vm.values():
        assert all(one[1] <= other[0] for one, other in pairwise(spans))
    assert sum(stay.until_ms - stay.from_ms for stay in seen.stays) == sum(seen.vm_ms.values())


@pytest.mark.parametrize("until_s", [200, 20_000])
@pytest.mark.parametrize("seed", range(4))
def test_records_and_what_was_seen_on_the_hosts_agree(seed: int, until_s: int) -> None:
    told = played(*random_workload(seed).requests, site=SLOW_STORAGE, until_s=until_s)
    records, found = told.result.records, told.figures
    served_vm_ms = sum(record.served_vm_ms for record in records)
    assert told.seen.computation_vm_ms == served_vm_ms
    # All VMs of a lease run together for at most as long as each of them does.
    assert found.utilization is not None
    assert found.utilization * 4 * told.result.ended_at_ms <= served_vm_ms + 1
    assert found.everybody.preemptions == sum(
        one.by_request_id is not None for record in records for one in record.interruptions
    )
    assert found.everybody.acceptance.completed == sum(record.fate is Fate.COMPLETED for record in records)
    busy_ms = sum(stay.until_ms - stay.from_ms for stay in told.seen.stays)
    assert served_vm_ms <= busy_ms <= 4 * told.result.ended_at_ms


def test_groups_are_told_apart_and_empty_ones_left_out() -> None:
    now = StartKind.IMMEDIATE
    requests = (
        request(1, 0, 4, 300), request(2, 10, 1, 5, start=now, lease_type=LeaseType.DC_NON_PREEMPTABLE),
        local(3, 20, 1, 5),
    )  # fmt: skip
    found = played(*requests, policy="nop").figures
    assert set(found.groups) == {
        "all", "local", "external", "best-effort", "immediate", "BE-SUSPENDABLE", "DC-NON-PREEMPTABLE",
    }  # fmt: skip
    assert found.groups["external"].acceptance.rejection_rate == pytest.approx(1 / 2)
    assert found.groups["local"].acceptance.rejection_rate == 0
    assert found.groups["immediate"].wait_s is None
    assert found.flat()["rejected.DC-NON-PREEMPTABLE"] == 1


def test_a_lease_that_is_terminated_for_another_is_told_as_cut_short() -> None:
    told = played(request(1, 0, 4, 300, lease_type=LeaseType.BE_CANCELLABLE), local(2, 100, 2, 50)).figures.flat()
    assert (told["cut_short.all"], told["rejected.all"], told["deadlines_missed.all"]) == (1, 0, None)
    rows = {row.title: row.values[0] for row in compare([[told]])}
    assert in_words(rows["cut short"], "") == "1"
    assert "deadlines missed" not in rows


def an_outcome(fate: Fate, ended_at_ms: int | None, **asked: object) -> Outcome:
    return Outcome(request(1, 0, 1, 50, **asked), RequestRecord(1, 1, 1, 0, 0, ended_at_ms, fate, (), 50_000))


def test_a_deadline_is_missed_by_who_was_not_rejected_and_had_not_completed_by_then() -> None:
    def missed(fate: Fate, ended_at_ms: int | None, simulated_ms: int = 200_000) -> int | None:
        asked = {"lease_type": LeaseType.DC_MIGRATABLE, "start": StartKind.DEADLINE, "deadline_at_s": 100}
        return missed_deadlines([an_outcome(fate, ended_at_ms, **asked)], simulated_ms)

    assert (missed(Fate.COMPLETED, 100_000), missed(Fate.COMPLETED, 100_001)) == (0, 1)
    assert [missed(Fate.UNFINISHED, None, end_ms) for end_ms in (90_000, 99_999, 100_000, 200_000)] == [0, 0, 1, 1]
    assert (missed(Fate.CUT_SHORT, 20_000), missed(Fate.REJECTED, 0)) == (1, 0)
    assert missed_deadlines([an_outcome(Fate.COMPLETED, 100_001)], 200_000) is None


@pytest.mark.parametrize(
    ("lease_type", "start", "is_best_effort"),
    [
        (LeaseType.BE_SUSPENDABLE, StartKind.BEST_EFFORT, True),
        (LeaseType.BE_SUSPENDABLE, StartKind.IMMEDIATE, False),
        (LeaseType.DC_MIGRATABLE, StartKind.BEST_EFFORT, False),
    ],
)
def test_best_effort_is_what_waits_for_its_turn_and_may_be_preempted(
    lease_type: LeaseType, start: StartKind, is_best_effort: bool
) -> None:
    assert an_outcome(Fate.COMPLETED, 50_000, lease_type=lease_type, start=start).best_effort is is_best_effort


def test_the_last_stay_is_as_long_as_what_was_served_beyond_the_others() -> None:
    stops = (Interruption(10_000, 20_000, 7, False), Interruption(35_000, 60_000, 7, False))
    # 50 s in all: 10 s, 15 s and 25 s; the guest takes 5 s more to shut down.
    whole = Outcome(request(1, 0, 1, 50), RequestRecord(1, 1, 1, 0, 0, 90_000, Fate.COMPLETED, stops, 50_000))
    assert list(whole.stays_ms(99_000)) == [(0, 10_000), (20_000, 35_000), (60_000, 85_000)]
    for_good = replace(whole.record, interruptions=(Interruption(10_000, None, 7, False),), ended_at_ms=None)
    assert list(replace(whole, record=for_good).stays_ms(99_000)) == [(0, 10_000)]


def test_what_still_runs_at_the_end_counts_up_to_the_end() -> None:
    told = played(request(1, 0, 4, 300), until_s=100)
    assert told.figures.everybody.acceptance.unfinished == 1
    assert told.figures.utilization == pytest.approx(1)
    assert told.seen.vm_ms[Activity.RUN] == 400_000


def test_figures_of_nothing_are_unknown_and_not_zero() -> None:
    nothing = SimulationResult((), 0, 0)
    assert acceptance(()).rejection_rate is None
    assert utilization(outcomes(Workload(()), nothing), TWO_HOSTS.hosts, 0) is None
    assert useful_share(5, 0) is None
    assert distribution([]) is None


def test_percentiles_are_values_that_occurred() -> None:
    ordered = [float(value) for value in range(1, 101)]
    assert (percentile(ordered, 90), percentile(ordered, 99), percentile([3.0], 90)) == (90, 99, 3)
    spread = distribution([5, 1, 3])
    assert spread is not None
    assert (spread.mean, spread.median, spread.percentile_90, spread.largest) == (3, 3, 5, 5)
    long = distribution(range(1000, 0, -1))
    assert long is not None
    assert (long.median, long.percentile_90, long.percentile_99) == (500.5, 900, 990)


def test_short_jobs_do_not_decide_the_bounded_slowdown() -> None:
    requests = (request(1, 0, 4, 100), request(2, 0, 4, 1), request(3, 200, 1, 0))
    told = played(*requests)
    found = bounded_slowdowns(outcomes(Workload(requests), told.result))
    assert found == [1.0, pytest.approx(101 / 10), 1.0]


def test_rows_are_written_once_a_line_and_formulas_stay_text() -> None:
    rows: list[Row] = [{"policy": "=cmd", "wait_s": 1.5}, {"policy": "b", "more": None}]
    assert csv_text(rows) == "policy,wait_s,more\n'=cmd,1.5,\nb,,\n"
