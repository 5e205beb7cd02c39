"""Which experiments there are: every module beside this one with an object `EXPERIMENT` is one."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import cast

from one_preempt.errors import OnePreemptError
from one_preempt.simulation import experiments as package
from one_preempt.simulation.experiments.experiment import Experiment


class UnknownExperiment(OnePreemptError):
    """No experiment has that name; the message lists the names there are."""


@cache
def experiments() -> Mapping[str, Experiment]:
    """All experiments by name, in the order of their names."""
    modules = [
        importlib.import_module(f"{package.__name__}.{found.name}") for found in pkgutil.iter_modules(package.__path__)
    ]
    found = [cast(Experiment, module.EXPERIMENT) for module in modules if hasattr(module, "EXPERIMENT")]
    return MappingProxyType({experiment.name: experiment for experiment in sorted(found, key=lambda one: one.name)})


def experiment(name: str) -> Experiment:
    """The experiment of that name. Raises `UnknownExperiment`."""
    try:
        return experiments()[name]
    except KeyError:
        raise UnknownExperiment(f"no experiment is named '{name}'; there are: {', '.join(experiments())}") from None
