"""Starts and ends of which nothing more need be seen: who looks at them all the same finds nothing to do."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec
import pytest
from msgspec.structs import replace

from one_preempt.composition import simulated_cycle
from one_preempt.configuration.settings import Settings, TimeSettings
from one_preempt.core.memory.quiet_changes import NOTHING_QUIET, Quiet
from one_preempt.core.model.lease import Lease, LeaseType
from one_preempt.core.model.plan import Plan
from one_preempt.core.model.virtual_machine import VirtualMachine
from one_preempt.scheduling_cycle import CycleReport, SchedulingCycle
from one_preempt.simulation.scenario.overheads import planned_overhead
from one_preempt.simulation.simulated_cloud.cloud import SimulatedCloud
from one_preempt.simulation.simulator.result import Fate, SimulationResult
from one_preempt.simulation.simulator.simulator import Simulator
from one_preempt.simulation.simulator.site import Site, build_cloud, simulation_settings
from one_preempt.simulation.simulator.timed_fault import HostDies, TimedFault
from one_preempt.simulation.workload.workload import MachineSet, StartKind, Workload, WorkloadRequest
from tests.simulation.simulator.small_stories import (
    SLOW_STORAGE,
    TWO_HOSTS,
    local,
    random_faults,
    random_workload,
    request,
)

COMING = frozenset({"PROLOG", "BOOT", "RUNNING"})


@dataclass
class LooksAgain:
    """The production cycle, woken by every change: the simulator is not told what is quiet.

    `idle` are its plans where nothing but quiet starts and ends had happened.
    """

    cycle: SchedulingCycle
    idle: list[Plan] = field(default_factory=list)
    _quiet: Quiet = NOTHING_QUIET
    _gone: set[int] = field(default_factory=set)
    _leases: Mapping[int, Lease] = field(default_factory=dict)

    def run(self) -> CycleReport:
        report = self.cycle.run()
        assert report.state is not None
        assert report.plan is not None
        changed, vms = report.state.snapshot.changed_vm_ids or frozenset(), report.state.snapshot.vms
        self._gone |= changed - vms.keys()
        if changed and all(self._is_quiet(vm_id, vms) for vm_id in changed):
            self.idle.append(report.plan)
        else:
            self._quiet = report.quiet
            self._gone.clear()
        self._leases = report.state.leases
        return replace(report, quiet=NOTHING_QUIET)

    def _is_quiet(self, vm_id: int, vms: Mapping[int, VirtualMachine]) -> bool:
        if vm_id in vms:
            return vm_id in self._quiet.started_vm_ids and vms[vm_id].state_name in COMING
        if vm_id in self._quiet.refused_vm_ids:
            return True
        lease = next((lease for lease in self._leases.values() if vm_id in lease.vm_ids), None)
        may_end = len(self._gone) <= self._quiet.ending_vms
        return may_end and lease is not None and vms.keys().isdisjoint(lease.vm_ids)


def cloud_and_cycle(site: Site, *, tells_owners: bool = False) -> tuple[SimulatedCloud, SchedulingCycle]:
    cloud = build_cloud(site)
    return cloud, simulated_cycle(simulation_settings(), cloud, "moml", tells_owners=tells_owners)


def play(
    workload: Workload, site: Site, faults: tuple[TimedFault, ...] = (), *, tells_owners: bool = False
) -> SimulationResult:
    cloud, cycle = cloud_and_cycle(site, tells_owners=tells_owners)
    return Simulator(cloud, cycle, workload, faults, until_s=20_000).run()


def play_looking_again(
    workload: Workload, site: Site, faults: tuple[TimedFault, ...] = ()
) -> tuple[SimulationResult, list[Plan]]:
    cloud, cycle = cloud_and_cycle(site)
    watched = LooksAgain(cycle)
    return Simulator(cloud, watched, workload, faults, until_s=20_000).run(), watched.idle


SLOW_SAVES = replace(TWO_HOSTS, durations=replace(SLOW_STORAGE.durations, boot_s=0))


@pytest.mark.parametrize("site", [TWO_HOSTS, SLOW_SAVES])
def test_who_looks_again_finds_nothing_to_do(site: Site) -> None:
    looks: list[Plan] = []
    saved = 0
    for seed in range(8):
        workload, faults = random_workload(seed, count=16), random_faults(seed) if seed % 2 else ()
        seldom = play(workload, site, faults)
        often, idle = play_looking_again(workload, site, faults)
        assert seldom.records == often.records
        looks += idle
        saved += often.cycles - seldom.cycles
    assert len(looks) >= saved > 5
    for plan in looks:
        assert_nothing_is_done(plan)


def assert_nothing_is_done(plan: Plan) -> None:
    """Who waits still waits; when room is expected may be told anew, for what was to start runs by now."""
    assert replace(plan, refusals=(), bookings=(), wake_at_s=None) == Plan(plan.made_at_s, plan.policy)


def cycles_of(*requests: WorkloadRequest, tells_owners: bool = False) -> int:
    return play(Workload(requests), TWO_HOSTS, tells_owners=tells_owners).cycles


def test_a_request_that_is_served_at_once_is_one_look() -> None:
    assert cycles_of(request(1, 10, 2, 100)) == 1
    assert cycles_of(request(1, 10, 2, 100), request(2, 20, 2, 200), request(3, 150, 2, 100)) == 3


def test_many_ends_one_after_the_other_are_not_a_standstill() -> None:
    """Nothing is looked at, and yet something happens each time."""
    site = Site((MachineSet(300, 400, 4096),))
    result = play(Workload(tuple(request(number, 0, 1, 10 * number) for number in range(1, 1101))), site)
    assert {record.fate for record in result.records} == {Fate.COMPLETED}
    assert result.cycles == 1


def test_an_end_that_takes_a_while_is_looked_at() -> None:
    slow = replace(TWO_HOSTS, durations=replace(SLOW_STORAGE.durations, boot_s=0))
    workload = Workload((request(1, 10, 2, 100),))
    assert play(workload, slow).cycles > play(workload, TWO_HOSTS).cycles


def test_an_end_in_parts_is_looked_at() -> None:
    """Half of them die with their host: three looks, at the request, the death, and the end of those that are left."""
    assert play(Workload((request(1, 10, 4, 100),)), TWO_HOSTS, (HostDies(50, 0),)).cycles == 3


def test_what_boots_for_a_while_is_looked_at() -> None:
    workload = Workload((request(1, 10, 2, 100),))
    assert play(workload, SLOW_STORAGE).cycles > play(workload, TWO_HOSTS).cycles + 1


def test_owners_that_are_told_of_their_start_have_it_looked_at() -> None:
    assert cycles_of(request(1, 10, 2, 100), tells_owners=True) > 2


def looks_at_one_after_the_other(requests: int, backfilling: str, *, as_planned: bool = True) -> int:
    """Each takes the whole cloud, and all come at once."""
    workload = Workload(tuple(request(number, 10, 4, 100) for number in range(1, requests + 1)))
    return crowded(workload, TWO_HOSTS, backfilling, as_planned=as_planned)[0].cycles


def test_while_one_is_promised_the_next_start_a_start_is_not_looked_at() -> None:
    assert looks_at_one_after_the_other(1, "easy") == 1
    # The end of the first one, at which the second starts; its end is quiet again.
    assert looks_at_one_after_the_other(2, "easy") == 2


def queued(*requests: WorkloadRequest, backfilling: str = "easy") -> int:
    """How often is looked, where all starts take the time that is planned for them: none."""
    seldom, often, _ = crowded(Workload(requests), TWO_HOSTS, backfilling, as_planned=True)
    assert seldom.records == often.records
    return seldom.cycles


def test_while_several_are_promised_named_hosts_a_start_is_looked_at() -> None:
    """As long as nothing runs hosts are not counted: another look may bring a promise forward, and who is behind it."""
    assert looks_at_one_after_the_other(3, "conservative") == looks_at_one_after_the_other(3, "easy") + 1


def test_while_several_are_promised_a_start_that_leaves_nothing_free_is_not_looked_at() -> None:
    """The last one fits beside the first, before the others are promised their start."""
    long, narrow = request(1, 0, 2, 300), request(4, 20, 2, 100)
    wide, last = request(2, 5, 4, 100), request(3, 10, 4, 100)
    # When they come, and when they end but for the last end, after which nobody waits.
    assert queued(long, wide, last, narrow, backfilling="conservative") == 4 + 3


def test_while_several_are_promised_a_start_that_leaves_room_for_nobody_is_not_looked_at() -> None:
    """The fourth comes forward as the second ends early, and the fifth with it: what it leaves then is too short."""
    long, short = request(1, 0, 2, 300), request(2, 5, 2, 50, requested_duration_s=200)
    wide, narrow, last = request(3, 10, 4, 100), request(4, 15, 2, 100), request(5, 16, 4, 100)
    assert queued(long, short, wide, narrow, last, backfilling="conservative") == 5 + 4


def test_while_several_are_promised_a_start_that_leaves_room_for_one_before_it_is_looked_at() -> None:
    """The fifth comes forward as the second ends early: only then are there 155 s for the fourth, at 145 s."""
    long, short = request(1, 0, 2, 300), request(2, 5, 2, 50, requested_duration_s=200)
    wide, fourth, fifth = request(3, 10, 4, 100), request(4, 15, 2, 155), request(5, 16, 2, 90)
    # Two ends at 300 s are one look.
    assert queued(long, short, wide, fourth, fifth, backfilling="conservative") == 5 + 3 + 1


def test_ends_that_leave_too_little_for_all_who_wait_are_not_looked_at() -> None:
    """One place and then two are free, and the one that waits needs four; the third end is looked at."""
    first, second, third = request(1, 0, 1, 100), request(2, 0, 1, 150), request(3, 5, 2, 200)
    assert queued(first, second, third, request(4, 10, 4, 100)) == 3 + 1


def test_an_end_that_leaves_enough_for_one_who_waits_is_looked_at_though_he_may_not_overtake() -> None:
    first, second, third = request(1, 0, 1, 100), request(2, 0, 1, 150), request(3, 5, 2, 200)
    wide, narrow = request(4, 10, 4, 100), request(5, 15, 2, 900)
    assert queued(first, second, third, wide) + 1 + 2 == queued(first, second, third, wide, narrow)


def test_while_others_wait_a_start_that_was_to_take_time_is_looked_at() -> None:
    assert looks_at_one_after_the_other(2, "easy", as_planned=False) == 3


def test_who_may_preempt_is_looked_at() -> None:
    assert cycles_of(local(1, 10, 2, 100)) == 1 + 1


def test_what_it_ran_counts_from_when_it_was_heard_to_run() -> None:
    """The next look is at another's arrival, long after; then room is to be made, and it is told how long it ran."""
    first, second = request(1, 0, 4, 1000), local(2, 400, 4, 100)
    seldom = play(Workload((first, second)), TWO_HOSTS)
    often, _ = play_looking_again(Workload((first, second)), TWO_HOSTS)
    assert seldom.records == often.records
    assert seldom.records[0].suspensions == 1


