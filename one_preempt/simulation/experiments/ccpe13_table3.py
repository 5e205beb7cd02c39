"""CCPE13 Table III: whom each policy preempts for local request 7 of Table II, what that costs, and when all is done.

Table II is replayed: the production cycle serves the six external requests as they come, preempts for the local one at
720 s, and brings the preempted ones back when there is room. Overheads are those by which the victims were chosen.
"""

from __future__ import annotations

import msgspec
from msgspec import Struct

from one_preempt.composition import simulated_cycle
from one_preempt.configuration.settings import OverheadSettings, Settings
from one_preempt.core.model.plan import Preemption
from one_preempt.core.model.time import ms_to_seconds
from one_preempt.simulation.experiments.ccpe13_testbed import LOCAL_REQUEST, RATES, SITE, WORKLOAD
from one_preempt.simulation.experiments.experiment import ExperimentResult, Row
from one_preempt.simulation.simulator.result import Fate, SimulationResult
from one_preempt.simulation.simulator.scheduler import Report
from one_preempt.simulation.simulator.simulator import Simulator
from one_preempt.simulation.simulator.site import build_cloud, simulation_settings

OVERHEAD_TOLERANCE = 0.01
MAKESPAN_TOLERANCE = 0.03


class Published(Struct, frozen=True):
    """One row of Table III; of NOP the text says that request 7 is rejected."""

    policy: str
    preempted: tuple[int, ...]
    overhead_s: float | None
    makespan_s: int | None


PUBLISHED = (
    Published("NOP", (), None, None),
    Published("MLIP", (1, 6), 59.9, 7800),
    Published("MOV", (2, 3, 5), 27.8, 8479),
    Published("MOML", (5, 6), 27.8, 7800),
)


class Replay(Struct, frozen=True):
    """Table II under one policy."""

    result: SimulationResult
    preemptions: tuple[Preemption, ...]

    @property
    def rejected(self) -> bool:
        """The local request was sent away."""
        local = self.result.records[LOCAL_REQUEST.id - 1]
        return local.fate is Fate.REJECTED

    @property
    def preempted(self) -> tuple[int, ...]:
        """The requests that the local one interrupted."""
        return tuple(
            record.request_id
            for record in self.result.records
            if any(one.by_request_id == LOCAL_REQUEST.id for one in record.interruptions)
        )

    @property
    def overhead_ms(self) -> int:
        """What the scheduler expected the preemptions to cost."""
        return sum(preemption.overhead_ms for preemption in self.preemptions)


def settings() -> Settings:
    """The scheduler of the testbed."""
    overhead = OverheadSettings(
        suspend_mib_per_s=RATES.suspend_mib_per_s,
        resume_mib_per_s=RATES.resume_mib_per_s,
        pause_s=ms_to_seconds(RATES.pause_ms),
        reschedule_s=ms_to_seconds(RATES.reschedule_ms),
    )
    return msgspec.structs.replace(simulation_settings(), overhead=overhead)


def replay(policy: str) -> Replay:
    """Table II under `policy`, to the end of the last request."""
    preemptions: dict[str, Preemption] = {}

    def note(_at_ms: int, report: Report) -> None:
        if report.plan is not None:
            preemptions.update({one.id: one for one in report.plan.preemptions})

    cloud = build_cloud(SITE)
    result = Simulator(cloud, simulated_cycle(settings(), cloud, policy), WORKLOAD, on_cycle=note).run()
    return Replay(result, tuple(preemptions.values()))


class TableThree(Struct, frozen=True):
    """One row a policy."""

    name: str = "ccpe13-table3"
    description: str = "whom NOP, MLIP, MOV and MOML preempt for a local request, the overhead, and the makespan"
    paper: str = "Salehi, Javadi, Buyya 2013 (CCPE13), Table III"

    def run(self) -> ExperimentResult:
        """The four policies on the same workload."""
        return ExperimentResult(self.name, tuple(_row(published, replay(published.policy)) for published in PUBLISHED))


def _row(published: Published, ours: Replay) -> Row:
    overhead_s = ms_to_seconds(ours.overhead_ms)
    makespan_s = ms_to_seconds(ours.result.makespan_ms)
    return {
        "policy": published.policy,
        "rejected": ours.rejected,
        "preempted": ours.preempted,
        "overhead_s": overhead_s,
        "makespan_s": makespan_s,
        "published_preempted": published.preempted,
        "published_overhead_s": published.overhead_s,
        "published_makespan_s": published.makespan_s,
        "within": (
            ours.preempted == published.preempted
            and _is_close(overhead_s, published.overhead_s or 0.0, OVERHEAD_TOLERANCE)
            and (published.makespan_s is None or _is_close(makespan_s, published.makespan_s, MAKESPAN_TOLERANCE))
        ),
    }


def _is_close(ours: float, published: float, tolerance: float) -> bool:
    return abs(ours - published) <= tolerance * published


EXPERIMENT = TableThree()
