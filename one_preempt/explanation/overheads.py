"""What was learned of overheads, for people and as JSON: next to what is configured, how much of it is used now."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec import Struct

from one_preempt.core.model.cluster_state import ClusterState
from one_preempt.core.model.observed_overhead import OverheadKind
from one_preempt.core.model.time import ms_to_seconds
from one_preempt.core.overhead.learned import learn
from one_preempt.core.overhead.rates import OverheadRates
from one_preempt.explanation.explain import JsonObject, printable

if TYPE_CHECKING:
    from rich.console import RenderableType

NAME_LENGTH = 40


class LearnedOverhead(Struct, frozen=True):
    """One operation on one system datastore; the two values in `unit`."""

    kind: OverheadKind
    datastore_id: int
    observations: int
    configured: float
    used: float
    unit: str


def learned_overheads(state: ClusterState, configured: OverheadRates, *, learns: bool = True) -> list[LearnedOverhead]:
    """One entry for each operation and datastore that was ever observed, by operation and id.

    Unless `learns` (`overhead.learn`), what is configured is used.
    """
    rates = learn(state.observed_overheads if learns else (), configured)
    counts = Counter((one.kind, one.datastore_id) for one in state.observed_overheads)
    return [
        LearnedOverhead(
            kind=kind,
            datastore_id=datastore_id,
            observations=counts[kind, datastore_id],
            configured=_value(configured, kind),
            used=_value(rates.at(datastore_id), kind),
            unit="s" if kind in (OverheadKind.BOOT, OverheadKind.SHUT_DOWN) else "MiB/s",
        )
        for kind, datastore_id in sorted(counts)
    ]


def overheads_document(learned: list[LearnedOverhead]) -> list[JsonObject]:
    """As JSON."""
    return [
        {
            "operation": one.kind.value,
            "datastore_id": one.datastore_id,
            "observations": one.observations,
            "configured": round(one.configured, 3),
            "used": round(one.used, 3),
            "unit": one.unit,
        }
        for one in learned
    ]


def overhead_tables(learned: list[LearnedOverhead], state: ClusterState) -> Iterator[RenderableType]:
    """As a table; nothing where nothing was observed."""
    from rich.text import Text

    from one_preempt.explanation.tables import titled_table

    if not learned:
        return
    table = titled_table("Learned overheads", "operation", "system datastore", "observations", "configured", "used now")
    for one in learned:
        datastore = state.snapshot.datastores.get(one.datastore_id)
        name = f" {printable(datastore.name, NAME_LENGTH)}" if datastore is not None else ""
        table.add_row(
            one.kind.value,
            Text(f"{one.datastore_id}{name}"),
            str(one.observations),
            f"{one.configured:.1f} {one.unit}",
            f"{one.used:.1f} {one.unit}",
        )
    yield table


def _value(rates: OverheadRates, kind: OverheadKind) -> float:
    match kind:
        case OverheadKind.SUSPEND:
            return rates.suspend_mib_per_s
        case OverheadKind.RESUME:
            return rates.resume_mib_per_s
        case OverheadKind.MIGRATE:
            return rates.copy_mib_per_s
        case OverheadKind.LIVE_MIGRATE:
            return rates.live_copy_mib_per_s or rates.copy_mib_per_s
        case OverheadKind.BOOT:
            return ms_to_seconds(rates.boot_ms)
        case OverheadKind.SHUT_DOWN:
            return ms_to_seconds(rates.shutdown_ms)