def crowded_settings(backfilling: str, site: Site, *, as_planned: bool) -> Settings:
    """`as_planned`: what the site's drivers take is what the scheduler plans with, as where a trace is simulated."""
    given = simulation_settings(Settings(time=TimeSettings(backfilling=backfilling, preparation_margin_s=0)))
    if not as_planned:
        return given
    return msgspec.structs.replace(given, overhead=planned_overhead(given.overhead, site.durations))


def crowded_workload(seed: int) -> Workload:
    """Deadlines that are kept or refused, beside a queue that is never empty for long and locals that preempt."""
    chance = random.Random(seed)
    requests: list[WorkloadRequest] = []
    for number in range(1, 25):
        at_s = 20 * number + chance.choice((0, 0, 7, 13))
        vms, lasts_s = chance.randint(1, 3), chance.choice((60, 100, 200))
        kind = chance.random()
        if kind < 0.25:
            requests.append(replace(local(number, at_s, vms, lasts_s), start=StartKind.IMMEDIATE))
        elif kind < 0.65:
            within_s = int(lasts_s * chance.choice((1.1, 2, 4)))
            requests.append(
                request(
                    number, at_s, vms, lasts_s, start=StartKind.DEADLINE, deadline_at_s=at_s + within_s,
                    lease_type=chance.choice((LeaseType.DC_MIGRATABLE, LeaseType.DC_NON_PREEMPTABLE)),
                )
            )  # fmt: skip
        else:
            kinds = [one for one in LeaseType if one.best_effort]
            requests.append(request(number, at_s, vms, lasts_s, lease_type=chance.choice(kinds)))
    return Workload(tuple(sorted(requests, key=lambda one: one.submitted_at_s)))


