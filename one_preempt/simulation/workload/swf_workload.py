"""Logs in the Standard Workload Format as workloads, and workloads as logs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from enum import StrEnum

import numpy as np
from msgspec import Struct

from one_preempt.core.model.lease import LeaseType
from one_preempt.core.model.plain_words import plain_words
from one_preempt.errors import OnePreemptError
from one_preempt.simulation.garbage_collection import rare_garbage_collection
from one_preempt.simulation.workload.swf import (
    PARTIAL_RUNS,
    BoolArray,
    IntArray,
    SwfField,
    SwfHeader,
    SwfLog,
    SwfStatus,
    columns_of,
)
from one_preempt.simulation.workload.workload import (
    LONGEST_S,
    MOST_MACHINES,
    MOST_NODES,
    UNKNOWN_ID,
    LeftOut,
    MachineSet,
    Workload,
    WorkloadRequest,
)

KIB_PER_MIB = 1024
_MOST_PROCESSORS_PER_VM = 1_000_000
_LONGEST_LIST = 200


class MissingEstimate(StrEnum):
    """What stands in for the requested time of a job that states none."""

    RUN_TIME = "run-time"
    UNKNOWN = "unknown"


class SwfReading(Struct, frozen=True):
    """How the jobs of a log become requests for leases: each is one best-effort lease of equal VMs.

    Attributes:
        processors_per_vm: A VM stands for so many processors (a node of the machine); a rest needs one VM more.
        cpu_centi, memory_mib: What a VM takes.
        memory_from_log: Where the log states the memory asked for, that of a VM's processors instead of `memory_mib`.
        queues: Only jobs of these queues; None = of all.
        submitted_from_s, submitted_before_s: Only jobs submitted in this window; its begin becomes instant 0.
        missing_estimate: For jobs without a requested time.
        lease_type: Of all leases; `annotate` draws other types.
    """

    processors_per_vm: int = 1
    cpu_centi: int = 100
    memory_mib: int = 1024
    memory_from_log: bool = False
    queues: frozenset[int] | None = None
    submitted_from_s: int = 0
    submitted_before_s: int | None = None
    missing_estimate: MissingEstimate = MissingEstimate.RUN_TIME
    lease_type: LeaseType = LeaseType.BE_SUSPENDABLE

    def __post_init__(self) -> None:
        least = min(self.cpu_centi, self.memory_mib, self.submitted_from_s + 1)
        if not 1 <= self.processors_per_vm <= _MOST_PROCESSORS_PER_VM or least < 1:
            raise OnePreemptError(
                f"processors per VM {self.processors_per_vm} (1 to {_MOST_PROCESSORS_PER_VM}), "
                f"CPU {self.cpu_centi / 100:g} (at least 0.01), memory {self.memory_mib} MiB (at least 1) and begin "
                f"{self.submitted_from_s} s (at least 0) do not describe a reading"
            )
        if self.submitted_before_s is not None and self.submitted_before_s <= self.submitted_from_s:
            raise OnePreemptError(
                f"no job is submitted from {self.submitted_from_s} s on and before {self.submitted_before_s} s: "
                "let the window end after its begin"
            )


def workload_from_swf(log: SwfLog, reading: SwfReading | None = None) -> Workload:
    """The jobs of a log that can be replayed, as requests; what is left out is counted by its reason.

    The width is the number of requested processors, or of allocated ones where none is stated.

    Raises:
        OnePreemptError: Its header names more nodes than any machine has, or no job is of one of the queues: the log
            and the label, or the queue, are named.
    """
    reading = reading or SwfReading()
    _require_queues(log, reading.queues or frozenset())
    left_out: Counter[str] = Counter()
    requests: list[WorkloadRequest] = []
    with rare_garbage_collection():
        for piece in log.pieces():
            requests += _requests(_replayable(piece, reading, left_out), reading)
    left_out["bad lines"] = log.bad_lines
    unix_start = log.header.unix_start_time
    return Workload(
        requests=tuple(requests),
        name=log.source,
        site=_site(log, reading),
        recorded_from_s=None if unix_start is None else unix_start + reading.submitted_from_s,
        provenance=(f"read from {log.source}, {reading.processors_per_vm} processors a VM",),
        left_out=tuple(LeftOut(reason, count) for reason, count in left_out.items() if count),
    )


def _require_queues(log: SwfLog, queues: frozenset[int]) -> None:
    """Each of these has a job."""
    if not queues:
        return
    # Not by `np.unique`, which imports the masked arrays of numpy.
    there = sorted(set(log.column(SwfField.QUEUE).tolist()))
    for queue in sorted(queues.difference(there)):
        names = log.header.queue_names
        told = ", ".join(f"{one} ({names[one]})" if one in names else f"{one}" for one in there if one >= 0)
        known = f"there are {plain_words(told, _LONGEST_LIST)}" if told else "the log does not tell queues"
        raise OnePreemptError(f"{log.source}: no job is of queue {queue}; {known}")


def _replayable(log: SwfLog, reading: SwfReading, left_out: Counter[str]) -> SwfLog:
    """The jobs to replay; the others are counted by the first condition at which they fail."""
    submitted, queue = log.column(SwfField.SUBMIT_TIME), log.column(SwfField.QUEUE)
    everything = np.ones(len(log), dtype=np.bool_)
    before_s = reading.submitted_before_s
    conditions: list[tuple[str, BoolArray]] = [
        ("partial runs of jobs that have a line of their own", ~np.isin(log.column(SwfField.STATUS), PARTIAL_RUNS)),
        ("jobs of other queues", everything if reading.queues is None else np.isin(queue, sorted(reading.queues))),
        ("jobs submitted earlier", submitted >= reading.submitted_from_s),
        ("jobs submitted later", everything if before_s is None else submitted < before_s),
        ("jobs that never ran", log.column(SwfField.RUN_TIME) >= 0),
        ("jobs that state no processors", _processors(log) > 0),
        (f"jobs of more than {MOST_MACHINES} VMs", _widths(log, reading) <= MOST_MACHINES),
        (f"jobs that ask for more than {LONGEST_S} s", _estimates_s(log, reading) <= LONGEST_S),
    ]
    kept = everything
    for reason, holds in conditions:
        left_out[reason] += int(np.count_nonzero(kept & ~holds))
        kept = kept & holds
    return log.only(kept)


def _processors(log: SwfLog) -> IntArray:
    requested, allocated = log.column(SwfField.REQUESTED_PROCESSORS), log.column(SwfField.ALLOCATED_PROCESSORS)
    return np.where(requested > 0, requested, allocated)


def _widths(log: SwfLog, reading: SwfReading) -> IntArray:
    """VMs of each job."""
    return -(-_processors(log) // reading.processors_per_vm)


def _estimates_s(log: SwfLog, reading: SwfReading) -> IntArray:
    """The requested times, or what stands in for them; 0: unknown."""
    run_s, asked_s = log.column(SwfField.RUN_TIME), log.column(SwfField.REQUESTED_TIME)
    instead_s = np.maximum(run_s, 1) if reading.missing_estimate is MissingEstimate.RUN_TIME else np.zeros_like(run_s)
    return np.where(asked_s > 0, asked_s, instead_s)


def _requests(log: SwfLog, reading: SwfReading) -> Iterator[WorkloadRequest]:
    shapes = _SharedShapes(reading.cpu_centi)
    columns = (
        log.column(SwfField.JOB_NUMBER), log.column(SwfField.SUBMIT_TIME) - reading.submitted_from_s,
        _widths(log, reading), _memory_mib(log, reading), _estimates_s(log, reading), log.column(SwfField.RUN_TIME),
        log.column(SwfField.USER), log.column(SwfField.GROUP), log.column(SwfField.QUEUE),
    )  # fmt: skip
    for number, submitted, width, memory, estimated, run, user, group, queue in zip(
        *(column.tolist() for column in columns), strict=True
    ):
        yield WorkloadRequest(
            number,
            submitted,
            shapes[width, memory],
            estimated or None,
            run,
            lease_type=reading.lease_type,
            user=user,
            group=group,
            queue=queue,
        )


class _SharedShapes(dict[tuple[int, int], tuple[MachineSet]]):
    """VM sets by (VMs, MiB a VM): jobs of one shape share the value, of which a log has few."""

    def __init__(self, cpu_centi: int) -> None:
        super().__init__()
        self._cpu_centi = cpu_centi

    def __missing__(self, shape: tuple[int, int]) -> tuple[MachineSet]:
        width, memory_mib = shape
        return self.setdefault(shape, (MachineSet(width, self._cpu_centi, memory_mib),))


def _memory_mib(log: SwfLog, reading: SwfReading) -> IntArray:
    stated_kib = log.column(SwfField.REQUESTED_MEMORY) * reading.processors_per_vm
    fixed = np.full(len(stated_kib), reading.memory_mib)
    return np.where(stated_kib > 0, -(-stated_kib // KIB_PER_MIB), fixed) if reading.memory_from_log else fixed


def _site(log: SwfLog, reading: SwfReading) -> tuple[MachineSet, ...]:
    """The machine of the log as nodes that take whole VMs; one VM a node where its own nodes are unknown or smaller."""
    processors = log.header.max_procs or 0
    nodes = log.header.max_nodes or processors
    if 0 < processors < nodes * reading.processors_per_vm:
        nodes = processors // reading.processors_per_vm
    if not nodes:
        return ()
    if nodes > MOST_NODES:
        label = "MaxNodes" if log.header.max_nodes else "MaxProcs"
        coarser = ", or let a VM stand for more processors (--processors-per-vm)" if processors else ""
        raise OnePreemptError(
            f"{log.source}: by {label} of its header it has {nodes} nodes, and {MOST_NODES} are the most: mend the "
            f"header{coarser}"
        )
    # Where nodes are unlike, which is which is not said: the machine has as much as it says, some nodes one VM more.
    vms_per_node, larger = divmod(max(nodes, processors // reading.processors_per_vm), nodes)
    sets = ((larger, vms_per_node + 1), (nodes - larger, vms_per_node))
    return tuple(MachineSet(count, reading.cpu_centi * vms, reading.memory_mib * vms) for count, vms in sets if count)


def swf_from_workload(workload: Workload, processors_per_vm: int = 1) -> SwfLog:
    """A workload as a log of jobs that ran; what the format cannot say (starts, deadlines, types) is lost."""
    header = [" Version: 2.2", f" MaxJobs: {len(workload)}", f" MaxRecords: {len(workload)}"]
    if workload.recorded_from_s is not None:
        header.append(f" UnixStartTime: {workload.recorded_from_s}")
    if workload.site:
        nodes = sum(node_set.count for node_set in workload.site)
        vms = sum(node_set.count * _vms_on_one(node_set, workload) for node_set in workload.site)
        header += [f" MaxNodes: {nodes}", f" MaxProcs: {vms * processors_per_vm}"]
    header += [f" Note: {step}" for step in workload.provenance]
    jobs = np.full((len(workload), len(SwfField)), float(UNKNOWN_ID))
    for row, request in zip(jobs, workload.requests, strict=True):
        row[SwfField.JOB_NUMBER] = request.id
        row[SwfField.SUBMIT_TIME] = request.submitted_at_s
        row[SwfField.RUN_TIME] = request.actual_duration_s
        row[SwfField.REQUESTED_PROCESSORS] = request.virtual_machines * processors_per_vm
        row[SwfField.REQUESTED_TIME] = request.requested_duration_s or UNKNOWN_ID
        row[SwfField.REQUESTED_MEMORY] = request.vm_sets[0].memory_mib * KIB_PER_MIB // processors_per_vm
        row[SwfField.STATUS] = SwfStatus.COMPLETED
        row[SwfField.USER], row[SwfField.GROUP], row[SwfField.QUEUE] = request.user, request.group, request.queue
    return SwfLog(SwfHeader(tuple(header)), columns_of(jobs))


def _vms_on_one(node: MachineSet, workload: Workload) -> int:
    """How many of the workload's largest VMs a node takes by their CPUs, at least one."""
    largest = max((vm_set.cpu_centi for request in workload.requests for vm_set in request.vm_sets), default=0)
    return max(1, node.cpu_centi // largest) if largest else 1
