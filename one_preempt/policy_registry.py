"""Which preemption policies there are: every module of `core/preemption` with an object `POLICY` is one.

Adding a policy is adding its file; a file that cannot be imported stops the start with its own error.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import cast

from one_preempt.core import preemption
from one_preempt.core.preemption.policy import PreemptionPolicy
from one_preempt.errors import OnePreemptError


class UnknownPolicy(OnePreemptError):
    """No policy has that name; the message lists the names there are."""


@cache
def preemption_policies() -> Mapping[str, PreemptionPolicy]:
    """All preemption policies by name, in the order of their names."""
    policies: dict[str, PreemptionPolicy] = {}
    for found in sorted(pkgutil.iter_modules(preemption.__path__), key=lambda found: found.name):
        module = importlib.import_module(f"{preemption.__name__}.{found.name}")
        if not hasattr(module, "POLICY"):
            continue
        policy = cast(PreemptionPolicy, module.POLICY)
        if policy.name in policies:
            raise OnePreemptError(f"two preemption policies are named '{policy.name}': rename the one in {found.name}.py")
        policies[policy.name] = policy
    return MappingProxyType(dict(sorted(policies.items())))


def preemption_policy(name: str) -> PreemptionPolicy:
    """The policy of that name, upper or lower case. Raises `UnknownPolicy`."""
    for known, policy in preemption_policies().items():
        if known.casefold() == name.casefold():
            return policy
    known_names = ", ".join(preemption_policies())
    raise UnknownPolicy(f"no preemption policy is named '{name}'; there are: {known_names}")
