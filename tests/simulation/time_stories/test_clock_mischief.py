"""A clock that jumps, and a scheduler that sleeps for hours, at every point of a small story with a reservation.

Nothing starts twice, nothing is lost, and everything runs in the end. The cloud and its guests go by true time.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec
import pytest
from msgspec.structs import replace

from one_preempt.configuration.settings import OverheadSettings, Settings, TimeSettings
from one_preempt.core.model.lease import LeaseType
from one_preempt.ports import Clock
from one_preempt.scheduling_cycle import CycleReport
from one_preempt.simulation.simulated_cloud.cloud import SimulatedCloud
from one_preempt.simulation.simulated_cloud.durations import INSTANT
from one_preempt.simulation.simulator.result import Fate, SimulationResult
from one_preempt.simulation.simulator.simulator import Simulator
from one_preempt.simulation.simulator.site import Site, build_cloud, simulation_settings
from one_preempt.simulation.simulator.timed_fault import TimedFault
from one_preempt.simulation.workload.workload import MachineSet, StartKind, Workload, WorkloadRequest
from tests.simulation.time_stories.told_lives import told_lives
from tests.simulation.time_stories.watched_cycle import WatchedCycle

HOUR_S = 3600
START_S, LASTS_S = 300, 120
# All is asked for and answered by then: a START that has passed, by the daemon's clock, is refused.
ANSWERED_S = 25
STORY_LASTS_S = 1_000
# From how many seconds to how many the clock goes wrong, a play of its own each time.
EVERY_S = int(os.environ.get("ONE_PREEMPT_CLOCK_EVERY_S", "120"))
LATEST_S = 40_000

SITE = Site(
    (MachineSet(2, 200, 4096),), replace(INSTANT, boot_s=5, save_mib_per_s=64, restore_mib_per_s=64, shutdown_s=2)
)
ONE_VM, TWO_VMS = (MachineSet(1, 100, 512),), (MachineSet(2, 100, 512),)
STORY = Workload((
    WorkloadRequest(1, 0, TWO_VMS, 400, 400, external=True),
    WorkloadRequest(2, 5, ONE_VM, 500, 500, external=True, max_suspensions=1),
    WorkloadRequest(
        3, 10, (MachineSet(3, 100, 512),), LASTS_S, LASTS_S, start=StartKind.EXACT, start_at_s=START_S,
        lease_type=LeaseType.DC_NON_PREEMPTABLE,
    ),
    WorkloadRequest(
        4, 20, ONE_VM, 200, 200, start=StartKind.DEADLINE, deadline_at_s=1_500, lease_type=LeaseType.DC_MIGRATABLE,
        external=True,
    ),
    WorkloadRequest(5, 320, ONE_VM, None, 60, external=True),
))  # fmt: skip


@dataclass
class JumpingClock:
    """The daemon's clock: as far from the true time as it has jumped, and `stopped` while nobody looks at it."""

    true: Clock
    ahead_s: int = 0
    stopped: bool = False

    def now_s(self) -> int:
        """Seconds since the epoch, by this clock."""
        return self.true.now_s() + self.ahead_s


@dataclass(frozen=True)
class Jump:
    """At that instant the clock is from now on so far ahead of the true time."""

    at_s: int
    clock: JumpingClock
    ahead_s: int

    def strike(self, cloud: SimulatedCloud) -> None:
        """Let it happen."""
        self.clock.ahead_s = self.ahead_s


@dataclass(frozen=True)
class Sleep:
    """The daemon's machine is suspended, or wakes up; the cloud goes on."""

    at_s: int
    clock: JumpingClock
    stopped: bool

    def strike(self, cloud: SimulatedCloud) -> None:
        """Let it happen."""
        self.clock.stopped = self.stopped


class SleepingCycle(WatchedCycle):
    """Takes no cycle while the daemon's machine is suspended, and one as soon as it wakes up."""

    def __init__(self, settings: Settings, cloud: SimulatedCloud, clock: JumpingClock, wakes_at_s: int) -> None:
        super().__init__(settings, "MOML", cloud, clock=clock)
        self._jumping, self._wakes_at_s, self._last = clock, wakes_at_s, None

    _last: CycleReport | None

    def run(self) -> CycleReport:
        """One cycle, or none."""
        if not self._jumping.stopped or self._last is None:
            self._last = super().run()
            return self._last
        assert self._last.plan is not None
        plan = replace(self._last.plan, wake_at_s=self._wakes_at_s, verdicts=(), preemptions=(), ended_preemptions=())
        return replace(self._last, plan=plan)


