"""What was observed of one zone at one instant, nothing interpreted."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

from msgspec import Struct, field

from one_preempt.core.model.access import ONEADMIN_UID, Directory
from one_preempt.core.model.host import Host
from one_preempt.core.model.infrastructure import Cluster, Datastore, DatastoreType, Network, VmGroup
from one_preempt.core.model.virtual_machine import VirtualMachine


class RaftState(IntEnum):
    """RAFT/STATE of this front-end, by one.zone.raftstatus: a scheduler acts only as SOLO or LEADER."""

    SOLO = 0
    CANDIDATE = 1
    FOLLOWER = 2
    LEADER = 3

    @property
    def leads(self) -> bool:
        """Is it for this front-end to act?"""
        return self in (RaftState.SOLO, RaftState.LEADER)


class PoolSnapshot(Struct, frozen=True):
    """All pools that a decision needs, by id; VMs that are DONE are absent unless they were asked for.

    `problems` tells, one sentence each, which objects could not be read and were left out or mended;
    `unreadable_vm_ids` are VMs that exist and are not among `vms` for that reason, `unreadable_host_ids` hosts: nothing
    is known of them now. `untraced_vm_ids` are those of which nothing even tells whether a host that does not list them
    is needed by them.
    `own_uid` is who asked: the owner of locks that the scheduler sets.

    `changed_vm_ids` and `changed_host_ids` are those that came, went, or are another object than in the reading before
    this one by the same reader; all others are the very objects of that reading. None: not known, each may have
    changed. A reader that tells may hand out the mappings that it keeps, which then hold until its next reading.
    """

    observed_at_s: int
    version: str
    zone_id: int
    raft_state: RaftState
    hosts: Mapping[int, Host]
    vms: Mapping[int, VirtualMachine]
    clusters: Mapping[int, Cluster] = field(default_factory=dict)
    datastores: Mapping[int, Datastore] = field(default_factory=dict)
    networks: Mapping[int, Network] = field(default_factory=dict)
    vm_groups: Mapping[int, VmGroup] = field(default_factory=dict)
    directory: Directory = field(default_factory=Directory)
    unreadable_vm_ids: frozenset[int] = frozenset()
    untraced_vm_ids: frozenset[int] = frozenset()
    unreadable_host_ids: frozenset[int] = frozenset()
    problems: tuple[str, ...] = ()
    own_uid: int = ONEADMIN_UID
    changed_vm_ids: frozenset[int] | None = None
    changed_host_ids: frozenset[int] | None = None

    @property
    def oned_explains_waiting(self) -> bool:
        """oned itself writes why VMs wait into SCHED_MESSAGE, in its rounds of placing: from 7.0 on. In 6.x that was
        mm_sched, which has given its place to this scheduler.
        """
        return not self.version.startswith("6.")

    @property
    def own_disks_ids(self) -> frozenset[int | None]:
        """The system datastores that lie on each host's own disks: what leaves a host is copied from there.

        None is among them, which stands for one that is not known yet, if all of them are such.
        """
        of_vms = [one for one in self.datastores.values() if one.type is DatastoreType.SYSTEM]
        on_hosts = [one.id for one in of_vms if not one.shared]
        return frozenset((*on_hosts, None) if on_hosts and len(on_hosts) == len(of_vms) else on_hosts)
