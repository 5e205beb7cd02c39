"""Which policies there are: every module of a policy family's package with an object `POLICY` is one.

Adding a policy is adding its file; a file that cannot be imported stops the start with its own error.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from types import MappingProxyType, ModuleType
from typing import Generic, Protocol, TypeVar, cast

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


PolicyT = TypeVar("PolicyT")


class PolicyFamily(Generic[PolicyT]):
    """The policies of one family, looked up in its package whenever they are asked for."""

    def __init__(self, package: ModuleType, kind: str) -> None:
        """`kind` is what messages call one of them."""
        self._package = package
        self._kind = kind

    def all(self) -> Mapping[str, PolicyT]:
        """All policies by name, in the order of their names."""
        return cast(Mapping[str, PolicyT], _found_in(self._package))

    def named(self, name: str) -> PolicyT:
        """The policy of that name, in upper or lower case. Raises `UnknownPolicy`."""
        return _named(self.all(), name, self._kind)


PREEMPTION_POLICIES = PolicyFamily[PreemptionPolicy](preemption, "preemption policy")
BACKFILLING_POLICIES = PolicyFamily[BackfillingPolicy](backfilling, "backfilling policy")
QUEUE_ORDERS = PolicyFamily[QueueOrder](queue_order, "queue order")
HOST_SELECTIONS = PolicyFamily[HostSelection](host_selection, "host selection")
ENERGY_POLICIES = PolicyFamily[EnergyPolicy](energy, "energy policy")
IMAGE_STAGING_POLICIES = PolicyFamily[ImageStagingPolicy](image_staging, "image staging policy")
ALLOCATION_POLICIES = PolicyFamily[AllocationPolicy](workload_allocation, "workload allocation policy")
DISPATCH_POLICIES = PolicyFamily[DispatchPolicy](dispatch, "dispatch policy")


def slot_planning_policy(name: str) -> ImageStagingPolicy:
    """The image staging policy of that name, of those that plan slots: without slots nothing can be promised.

    Raises `UnknownPolicy`.
    """
    known = {name: policy for name, policy in IMAGE_STAGING_POLICIES.all().items() if policy.plans_slots}
    return _named(known, name, "image staging policy that plans slots")


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


def _named(policies: Mapping[str, PolicyT], name: str, kind: str) -> PolicyT:
    for known, policy in policies.items():
        if known.casefold() == name.casefold():
            return policy
    raise UnknownPolicy(f"no {kind} is named '{name}'; there are: {', '.join(policies)}")
