"""Whose VMs can run in a zone: in a federation every group may create VMs anywhere, and run them here or there."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from one_preempt.core.matching.access import AccessRules, ObjectType, Owner, Right
from one_preempt.core.model.access import User
from one_preempt.core.model.infrastructure import DatastoreType
from one_preempt.core.model.pool_snapshot import PoolSnapshot
from one_preempt.entrypoints.cli.set_up import Finding, Grade

NAMES_SHOWN = 5


def judge_users(subject: str, snapshot: PoolSnapshot) -> Finding:
    """May those who can create VMs in the zone use what these need there? Administrators are not counted.

    Who may use no system datastore is sent elsewhere by `gateway submit`; hosts are hidden from users, and VMs of those
    who have a datastore and no host wait for ever.
    """
    access = AccessRules(snapshot.directory, snapshot.zone_id)
    creators = [
        (user, owner)
        for user in snapshot.directory.users.values()
        if user.enabled
        and not (owner := Owner(user.id, tuple(sorted({user.gid, *user.group_ids})))).exempt
        and access.granted(owner, ObjectType.VM, Right.CREATE).everything
    ]
    with_store = [(user, owner) for user, owner in creators if _may_use_a_store(owner, access, snapshot)]
    stuck = [user for user, owner in with_store if not _may_use_a_host(owner, access, snapshot)]
    mend = f"give their groups hosts and datastores of it: onevdc addcluster VDC {snapshot.zone_id} ALL"
    if not creators:
        return Finding(subject, Grade.WARN, "no user but administrators may create VMs there: nobody is sent there")
    if not with_store:
        text = f"none of {len(creators)} users may use a system datastore there: nobody is sent there"
        return Finding(subject, Grade.WARN, text, mend)
    if stuck:
        text = f"{_names(stuck)} may use a system datastore there and none of the hosts: their VMs would wait for ever"
        return Finding(subject, Grade.WARN, text, mend)
    others = "" if len(with_store) == len(creators) else "; the others are sent elsewhere"
    text = f"{len(with_store)} of {len(creators)} users may use hosts and system datastores there{others}"
    return Finding(subject, Grade.OK, text)


def _may_use_a_store(owner: Owner, access: AccessRules, snapshot: PoolSnapshot) -> bool:
    stores = snapshot.datastores.values()
    return any(store.type is DatastoreType.SYSTEM and access.may_use(owner, store) for store in stores)


def _may_use_a_host(owner: Owner, access: AccessRules, snapshot: PoolSnapshot) -> bool:
    hosts = [host for host in snapshot.hosts.values() if host.accepts_vms]
    ids = np.array([host.id for host in hosts], dtype=np.int64)
    cluster_ids = np.array([host.cluster_id for host in hosts], dtype=np.int64)
    return bool(access.hosts(owner, ids, cluster_ids).any())


def _names(users: Sequence[User]) -> str:
    shown = ", ".join(user.name for user in users[:NAMES_SHOWN])
    return shown if len(users) <= NAMES_SHOWN else f"{shown} and {len(users) - NAMES_SHOWN} more users"
