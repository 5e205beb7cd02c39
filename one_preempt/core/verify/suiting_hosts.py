"""What keeps a VM off a host whatever is free there: requirements, access, pinning, networks; what suits is kept."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from one_preempt.core.model.access import AclRule
from one_preempt.core.model.host import Host
from one_preempt.core.model.pool_snapshot import PoolSnapshot
from one_preempt.core.model.virtual_machine import VirtualMachine
from one_preempt.core.verify.host_access import may_place_on
from one_preempt.core.verify.host_requirements import Residents, meets

MOST_KEPT = 20_000
_Asked = tuple[object, ...]


class SuitingHosts:
    """What suits whom for certain and for as long as neither the host nor the rules change. Others are asked anew."""

    def __init__(self) -> None:
        self._attributes: dict[_Asked, Mapping[str, tuple[str, ...]]] = {}
        self._rules: tuple[AclRule, ...] = ()

    def follow(self, snapshot: PoolSnapshot) -> None:
        """Answer for this snapshot from now on."""
        rules = snapshot.directory.acl_rules
        if rules is not self._rules:
            if rules != self._rules or len(self._attributes) > MOST_KEPT:
                self._attributes.clear()
            self._rules = rules
        elif len(self._attributes) > MOST_KEPT:
            self._attributes.clear()

    def is_known(self, snapshot: PoolSnapshot, vm: VirtualMachine, host: Host) -> bool:
        """The host was found to suit a VM that asked for the same."""
        # By the very object of what the host says: where it says anything else it is another one.
        return self._attributes.get(_asked(snapshot, vm, host)) is host.attributes

    def faults(
        self, snapshot: PoolSnapshot, vm: VirtualMachine, host: Host, residents: Residents, *, load_is_known: bool
    ) -> Iterator[str]:
        """Why the host surely does not suit the VM."""
        parts = (
            ("AUTOMATIC_REQUIREMENTS", vm.automatic_requirements),
            ("SCHED_REQUIREMENTS", vm.sched_requirements),
        )
        found = [(name, meets(text, host, _nobody_knows, load_is_known=False)) for name, text in parts]
        surely = all(is_met for _, is_met in found)
        if not surely:
            found = [(name, meets(text, host, residents, load_is_known=load_is_known)) for name, text in parts]
        faults = [f"which does not meet its {name}" for name, is_met in found if is_met is False]
        faults += _faults_beside_requirements(snapshot, vm, host)
        if surely and not faults:
            self._attributes[_asked(snapshot, vm, host)] = host.attributes
        yield from faults


def _asked(snapshot: PoolSnapshot, vm: VirtualMachine, host: Host) -> _Asked:
    """All that decides beside what the host says of itself."""
    user = snapshot.directory.users.get(vm.uid)
    groups = None if user is None else (user.gid, user.group_ids)
    return (
        host.id,
        host.cluster_id,
        vm.automatic_requirements,
        vm.sched_requirements,
        vm.uid,
        vm.gid,
        groups,
        vm.topology is not None and vm.is_pinned,
        _reach(snapshot, vm) if vm.nics else None,
    )


def _reach(snapshot: PoolSnapshot, vm: VirtualMachine) -> tuple[tuple[int, ...], ...]:
    """The clusters of each network that an automatic NIC of a VM was given: in no requirement it is named."""
    given = [nic.network_id for nic in vm.nics if nic.automatic and nic.network_id is not None]
    return tuple(snapshot.networks[one].cluster_ids for one in given if one in snapshot.networks)


def _nobody_knows(_: int) -> None:
    """Who is where at a time to come."""
    return


def _faults_beside_requirements(snapshot: PoolSnapshot, vm: VirtualMachine, host: Host) -> Iterator[str]:
    if not may_place_on(snapshot, vm, host):
        yield f"which user {vm.uid} may not use"
    if vm.is_pinned != host.pinned_only:
        yield "which takes pinned VMs only" if host.pinned_only else "which takes no pinned VMs"
    if any(host.cluster_id not in cluster_ids for cluster_ids in _reach(snapshot, vm)):
        yield "whose cluster lacks one of its networks"
