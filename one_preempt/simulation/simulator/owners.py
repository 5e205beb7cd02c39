"""Owners of requests as a log tells them, where it matters who they are: a user of the cloud for each of a log's.

Elsewhere all requests of the site are one user's, and all that come from other sites another's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import msgspec

from one_preempt.configuration.settings import Settings
from one_preempt.simulation.simulated_cloud.cloud import SimulatedCloud
from one_preempt.simulation.simulated_cloud.objects import Caller
from one_preempt.simulation.simulator.site import EXTERNALS, LOCALS
from one_preempt.simulation.workload.workload import UNKNOWN_ID, Workload, WorkloadRequest

# Whether it comes from another site, its group and its user in the log.
Origin: TypeAlias = tuple[bool, int, int]


def origin_of(request: WorkloadRequest) -> Origin:
    """Who asks, as far as the log knows."""
    return request.external, request.group, request.user


def names_owner(request: WorkloadRequest) -> bool:
    """The log knows the group or the user."""
    return (request.group, request.user) != (UNKNOWN_ID, UNKNOWN_ID)


def group_name(origin: Origin) -> str:
    """What the group is called in the cloud, such as group3; `locals` or `externals` where the log knows none."""
    is_external, group, _ = origin
    if group == UNKNOWN_ID:
        return EXTERNALS if is_external else LOCALS
    return f"external-group{group}" if is_external else f"group{group}"


def add_owners(cloud: SimulatedCloud, workload: Workload) -> Mapping[Origin, Caller]:
    """A user for each that the log knows, in a group for each of its groups; by what their requests say."""
    gids = {group.name: group.id for group in cloud.groups.values()}
    callers: dict[Origin, Caller] = {}
    for origin in sorted({origin_of(request) for request in workload.requests if names_owner(request)}):
        name = group_name(origin)
        if name not in gids:
            gids[name] = cloud.add_group(name).id
        user = "unknown" if origin[2] == UNKNOWN_ID else f"user{origin[2]}"
        callers[origin] = cloud.caller(cloud.add_user(f"{name}-{user}", gids[name]).id)
    return callers


def with_rights_of_owners(settings: Settings, origins: Mapping[Origin, Caller]) -> Settings:
    """The same settings, in which each group may do what the local, or the external, users may."""
    groups = {group_name(origin): EXTERNALS if origin[0] else LOCALS for origin in origins}
    given = [right for right in settings.leases.rights if right.group in (LOCALS, EXTERNALS)]
    added = [
        msgspec.structs.replace(right, name=f"{right.name} of {name}", group=name)
        for name, like in sorted(groups.items())
        for right in given
        if right.group == like != name
    ]
    leases = msgspec.structs.replace(settings.leases, rights=[*settings.leases.rights, *added])
    return msgspec.structs.replace(settings, leases=leases)
