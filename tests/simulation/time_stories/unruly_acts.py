"""What an administrator does by hand to leases and hosts of a story, as the scheduler never would."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from one_preempt.simulation.simulated_cloud.cloud import SimulatedCloud
from one_preempt.simulation.simulated_cloud.errors import OnedError
from one_preempt.simulation.simulated_cloud.objects import ONEADMIN, SimVm
from one_preempt.simulation.simulated_cloud.states import VmState
from one_preempt.simulation.simulator.timed_fault import TimedFault
from tests.simulation.time_stories.drawn_story import CALM_AT_S, DrawnStory
from tests.simulation.time_stories.happenings import vms_of_request

HOST_STATES = {"enable": 0, "disable": 1, "offline": 2}
NEEDED = {VmState.HOLD: "release", VmState.SUSPENDED: "resume", VmState.POWEROFF: "resume"}
ACTIONS = (
    "suspend", "stop", "poweroff", "poweroff-hard", "undeploy", "resume", "hold", "release", "terminate-hard",
    "resched",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Deed:
    """One call by hand, on the VM of a place in a request where it concerns one; oned may refuse it."""

    at_s: int
    what: str
    doing: Callable[[SimulatedCloud, Deed], object] = field(repr=False)
    request_id: int = 0
    place: int = 0
    host_id: int = 0

    def strike(self, cloud: SimulatedCloud) -> None:
        """Let it happen."""
        try:
            self.doing(cloud, self)
        except OnedError:
            return

    def vm(self, cloud: SimulatedCloud) -> SimVm | None:
        """The VM that it concerns, if it lives."""
        living = [one for one in vms_of_request(cloud, self.request_id) if one.state != VmState.DONE]
        return living[self.place % len(living)] if living else None


@dataclass(frozen=True, slots=True)
class OrderReturns:
    """Hosts are enabled, held VMs released, and what was suspended or switched off is resumed."""

    at_s: int

    def strike(self, cloud: SimulatedCloud) -> None:
        """Let it happen."""
        for host in list(cloud.hosts.values()):
            cloud.host_status(ONEADMIN, host.id, HOST_STATES["enable"])
        for vm in list(cloud.vms.values()):
            action = NEEDED.get(VmState(vm.state))
            if action is not None:
                _act(cloud, vm, action)


def unruly_acts(story: DrawnStory) -> Iterator[TimedFault]:
    """Some deeds while a story goes on, and order at its end."""
    chance = random.Random(f"unruly {story.seed}")
    hosts = sum(one.count for one in story.site.hosts)
    for _ in range(chance.randint(2, 8)):
        request = chance.choice(story.workload.requests)
        at_s = request.submitted_at_s + chance.randint(0, 700)
        place, host_id = chance.randrange(4), chance.randrange(hosts)
        kind = chance.choice(("deploy", "deploy", "deploy", "act", "act", "migrate", "host"))
        if kind == "deploy":
            yield Deed(at_s, "deploy", _deploy, request.id, place, host_id)
        elif kind == "act":
            yield Deed(at_s, chance.choice(ACTIONS), _do, request.id, place)
        elif kind == "migrate":
            yield Deed(at_s, chance.choice(("migrate", "live")), _migrate, request.id, place, host_id)
        else:
            yield Deed(at_s, chance.choice(tuple(HOST_STATES)), _set_host, host_id=host_id)
    yield OrderReturns(CALM_AT_S)


def _deploy(cloud: SimulatedCloud, deed: Deed) -> None:
    if vm := deed.vm(cloud):
        cloud.vm_deploy(ONEADMIN, vm.id, deed.host_id, enforce=True)


def _migrate(cloud: SimulatedCloud, deed: Deed) -> None:
    if vm := deed.vm(cloud):
        cloud.vm_migrate(ONEADMIN, vm.id, deed.host_id, deed.what == "live", enforce=True)


def _do(cloud: SimulatedCloud, deed: Deed) -> None:
    if vm := deed.vm(cloud):
        _act(cloud, vm, deed.what)


def _act(cloud: SimulatedCloud, vm: SimVm, action: str) -> None:
    try:
        cloud.vm_action(ONEADMIN, action, vm.id)
    except OnedError:
        return


def _set_host(cloud: SimulatedCloud, deed: Deed) -> None:
    cloud.host_status(ONEADMIN, deed.host_id, HOST_STATES[deed.what])
