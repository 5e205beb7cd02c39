"""The simulator by itself: order, ends, interruptions, faults, and that nothing depends on chance."""

from __future__ import annotations

from itertools import pairwise

import pytest
from msgspec.structs import force_setattr, replace

from one_preempt.composition import simulated_cycle
from one_preempt.core.model.lease import LeaseType, PreemptionMethod
from one_preempt.core.model.plan import Plan, Preemption, PreemptionEnd, Reason, Victim
from one_preempt.core.model.pool_snapshot import RaftState
from one_preempt.scheduling_cycle import CycleReport, SchedulingCycle
from one_preempt.simulation.simulated_cloud.cloud import SimulatedCloud
from one_preempt.simulation.simulated_cloud.durations import INSTANT, Operation
from one_preempt.simulation.simulated_cloud.faults import Fault
from one_preempt.simulation.simulated_cloud.objects import ONEADMIN, SimVm
from one_preempt.simulation.simulated_cloud.states import VmState
from one_preempt.simulation.simulator.result import Fate
from one_preempt.simulation.simulator.scheduler import Report
from one_preempt.simulation.simulator.simulator import Simulator
from one_preempt.simulation.simulator.site import build_cloud, simulation_settings
from one_preempt.simulation.simulator.submission import UnusableRequest
from one_preempt.simulation.simulator.timed_fault import DriverFails, HostDies, HostReturns
from one_preempt.simulation.workload.workload import (
    LATEST_S,
    MOST_SUSPENSIONS,
    MachineSet,
    StartKind,
    Workload,
    WorkloadRequest,
)
from tests.simulation.simulator.small_stories import (
    SLOW_STORAGE,
    TWO_HOSTS,
    local,
    play,
    random_faults,
    random_workload,
    records_of,
    request,
)


def test_a_request_alone_starts_when_it_comes_and_ends_when_it_has_run() -> None:
    record = records_of(request(1, 40, 4, 100))[1]
    assert (record.submitted_at_ms, record.started_at_ms, record.ended_at_ms) == (40_000, 40_000, 140_000)
    assert (record.fate, record.served_vm_ms) == (Fate.COMPLETED, 400_000)


@pytest.mark.parametrize(("lasts_s", "actual_s"), [(100, 30), (100, 100), (100, 170), (100, 0)])
def test_what_was_said_about_the_duration_does_not_change_when_it_ends(lasts_s: int, actual_s: int) -> None:
    record = records_of(request(1, 0, 2, lasts_s, actual_duration_s=actual_s))[1]
    assert record.ended_at_ms == 1000 * actual_s


def test_who_ends_at_an_instant_makes_room_for_who_comes_at_the_same_instant() -> None:
    records = records_of(request(1, 0, 4, 100), request(2, 100, 4, 50))
    assert records[2].started_at_ms == 100_000


def test_requests_of_one_instant_are_seen_by_one_cycle() -> None:
    cycles: list[tuple[int, int]] = []

    def note(at_ms: int, report: Report) -> None:
        assert report.state is not None
        cycles.append((at_ms, len(report.state.leases)))

    play(request(2, 10, 1, 5), request(1, 10, 1, 5), on_cycle=note)
    assert cycles[0] == (10_000, 2)


def test_no_cycle_runs_without_a_change_or_a_plan_that_is_due() -> None:
    instants: list[int] = []
    play(request(1, 0, 1, 1000), request(2, 500, 1, 1000), on_cycle=lambda at_ms, _: instants.append(at_ms))
    assert set(instants) == {0, 500_000, 1_000_000, 1_500_000}
    assert len(instants) <= 8


def test_a_preempted_lease_runs_the_rest_of_its_time_and_the_log_says_who_preempted_it() -> None:
    records = records_of(request(1, 0, 4, 300), local(2, 100, 2, 50))
    assert records[2].started_at_ms == 100_000
    (interruption,) = records[1].interruptions
    assert (interruption.from_ms, interruption.until_ms, interruption.by_request_id) == (100_000, 150_000, 2)
    assert (records[1].ended_at_ms, records[1].served_vm_ms) == (350_000, 1_200_000)
    assert records[1].suspensions == 1


