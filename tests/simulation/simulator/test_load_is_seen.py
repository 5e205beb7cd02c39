"""Where hosts may be ranked by their load, simulated ones show it, however the policy's name is written."""

from __future__ import annotations

import msgspec
import pytest

from one_preempt.composition import simulated_cycle
from one_preempt.core.model.host import Host
from one_preempt.simulation.simulator.site import build_cloud, simulation_settings
from tests.simulation.simulator.small_stories import TWO_HOSTS


def an_observed_host(host_policy: str) -> Host:
    settings = simulation_settings()
    matchmaker = msgspec.structs.replace(settings.matchmaker, host_policy=host_policy)
    settings = msgspec.structs.replace(settings, matchmaker=matchmaker)
    report = simulated_cycle(settings, build_cloud(TWO_HOSTS), "moml").run()
    assert report.state is not None
    return report.state.snapshot.hosts[0]


@pytest.mark.parametrize("name", ["load-aware", "LOAD-AWARE", "custom"])
def test_a_policy_that_may_look_at_the_load_sees_it(name: str) -> None:
    assert any("FREE_CPU" in path for path in an_observed_host(name).attributes)


def test_others_are_spared_the_reading() -> None:
    assert not any("FREE_CPU" in path for path in an_observed_host("striping").attributes)
