"""The daemon is killed between any two steps of a transfer: the image comes all the same, and the start is kept.

What a process has begun goes on without it, as a program of the hosts does; the next one takes it up.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from one_preempt.adapters.lease_store.memory_lease_store import MemoryLeaseStore
from one_preempt.configuration.chosen_policies import admission_rules, policies
from one_preempt.configuration.settings import ImageStagingSettings, Settings
from one_preempt.core.model.lease import LeaseType
from one_preempt.enactment.image_enactment import ImageEnactment
from one_preempt.scheduling_cycle import CycleReport, SchedulingCycle
from one_preempt.simulation.simulator.enactor import SimulatedEnactor
from one_preempt.simulation.simulator.image_transfer import SimulatedImageTransfer
from one_preempt.simulation.simulator.pool_reader import SimulatedPoolReader
from one_preempt.simulation.simulator.simulator import Simulator
from one_preempt.simulation.simulator.site import ImageSite, Site, build_cloud, simulation_settings
from one_preempt.simulation.workload.workload import MachineSet, StartKind, Workload, WorkloadRequest
from one_preempt.surroundings import Surroundings
from tests.mortal import AFTER, NEVER, Killed, Mortal

PARTS = 2
WRITES = ("apply", "record_plan", "begin_attempt", "record_result")
CALLS = ("put", "take_reports", "take_holdings")
SITE = Site((MachineSet(2, 200, 4096),), images=ImageSite(100))


class MortalDaemon(Mortal):
    """A `Scheduler` that dies once, at the boundary of that number before or after a write or call, and is started
    again in the same instant."""

    def __init__(self, dies_at: int, policy: str, ahead_s: int | None = None) -> None:
        super().__init__(dies_at)
        # What comes as soon as it can has to find its room then.
        pool_mib = 1000 if policy == "EDF/JIT" else None
        staging = ImageStagingSettings(
            mode="act", link_megabit_per_s=100, policy=policy, pool_mib=pool_mib, ahead_s=ahead_s
        )
        self.settings = msgspec.structs.replace(simulation_settings(Settings()), image_staging=staging)
        self.cloud = build_cloud(SITE, keeps_logs=True)
        self.store = MemoryLeaseStore()
        self.make_mortal(self.store, WRITES)
        self.orders: list[str] = []
        self.start()

    def start(self) -> None:
        assert self.cloud.image_link is not None
        transfers = SimulatedImageTransfer(self.cloud, self.cloud.image_link)
        put = transfers.put

        def noted(order: Any, now_s: int) -> None:
            put(order, now_s)
            self.orders.append(order.id)

        transfers.put = noted  # type: ignore[method-assign]
        self.make_mortal(transfers, CALLS)
        enactor = SimulatedEnactor(self.cloud)
        self.make_mortal(enactor, ("perform",))
        around = Surroundings(
            SimulatedPoolReader(self.cloud),
            self.store,
            enactor,
            self.cloud.clock,
            images=ImageEnactment(self.store, transfers, self.cloud.clock),
        )
        self.cycle = SchedulingCycle(around, policies(self.settings, "NOP"), admission_rules(self.settings))

    def run(self) -> CycleReport:
        try:
            report = self.cycle.run()
        except Killed:
            self.start()
            report = self.cycle.run()
        assert report.violations == ()
        return report


def reservation(number: int, start_s: int, image: str) -> WorkloadRequest:
    """VMs that take both places of a host."""
    return WorkloadRequest(
        number, 0, (MachineSet(2, 100, 512),), 100, 100, StartKind.EXACT, start_s,
        lease_type=LeaseType.DC_NON_PREEMPTABLE, image=image, image_mib=600,
    )  # fmt: skip


# The third needs a host on which something has to be removed first.
STORY = Workload((reservation(1, 200, "one"), reservation(2, 200, "two"), reservation(3, 900, "three")))


def played(dies_at: int, policy: str) -> MortalDaemon:
    daemon = MortalDaemon(dies_at, policy)
    result = Simulator(daemon.cloud, daemon, STORY, until_s=2000).run()
    started_s = [None if one.started_at_ms is None else one.started_at_ms / 1000 for one in result.records]
    assert started_s == [200, 200, 900], f"killed at boundary {dies_at}"
    assert {"stage/0/1", "stage/1/0"} <= set(daemon.orders)
    assert daemon.cloud.image_link is not None
    if policy == "EDF/JIT":
        assert any(order.startswith("drop/") for order in daemon.orders)
        assert all(sum(pool.values()) <= 1000 for pool in daemon.cloud.image_link.pools.values())
    return daemon


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("policy", ["EDF/JIT", "EDF"])
def test_killed_anywhere_every_start_is_kept(policy: str, part: int) -> None:
    boundaries = played(NEVER, policy).passed
    assert boundaries > 50
    for dies_at in range(AFTER * (1 + part), boundaries + 1, AFTER * PARTS):
        assert played(dies_at, policy).passed >= dies_at


# The first takes all there is, the second waits for it.
CROWD = Workload(
    tuple(
        WorkloadRequest(
            number,
            0,
            (MachineSet(4, 100, 512),),
            300,
            300,
            lease_type=LeaseType.BE_SUSPENDABLE,
            image=image,
            image_mib=600,
        )
        for number, image in ((1, "one"), (2, "two"))
    )
)


def crowded(dies_at: int) -> MortalDaemon:
    daemon = MortalDaemon(dies_at, "EDF/JIT", 3600)
    result = Simulator(daemon.cloud, daemon, CROWD, until_s=2000).run()
    first, second = (record.started_at_ms for record in result.records)
    assert first is not None
    assert second is not None
    assert second - first == pytest.approx(300_000, abs=2000), f"killed at boundary {dies_at}"
    return daemon


def test_wherever_it_is_killed_images_come_ahead_all_the_same() -> None:
    daemon = crowded(NEVER)
    assert {"stage/1/0", "stage/1/1"} <= set(daemon.orders)
    # The steps are those of promised images, of which none is left out above.
    for dies_at in range(AFTER, daemon.passed + 1, 3 * AFTER):
        assert crowded(dies_at).passed >= dies_at
