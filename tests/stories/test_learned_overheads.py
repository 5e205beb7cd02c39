"""A storage that is slower than configured: the daemon finds out from its own preemptions, and prices by it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from one_preempt.composition import open_store
from one_preempt.configuration.settings import Settings, StoreSettings
from one_preempt.core.model.observed_overhead import ObservedOverhead, OverheadKind
from tests.stories.world import SETTINGS, World, description

MEMORY_MIB = 512
CONFIGURED_MIB_PER_S = 100.0
SLOW_MIB_PER_S = 10.0


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    cloud = description(
        [{"name": "node{}", "count": 1, "cpu": 2, "memory_mib": 8192}],
        durations={"save_s": 0, "save_mib_per_s": SLOW_MIB_PER_S, "restore_mib_per_s": SLOW_MIB_PER_S},
    )
    configured = {"suspend_mib_per_s": CONFIGURED_MIB_PER_S, "resume_mib_per_s": CONFIGURED_MIB_PER_S}
    made = World.begin(tmp_path, cloud, {**SETTINGS, "overhead": configured})
    yield made
    made.close()


def test_a_slow_storage_is_learned_and_the_price_in_the_plan_rises(world: World) -> None:
    external = world.submit("eva", cpu=2, memory=MEMORY_MIB, lease={"TYPE": "BE-SUSPENDABLE"})
    world.until(lambda: world.is_running(external))
    for _ in range(6):
        request = world.submit("lea", cpu=2)
        world.until(lambda request=request: world.is_running(request))
        world.action("lea", "terminate", request)
        world.until(lambda: world.is_running(external))
    learned = _learned(world)
    saves = [one for one in learned if one.kind is OverheadKind.SUSPEND]
    assert [one.took_s for one in saves] == [pytest.approx(MEMORY_MIB / SLOW_MIB_PER_S, abs=1)] * 6
    # A look every 15 seconds tells too little of when memory was back.
    assert not [one for one in learned if one.kind is OverheadKind.RESUME]
    prices_s = [float(price) for price in re.findall(r"overhead ([0-9.]+) s", world.daemon.log)]
    both_ways_s, slower_s = 2 * MEMORY_MIB / CONFIGURED_MIB_PER_S, MEMORY_MIB / SLOW_MIB_PER_S
    assert prices_s[:5] == [pytest.approx(both_ways_s + 2.3, abs=0.1)] * 5
    # Half of what was observed, half of what is configured, for five observations.
    saving_s = (slower_s + both_ways_s / 2) / 2
    assert prices_s[5] == pytest.approx(saving_s + both_ways_s / 2 + 2.3, rel=0.05)


def _learned(world: World) -> tuple[ObservedOverhead, ...]:
    store = open_store(Settings(store=StoreSettings(url=f"sqlite:///{world.ledger}")))
    try:
        return store.load(world.emulator.advance(0)).observed_overheads
    finally:
        store.close()