def crowded(
    workload: Workload, site: Site, backfilling: str = "conservative", *, as_planned: bool = False
) -> tuple[SimulationResult, SimulationResult, list[Plan]]:
    """Played as it is, and by somebody who looks again, with the plans of these looks."""
    settings, cloud = crowded_settings(backfilling, site, as_planned=as_planned), build_cloud(site)
    seldom = Simulator(cloud, simulated_cycle(settings, cloud, "moml", tells_owners=False), workload, until_s=20_000)
    cloud_again = build_cloud(site)
    watched = LooksAgain(simulated_cycle(settings, cloud_again, "moml", tells_owners=False))
    often = Simulator(cloud_again, watched, workload, until_s=20_000)
    return seldom.run(), often.run(), watched.idle


def looks_saved(seldom: SimulationResult, often: SimulationResult, idle: list[Plan]) -> int:
    """How many more looks the one took who looks again; with the same outcome, and nothing done in any of them."""
    assert seldom.records == often.records
    for plan in idle:
        assert_nothing_is_done(plan)
    return often.cycles - seldom.cycles


@pytest.mark.parametrize("site", [TWO_HOSTS, SLOW_SAVES])
def test_who_looks_again_when_what_was_refused_is_withdrawn_finds_nothing_to_do(site: Site) -> None:
    played = [crowded(crowded_workload(seed), site) for seed in range(8)]
    assert sum(looks_saved(*one) for one in played) > 20


