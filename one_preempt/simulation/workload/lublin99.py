"""The workload model of Lublin and Feitelson (1999, JPDC 2003): sizes, run times and arrivals of jobs.

Sizes: a job is serial with one probability, has a power of two VMs with another; the logarithm of the size is uniform
in two stages. Run times: their logarithm is drawn from one of two gammas, large jobs more often from the longer one.
Arrivals: `lublin99_arrivals`. The model gives no estimates of users: the requested duration is the actual one.
"""

from __future__ import annotations

import math

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from one_preempt.errors import OnePreemptError
from one_preempt.simulation.workload.lublin99_arrivals import (
    ArrivalParameters,
    ArrivalProcess,
    IntArray,
    arrivals_s,
)
from one_preempt.simulation.workload.workload import MachineSet, Workload, WorkloadRequest

_LONGEST_LOG_RUN_TIME = 12.0  # 45 hours


class SizeParameters(Struct, frozen=True):
    """The two-stage uniform is of log2 of the size: [low, medium] with `low_probability`, else [medium, high]."""

    serial_probability: float
    power_of_two_probability: float
    low: float
    medium: float
    high: float
    low_probability: float

    def __post_init__(self) -> None:
        if not 0 <= self.low <= self.medium <= self.high <= 30:
            raise OnePreemptError(
                f"sizes of 2^{self.low:g}, 2^{self.medium:g} and 2^{self.high:g} VMs do not ascend from 1 to 2^30"
            )

    @property
    def most(self) -> int:
        """The largest size."""
        return math.floor(2**self.high + 0.5)


class RunTimeParameters(Struct, frozen=True):
    """Shapes and scales of two gammas; the first has probability `slope` x size + `intercept`, cut to [0, 1]."""

    first_shape: float
    first_scale: float
    second_shape: float
    second_scale: float
    slope: float
    intercept: float


class JobClass(Struct, frozen=True):
    """One kind of jobs; `queue` is the number by which the authors' program names it."""

    name: str
    queue: int
    sizes: SizeParameters
    run_times: RunTimeParameters
    arrivals: ArrivalParameters

    def for_nodes(self, nodes: int, medium_below_high: float = 2.5) -> JobClass:
        """The class on a machine of so many nodes, one VM each; the authors advise 1.5 to 3.5 for the medium."""
        high = math.log2(nodes)
        low = min(self.sizes.low, high)
        return replace(self, sizes=replace(self.sizes, low=low, medium=max(low, high - medium_below_high), high=high))


INTERACTIVE = JobClass(
    "interactive",
    0,
    SizeParameters(0.1541, 0.625, 1.0, 3.0, 5.5, 0.705),
    RunTimeParameters(3.8351, 0.6605, 7.073, 0.6856, -0.0118, 0.9156),
    ArrivalParameters(6.5510, 0.6621, 8.9186, 3.6680, 0.9797),
)
BATCH = JobClass(
    "batch",
    1,
    SizeParameters(0.2927, 0.6686, 1.2, 5.0, 7.0, 0.875),
    RunTimeParameters(6.57, 0.823, 639.1, 0.0156, -0.003, 0.6986),
    ArrivalParameters(6.0415, 0.8531, 6.1271, 5.2740, 1.0519),
)
TYPELESS = JobClass(
    "typeless",
    0,
    SizeParameters(0.244, 0.576, 0.8, 4.5, 7.0, 0.86),
    RunTimeParameters(4.2, 0.94, 312.0, 0.03, -0.0054, 0.78),
    ArrivalParameters(10.2303, 0.4871, 8.1737, 3.9631, 1.0225),
)