def mischief(kind: str, at_s: int, clock: JumpingClock) -> Iterator[TimedFault]:
    """What goes wrong from `at_s` on."""
    match kind:
        case "an hour ahead":
            yield Jump(at_s, clock, HOUR_S)
        case "an hour back":
            yield Jump(at_s, clock, -HOUR_S)
        case "an hour ahead for a while":
            yield Jump(at_s, clock, HOUR_S)
            yield Jump(at_s + 200, clock, 0)
        case "an hour back for a while":
            yield Jump(at_s, clock, -HOUR_S)
            yield Jump(at_s + 200, clock, 0)
        case "asleep for three hours":
            yield Sleep(at_s, clock, True)
            yield Sleep(at_s + 3 * HOUR_S, clock, False)


def play(kind: str, at_s: int) -> tuple[SimulationResult, SimulatedCloud, WatchedCycle]:
    cloud = build_cloud(SITE, keeps_logs=True)
    clock = JumpingClock(cloud.clock)
    settings = simulation_settings(Settings(
        time=TimeSettings(least_run_before_suspension_s=30, preparation_margin_s=5),
        overhead=OverheadSettings(boot_s=5, suspend_mib_per_s=64, resume_mib_per_s=64, shutdown_s=2),
    ))  # fmt: skip
    limits = msgspec.structs.replace(settings.limits, victim_retry_s=300)
    settings = msgspec.structs.replace(settings, limits=limits)
    watched = SleepingCycle(settings, cloud, clock, SITE.start_s + at_s + 3 * HOUR_S)
    happenings = tuple(mischief(kind, at_s, clock))
    return Simulator(cloud, watched, STORY, happenings, LATEST_S).run(), cloud, watched


def wrong_with(result: SimulationResult, cloud: SimulatedCloud, watched: WatchedCycle) -> list[str]:
    """What must not be, whatever the clock does."""
    wrong = [*watched.wrong, *cloud.audit(), *map(str, cloud.overcommits)]
    takes_ms = {one.id: 1000 * one.work_vm_s for one in STORY.requests}
    wrong += [f"r{request_id} is lost" for request_id in takes_ms.keys() - {one.request_id for one in result.records}]
    for record in result.records:
        if record.fate is not Fate.COMPLETED:
            wrong.append(f"r{record.request_id} ended as {record.fate} {record.rejection}")
        elif record.served_vm_ms != takes_ms[record.request_id]:
            wrong.append(f"r{record.request_id} ran for {record.served_vm_ms} ms of {takes_ms[record.request_id]}")
    vm_ids = {one.request_id: range(one.lease_id, one.lease_id + one.virtual_machines) for one in result.records}
    for request_id, life in told_lives(cloud, vm_ids).leases.items():
        twice = [vm for vm in life.vms if len(vm.deployed_ms) != len(vm.runs)]
        if twice:
            wrong.append(f"r{request_id}: deployed {twice[0].deployed_ms}, ran {twice[0].runs}")
    return wrong


# A clock that is set right after a while was wrong until then like one that stays wrong: they take turns.
@pytest.mark.parametrize(
    ("kind", "first_s"),
    [
        ("an hour ahead", ANSWERED_S),
        ("an hour back", ANSWERED_S),
        ("an hour ahead for a while", ANSWERED_S + EVERY_S // 2),
        ("an hour back for a while", ANSWERED_S + EVERY_S // 2),
        ("asleep for three hours", ANSWERED_S),
    ],
)
def test_nothing_starts_twice_and_nothing_is_lost_whatever_the_clock_does(kind: str, first_s: int) -> None:
    for at_s in range(first_s, STORY_LASTS_S, EVERY_S):
        result, cloud, watched = play(kind, at_s)
        wrong = wrong_with(result, cloud, watched)
        assert not wrong, "\n".join([f"{kind} from {at_s} s on", *wrong, "", *watched.told()])


def test_undisturbed_the_reservation_starts_on_time_and_those_who_left_for_it_return() -> None:
    result, cloud, watched = play("nothing", 0)
    assert wrong_with(result, cloud, watched) == []
    records = {record.request_id: record for record in result.records}
    assert records[3].started_at_ms == 1000 * (START_S + 5)
    assert records[1].suspensions + records[2].suspensions > 0
    assert (records[4].ended_at_ms or 0) <= 1_500_000
    assert result.makespan_ms < 1000 * STORY_LASTS_S
