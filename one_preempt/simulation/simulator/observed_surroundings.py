"""Clusters, datastores, networks, VM groups, people and rules of the simulated cloud as the scheduler observes them."""

from __future__ import annotations

from collections.abc import Iterable

from one_preempt.core.model.access import AclRule, Group, Quota, User
from one_preempt.core.model.infrastructure import (
    Cluster,
    Datastore,
    DatastoreType,
    Network,
    Permissions,
    VmGroup,
    VmGroupRole,
)
from one_preempt.simulation.simulated_cloud.objects import (
    SimAcl,
    SimAddressRange,
    SimCluster,
    SimDatastore,
    SimGroup,
    SimNetwork,
    SimOwned,
    SimPermissions,
    SimRole,
    SimUser,
    SimVmGroup,
    SimVmQuota,
)
from one_preempt.simulation.simulated_cloud.quotas import METRICS
from one_preempt.simulation.simulated_cloud.templates import text_of
from one_preempt.simulation.simulator.observed_attributes import Attributes, paths_of

_ENABLED = 0
_CPU_METRICS = frozenset({"CPU", "RUNNING_CPU"})
# Metrics of quotas, and how often the books' unit goes into the document's.
_METRICS_OF_7 = {metric: 100 if metric in _CPU_METRICS else 1 for metric in sorted(METRICS)}
_METRICS_OF_6 = {metric: scale for metric, scale in _METRICS_OF_7.items() if "PCI" not in metric}


def observed_cluster(cluster: SimCluster) -> Cluster:
    """A cluster."""
    return Cluster(
        id=cluster.id,
        name=cluster.name,
        host_ids=tuple(cluster.host_ids),
        datastore_ids=tuple(cluster.datastore_ids),
        network_ids=tuple(cluster.network_ids),
        attributes=paths_of(cluster.template, ""),
    )


def observed_datastore(datastore: SimDatastore) -> Datastore:
    """A datastore."""
    limit = text_of(datastore.template, "LIMIT_MB")
    return Datastore(
        id=datastore.id,
        name=datastore.name,
        uid=datastore.uid,
        gid=datastore.gid,
        permissions=_permissions(datastore.permissions),
        type=DatastoreType(datastore.type),
        enabled=datastore.state == _ENABLED,
        shared=text_of(datastore.template, "SHARED").upper() == "YES",
        cluster_ids=tuple(datastore.cluster_ids),
        total_mib=datastore.total_mib,
        free_mib=datastore.free_mib,
        used_mib=datastore.used_mib,
        limit_mib=int(limit) if limit else None,
        tm_mad=datastore.tm_mad,
        attributes=_datastore_attributes(datastore),
    )


def _datastore_attributes(datastore: SimDatastore) -> Attributes:
    return {
        **_owner(datastore),
        "DS_MAD": (datastore.ds_mad,),
        "TM_MAD": (datastore.tm_mad,),
        "BASE_PATH": (datastore.base_path,),
        "TYPE": (str(int(datastore.type)),),
        "DISK_TYPE": (str(int(datastore.disk_type)),),
        "STATE": (str(int(datastore.state)),),
        **_cluster_ids(datastore.cluster_ids),
        "TOTAL_MB": (str(datastore.total_mib),),
        "FREE_MB": (str(datastore.free_mib),),
        "USED_MB": (str(datastore.used_mib),),
        **paths_of(datastore.template, "TEMPLATE/"),
    }


def observed_network(network: SimNetwork) -> Network:
    """A virtual network."""
    return Network(
        id=network.id,
        name=network.name,
        uid=network.uid,
        gid=network.gid,
        permissions=_permissions(network.permissions),
        cluster_ids=tuple(network.cluster_ids),
        size_leases=sum(addresses.size for addresses in network.address_ranges),
        used_leases=network.used_leases,
        attributes=_network_attributes(network),
    )


