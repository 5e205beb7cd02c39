"""JPDC12 Figures 5 to 8 over six hours in place of two days: what an evening can play, and a verdict on every claim."""

from __future__ import annotations

from one_preempt.simulation.experiments.jpdc12_sweeps import played_over
from one_preempt.simulation.experiments.jpdc12_workloads import CHOICES, Extent
from one_preempt.simulation.workload.workload import SECONDS_PER_HOUR

SIX_HOURS = Extent(6 * SECONDS_PER_HOUR, 4)

EXPERIMENT = played_over(
    SIX_HOURS,
    "jpdc12-six-hours",
    "the same sweeps over six hours, four workloads a point",
    CHOICES
    | {
        "drawn workloads": "4 a point, each of the first six hours, where the paper has 100 of two days; all policies"
        " and all points of a seed share their draws"
    },
)
