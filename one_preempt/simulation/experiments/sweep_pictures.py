"""Figures along a sweep as lines, one a policy, with intervals over the replications."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from one_preempt.simulation.experiments.replicated import ResultTable
from one_preempt.simulation.plots.charts import Line
from one_preempt.simulation.probes.statistics import interval


def has_course(lines: Sequence[Line]) -> bool:
    """Is there anything along the sweep? Points at one place are a dot on the frame."""
    return len({place for line in lines for place, _ in line.points}) > 1


def lines_of(
    table: ResultTable, policies: Sequence[str], figure: str, places: Mapping[str, float], scale: float = 1.0
) -> list[Line]:
    """`places` says where the points of the sweep lie; `scale` is multiplied to the figure."""
    return [
        Line(
            policy,
            tuple(
                (place, interval([scale * value for value in table.values(point, policy, figure)]))
                for point, place in places.items()
            ),
        )
        for policy in policies
    ]
