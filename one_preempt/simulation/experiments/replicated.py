"""Experiments of many simulations: points of a sweep, each replicated with other seeds, under several policies."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from one_preempt.simulation.experiments.experiment import Claim, ExperimentResult
from one_preempt.simulation.probes.figures import Figure

Figures = Mapping[str, Figure]
# In how many cycles the recount refused the plan: a figure of every simulation.
REFUSED_PLANS = "refused_plans"


class Task(Struct, frozen=True, order=True):
    """One simulation: a point of the sweep, a replication of it (its seed), a policy. Small ones are for tests."""

    point: str
    replication: int
    policy: str
    small: bool = False


class TaskResult(Struct, frozen=True):
    """What came of a task; `code` is the digest of the code that played it, '' where that is not known."""

    task: Task
    figures: Figures
    code: str = ""


class ReplicatedExperiment(Struct, frozen=True):
    """An experiment in parts that may be played in any order, by several processes, with breaks between.

    Attributes:
        name, description, paper: As of every experiment.
        choices: What the paper leaves open and how it was settled, before any run that is reported.
        tasks: All tasks, of the full experiment or of the small one, in the order of the results.
        simulate: Plays one task; the same task gives the same figures in every process.
        conclude: From all results, in the order of the tasks, to ours beside the published.
        in_parts: `conclude` takes the results that there are, and says what they do not tell yet.
        over: The same experiment over the recorded workloads in a folder, where it can take such; raises
            `OnePreemptError` where they are not there.
        traces: The folder that was given to `over`.
        shares_with: The names of experiments of the same choices whose equal tasks give the same figures: what lies
            beside our results need not be simulated again.
        played_as: Which task stands for one, where several are the same simulation; itself is its own.
    """

    name: str
    description: str
    paper: str
    choices: Mapping[str, str]
    tasks: Callable[[bool], Sequence[Task]]
    simulate: Callable[[Task], Figures]
    conclude: Callable[[Sequence[TaskResult]], ExperimentResult]
    in_parts: bool = False
    over: Callable[[Path], ReplicatedExperiment] | None = None
    traces: Path | None = None
    shares_with: tuple[str, ...] = ()
    played_as: Callable[[Task], Task] = lambda task: task

    def run(self) -> ExperimentResult:
        """All of it here and now, keeping nothing; `runner` knows better ways."""
        return self.concluded([TaskResult(task, self.simulate(task)) for task in self.tasks(False)])

    def concluded(self, results: Sequence[TaskResult]) -> ExperimentResult:
        """Ours beside the published; and whether the recount refused a plan, for then something is wrong with ours."""
        result = self.conclude(results)
        refused = [one.figures[REFUSED_PLANS] or 0 for one in results if REFUSED_PLANS in one.figures]
        if not refused:
            return result
        found = f"{sum(refused):g} in {sum(map(bool, refused))} of {len(refused)} simulations"
        told = found if any(refused) else "none"
        recounted = Claim("the recount refused no plan", "", told, not any(refused))
        return replace(result, claims=(*result.claims, recounted))


class ResultTable(Struct):
    """Results by point and policy, each a list over the replications."""

    results: Sequence[TaskResult]
    _by_place: dict[tuple[str, str], list[Figures]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for result in self.results:
            self._by_place.setdefault((result.task.point, result.task.policy), []).append(result.figures)

    @property
    def points(self) -> list[str]:
        """In the order of the tasks."""
        return list(dict.fromkeys(point for point, _ in self._by_place))

    def values(self, point: str, policy: str, figure: str) -> list[float]:
        """One figure over the replications; 0 where it is unknown, for then there was nothing to count."""
        return [figures.get(figure) or 0.0 for figures in self._by_place[point, policy]]
