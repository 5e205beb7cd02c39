"""Which policies there are: every module of a policy family's package with an object `POLICY` is one.

Adding a policy is adding its file; a file that cannot be imported stops the start with its own error.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from types import MappingProxyType, ModuleType
from typing import Protocol, cast

from one_preempt.core import (
    backfilling,
    dispatch,
    energy,
    host_selection,
    image_staging,
    preemption,
    queue_order,
    workload_allocation,
)
from one_preempt.core.backfilling.policy import BackfillingPolicy
from one_preempt.core.dispatch.policy import DispatchPolicy
from one_preempt.core.energy.policy import EnergyPolicy
from one_preempt.core.host_selection.selection import HostSelection
from one_preempt.core.image_staging.policy import ImageStagingPolicy
from one_preempt.core.preemption.policy import PreemptionPolicy
from one_preempt.core.queue_order.order import QueueOrder
from one_preempt.core.workload_allocation.policy import AllocationPolicy
from one_preempt.errors import OnePreemptError


class UnknownPolicy(OnePreemptError):
    """No policy has that name; the message lists the names there are."""


class Named(Protocol):
    """What every policy has."""

    @property
    def name(self) -> str:
        """The name used in configuration and on the command line."""


def preemption_policies() -> Mapping[str, PreemptionPolicy]:
    """All preemption policies by name, in the order of their names."""
    return cast(Mapping[str, PreemptionPolicy], _found_in(preemption))


def preemption_policy(name: str) -> PreemptionPolicy:
    """The preemption policy of that name, upper or lower case. Raises `UnknownPolicy`."""
    return cast(PreemptionPolicy, _named(preemption_policies(), name, "preemption policy"))


def backfilling_policies() -> Mapping[str, BackfillingPolicy]:
    """All backfilling policies by name, in the order of their names."""
    return cast(Mapping[str, BackfillingPolicy], _found_in(backfilling))


def backfilling_policy(name: str) -> BackfillingPolicy:
    """The backfilling policy of that name, upper or lower case. Raises `UnknownPolicy`."""
    return cast(BackfillingPolicy, _named(backfilling_policies(), name, "backfilling policy"))


def queue_orders() -> Mapping[str, QueueOrder]:
    """All queue orders by name, in the order of their names."""
    return cast(Mapping[str, QueueOrder], _found_in(queue_order))


def queue_order_policy(name: str) -> QueueOrder:
    """The queue order of that name, upper or lower case. Raises `UnknownPolicy`."""
    return cast(QueueOrder, _named(queue_orders(), name, "queue order"))


def host_selections() -> Mapping[str, HostSelection]:
    """All host selections by name, in the order of their names."""
    return cast(Mapping[str, HostSelection], _found_in(host_selection))


def host_selection_policy(name: str) -> HostSelection:
    """The host selection of that name, upper or lower case. Raises `UnknownPolicy`."""
    return cast(HostSelection, _named(host_selections(), name, "host selection"))


def energy_policies() -> Mapping[str, EnergyPolicy]:
    """All energy policies by name, in the order of their names."""
    return cast(Mapping[str, EnergyPolicy], _found_in(energy))


def energy_policy(name: str) -> EnergyPolicy:
    """The energy policy of that name, upper or lower case. Raises `UnknownPolicy`."""
    return cast(EnergyPolicy, _named(energy_policies(), name, "energy policy"))


def image_staging_policies() -> Mapping[str, ImageStagingPolicy]:
    """All image staging policies by name, in the order of their names."""
    return cast(Mapping[str, ImageStagingPolicy], _found_in(image_staging))


def image_staging_policy(name: str) -> ImageStagingPolicy:
    """The image staging policy of that name, upper or lower case. Raises `UnknownPolicy`."""
    return cast(ImageStagingPolicy, _named(image_staging_policies(), name, "image staging policy"))


def slot_planning_policy(name: str) -> ImageStagingPolicy:
    """The same among those that plan slots, without which nothing can be promised. Raises `UnknownPolicy`."""
    known = {name: policy for name, policy in image_staging_policies().items() if policy.plans_slots}
    return cast(ImageStagingPolicy, _named(known, name, "image staging policy that plans slots"))


def allocation_policies() -> Mapping[str, AllocationPolicy]:
    """All workload allocation policies by name, in the order of their names."""
    return cast(Mapping[str, AllocationPolicy], _found_in(workload_allocation))


def allocation_policy(name: str) -> AllocationPolicy:
    """The workload allocation policy of that name, upper or lower case. Raises `UnknownPolicy`."""
    return cast(AllocationPolicy, _named(allocation_policies(), name, "workload allocation policy"))


def dispatch_policies() -> Mapping[str, DispatchPolicy]:
    """All dispatch policies by name, in the order of their names."""
    return cast(Mapping[str, DispatchPolicy], _found_in(dispatch))


def dispatch_policy(name: str) -> DispatchPolicy:
    """The dispatch policy of that name, upper or lower case. Raises `UnknownPolicy`."""
    return cast(DispatchPolicy, _named(dispatch_policies(), name, "dispatch policy"))


def _found_in(family: ModuleType) -> Mapping[str, Named]:
    """All policies of a family's package by name, in the order of their names."""
    policies: dict[str, Named] = {}
    taken: set[str] = set()
    for found in sorted(pkgutil.iter_modules(family.__path__), key=lambda found: found.name):
        module = importlib.import_module(f"{family.__name__}.{found.name}")
        if not hasattr(module, "POLICY"):
            continue
        policy = cast(Named, module.POLICY)
        # Looked up in upper or lower case, the second of two that differ by that alone would never be found.
        if policy.name.casefold() in taken:
            raise OnePreemptError(f"two policies are named '{policy.name}': rename the one in {found.name}.py")
        taken.add(policy.name.casefold())
        policies[policy.name] = policy
    return MappingProxyType(dict(sorted(policies.items())))


def _named(policies: Mapping[str, Named], name: str, kind: str) -> Named:
    for known, policy in policies.items():
        if known.casefold() == name.casefold():
            return policy
    raise UnknownPolicy(f"no {kind} is named '{name}'; there are: {', '.join(policies)}")
