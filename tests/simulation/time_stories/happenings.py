"""What people and machines do at an instant of a story, besides asking for leases."""

from __future__ import annotations

from dataclasses import dataclass

from one_preempt.simulation.simulated_cloud.cloud import SimulatedCloud
from one_preempt.simulation.simulated_cloud.errors import OnedError
from one_preempt.simulation.simulated_cloud.life_cycle import FAILURES
from one_preempt.simulation.simulated_cloud.objects import ONEADMIN, Caller, SimVm
from one_preempt.simulation.simulated_cloud.states import VmState
from one_preempt.simulation.simulator.site import LOCALS

DELETE_RECREATE = 4
# How the names of all VMs without a LEASE attribute begin.
PLAIN = "plain"
_FAILED = frozenset(FAILURES.values())


@dataclass(frozen=True, slots=True)
class PlainVm:
    """Somebody creates a VM without a LEASE attribute, and takes it away after a while."""

    at_s: int
    name: str
    cpu_centi: int
    memory_mib: int

    def strike(self, cloud: SimulatedCloud) -> None:
        """Let it happen."""
        template = f'NAME="{self.name}"\nCPU="{self.cpu_centi / 100:g}"\nMEMORY="{self.memory_mib}"\n'
        cloud.vm_allocate(owner_of(cloud, LOCALS), template)


@dataclass(frozen=True, slots=True)
class PlainVmEnds:
    """The owner of a VM without a LEASE attribute has had enough of it."""

    at_s: int
    name: str

    def strike(self, cloud: SimulatedCloud) -> None:
        """Let it happen."""
        for vm in [vm for vm in cloud.vms.values() if vm.name == self.name]:
            _try(cloud, owner_of(cloud, LOCALS), "terminate-hard", vm)


@dataclass(frozen=True, slots=True)
class OwnerEnds:
    """The owner of a lease ends it, wherever it is."""

    at_s: int
    request_id: int

    def strike(self, cloud: SimulatedCloud) -> None:
        """Let it happen."""
        for vm in vms_of_request(cloud, self.request_id):
            _try(cloud, cloud.caller(vm.uid), "terminate-hard", vm)


@dataclass(frozen=True, slots=True)
class CalmDown:
    """Nothing goes wrong any more: dead hosts return, failed VMs are made anew, what is switched off is switched on.

    Owners who were refused when they took a VM without a LEASE attribute away (it booted, its host was lost) try again.
    """

    at_s: int

    def strike(self, cloud: SimulatedCloud) -> None:
        """Let it happen."""
        cloud.faults.clear()
        for host in cloud.hosts.values():
            if not host.alive:
                cloud.revive_host(host.id, guests_survived=True)
        for vm in list(cloud.vms.values()):
            if vm.name.startswith(PLAIN):
                _try(cloud, owner_of(cloud, LOCALS), "terminate-hard", vm)
            elif vm.state == VmState.POWEROFF:
                _try(cloud, cloud.caller(vm.uid), "resume", vm)
            elif vm.state == VmState.ACTIVE and vm.lcm_state in _FAILED:
                cloud.vm_recover(ONEADMIN, vm.id, DELETE_RECREATE)


def vms_of_request(cloud: SimulatedCloud, request_id: int) -> list[SimVm]:
    """The living VMs of a request of the workload."""
    return [
        vm
        for vm in cloud.vms.values()
        if any(isinstance(one, dict) and one["NAME"] == f"r{request_id}" for one in vm.user_template.get("LEASE", []))
    ]


def owner_of(cloud: SimulatedCloud, name: str) -> Caller:
    """The user of that name as a caller."""
    return cloud.caller(next(user.id for user in cloud.users.values() if user.name == name))


def _try(cloud: SimulatedCloud, caller: Caller, action: str, vm: SimVm) -> None:
    """Do it where oned lets him; an owner who is refused leaves it at that."""
    try:
        cloud.vm_action(caller, action, vm.id)
    except OnedError:
        return
