"""Figures of one's own: what a probe is, and which there are: every module of this folder with an object `PROBE`."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Sequence
from typing import Protocol, cast

from msgspec import Struct

from one_preempt.errors import OnePreemptError
from one_preempt.simulation import probes
from one_preempt.simulation.probes.outcome import Outcome
from one_preempt.simulation.probes.watch import Seen
from one_preempt.simulation.workload.workload import MachineSet


class Ended(Struct, frozen=True):
    """A simulation that is over, as a probe is given it.

    Attributes:
        outcomes: Each request beside what became of it, by id. Instants in ms since the start of the workload.
        hosts: The machines of the site, by kinds.
        seen: What VMs and hosts did over time.
        ended_at_ms: When the simulation ended.
    """

    outcomes: Sequence[Outcome]
    hosts: Sequence[MachineSet]
    seen: Seen
    ended_at_ms: int


class Probe(Protocol):
    """One figure of a whole simulation."""

    @property
    def key(self) -> str:
        """Its name in JSON and CSV behind `own.`, with the unit last: `longest_stay_s`."""

    @property
    def title(self) -> str:
        """What its row in the table is called."""

    @property
    def unit(self) -> str:
        """Printed behind it; with `%` it is a share, 0 to 1, and printed in per cent."""

    def measure(self, ended: Ended) -> float | None:
        """The figure; None where it cannot be told. A row without any figure is left out of the table."""


def own_probes() -> tuple[Probe, ...]:
    """All that are found, by their keys. Raises `OnePreemptError` where two have the same key."""
    found: dict[str, Probe] = {}
    for each in pkgutil.iter_modules(probes.__path__):
        module = importlib.import_module(f"{probes.__name__}.{each.name}")
        if not hasattr(module, "PROBE"):
            continue
        probe = cast(Probe, module.PROBE)
        if probe.key in found:
            raise OnePreemptError(f"two probes have the key '{probe.key}': rename the one in {each.name}.py")
        found[probe.key] = probe
    return tuple(probe for _, probe in sorted(found.items()))
