"""The simulated cloud as a snapshot, without documents: what did not change since the last reading is kept."""

from __future__ import annotations

from operator import attrgetter

from msgspec.structs import replace

from one_preempt.core.model.access import Directory, Group, Quota, User
from one_preempt.core.model.host import Host
from one_preempt.core.model.infrastructure import Cluster, Datastore, Network, VmGroup
from one_preempt.core.model.pool_snapshot import PoolSnapshot, RaftState
from one_preempt.core.model.virtual_machine import VirtualMachine
from one_preempt.simulation.simulated_cloud.cloud import SimulatedCloud
from one_preempt.simulation.simulated_cloud.objects import Attribute, SimGroup, SimLock, SimUser, TemplateDict
from one_preempt.simulation.simulated_cloud.states import VmState
from one_preempt.simulation.simulator.observed_attributes import Attributes
from one_preempt.simulation.simulator.observed_host import (
    FixedPart,
    cluster_part,
    fixed_part,
    loaded_host,
    observed_host,
)
from one_preempt.simulation.simulator.observed_surroundings import (
    observed_cluster,
    observed_datastore,
    observed_group,
    observed_network,
    observed_quotas,
    observed_rule,
    observed_user,
    observed_vm_group,
)
from one_preempt.simulation.simulator.observed_vm import is_plain, moved_vm, observed_vm

_DONE = VmState.DONE
_RAFT_STATES = {int(state): state for state in RaftState}


# What a plain VM is told by, wherever it is: its user template, which is one object for all of a gang and replaced as a
# whole, its requirements, lock, mark to move, user and group. Whether it is plain never changes.
_Description = tuple[TemplateDict, list[Attribute] | None, tuple[SimLock | None, bool, int, int]]
_told_of = attrgetter("lock", "resched", "uid", "gid")


