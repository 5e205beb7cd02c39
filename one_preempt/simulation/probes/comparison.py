"""Several simulations side by side: a figure a row, a policy a column, seeds as one mean with its interval."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from one_preempt.simulation.probes.figures import Figure
from one_preempt.simulation.probes.probe import own_probes
from one_preempt.simulation.probes.statistics import Interval, interval

FlatFigures = Mapping[str, Figure]

_BEFORE_GROUPS = (("requests.all", "requests", ""), ("unfinished.all", "unfinished at the end", ""))
_AFTER_GROUPS = (
    ("cut_short.all", "cut short", ""),
    ("deadlines_missed.all", "deadlines missed", ""),
    ("wait_s_mean.all", "wait, mean", "s"),
    ("wait_s_median.all", "wait, median", "s"),
    ("wait_s_p90.all", "wait, 90th percentile", "s"),
    ("wait_s_p99.all", "wait, 99th percentile", "s"),
    ("wait_s_max.all", "wait, longest", "s"),
    ("slowdown_mean.all", "slowdown, mean", ""),
    ("bounded_slowdown_mean.all", "bounded slowdown, mean", ""),
    ("utilization", "utilization", "%"),
    ("utilization_of_arrivals", "utilization until the last submission", "%"),
    ("useful_share", "1 - overhead / computation", "%"),
    ("preemptions", "preemptions decided", ""),
    ("preempted.all", "leases preempted", ""),
    ("suspensions.all", "suspensions", ""),
    ("overhead_vm_s", "overhead, VM seconds", "s"),
    ("planned_overhead_s", "overhead as planned", "s"),
    ("best_effort_makespan_s", "makespan of best-effort leases, mean", "s"),
    ("makespan_s", "makespan", "s"),
    ("energy_kwh", "energy", "kWh"),
    ("energy_always_on_kwh", "energy with all hosts on", "kWh"),
    ("energy_saved_share", "energy saved", "%"),
    ("boots", "boots of hosts", ""),
    ("refused_plans", "plans refused by the recount", ""),
)


class ComparedFigure(Struct, frozen=True):
    """One figure under each policy, in the order of the policies; None where it is unknown. Shares are in per cent."""

    key: str
    title: str
    unit: str
    values: tuple[Interval | None, ...]


def compare(runs: Sequence[Sequence[FlatFigures]]) -> list[ComparedFigure]:
    """`runs` has for each policy the figures of each seed. Figures that say nothing anywhere are left out."""
    compared = [
        ComparedFigure(key, title, unit, tuple(_over_seeds(seeds, key, unit) for seeds in runs))
        for key, title, unit in _rows(runs)
    ]
    return [row for row in compared if any(value is not None for value in row.values)]


def _rows(runs: Sequence[Sequence[FlatFigures]]) -> Iterator[tuple[str, str, str]]:
    yield from _BEFORE_GROUPS
    prefix = "rejection_rate."
    keys = dict.fromkeys(key for seeds in runs for figures in seeds for key in figures if key.startswith(prefix))
    for key in keys:
        group = key.removeprefix(prefix)
        yield key, "rejected" if group == "all" else f"rejected, {group}", "%"
    yield from _AFTER_GROUPS
    yield from ((f"own.{probe.key}", probe.title, probe.unit) for probe in own_probes())


def _over_seeds(seeds: Sequence[FlatFigures], key: str, unit: str) -> Interval | None:
    scale = 100 if unit == "%" else 1
    known = [scale * value for figures in seeds if (value := figures.get(key)) is not None]
    return interval(known) if known else None


def in_words(value: Interval | None, unit: str) -> str:
    """A cell for people: the mean, and behind it half its interval where several seeds were run."""
    if value is None:
        return ""
    spread = f" ± {_number(value.half_width)}" if value.count > 1 else ""
    return f"{_number(value.mean)}{spread} {unit}".rstrip()


def _number(value: float) -> str:
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value)}"
    return f"{value:.1f}" if abs(value) >= 100 else f"{value:.4g}"
