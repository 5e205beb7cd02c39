"""The front-end's clock is wrong, or the daemon does not run for a while: nothing starts twice, nothing is lost."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest

from one_preempt.adapters.lease_store.memory_lease_store import MemoryLeaseStore
from one_preempt.chosen_policies import admission_rules, policies
from one_preempt.core.model.lease import LeaseType
from one_preempt.core.model.ledger import Outcome
from one_preempt.scheduling_cycle import CycleReport, SchedulingCycle
from one_preempt.settings import Settings, TimeSettings
from one_preempt.simulation.simulated_cloud.cloud import SimulatedCloud
from one_preempt.simulation.simulator.enactor import SimulatedEnactor
from one_preempt.simulation.simulator.pool_reader import SimulatedPoolReader
from one_preempt.simulation.simulator.result import Fate, RequestRecord
from one_preempt.simulation.simulator.simulator import Simulator
from one_preempt.simulation.simulator.site import build_cloud, simulation_settings
from one_preempt.simulation.workload.workload import StartKind, Workload, WorkloadRequest
from tests.simulation.simulator.small_stories import SLOW_STORAGE, request

HOUR_S = 3600
LOOKS_EVERY_S = 15
REQUESTS = (
    request(1, 0, 4, 600),
    request(2, 20, 2, 900, lease_type=LeaseType.BE_SUSPENDABLE),
    request(
        3, 30, 2, 300,
        external=False, lease_type=LeaseType.DC_NON_PREEMPTABLE, start=StartKind.EXACT, start_at_s=400,
    ),
    request(
        4, 40, 1, 300,
        lease_type=LeaseType.DC_MIGRATABLE, start=StartKind.DEADLINE, deadline_at_s=9000,
    ),
)  # fmt: skip
# Saving one VM takes 16 s; by the rates that are shipped 81 s are planned.
FILLED_BEFORE_A_START = (
    request(1, 0, 4, 3000, lease_type=LeaseType.BE_SUSPENDABLE),
    request(
        2, 30, 2, 300,
        external=False, lease_type=LeaseType.DC_NON_PREEMPTABLE, start=StartKind.EXACT, start_at_s=900,
    ),
)  # fmt: skip


@dataclass
class SteppingClock:
    """Shows the cloud's time until `at_ms`, and `by_s` more from then on."""

    cloud: SimulatedCloud
    at_ms: int
    by_s: int

    def now_s(self) -> int:
        """Whole seconds since the epoch, as the daemon reads them."""
        true = self.cloud.clock
        return true.now_s() + (self.by_s if true.now_ms >= self.at_ms else 0)


@dataclass
class Daemon:
    """A `Scheduler` that looks as often as the daemon does, but not while it is `away` (from, until; true seconds)."""

    cloud: SimulatedCloud
    clock: SteppingClock
    away: tuple[int, int] = (0, 0)
    wrong: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        settings = simulation_settings(Settings(time=TimeSettings(backfilling="conservative")))
        self._cycle = SchedulingCycle(
            SimulatedPoolReader(self.cloud), MemoryLeaseStore(), SimulatedEnactor(self.cloud), self.clock,
            policies(settings, "moml"), admission_rules(settings),
        )  # fmt: skip
        self._last: CycleReport | None = None

    def run(self) -> CycleReport:
        """One cycle, or none while it is away."""
        now_s = self.cloud.clock.now_s()
        if self._last is not None and self.away[0] <= now_s < self.away[1]:
            assert self._last.plan is not None
            return replace(self._last, results=(), plan=replace(self._last.plan, wake_at_s=self.away[1], verdicts=()))
        self._last = report = self._cycle.run()
        assert report.plan is not None
        self.wrong += [broken.text for broken in report.violations]
        self.wrong += [
            f"{action.id}: {result.error_text}"
            for action, result in report.results
            if result.outcome is not Outcome.ACCEPTED
        ]
        wake_at_s = report.plan.wake_at_s
        asleep_s = LOOKS_EVERY_S if wake_at_s is None else min(LOOKS_EVERY_S, max(1, wake_at_s - self.clock.now_s()))
        return replace(report, plan=replace(report.plan, wake_at_s=now_s + asleep_s))


def played(
    step_at_s: int,
    by_s: int,
    away_s: tuple[int, int] | None = None,
    requests: tuple[WorkloadRequest, ...] = REQUESTS,
) -> dict[int, RequestRecord]:
    cloud = build_cloud(SLOW_STORAGE, keeps_logs=True)
    origin_s = cloud.clock.now_s()
    away = (0, 0) if away_s is None else (origin_s + away_s[0], origin_s + away_s[1])
    daemon = Daemon(cloud, SteppingClock(cloud, 1000 * (origin_s + step_at_s), by_s), away)
    result = Simulator(cloud, daemon, Workload(requests), (), 20_000).run()
    assert daemon.wrong == []
    assert cloud.audit() == []
    return {record.request_id: record for record in result.records}


def is_served_once(record: RequestRecord) -> bool:
    return record.fate is Fate.COMPLETED and record.served_vm_ms == 1000 * REQUESTS[record.request_id - 1].work_vm_s


def is_told_that_it_is_too_late(record: RequestRecord) -> bool:
    return record.fate is Fate.REJECTED and "has passed" in record.rejection


@pytest.mark.parametrize("by_s", [HOUR_S, -HOUR_S])
@pytest.mark.parametrize("at_s", [10, 60, 150, 390, 402, 500, 700])
def test_a_clock_that_steps_by_an_hour_starts_nothing_twice_and_loses_nothing(at_s: int, by_s: int) -> None:
    records = played(at_s, by_s)
    assert all(is_served_once(record) or is_told_that_it_is_too_late(record) for record in records.values())
    assert at_s < 60 or not any(map(is_told_that_it_is_too_late, records.values()))


def test_a_reservation_keeps_to_the_clock_of_the_front_end() -> None:
    assert (played(10_000, 0)[3].started_at_ms or 0) // 1000 in range(400, 420)
    ahead = played(150, HOUR_S)[3].started_at_ms or 0
    assert ahead < 250_000, "its START has passed by the clock: it starts as soon as others have left"
    behind = played(150, -HOUR_S)[3].started_at_ms or 0
    assert behind // 1000 in range(HOUR_S + 400, HOUR_S + 420)


@pytest.mark.parametrize("back_at_s", [450, 700, 830])
def test_a_reservation_is_met_although_the_daemon_was_down_until_shortly_before(back_at_s: int) -> None:
    records = played(10_000, 0, (100, back_at_s), FILLED_BEFORE_A_START)
    assert (records[2].started_at_ms or 0) // 1000 in range(900, 900 + LOOKS_EVERY_S)
    assert len(records[1].interruptions) == 1


@pytest.mark.parametrize("back_at_s", [890, 1200])
def test_a_reservation_for_which_the_daemon_came_back_too_late_starts_as_soon_as_others_have_left(
    back_at_s: int,
) -> None:
    records = played(10_000, 0, (100, back_at_s), FILLED_BEFORE_A_START)
    saved_s = 4 * 16
    assert (records[2].started_at_ms or 0) // 1000 in range(back_at_s, back_at_s + saved_s + 2 * LOOKS_EVERY_S)


@pytest.mark.parametrize("away_s", [(100, 2 * HOUR_S), (390, HOUR_S), (450, HOUR_S)])
def test_after_a_pause_of_hours_all_goes_on(away_s: tuple[int, int]) -> None:
    assert all(is_served_once(record) for record in played(10_000, 0, away_s).values())