class Lublin99(Struct, frozen=True):
    """The model: its classes arrive independently of one another; the workload starts at `start_hour` of a day."""

    classes: tuple[JobClass, ...] = (INTERACTIVE, BATCH)
    process: ArrivalProcess = ArrivalProcess.AUTHORS
    start_hour: int = 0
    cpu_centi: int = 100
    memory_mib: int = 1024

    def __post_init__(self) -> None:
        if not self.classes or not 0 <= self.start_hour < 24:
            raise OnePreemptError(
                f"{len(self.classes)} classes from {self.start_hour} h: name one, and an hour below 24"
            )

    def for_nodes(self, nodes: int, medium_below_high: float = 2.5) -> Lublin99:
        """The model on a machine of so many nodes, one VM each."""
        return replace(self, classes=tuple(each.for_nodes(nodes, medium_below_high) for each in self.classes))

    def draw(self, seed: int, requests: int | None = None, span_s: int | None = None) -> Workload:
        """A workload of the first `requests` jobs, or of all that arrive within `span_s`, or of what is less.

        The same seed gives the same workload, and a longer one begins with the shorter one.
        """
        if requests is None and span_s is None:
            raise OnePreemptError("a model goes on for ever: say how many requests, or for how long")
        # Each quantity has its own stream: the n-th job is the same however many are drawn.
        streams = np.random.SeedSequence(seed).spawn(len(self.classes))
        drawn = [
            _jobs(self, each, stream, requests, span_s) for each, stream in zip(self.classes, streams, strict=True)
        ]
        class_of_job = np.repeat(np.arange(len(drawn)), [len(arrived) for arrived, _, _ in drawn])
        arrived, sizes, run_times = (np.concatenate(columns) for columns in zip(*drawn, strict=True))
        order = np.lexsort((class_of_job, arrived))[:requests]
        shapes = {size: (MachineSet(size, self.cpu_centi, self.memory_mib),) for size in np.unique(sizes).tolist()}
        columns = (class_of_job[order], arrived[order], sizes[order], run_times[order])
        rows = zip(*(column.tolist() for column in columns), strict=True)
        return Workload(
            requests=tuple(
                WorkloadRequest(id, at_s, shapes[size], run_s, run_s, queue=self.classes[kind].queue)
                for id, (kind, at_s, size, run_s) in enumerate(rows, 1)
            ),
            name="lublin99",
            provenance=(f"drawn from lublin99 ({self._described()}), seed {seed}",),
        )

    def _described(self) -> str:
        return f"{' and '.join(each.name for each in self.classes)}, arrivals as {self.process.value}"


def _jobs(
    model: Lublin99, job_class: JobClass, stream: np.random.SeedSequence, most: int | None, until_s: int | None
) -> tuple[IntArray, IntArray, IntArray]:
    """Arrivals, sizes and run times of the first jobs of one class."""
    of_arrivals, of_sizes, of_run_times = (np.random.Generator(np.random.PCG64(s)) for s in stream.spawn(3))
    arrived = arrivals_s(job_class.arrivals, model.process, of_arrivals, model.start_hour, most, until_s)
    sizes = draw_sizes(job_class.sizes, of_sizes, len(arrived))
    return arrived, sizes, draw_run_times_s(job_class.run_times, of_run_times, sizes)


def draw_sizes(parameters: SizeParameters, generator: np.random.Generator, count: int) -> IntArray:
    """Sizes of `count` jobs. One uniform number decides both on serial jobs and on powers of two."""
    kind, stage, position = generator.random((count, 3)).T
    low = np.where(stage <= parameters.low_probability, parameters.low, parameters.medium)
    high = np.where(stage <= parameters.low_probability, parameters.medium, parameters.high)
    logarithms = low + position * (high - low)
    power_of_two = kind <= parameters.serial_probability + parameters.power_of_two_probability
    logarithms = np.where(power_of_two, np.floor(logarithms + 0.5), logarithms)
    parallel = np.minimum(np.floor(2**logarithms + 0.5), parameters.most)
    return np.where(kind <= parameters.serial_probability, 1, parallel).astype(np.int64)


def draw_run_times_s(parameters: RunTimeParameters, generator: np.random.Generator, sizes: IntArray) -> IntArray:
    """Run times for jobs of these sizes, in whole seconds; those over e^12 s are drawn again."""
    probability = np.clip(parameters.slope * sizes + parameters.intercept, 0.0, 1.0)
    draws = [_accepted_log_run_time(parameters, generator, each) for each in probability.tolist()]
    return np.exp(np.array(draws, dtype=np.float64)).astype(np.int64)


def _accepted_log_run_time(parameters: RunTimeParameters, generator: np.random.Generator, first: float) -> float:
    """One draw from the mixture, of its first gamma with probability `first`."""
    while True:
        if generator.random() <= first:
            drawn = generator.gamma(parameters.first_shape, parameters.first_scale)
        else:
            drawn = generator.gamma(parameters.second_shape, parameters.second_scale)
        if drawn <= _LONGEST_LOG_RUN_TIME:
            return drawn
