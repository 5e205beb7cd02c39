"""From a description to a simulated cloud: what there is put in place, then the stories of the VMs told by calls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from msgspec.structs import replace

from one_preempt.errors import OnePreemptError
from one_preempt.simulation.emulator.acl_text import parse_rule
from one_preempt.simulation.emulator.described_hosts import add_hosts, numbered_names, set_statuses
from one_preempt.simulation.emulator.described_infrastructure import add_infrastructure, template_of
from one_preempt.simulation.emulator.description import Description, VmEntry
from one_preempt.simulation.emulator.vm_story import perform
from one_preempt.simulation.simulated_cloud.cloud import SimulatedCloud
from one_preempt.simulation.simulated_cloud.durations import INSTANT, DriverLimits, Durations
from one_preempt.simulation.simulated_cloud.errors import OnedError
from one_preempt.simulation.simulated_cloud.objects import ONEADMIN, SimQuotas, TemplateDict
from one_preempt.simulation.simulated_cloud.quotas import METRICS, whole_cloud_quota
from one_preempt.simulation.simulated_cloud.templates import merged, write_template
from one_preempt.simulation.simulated_cloud.virtual_time import VirtualClock

DEFAULT_START_S = 1_800_000_000
_Figures = TypeVar("_Figures", Durations, DriverLimits)


def described_cloud(description: Description, starts_at_s: int = DEFAULT_START_S) -> SimulatedCloud:
    """The cloud once every story is told; its time began at the description's start, or else at `starts_at_s`.

    Raises `OnePreemptError` that names the entry which cannot be, and why.
    """
    cloud = SimulatedCloud(
        clock=VirtualClock(description.starts_at_s or starts_at_s),
        version=description.version,
        durations=_changed(INSTANT if description.instant else Durations(), description.durations, "durations"),
        limits=_changed(DriverLimits(), description.drivers, "drivers"),
        hypervisor=description.hypervisor,
    )
    _add_people(cloud, description)
    add_infrastructure(cloud, description)
    add_hosts(cloud, description)
    perform(cloud, list(_allocated(cloud, description)))
    set_statuses(cloud, description)
    return cloud


def _changed(figures: _Figures, changes: Mapping[str, Any], place: str) -> _Figures:
    try:
        return replace(figures, **changes)
    except TypeError as error:
        raise OnePreemptError(f"{place}: {error}") from error


def _add_people(cloud: SimulatedCloud, description: Description) -> None:
    for group in description.groups:
        if any(group.name == other.name for other in cloud.groups.values()):
            raise OnePreemptError(f"groups: {group.name}: another group has this name")
        gid = cloud.group_allocate(ONEADMIN, group.name)
        _limit(cloud.groups[gid].quotas, group.quota, f"groups: {group.name}")
    gids = {group.name: group.id for group in cloud.groups.values()}
    for user in description.users:
        if user.group not in gids:
            raise OnePreemptError(f"users: {user.name}: there is no group {user.group!r}")
        if any(user.name == other.name for other in cloud.users.values()):
            raise OnePreemptError(f"users: {user.name}: another user has this name")
        person = cloud.add_user(user.name, gids[user.group], user.password or "")
        _limit(person.quotas, user.quota, f"users: {user.name}")
    for rule in description.acls:
        try:
            cloud.acl_add(ONEADMIN, *parse_rule(rule))
        except OnedError as error:
            raise OnePreemptError(f"acls: {rule!r}: {error.message}") from error


def _limit(quotas: SimQuotas, limits: dict[str, float], place: str) -> None:
    for metric in limits:
        if metric not in METRICS:
            raise OnePreemptError(f"{place}: quota {metric!r} is none of {', '.join(METRICS)}")
    if limits:
        whole_cloud_quota(quotas).limits.update(limits)


def _allocated(cloud: SimulatedCloud, description: Description) -> Iterator[tuple[int, list[str]]]:
    """Create each VM and give its id with its story; one for somebody else is created by oneadmin and given away."""
    for entry in description.vms:
        template = _vm_template(cloud, entry)
        story = entry.story if entry.owner == "oneadmin" else [f"chown {entry.owner}", *entry.story]
        for name in numbered_names(entry.name, entry.count, "vms"):
            try:
                vm_id = cloud.vm_allocate(ONEADMIN, write_template({**template, "NAME": [name]}), entry.hold)
            except OnedError as error:
                raise OnePreemptError(f"vms: {name}: {error.message}") from error
            except ValueError as error:
                raise OnePreemptError(f"vms: {name}: the template has no number where one belongs: {error}") from error
            yield vm_id, story


def _vm_template(cloud: SimulatedCloud, entry: VmEntry) -> TemplateDict:
    if not entry.based_on:
        return template_of(entry.template)
    for pattern in cloud.vm_templates.values():
        if pattern.name == entry.based_on:
            whole = merged(pattern.template, template_of(entry.template))
            return {**whole, "TEMPLATE_ID": [str(pattern.id)]}
    raise OnePreemptError(f"vms: {entry.name}: there is no VM template {entry.based_on!r}")