def test_saving_and_restoring_take_the_time_of_the_drivers() -> None:
    records = records_of(request(1, 0, 4, 300), local(2, 100, 4, 50), site=SLOW_STORAGE)
    # 512 MiB at 32 MiB/s, two VMs of each host at once; then the room is free and the guests boot for 5 s.
    assert records[2].started_at_ms == 100_000 + 16_000 + 5_000
    (interruption,) = records[1].interruptions
    # The owner ends it after 50 s, shutting down takes 2 s; 512 MiB are restored at 64 MiB/s.
    assert interruption.until_ms == 121_000 + 50_000 + 2_000 + 8_000


def test_memory_that_is_read_back_for_long_is_no_part_of_the_run() -> None:
    began_s: set[int] = set()

    def note(at_ms: int, report: Report) -> None:
        assert report.state is not None
        first = next((one for one in report.state.leases.values() if one.terms.name == "r1"), None)
        if first is not None and first.run_began_at_s is not None:
            began_s.add(first.run_began_at_s - report.state.now_s + at_ms // 1000)

    # Between the instant at which the guests are deployed again and the one at which they run nobody looks.
    cloud = build_cloud(replace(TWO_HOSTS, durations=replace(INSTANT, restore_s=600)))
    cycle = simulated_cycle(simulation_settings(), cloud, "moml", tells_owners=False)
    requests = request(1, 0, 4, 3000), local(2, 100, 4, 50), request(3, 2000, 1, 10)
    result = Simulator(cloud, cycle, Workload(requests), on_cycle=note).run()
    (interruption,) = result.records[0].interruptions
    assert interruption.until_ms == 150_000 + 600_000
    assert began_s == {0, 750}


def test_a_lease_has_started_once_its_last_vm_runs_though_others_are_already_being_shut_down() -> None:
    # Two VMs boot at once, and each runs for a second only; shutting one down takes two.
    records = records_of(request(1, 0, 4, 1), site=replace(SLOW_STORAGE, hosts=(MachineSet(1, 400, 4096),)))
    assert records[1].fate is Fate.COMPLETED
    assert records[1].started_at_ms == 10_000


class LooksAgain:
    """A scheduler that always wants to look again soon."""

    def __init__(self, cycle: SchedulingCycle, every_s: int) -> None:
        self._cycle = cycle
        self._every_s = every_s

    def run(self) -> CycleReport:
        """A cycle, and when the next one is due."""
        report = self._cycle.run()
        assert report.plan is not None
        return replace(report, plan=replace(report.plan, wake_at_s=report.plan.made_at_s + self._every_s))


def test_who_comes_late_is_awaited_however_often_the_scheduler_looks_meanwhile() -> None:
    cloud = build_cloud(TWO_HOSTS)
    restless = LooksAgain(simulated_cycle(simulation_settings(), cloud, "moml"), every_s=1)
    result = Simulator(cloud, restless, Workload((request(1, 0, 1, 10), request(2, 1500, 1, 10)))).run()
    assert [(record.fate, record.ended_at_ms) for record in result.records] == [
        (Fate.COMPLETED, 10_000), (Fate.COMPLETED, 1_510_000)
    ]  # fmt: skip


def test_who_wants_to_start_much_later_is_awaited_too() -> None:
    cloud, start_at_s = build_cloud(TWO_HOSTS), 10 * 86_400
    restless = LooksAgain(simulated_cycle(simulation_settings(), cloud, "moml"), every_s=600)
    reserved = replace(
        request(1, 0, 1, 10), start=StartKind.EXACT, start_at_s=start_at_s, lease_type=LeaseType.DC_NON_PREEMPTABLE
    )
    (record,) = Simulator(cloud, restless, Workload((reserved,))).run().records
    assert (record.fate, record.ended_at_ms) == (Fate.COMPLETED, 1000 * (start_at_s + 10))


@pytest.mark.parametrize(("kind", "lease_type"), [
    (StartKind.EXACT, LeaseType.DC_NON_PREEMPTABLE), (StartKind.DEADLINE, LeaseType.DC_MIGRATABLE)
])  # fmt: skip
def test_the_latest_times_and_most_suspensions_of_a_workload_can_be_written_in_a_lease(
    kind: StartKind, lease_type: LeaseType
) -> None:
    due = kind is StartKind.DEADLINE
    latest = request(
        1, 0, 1, 10, lease_type=lease_type, start=kind, max_suspensions=MOST_SUSPENSIONS,
        start_at_s=None if due else LATEST_S, deadline_at_s=LATEST_S if due else None,
    )  # fmt: skip
    assert records_of(latest)[1].fate is Fate.COMPLETED


def test_who_is_never_served_is_not_awaited_for_ever() -> None:
    cloud = build_cloud(TWO_HOSTS)
    restless = LooksAgain(simulated_cycle(simulation_settings(), cloud, "moml"), every_s=60)
    result = Simulator(cloud, restless, Workload((request(1, 0, 9, 10),))).run()
    assert [record.fate for record in result.records] == [Fate.UNFINISHED]
    assert result.cycles < 1100


def test_who_is_never_served_does_not_lengthen_the_run() -> None:
    cloud = build_cloud(TWO_HOSTS)
    restless = LooksAgain(simulated_cycle(simulation_settings(), cloud, "moml"), every_s=60)
    result = Simulator(cloud, restless, Workload((request(1, 0, 1, 100), request(2, 0, 9, 10)))).run()
    assert [record.fate for record in result.records] == [Fate.COMPLETED, Fate.UNFINISHED]
    assert result.ended_at_ms == 100_000


def test_a_cancellable_lease_is_cut_short() -> None:
    records = records_of(request(1, 0, 4, 300, lease_type=LeaseType.BE_CANCELLABLE), local(2, 100, 2, 50))
    assert (records[1].fate, records[1].ended_at_ms) == (Fate.CUT_SHORT, 100_000)
    assert [one.by_request_id for one in records[1].interruptions] == [2]


def test_who_wants_to_be_served_at_once_or_not_at_all_is_sent_away() -> None:
    now = StartKind.IMMEDIATE
    records = records_of(request(1, 0, 4, 300), local(2, 100, 2, 50), request(3, 10, 1, 5, start=now), policy="nop")
    assert (records[3].fate, records[3].started_at_ms, records[3].ended_at_ms) == (Fate.REJECTED, None, 10_000)
    assert records[3].rejection
    assert records[2].started_at_ms == 300_000


def test_a_guest_that_starts_anew_begins_from_the_start() -> None:
    faults = (HostDies(50, 0), HostDies(50, 1), HostReturns(200, 0, True), HostReturns(200, 1, True))
    survived = records_of(request(1, 0, 4, 100), faults=faults)[1]
    assert survived.fate is Fate.COMPLETED
    assert survived.served_vm_ms == 400_000
    (interruption,) = survived.interruptions
    assert interruption.from_ms < (interruption.until_ms or 0)


def test_a_failed_boot_is_seen_in_the_log_of_the_cloud_and_the_request_does_not_complete() -> None:
    fault = DriverFails(0, Fault(Operation.BOOT, count=None))
    result, cloud = play(request(1, 0, 1, 100), faults=(fault,), until_s=4000)
    assert result.records[0].fate is Fate.UNFINISHED
    assert "BOOT_FAILURE" in {str(getattr(change.new_lcm_state, "name", "")) for change in cloud.state_changes}


def test_the_same_seed_gives_the_same_bytes_and_another_one_does_not() -> None:
    def lines(seed: int) -> bytes:
        result, _ = play(*random_workload(seed).requests, site=SLOW_STORAGE, faults=random_faults(seed), until_s=20_000)
        return b"".join(result.json_lines())

    assert lines(5) == lines(5)
    assert lines(5) != lines(6)


@pytest.mark.parametrize("seed", range(6))
def test_nobody_runs_longer_or_shorter_than_he_takes_and_no_host_is_overcommitted(seed: int) -> None:
    workload = random_workload(seed)
    result, cloud = play(*workload.requests, site=SLOW_STORAGE, until_s=20_000)
    takes = {one.id: one for one in workload.requests}
    assert len(result.records) == len(takes)
    assert not cloud.overcommits
    for record in result.records:
        wanted_ms = 1000 * takes[record.request_id].work_vm_s
        assert record.fate in (Fate.COMPLETED, Fate.CUT_SHORT)
        if record.fate is Fate.COMPLETED:
            assert record.served_vm_ms == wanted_ms
        else:
            assert takes[record.request_id].lease_type is LeaseType.BE_CANCELLABLE
            assert record.served_vm_ms <= wanted_ms
        for one, following in pairwise(record.interruptions):
            assert (one.until_ms or 0) <= following.from_ms


def test_a_request_that_no_cloud_takes_is_named() -> None:
    hungry = WorkloadRequest(7, 0, (MachineSet(1, 100, 1),), 10, 10)
    # A value refuses it first.
    force_setattr(hungry, "vm_sets", (MachineSet(1, 100, 0),))
    with pytest.raises(UnusableRequest, match="request 7 of the workload: MEMORY"):
        play(hungry)


def test_a_simulation_can_be_ended_early() -> None:
    result, _ = play(request(1, 0, 1, 100), request(2, 50, 1, 100), until_s=60)
    assert [record.fate for record in result.records] == [Fate.UNFINISHED, Fate.UNFINISHED]


def test_members_of_a_gang_are_as_if_each_had_been_created_by_a_call() -> None:
    def created(by_calls: bool, template: str) -> tuple[SimulatedCloud, list[SimVm]]:
        cloud = build_cloud(SLOW_STORAGE)
        owner = cloud.caller(2)
        if by_calls:
            for _ in range(3):
                cloud.vm_allocate(owner, template, True)
        else:
            assert list(cloud.add_vms(owner, template, 3, hold=True)) == [0, 1, 2]
        return cloud, list(cloud.vms.values())

    plain = 'CPU = "1"\nMEMORY = "64"\nLEASE = [ TYPE = "BE-SUSPENDABLE", NAME = "a", SIZE = "3" ]\n'
    for template in (plain, plain + 'GRAPHICS = [ TYPE = "VNC" ]\nDISK = [ TYPE = "FS", SIZE = "10" ]\n'):
        called, one_by_one = created(True, template)
        added, together = created(False, template)
        assert together == one_by_one
        assert added.users[2].quotas == called.users[2].quotas
        assert added.audit() == []
        added.vm_deploy(ONEADMIN, 1, 0)
        assert [vm.template.get("TM_MAD_SYSTEM") for vm in together] == [None, ["shared"], None]


def test_a_guest_that_cannot_be_shut_down_is_tried_again_and_time_goes_on() -> None:
    fault = DriverFails(0, Fault(Operation.SHUTDOWN, count=3))
    record = records_of(request(1, 0, 1, 100), faults=(fault,))[1]
    assert (record.fate, record.ended_at_ms) == (Fate.COMPLETED, 280_000)


class Scripted:
    """A scheduler that starts VM 0 on host 0 and then says of a preemption what it is told to say."""

    def __init__(self, cloud: SimulatedCloud, *, gives_up: bool) -> None:
        self.cloud = cloud
        preemption = Preemption("1@0", 1, (Victim(0, 0, 0, PreemptionMethod.STOP),), (), "MOV", 0, True, 0, 0)
        end = PreemptionEnd("1@0", False, Reason("given-up", "it was given up"))
        self.plans = [Plan(0, "MOV"), Plan(0, "MOV", preemptions=(preemption,))]
        self.plans += [Plan(0, "MOV", ended_preemptions=(end,))] if gives_up else []

    def run(self) -> CycleReport:
        if self.cloud.vms[0].state == VmState.HOLD:
            self.cloud.vm_deploy(ONEADMIN, 0, 0)
        return CycleReport(RaftState.SOLO, self.plans.pop(0) if self.plans else Plan(0, "MOV"))


@pytest.mark.parametrize(("gives_up", "by"), [(False, 2), (True, None)])
def test_what_interrupts_a_lease_is_put_down_to_a_preemption_until_that_is_over(gives_up: bool, by: int | None) -> None:
    cloud = build_cloud(TWO_HOSTS)
    workload = Workload((request(1, 0, 1, 500), local(2, 0, 1, 50), local(3, 100, 1, 50)))
    faults = (HostDies(300, 0), HostReturns(400, 0, guests_survived=True))
    result = Simulator(cloud, Scripted(cloud, gives_up=gives_up), workload, faults, until_s=2000).run()
    (interruption,) = result.records[0].interruptions
    assert (interruption.from_ms, interruption.by_request_id) == (300_000, by)
