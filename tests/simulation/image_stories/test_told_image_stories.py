"""Stories about images that are told: one as a scenario file, and what becomes of a start when transfers go wrong."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from one_preempt.configuration.power_settings import HandedOverSettings, HostPowerSettings, PowerSettings
from one_preempt.configuration.settings import ImageStagingSettings, Settings
from one_preempt.core.model.image_transfer import ImageOrder
from one_preempt.core.model.lease import LeaseType
from one_preempt.entrypoints.cli.simulated_runs import Asked, play_all, study
from one_preempt.simulation.experiments.trial import switched_machines
from one_preempt.simulation.simulated_cloud.durations import Operation
from one_preempt.simulation.simulated_cloud.faults import Fault, Misbehaviour
from one_preempt.simulation.simulator.result import Fate, RequestRecord
from one_preempt.simulation.simulator.simulator import Simulator
from one_preempt.simulation.simulator.site import START_S, ImageSite, Site, build_cloud, simulation_settings
from one_preempt.simulation.simulator.timed_fault import DriverFails, HostDies, TimedFault
from one_preempt.simulation.workload.workload import MachineSet, StartKind, Workload, WorkloadRequest
from tests.simulation.time_stories.happenings import OwnerEnds
from tests.simulation.time_stories.watched_cycle import WatchedCycle

SCENARIO = Path(__file__).parents[2] / "traces" / "images-before-the-start.yaml"
TWO_HOSTS = Site((MachineSet(2, 400, 4096),), images=ImageSite(100))
TRANSFER_S = 51
MARGIN_S = 30


def test_the_scenario_file_is_played_as_it_says() -> None:
    (run,) = play_all(study(Asked(SCENARIO, Settings())))
    records = {record.request_id: record for record in run.played.result.records}
    started_s = {
        number: None if one.started_at_ms is None else one.started_at_ms / 1000 for number, one in records.items()
    }
    assert started_s == {1: 600, 2: 600, 3: None, 4: 660, 5: None}
    assert "the link is taken by others' transfers" in records[3].rejection
    assert "bringing them there takes 51 s" in records[5].rejection
    assert run.played.seen.refused_plans == 0


def reservation(number: int, asked_s: int, start_s: int, image: str = "usual", vms: int = 2) -> WorkloadRequest:
    """VMs of one CPU for ten minutes, made from an image of 600 MiB."""
    return WorkloadRequest(
        number, asked_s, (MachineSet(vms, 100, 512),), 600, 600, StartKind.EXACT, start_s,
        lease_type=LeaseType.DC_NON_PREEMPTABLE, image=image, image_mib=600,
    )  # fmt: skip


class Told(msgspec.Struct):
    """What became of the requests, and the orders as they were first given, in seconds since the beginning."""

    records: dict[int, RequestRecord]
    orders: dict[str, list[int]]
    statuses: list[str]

    def started_s(self, number: int) -> float | None:
        at_ms = self.records[number].started_at_ms
        return None if at_ms is None else at_ms / 1000


def told(
    *requests: WorkloadRequest,
    site: Site = TWO_HOSTS,
    faults: tuple[TimedFault, ...] = (),
    power: PowerSettings | None = None,
    **staging: object,
) -> Told:
    settings = msgspec.structs.replace(
        simulation_settings(Settings(power=power or PowerSettings())),
        image_staging=ImageStagingSettings(mode="act", link_megabit_per_s=100, **staging),  # type: ignore[arg-type]
    )
    cloud = build_cloud(site, keeps_logs=True)
    machines = switched_machines(cloud, settings.power)
    cycle = WatchedCycle(settings, "NOP", cloud, control=machines)
    result = Simulator(cloud, cycle, Workload(requests), faults, until_s=5000).run()
    assert cycle.wrong == []
    orders: dict[str, list[int]] = {}
    statuses: list[str] = []
    before: dict[str, ImageOrder] = {}
    for looked in cycle.looked:
        now = {order.id: order for order in looked.plan.image_orders}
        for id in now.keys() - before.keys():
            orders.setdefault(id, []).append(looked.at_s - START_S)
        before = now
        for action in looked.done:
            statuses += [text for name, text in action.attributes if name == "LEASE_STATUS"]
    return Told({record.request_id: record for record in result.records}, orders, statuses)


def test_a_transfer_begins_as_late_as_it_may_or_as_soon_as_it_can() -> None:
    late = told(reservation(1, 0, 600))
    assert late.orders == {"stage/0/1": [600 - MARGIN_S - TRANSFER_S]}
    soon = told(reservation(1, 0, 600), policy="EDF")
    assert soon.orders == {"stage/0/1": [0]}
    assert late.started_s(1) == soon.started_s(1) == 600


def test_quanta_make_turns_begin_at_whole_minutes_before_the_start() -> None:
    in_quanta = told(reservation(1, 0, 600), reservation(2, 0, 600, "other"), quantum_s=60, margin_s=0)
    assert sorted(at_s for given in in_quanta.orders.values() for at_s in given) == [480, 540]


@pytest.mark.parametrize("failures", [1, 2])
def test_a_transfer_that_fails_is_tried_again_in_what_time_is_left(failures: int) -> None:
    fails = DriverFails(0, Fault(Operation.STAGE, count=failures))
    story = told(reservation(1, 0, 600), faults=(fails,), policy="EDF", retry_delay_s=10)
    assert len(story.orders["stage/0/1"]) == 1 + failures
    assert story.started_s(1) == 600


def test_where_transfers_fail_for_good_the_start_is_kept_and_its_vms_wait_for_their_disks() -> None:
    fails = DriverFails(0, Fault(Operation.STAGE, count=None))
    story = told(reservation(1, 0, 600), faults=(fails,), policy="EDF")
    assert len(story.orders["stage/0/1"]) == 3
    # Each of the two VMs has a copy made by oned then.
    assert story.records[1].fate is Fate.COMPLETED
    assert story.started_s(1) == pytest.approx(600 + 2 * 50.4, abs=1)
    why = "; its VMs wait for their disks then: image 0 did not come to its host: the copy to node1 was cut off"
    assert f"reserved: starts at 2027-01-15T08:10:00Z{why}" in story.statuses


def test_nothing_is_brought_for_who_has_been_cancelled() -> None:
    ended = OwnerEnds(100, 1)
    story = told(reservation(1, 0, 600), reservation(2, 1, 900, "other"), faults=(ended,))
    assert [id for id, given in story.orders.items() if given[0] < 800] == []
    assert story.started_s(2) == 900


def test_a_transfer_that_drags_holds_up_nobody_but_its_own_lease() -> None:
    drags = DriverFails(0, Fault(Operation.STAGE, Misbehaviour.SLOW, factor=30))
    story = told(reservation(1, 0, 600), reservation(2, 1, 600, "other", vms=4), faults=(drags,), policy="EDF")
    assert story.records[2].fate is Fate.COMPLETED
    assert story.records[1].fate is Fate.COMPLETED


def test_a_host_that_is_lost_has_its_transfer_made_anew_on_another() -> None:
    story = told(reservation(1, 0, 600), faults=(HostDies(300, 1),), policy="EDF")
    assert story.orders["stage/0/1"] == [0]
    # It is lost as soon as oned has noticed.
    (again_s,) = story.orders["stage/0/0"]
    assert 300 <= again_s < 600 - MARGIN_S - TRANSFER_S
    assert story.started_s(1) == 600


BOOT_S = 120
SLEEPY = PowerSettings(
    mode="enforce", policy="GESP", hosts=(HandedOverSettings(),), floor=0, least_on_s=0,
    model=HostPowerSettings(boot_s=BOOT_S),
)  # fmt: skip
VISITOR = WorkloadRequest(9, 0, (MachineSet(1, 100, 512),), 10, 10, lease_type=LeaseType.BE_SUSPENDABLE)


@pytest.mark.parametrize("policy", ["EDF/JIT", "EDF"])
def test_a_host_that_sleeps_is_woken_for_the_transfer_and_not_for_the_start(policy: str) -> None:
    story = told(VISITOR, reservation(1, 1000, 3000), power=SLEEPY, policy=policy)
    ((begins_s,),) = story.orders.values()
    if policy == "EDF/JIT":
        assert begins_s == 3000 - MARGIN_S - TRANSFER_S
    else:
        assert 1000 + BOOT_S <= begins_s <= 1000 + BOOT_S + 60
    assert story.started_s(1) == 3000


def test_a_start_on_a_host_that_sleeps_leaves_time_for_the_boot_and_the_transfer() -> None:
    soon = told(VISITOR, reservation(1, 1000, 1000 + BOOT_S + 60), power=SLEEPY)
    assert soon.records[1].fate is Fate.REJECTED
    later = told(VISITOR, reservation(1, 1000, 1000 + BOOT_S + TRANSFER_S + 100), power=SLEEPY)
    assert later.started_s(1) == 1000 + BOOT_S + TRANSFER_S + 100


def waiting(number: int, asked_s: int, image: str, lasts_s: int = 600, vms: int = 8) -> WorkloadRequest:
    """Best effort that takes both hosts."""
    return WorkloadRequest(
        number, asked_s, (MachineSet(vms, 100, 512),), lasts_s, lasts_s, lease_type=LeaseType.BE_SUSPENDABLE,
        image=image, image_mib=600,
    )  # fmt: skip


@pytest.mark.parametrize("ahead_s", [None, 3600])
def test_what_waits_in_the_queue_starts_with_its_image_there(ahead_s: int | None) -> None:
    """The first has its image copied to each host. The second's comes to both while the first runs, if it may."""
    story = told(waiting(1, 0, "one"), waiting(2, 10, "two"), ahead_s=ahead_s)
    began_s, next_s = story.started_s(1), story.started_s(2)
    assert began_s is not None
    assert next_s is not None
    assert next_s - (began_s + 600) == pytest.approx(0 if ahead_s else 8 * 50.4, abs=2)
    assert len(story.orders) == (2 if ahead_s else 0)


def test_a_start_that_was_promised_is_kept_whatever_comes_ahead_and_nothing_comes_twice() -> None:
    story = told(
        waiting(1, 0, "one", vms=4), waiting(2, 10, "two"), reservation(3, 20, 1500, "two"), ahead_s=3600, policy="EDF",
    )  # fmt: skip
    assert story.started_s(3) == 1500
    assert all(len(given) == 1 for given in story.orders.values()), story.orders