class SimulatedPoolReader:
    """Implements `ports.PoolReader` on a `SimulatedCloud`.

    A reading costs what changed since the last one, and a copy of the tables of VMs and hosts by id. Values of one
    snapshot are shared with later ones, which is harmless as nobody can change them.

    `live_views` saves the copies: snapshots then show the reader's own tables, which are not to be written to, and hold
    until its next reading. Who compares two snapshots or keeps one needs copies.
    """

    def __init__(
        self,
        cloud: SimulatedCloud,
        *,
        monitors_hosts: bool = True,
        unlimited_quotas: bool = True,
        live_views: bool = False,
    ) -> None:
        """Without `monitors_hosts` the hosts show no monitoring records, which only ranks by load ask for; without
        `unlimited_quotas` users and groups show no quota that has no limit, of which the use decides nothing."""
        self._cloud = cloud
        self._unlimited_quotas = unlimited_quotas
        self._live_views = live_views
        self._monitors_hosts = monitors_hosts
        self._log = cloud.changes.open()
        self._vms: dict[int, VirtualMachine] = {}
        self._hosts: dict[int, Host] = {}
        self._described: dict[int, _Description] = {}
        self._last_plain: tuple[_Description | None, VirtualMachine | None] = (None, None)
        self._is_first = True
        self._fixed_parts: dict[int, FixedPart] = {}
        self._clusters: dict[int, Cluster] = {}
        self._datastores: dict[int, Datastore] = {}
        self._networks: dict[int, Network] = {}
        self._vm_groups: dict[int, VmGroup] = {}
        self._users: dict[int, User] = {}
        self._groups: dict[int, Group] = {}
        self._directory = Directory()
        self._pool_sizes: tuple[int, ...] = ()
        self._log.vms.update(cloud.vms)

    def read(self) -> PoolSnapshot:
        """All pools at this instant."""
        changed_vm_ids, changed_host_ids = self._catch_up()
        cloud = self._cloud
        is_first, self._is_first = self._is_first, False
        return PoolSnapshot(
            observed_at_s=cloud.now_s,
            version=cloud.version,
            zone_id=0,
            raft_state=_RAFT_STATES[cloud.raft_state],
            hosts=self._hosts if self._live_views else self._hosts.copy(),
            vms=self._vms if self._live_views else self._vms.copy(),
            clusters=self._clusters,
            datastores=self._datastores,
            networks=self._networks,
            vm_groups=self._vm_groups,
            directory=self._directory,
            changed_vm_ids=None if is_first else changed_vm_ids,
            changed_host_ids=None if is_first else changed_host_ids,
        )

    def read_raft_state(self) -> RaftState:
        """Whether this front-end is the one to act."""
        return _RAFT_STATES[self._cloud.raft_state]

    def read_vm(self, vm_id: int) -> VirtualMachine | None:
        """One VM with all its history, or None where it does not exist any more."""
        vm = self._cloud.vms.get(vm_id)
        return None if vm is None else observed_vm(vm, with_all_history=True)

    def _catch_up(self) -> tuple[frozenset[int], frozenset[int]]:
        """Look at what changed; which VMs and hosts are new objects, or gone."""
        log = self._log
        sizes = self._sizes()
        if log.surroundings or sizes != self._pool_sizes:
            self._pool_sizes = sizes
            self._read_surroundings()
        else:
            if log.datastores:
                self._read_datastores()
            if log.networks:
                self._read_networks()
            if log.holders:
                self._read_holders(log.holders)
        if log.hosts or log.usage:
            self._read_hosts(log.hosts, log.usage)
        if log.vms:
            self._read_vms(sorted(log.vms))
        changed = frozenset(log.vms), frozenset(log.hosts | log.usage)
        log.clear()
        return changed

    def _sizes(self) -> tuple[int, ...]:
        """How many of each there are: clouds are furnished without calls."""
        cloud = self._cloud
        sizes = (len(cloud.clusters), len(cloud.datastores), len(cloud.networks), len(cloud.vm_groups))
        return (*sizes, len(cloud.users), len(cloud.groups), len(cloud.acls), len(cloud.hosts))

    def _read_vms(self, vm_ids: list[int]) -> None:
        """Ascending ids, so that new VMs come last and the table stays in their order."""
        vms, seen, described = self._cloud.vms, self._vms, self._described
        for vm_id in vm_ids:
            vm = vms.get(vm_id)
            if vm is None or vm.state == _DONE:
                seen.pop(vm_id, None)
                described.pop(vm_id, None)
                continue
            told = vm.user_template, vm.template.get("AUTOMATIC_REQUIREMENTS"), _told_of(vm)
            known, like = described.get(vm_id), seen.get(vm_id)
            if known is None:
                # As the last VM of which that was so, if it is of the same gang.
                known, like = self._last_plain
            if known is not None and like is not None and told[0] is known[0] and told == known:
                described[vm_id], seen[vm_id] = known, moved_vm(vm, like)
            else:
                seen[vm_id] = made = observed_vm(vm)
                if is_plain(vm):
                    described[vm_id] = told
                    self._last_plain = told, made

    def _read_hosts(self, changed: set[int], loaded: set[int]) -> None:
        cloud, seen, fixed_parts, is_monitored = self._cloud, self._hosts, self._fixed_parts, self._monitors_hosts
        of_clusters: dict[int, Attributes] = {}
        for host_id in sorted(changed | loaded):
            host, fixed = cloud.hosts[host_id], fixed_parts.get(host_id)
            if fixed is None or host_id in changed:
                cluster_id = host.cluster_id
                if cluster_id not in of_clusters:
                    of_clusters[cluster_id] = cluster_part(cloud.clusters.get(cluster_id))
                fixed = fixed_parts[host_id] = fixed_part(host, of_clusters[cluster_id])
            elif fixed.is_plain and not is_monitored:
                seen[host_id] = loaded_host(host, seen[host_id])
                continue
            if is_monitored:
                cloud.refresh_monitoring(host)
            seen[host_id] = observed_host(host, fixed, is_monitored)

    def _read_surroundings(self) -> None:
        """Everything but VMs and hosts; hosts too where clusters changed, for they show the template of theirs."""
        cloud = self._cloud
        clusters = {cluster.id: observed_cluster(cluster) for _, cluster in sorted(cloud.clusters.items())}
        if clusters != self._clusters:
            self._log.hosts.update(cloud.hosts)
        self._clusters = clusters
        self._read_networks()
        self._read_datastores()
        self._users = {uid: observed_user(user, self._quotas(user)) for uid, user in sorted(cloud.users.items())}
        self._groups = {gid: observed_group(group, self._quotas(group)) for gid, group in sorted(cloud.groups.items())}
        rules = tuple(observed_rule(rule) for _, rule in sorted(cloud.acls.items()))
        self._directory = Directory(self._users, self._groups, rules)

    def _read_networks(self) -> None:
        cloud = self._cloud
        self._networks = {network.id: observed_network(network) for _, network in sorted(cloud.networks.items())}
        self._vm_groups = {group.id: observed_vm_group(group) for _, group in sorted(cloud.vm_groups.items())}

    def _read_datastores(self) -> None:
        datastores = sorted(self._cloud.datastores.items())
        self._datastores = {datastore.id: observed_datastore(datastore) for _, datastore in datastores}

    def _read_holders(self, holders: set[tuple[bool, int]]) -> None:
        """The quotas of users and groups that used them."""
        cloud, users, groups = self._cloud, self._users, self._groups
        for is_user, holder_id in sorted(holders):
            quotas = self._quotas(cloud.users[holder_id] if is_user else cloud.groups[holder_id])
            if is_user and quotas != users[holder_id].vm_quotas:
                users = {**users, holder_id: replace(users[holder_id], vm_quotas=quotas)}
            elif not is_user and quotas != groups[holder_id].vm_quotas:
                groups = {**groups, holder_id: replace(groups[holder_id], vm_quotas=quotas)}
        if users is not self._users or groups is not self._groups:
            self._users, self._groups = users, groups
            self._directory = Directory(users, groups, self._directory.acl_rules)

    def _quotas(self, holder: SimUser | SimGroup) -> tuple[Quota, ...]:
        shown = [quota for quota in holder.quotas.vm if quota.limits or self._unlimited_quotas]
        return observed_quotas(shown, self._cloud.is_series_7) if shown else ()
