"""What keeps a VM off a host whatever is free there: requirements, access, pinning, networks; what suits is kept."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from one_preempt.core.model.access import Directory
from one_preempt.core.model.host import Host
from one_preempt.core.model.infrastructure import Network
from one_preempt.core.model.pool_snapshot import PoolSnapshot
from one_preempt.core.model.virtual_machine import VirtualMachine
from one_preempt.core.verify.host_access import may_place_on
from one_preempt.core.verify.host_requirements import Residents, meets

MOST_KEPT = 20_000
_Asked = tuple[object, ...]
# What hosts said of themselves that were found to suit, and their clusters, by the hosts' ids.
_Said = dict[int, tuple[Mapping[str, tuple[str, ...]], int]]


class SuitingHosts:
    """What suits whom for certain and for as long as neither the host nor the rules change. Others are asked anew."""

    def __init__(self) -> None:
        # By what is asked, and what was asked last.
        self._said: dict[_Asked, _Said] = {}
        self._count = 0
        self._last: tuple[VirtualMachine, _Said] | None = None
        self._directory = Directory()
        self._networks: Mapping[int, Network] = {}

    def follow(self, snapshot: PoolSnapshot) -> None:
        """Answer for this snapshot from now on."""
        directory, networks, before = snapshot.directory, snapshot.networks, self._directory
        if directory is not before or networks is not self._networks:
            self._directory, self._networks, self._last = directory, networks, None
        if directory.acl_rules != before.acl_rules or self._count > MOST_KEPT:
            self._said.clear()
            self._count, self._last = 0, None

    def is_known(self, snapshot: PoolSnapshot, vm: VirtualMachine, host: Host) -> bool:
        """The host was found to suit a VM that asked for the same."""
        # By the very object of what the host says: where it says anything else it is another one.
        said = self._said_to(snapshot, vm).get(host.id)
        return said is not None and said[0] is host.attributes and said[1] == host.cluster_id

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
            self._said_to(snapshot, vm)[host.id] = host.attributes, host.cluster_id
            self._count += 1
        yield from faults

    def _said_to(self, snapshot: PoolSnapshot, vm: VirtualMachine) -> _Said:
        """What the hosts said that suit whoever asks for the same; the members of a gang come one after the other."""
        if self._last is not None:
            last, said = self._last
            # That they ask for the same is seen at once.
            if (
                last.automatic_requirements is vm.automatic_requirements
                and last.sched_requirements is vm.sched_requirements
                and last.uid == vm.uid
                and last.gid == vm.gid
                and last.topology is vm.topology
                and last.nics is vm.nics
            ):
                return said
        said = self._said.setdefault(_asked(snapshot, vm), {})
        self._last = (vm, said)
        return said


def _asked(snapshot: PoolSnapshot, vm: VirtualMachine) -> _Asked:
    """All that decides beside what the host says of itself."""
    user = snapshot.directory.users.get(vm.uid)
    groups = None if user is None else (user.gid, user.group_ids)
    return (
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
