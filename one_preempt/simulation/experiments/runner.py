"""Runs experiments: tasks in parallel processes, results kept as they come, the rest after a break."""

from __future__ import annotations

import gc
import json
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from itertools import chain
from pathlib import Path

from msgspec.structs import asdict, replace

from one_preempt.errors import OnePreemptError
from one_preempt.simulation.experiments.experiment import Experiment, ExperimentResult, Row
from one_preempt.simulation.experiments.played_code import code_claim, code_digest
from one_preempt.simulation.experiments.registry import experiment as experiment_named
from one_preempt.simulation.experiments.replicated import Figures, ReplicatedExperiment, Task, TaskResult
from one_preempt.simulation.experiments.state_folder import lent, opened
from one_preempt.simulation.probes.writing import csv_text

OnDone = Callable[[int], None]


def folder_of(out: Path, experiment: Experiment, small: bool) -> Path:
    """Where the results of an experiment are kept below `out`."""
    return out / (f"{experiment.name}-small" if small else experiment.name)


def run(
    experiment: ReplicatedExperiment,
    folder: Path,
    small: bool = False,
    jobs: int = 1,
    on_done: OnDone | None = None,
    first: int | None = None,
) -> ExperimentResult:
    """Play what is not yet in `folder`, conclude, and write there what came of it.

    `on_done` is told how many tasks are done, those of earlier runs included. With `first` no more than so many of the
    tasks are played, in their order; whatever was played before is concluded from too, by whatever state of the code:
    the last claim tells by which. Raises `OnePreemptError` where
    the folder cannot be used, or a process was killed.
    """
    tell = on_done or (lambda _done: None)
    tasks = experiment.tasks(small)
    wanted = tasks[:first]
    with opened(folder, experiment, small) as state:
        ours = set(tasks)
        results = {task: result for task, result in state.load().items() if task in ours}
        for task, result in taken_over(experiment, folder, small, results).items():
            state.append(result)
            results[task] = result
        tell(len(results))
        code = code_digest()
        with _killed_is_told(folder):
            for result in _missing(experiment, [task for task in wanted if task not in results], results, jobs, code):
                state.append(result)
                results[result.task] = result
                tell(len(results))
        # What is the same simulation as one that was played costs nothing, whether it is among the first or not.
        for result in _same_as_known(experiment, tasks, results):
            state.append(result)
            results[result.task] = result
            tell(len(results))
        in_order = [results[task] for task in tasks if task in results]
        state.finish(in_order)
        concluded = experiment.concluded(in_order)
        told_of_code = code_claim(result.code for result in in_order)
        concluded = replace(concluded, claims=(*concluded.claims, told_of_code))
        state.write("rows.csv", csv_text([_flat(row) for row in concluded.rows]).encode())
        claims = [asdict(claim) for claim in concluded.claims]
        state.write("claims.json", json.dumps(claims, indent=2).encode() + b"\n")
        for name, svg in concluded.pictures.items():
            state.write(f"{name}.svg", svg.encode())
    return concluded


@contextmanager
def _killed_is_told(folder: Path) -> Iterator[None]:
    """A process that is gone in the middle of its task says nothing: the kernel ends one where memory is short."""
    try:
        yield
    except BrokenProcessPool as error:
        raise OnePreemptError(
            f"a process that played a simulation was killed, perhaps for want of memory. What is done is kept in "
            f"{folder}: run again, with fewer --jobs"
        ) from error


def taken_over(
    experiment: ReplicatedExperiment, folder: Path, small: bool, known: Collection[Task]
) -> dict[Task, TaskResult]:
    """What experiments with some of the same tasks have played beside ours, of the tasks that are not known yet."""
    found: dict[Task, TaskResult] = {}
    for name in experiment.shares_with:
        other = experiment_named(name)
        assert isinstance(other, ReplicatedExperiment)
        if other.choices == experiment.choices:
            found |= lent(folder_of(folder.parent, other, small), other, small)
    return {task: found[task] for task in experiment.tasks(small) if task in found and task not in known}


def _same_as_known(
    experiment: ReplicatedExperiment, tasks: Sequence[Task], known: Mapping[Task, TaskResult]
) -> list[TaskResult]:
    """Results of those that were not played themselves."""
    left = ((task, known.get(experiment.played_as(task))) for task in tasks if task not in known)
    return [replace(played, task=task) for task, played in left if played is not None]


def _flat(row: Row) -> dict[str, str | int | float | bool | None]:
    """A row whose cells are single values."""
    return {name: " ".join(map(str, cell)) if isinstance(cell, tuple) else cell for name, cell in row.items()}


def _missing(
    experiment: ReplicatedExperiment, tasks: Sequence[Task], known: Mapping[Task, TaskResult], jobs: int, code: str
) -> Iterator[TaskResult]:
    """Results of these tasks as they come, played by `code`; tasks that are the same simulation are played once."""
    same: dict[Task, list[Task]] = {}
    for task in tasks:
        same.setdefault(experiment.played_as(task), []).append(task)
    at_once = [known[one] for one in same if one in known]
    for played in chain(at_once, _played(experiment, [one for one in same if one not in known], jobs, code)):
        yield from (replace(played, task=task) for task in same[played.task])


def _played(experiment: ReplicatedExperiment, tasks: Sequence[Task], jobs: int, code: str) -> Iterator[TaskResult]:
    """Results as they come."""
    if jobs == 1 or len(tasks) < 2:
        yield from (TaskResult(task, _figures(experiment, task), code) for task in tasks)
        return
    # Fresh processes: a copy of this one would share its threads' locks.
    fresh = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(jobs, len(tasks)), fresh, initializer=_begin_worker) as pool:
        futures = {pool.submit(_simulate, experiment.name, experiment.traces, task): task for task in tasks}
        try:
            for future in as_completed(futures):
                yield TaskResult(futures[future], future.result(), code)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _simulate(name: str, traces: Path | None, task: Task) -> Figures:
    found = experiment_named(name)
    assert isinstance(found, ReplicatedExperiment)
    if traces is not None:
        assert found.over is not None
        found = found.over(traces)
    return _figures(found, task)


def _figures(experiment: ReplicatedExperiment, task: Task) -> Figures:
    """Nothing of a simulation is left: each freezes what it finds, so that what is not collected before stays."""
    try:
        return experiment.simulate(task)
    finally:
        gc.collect()


def _begin_worker() -> None:
    """A worker ends with a key press, and with the process that began it, however that one ended."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    parent = multiprocessing.parent_process()
    assert parent is not None

    def end_with_parent() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=end_with_parent, daemon=True).start()
