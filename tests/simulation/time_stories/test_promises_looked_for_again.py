"""A promised lease that comes to suit an idle host starts there: what was kept of its last search holds no more."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from one_preempt.configuration.settings import Settings, TimeSettings
from one_preempt.simulation.simulated_cloud.cloud import SimulatedCloud
from one_preempt.simulation.simulated_cloud.objects import ONEADMIN
from one_preempt.simulation.simulated_cloud.states import VmState
from one_preempt.simulation.simulator.site import Site, build_cloud, simulation_settings
from one_preempt.simulation.workload.workload import MachineSet
from tests.simulation.time_stories.happenings import owner_of
from tests.simulation.time_stories.watched_cycle import WatchedCycle

ASK = 'CPU="2"\nMEMORY="512"\nLEASE=[TYPE="BE-SUSPENDABLE",DURATION="01:00:00"]\n'
# The parts of an ACL's words: hosts, one object by its id, a group, and what MANAGE is.
HOSTS, ONE, GROUP, MANAGE = 0x2000000000, 0x100000000, 0x200000000, 2


def host_gets_what_is_required(cloud: SimulatedCloud, _vm_id: int) -> None:
    cloud.host_update(ONEADMIN, 0, 'SPEED="5"', 1)


def owner_requires_less(cloud: SimulatedCloud, vm_id: int) -> None:
    cloud.vm_update(owner_of(cloud, "externals"), vm_id, 'SCHED_REQUIREMENTS="SPEED > 0"', 1)


def group_gets_a_right(cloud: SimulatedCloud, _vm_id: int) -> None:
    allow(cloud, 0)


def allow(cloud: SimulatedCloud, host_id: int) -> None:
    gid = owner_of(cloud, "externals").gid
    cloud.acl_add(ONEADMIN, f"{GROUP | gid:x}", f"{HOSTS | ONE | host_id:x}", f"{MANAGE:x}")


@pytest.mark.parametrize("backfilling", ["easy", "intermediate", "conservative"])
@pytest.mark.parametrize("happens", [host_gets_what_is_required, owner_requires_less, group_gets_a_right])
def test_a_host_that_comes_to_suit_a_promised_lease_is_taken_at_once(
    happens: Callable[[SimulatedCloud, int], None], backfilling: str
) -> None:
    cloud = build_cloud(Site((MachineSet(1, 200, 4096), MachineSet(1, 300, 4096))), keeps_logs=True)
    cloud.hosts[0].template["SPEED"], cloud.hosts[1].template["SPEED"] = ["1"], ["2"]
    cycle = WatchedCycle(simulation_settings(Settings(time=TimeSettings(backfilling=backfilling))), "MOML", cloud)
    owner, ask = owner_of(cloud, "externals"), ASK
    if happens is group_gets_a_right:
        for rule in [rule for rule in cloud.acls.values() if rule.resource & HOSTS and rule.rights & MANAGE]:
            del cloud.acls[rule.id]
        allow(cloud, 1)
    else:
        ask += 'SCHED_REQUIREMENTS="SPEED > 1"\n'
    cloud.add_vms(owner, ask, 1, hold=True)
    _look(cycle, 4)
    (vm_id,) = cloud.add_vms(owner, ask, 1, hold=True)
    _look(cycle, 4)
    assert cycle.looked[-1].waits[vm_id][0] == "promised"
    happens(cloud, vm_id)
    _look(cycle, 8)
    assert cloud.vms[vm_id].state is VmState.ACTIVE
    assert cycle.wrong == []


def _look(cycle: WatchedCycle, times: int) -> None:
    for _ in range(times):
        cycle.run()
        cycle.cloud.run_until_ms(cycle.cloud.clock.now_ms + 5000)
