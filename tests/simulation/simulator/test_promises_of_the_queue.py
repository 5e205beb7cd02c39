"""What the queue was promised is not given to a reservation whose owner may preempt nobody, alike hosts or not."""

from __future__ import annotations

import pytest

from one_preempt.composition import simulated_cycle
from one_preempt.configuration.settings import Settings, TimeSettings
from one_preempt.core.model.lease import LeaseType
from one_preempt.simulation.simulator.result import Fate, RequestRecord
from one_preempt.simulation.simulator.simulator import Simulator
from one_preempt.simulation.simulator.site import Site, build_cloud, simulation_settings
from one_preempt.simulation.workload.workload import MachineSet, StartKind, Workload, WorkloadRequest
from tests.simulation.simulator.small_stories import request

ALIKE = Site((MachineSet(2, 100, 1024),))
UNLIKE = Site((MachineSet(1, 100, 1024), MachineSet(1, 100, 2048)))
RUNS_TO_100 = request(1, 0, 2, 100)
PROMISED_100_TO_200 = request(2, 1, 2, 100)


def played(site: Site, backfilling: str, wish: WorkloadRequest) -> dict[int, RequestRecord]:
    cloud = build_cloud(site, keeps_logs=True)
    settings = simulation_settings(Settings(time=TimeSettings(backfilling=backfilling)))
    workload = Workload((RUNS_TO_100, PROMISED_100_TO_200, wish))
    result = Simulator(cloud, simulated_cycle(settings, cloud, "nop"), workload).run()
    return {record.request_id: record for record in result.records}


@pytest.mark.parametrize("site", [ALIKE, UNLIKE], ids=["alike", "unlike"])
@pytest.mark.parametrize("backfilling", ["easy", "conservative"])
def test_a_reservation_is_refused_where_the_queue_was_promised_the_room(site: Site, backfilling: str) -> None:
    records = played(site, backfilling, request(3, 10, 1, 50, start=StartKind.EXACT, start_at_s=150))
    assert records[2].started_at_ms == 100_000
    assert records[3].fate is Fate.REJECTED
    assert "the first possible one is 2027-01-15T08:0" in records[3].rejection


@pytest.mark.parametrize("site", [ALIKE, UNLIKE], ids=["alike", "unlike"])
def test_the_first_possible_start_that_is_told_is_possible(site: Site) -> None:
    refused = played(site, "conservative", request(3, 10, 1, 50, start=StartKind.EXACT, start_at_s=150))[3]
    minutes, seconds = refused.rejection.rstrip("Z").split(":")[-2:]
    could_s = 60 * int(minutes) + int(seconds)
    records = played(site, "conservative", request(3, 10, 1, 50, start=StartKind.EXACT, start_at_s=could_s))
    assert (records[2].started_at_ms, records[3].started_at_ms) == (100_000, 1000 * could_s)
    sooner = played(site, "conservative", request(3, 10, 1, 50, start=StartKind.EXACT, start_at_s=could_s - 1))
    assert sooner[3].fate is Fate.REJECTED


@pytest.mark.parametrize("site", [ALIKE, UNLIKE], ids=["alike", "unlike"])
@pytest.mark.parametrize(("deadline_s", "fate"), [(240, Fate.REJECTED), (600, Fate.COMPLETED)])
def test_a_deadline_is_met_behind_what_the_queue_was_promised(site: Site, deadline_s: int, fate: Fate) -> None:
    wish = request(
        3, 10, 1, 50, lease_type=LeaseType.DC_MIGRATABLE, start=StartKind.DEADLINE, deadline_at_s=deadline_s
    )  # fmt: skip
    records = played(site, "conservative", wish)
    assert records[2].started_at_ms == 100_000
    assert records[3].fate is fate