def queued_workload(seed: int) -> Workload:
    """A queue that is never empty for long, of those who ask for what they take, for more, for less, and for no end."""
    chance = random.Random(seed)
    requests: list[WorkloadRequest] = []
    for number in range(1, 41):
        at_s, lasts_s = 15 * number + chance.choice((0, 0, 7)), chance.choice((20, 60, 100, 300))
        asks_s = chance.choice((lasts_s, lasts_s, 2 * lasts_s, lasts_s // 2, None))
        requests.append(request(number, at_s, chance.randint(1, 4), lasts_s, requested_duration_s=asks_s))
    return Workload(tuple(sorted(requests, key=lambda one: one.submitted_at_s)))


@pytest.mark.parametrize("backfilling", ["none", "easy", "intermediate", "conservative"])
@pytest.mark.parametrize("site", [TWO_HOSTS, SLOW_SAVES])
def test_who_looks_again_while_a_queue_waits_finds_nothing_to_do(site: Site, backfilling: str) -> None:
    assert (
        sum(looks_saved(*crowded(queued_workload(seed), site, backfilling, as_planned=True)) for seed in range(3)) > 10
    )


def test_what_is_refused_and_withdrawn_while_others_wait_is_one_look() -> None:
    waiting = (request(1, 10, 4, 100), request(2, 20, 4, 100))
    hopeless = request(
        3, 30, 4, 100, start=StartKind.DEADLINE, deadline_at_s=140, lease_type=LeaseType.DC_NON_PREEMPTABLE
    )
    with_it, without_it = (
        crowded(Workload(requests), TWO_HOSTS)[0].cycles for requests in ((*waiting, hopeless), waiting)
    )
    assert with_it == without_it + 1


def more_looks_with_what_is_refused_at(at_s: int) -> int:
    """Beside a lease that starts at once, is sent out at 400 s, and is on its way back from 518 s until 526 s."""
    others = (request(1, 0, 4, 1000, lease_type=LeaseType.BE_SUSPENDABLE), local(2, 400, 4, 100))
    hopeless = request(
        3, at_s, 4, 100, start=StartKind.DEADLINE, deadline_at_s=at_s + 110, lease_type=LeaseType.DC_NON_PREEMPTABLE
    )
    with_it = Workload(tuple(sorted((*others, hopeless), key=lambda one: one.submitted_at_s)))
    seldom, often, idle = crowded(with_it, SLOW_SAVES)
    assert seldom.records == often.records
    for plan in idle:
        assert replace(plan, refusals=(), wake_at_s=None) == Plan(plan.made_at_s, plan.policy)
    return seldom.cycles - crowded(Workload(others), SLOW_SAVES)[0].cycles


def test_what_is_refused_while_somebody_is_on_the_way_back_is_one_look() -> None:
    assert more_looks_with_what_is_refused_at(524) == 1


def test_where_something_was_learned_what_is_refused_and_withdrawn_is_two_looks() -> None:
    """How long the first start took is known once the second request comes, and might be counted on."""
    assert more_looks_with_what_is_refused_at(380) == 2


def reserved_workload(seed: int) -> Workload:
    """Starts that are reserved, soon or far ahead, beside a queue that is never empty for long."""
    chance = random.Random(seed)
    requests = [one for one in queued_workload(seed).requests if one.id % 2]
    for number in range(101, 107):
        at_s, lasts_s = chance.randint(0, 500), chance.choice((40, 100, 250))
        kind = chance.choice((LeaseType.DC_NON_PREEMPTABLE, LeaseType.DC_NON_PREEMPTABLE, LeaseType.DC_MIGRATABLE))
        starts_at_s = at_s + chance.choice((0, 30, 100, 400))
        reserved = request(
            number, at_s, chance.randint(1, 3), lasts_s, start=StartKind.EXACT, start_at_s=starts_at_s, lease_type=kind
        )
        requests.append(replace(reserved, external=chance.random() < 0.3))
    return Workload(tuple(sorted(requests, key=lambda one: one.submitted_at_s)))


@pytest.mark.parametrize("backfilling", ["easy", "conservative"])
@pytest.mark.parametrize("site", [TWO_HOSTS, SLOW_SAVES])
def test_who_looks_again_while_starts_are_reserved_finds_nothing_to_do(site: Site, backfilling: str) -> None:
    assert (
        sum(looks_saved(*crowded(reserved_workload(seed), site, backfilling, as_planned=True)) for seed in range(3))
        > 10
    )


def looks_at_once(lasts_s: int) -> int:
    """How often is looked when somebody comes who takes all four hosts, of which two are reserved from 1000 s on."""
    reserved = request(
        1, 0, 2, 100, start=StartKind.EXACT, start_at_s=1000, lease_type=LeaseType.DC_NON_PREEMPTABLE, external=False
    )
    site, looks = Site((MachineSet(4, 100, 1024),)), list[int]()
    settings, cloud = crowded_settings("easy", site, as_planned=True), build_cloud(site)
    cycle = simulated_cycle(settings, cloud, "moml", tells_owners=False)
    workload = Workload((reserved, request(2, 10, 4, lasts_s)))
    Simulator(cloud, cycle, workload, on_cycle=lambda at_ms, _: looks.append(at_ms)).run()
    return looks.count(10_000)


def test_a_start_that_is_over_before_what_is_reserved_begins_is_not_looked_at() -> None:
    assert looks_at_once(lasts_s=990) == 1


def test_a_start_that_will_be_in_the_way_of_what_is_reserved_is_looked_at() -> None:
    """Only then is it known by when it must leave."""
    assert looks_at_once(lasts_s=991) == 2