def _network_attributes(network: SimNetwork) -> Attributes:
    return {
        **_owner(network),
        **_cluster_ids(network.cluster_ids),
        "BRIDGE": (network.bridge,),
        "BRIDGE_TYPE": (network.bridge_type,),
        "STATE": (str(network.state),),
        "VN_MAD": (network.vn_mad,),
        "USED_LEASES": (str(network.used_leases),),
        **paths_of(network.template, "TEMPLATE/"),
        **paths_of({"AR": [_address_range(addresses) for addresses in network.address_ranges]}, "AR_POOL/"),
    }


def _address_range(addresses: SimAddressRange) -> dict[str, str]:
    return {**addresses.vector, "SIZE": str(addresses.size)}


def observed_vm_group(group: SimVmGroup) -> VmGroup:
    """A VM group."""
    return VmGroup(
        id=group.id,
        name=group.name,
        roles=tuple(map(_role, group.roles)),
        affined=_role_sets(group, "AFFINED"),
        anti_affined=_role_sets(group, "ANTI_AFFINED"),
    )


def _role(role: SimRole) -> VmGroupRole:
    return VmGroupRole(
        id=role.id,
        name=role.name,
        policy=role.vector.get("POLICY", "").upper(),
        vm_ids=tuple(role.vm_ids),
        host_affined=_numbers(role.vector.get("HOST_AFFINED", "")),
        host_anti_affined=_numbers(role.vector.get("HOST_ANTI_AFFINED", "")),
    )


def _role_sets(group: SimVmGroup, name: str) -> tuple[tuple[str, ...], ...]:
    rules = (rule for rule in group.template.get(name, ()) if isinstance(rule, str))
    return tuple(tuple(role.strip() for role in rule.split(",") if role.strip()) for rule in rules)


def observed_user(user: SimUser, quotas: tuple[Quota, ...]) -> User:
    """A user with these quotas."""
    return User(
        id=user.id,
        name=user.name,
        gid=user.gid,
        gname=user.gname,
        group_ids=tuple(user.group_ids),
        enabled=user.enabled,
        vm_quotas=quotas,
    )


def observed_group(group: SimGroup, quotas: tuple[Quota, ...]) -> Group:
    """A group with these quotas."""
    return Group(group.id, group.name, tuple(group.user_ids), quotas)


def observed_rule(rule: SimAcl) -> AclRule:
    """An access rule."""
    return AclRule(rule.id, rule.user, rule.resource, rule.rights, rule.zone)


def observed_quotas(quotas: Iterable[SimVmQuota], series_7: bool) -> tuple[Quota, ...]:
    """Quotas for VMs of a user or a group."""
    metrics = _METRICS_OF_7 if series_7 else _METRICS_OF_6
    return tuple([_quota(quota, metrics) for quota in quotas])


def _quota(quota: SimVmQuota, metrics: dict[str, int]) -> Quota:
    limits, used = dict.fromkeys(metrics, -1.0), dict.fromkeys(metrics, 0.0)
    limits.update({metric: float(limit) for metric, limit in quota.limits.items() if metric in metrics})
    used.update({metric: amount / metrics[metric] for metric, amount in quota.used.items() if metric in metrics})
    clusters = tuple([number for number in _numbers(quota.cluster_ids) if number >= 0])
    return Quota(cluster_ids=clusters, limits=limits, used=used)


def _owner(thing: SimOwned) -> Attributes:
    return {
        "ID": (str(thing.id),),
        "UID": (str(thing.uid),),
        "GID": (str(thing.gid),),
        "UNAME": (thing.uname,),
        "GNAME": (thing.gname,),
        "NAME": (thing.name,),
    }


def _cluster_ids(cluster_ids: list[int]) -> Attributes:
    return {"CLUSTERS/ID": tuple(map(str, cluster_ids))} if cluster_ids else {"CLUSTERS": ("",)}


def _permissions(bits: SimPermissions) -> Permissions:
    return Permissions(bits.owner_u, bits.group_u, bits.other_u)


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(word) for word in text.replace(",", " ").split())
