"""What came of PEMP12's simulations, by setting, point and policy, and the sweeps of the paper's figures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct, field

from one_preempt.simulation.experiments.pemp12_workloads import THETAS, Point, point_named, points
from one_preempt.simulation.experiments.replicated import TaskResult

ALWAYS_ON, GESP, SESP, PEMP, LOOK_AHEAD = "always-on", "GESP", "SESP", "PEMP", "look-ahead"
POLICIES = (LOOK_AHEAD, PEMP, SESP, GESP, ALWAYS_ON)
KWH, VIOLATIONS, BOOTS, UNFINISHED = "kwh", "violations_percent", "boots", "unfinished_node_hours"


class Sweep(Struct, frozen=True):
    """What one of the paper's figures turns (`value`), and the points that it shows: the others are `kept` there."""

    title: str
    value: Callable[[Point], float]
    kept: Callable[[Point], bool]


# The paper's Figures 1 and 2, (a) to (c): about its base point of 15 %, 3 h, medium.
SWEEPS: Mapping[str, Sweep] = {
    "rho": Sweep(
        title="reservations (% of 144 nodes)",
        value=lambda point: float(point.rho),
        kept=lambda point: (point.delta_h, point.theta) == (3, "medium"),
    ),
    "delta": Sweep(
        title="mean duration (h)",
        value=lambda point: float(point.delta_h),
        kept=lambda point: (point.rho, point.theta) == (15, "medium"),
    ),
    "theta": Sweep(
        title="mean size (nodes)",
        value=lambda point: sum(THETAS[point.theta]) / 2,
        kept=lambda point: (point.rho, point.delta_h) == (15, 3),
    ),
}


class Setting(Struct, frozen=True):
    """Points that belong together: one month and one kind of reservations, or one reading of the paper.

    `gauges`: all lines are required of it; else only those of the project's own policy, or, for a `reading`, none.
    `in_reach`: 12,500 kWh at rho 30 % are required of that policy, for its requests ask for no more than the slice's.
    """

    name: str
    points: tuple[Point, ...]
    policies: tuple[str, ...] = POLICIES
    gauges: bool = False
    reading: bool = False
    in_reach: bool = False


class Runs(Struct):
    """What came of one setting: by point and policy. Not all policies need have been played at a point."""

    setting: Setting
    results: Sequence[TaskResult]
    by_point: dict[Point, dict[str, Mapping[str, float]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for result in self.results:
            name, point = result.task.point.split(" ")
            if name == self.setting.name:
                figures = {figure: float(value) for figure, value in result.figures.items() if value is not None}
                self.by_point.setdefault(point_named(point), {})[result.task.policy] = figures

    def at(self, point: Point, policy: str, figure: str) -> float:
        """One figure."""
        return self.by_point[point][policy][figure]

    def points(self, *policies: str, least_rho: int = 0) -> list[Point]:
        """Those of so much work at least at which all of `policies` were played, or any where none are named."""
        wanted = set(policies)
        return [
            point
            for point in self.setting.points
            if point in self.by_point and point.rho >= least_rho and wanted <= self.by_point[point].keys()
        ]

    def missing(self, *policies: str, least_rho: int = 0) -> int:
        """At how many not all of `policies` were played."""
        expected = sum(point.rho >= least_rho for point in self.setting.points)
        return expected - len(self.points(*policies, least_rho=least_rho))

    def along(self, sweep: str, *policies: str) -> list[Point]:
        """The points of a sweep as the paper's figures show it, as far as `policies` were played there."""
        chosen = SWEEPS[sweep]
        return sorted(filter(chosen.kept, self.points(*policies)), key=chosen.value)

    def shows(self, sweep: str) -> bool:
        """The setting has all of them."""
        return all(point in self.setting.points for point in points() if SWEEPS[sweep].kept(point))

    def has_all(self, least_rho: int) -> bool:
        """The setting has all points of so much work."""
        return {point for point in points() if point.rho >= least_rho} <= set(self.setting.points)

    def lacks(self, sweep: str, *policies: str) -> bool:
        """Some of them are not there yet."""
        return len(self.along(sweep, *policies)) < sum(map(SWEEPS[sweep].kept, points()))

    def at_each(self, sweep: str) -> list[tuple[float, list[Point]]]:
        """All points at each value of a sweep, whatever else they are."""
        found: dict[float, list[Point]] = {}
        for point in self.points():
            found.setdefault(SWEEPS[sweep].value(point), []).append(point)
        return sorted(found.items())


def saved_percent(runs: Runs, points: Sequence[Point]) -> float:
    """By how much PEMP takes less than SESP over all of these points."""
    taken = {policy: sum(runs.at(point, policy, KWH) for point in points) for policy in (PEMP, SESP)}
    return 100 * (1 - taken[PEMP] / taken[SESP])
