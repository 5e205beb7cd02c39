from __future__ import annotations

import io
import os
from pathlib import Path

import pytest

from one_preempt.core.model.lease import LeaseType
from one_preempt.errors import OnePreemptError
from one_preempt.simulation.workload.swf import SwfField, SwfLog, format_swf, parse_swf, read_swf
from one_preempt.simulation.workload.swf_workload import (
    MissingEstimate,
    SwfReading,
    swf_from_workload,
    workload_from_swf,
)
from one_preempt.simulation.workload.workload import LeftOut, MachineSet, StartKind, Workload, WorkloadRequest

SLICE = Path(__file__).parents[2] / "traces" / "haizea-blue-30days.swf.gz"
TRACES = os.environ.get("ONE_PREEMPT_TRACES", "")
with_traces = pytest.mark.skipif(not TRACES, reason="ONE_PREEMPT_TRACES names no folder of traces")


def log_of(*jobs: dict[SwfField, int], header: str = "") -> SwfLog:
    """A log of jobs of 8 processors for 60 of 120 s, but for what is said; numbers 1, 2, 3, ..."""
    lines = []
    for number, changes in enumerate(jobs, 1):
        words = [number, 10 * number, 5, 60, 8, -1, -1, 8, 120, -1, 1, 7, 3, -1, 2, -1, -1, -1]
        for name, value in changes.items():
            words[name] = value
        lines.append(" ".join(map(str, words)))
    return parse_swf(io.BytesIO((header + "\n".join(lines)).encode()), "log.swf")


def only(log: SwfLog, reading: SwfReading | None = None) -> WorkloadRequest:
    (request,) = workload_from_swf(log, reading).requests
    return request


def test_a_job_is_a_best_effort_lease_of_equal_vms() -> None:
    assert only(log_of({}), SwfReading(cpu_centi=50, memory_mib=256)) == WorkloadRequest(
        id=1,
        submitted_at_s=10,
        vm_sets=(MachineSet(8, 50, 256),),
        requested_duration_s=120,
        actual_duration_s=60,
        start=StartKind.BEST_EFFORT,
        lease_type=LeaseType.BE_SUSPENDABLE,
        user=7,
        group=3,
        queue=2,
    )


@pytest.mark.parametrize(("processors", "vms"), [(1, 1), (7, 1), (8, 1), (9, 2), (16, 2), (17, 3)])
def test_processors_become_vms_rounded_up(processors: int, vms: int) -> None:
    log = log_of({SwfField.REQUESTED_PROCESSORS: processors})
    assert only(log, SwfReading(processors_per_vm=8)).virtual_machines == vms


@pytest.mark.parametrize(("requested", "allocated", "vms"), [(4, 8, 4), (-1, 8, 8), (0, 8, 8)])
def test_the_width_is_what_was_requested_else_what_was_allocated(requested: int, allocated: int, vms: int) -> None:
    job = {SwfField.REQUESTED_PROCESSORS: requested, SwfField.ALLOCATED_PROCESSORS: allocated}
    assert only(log_of(job)).virtual_machines == vms


def test_memory_is_taken_from_the_log_where_that_is_asked_for_and_stated() -> None:
    reading = SwfReading(processors_per_vm=8, memory_mib=512, memory_from_log=True)
    assert only(log_of({SwfField.REQUESTED_MEMORY: 1025}), reading).vm_sets[0].memory_mib == 9
    assert only(log_of({}), reading).vm_sets[0].memory_mib == 512


def test_without_a_requested_time_the_run_time_is_the_estimate_or_there_is_none() -> None:
    log = log_of({SwfField.REQUESTED_TIME: -1})
    assert only(log).requested_duration_s == 60
    assert only(log, SwfReading(missing_estimate=MissingEstimate.UNKNOWN)).requested_duration_s is None
    assert only(log_of({SwfField.REQUESTED_TIME: -1, SwfField.RUN_TIME: 0})).requested_duration_s == 1


def test_what_cannot_be_replayed_is_counted_under_the_first_reason() -> None:
    log = log_of(
        {SwfField.STATUS: 3, SwfField.QUEUE: 9},
        {SwfField.QUEUE: 9, SwfField.RUN_TIME: -1},
        {SwfField.RUN_TIME: -1},
        {SwfField.REQUESTED_PROCESSORS: -1, SwfField.ALLOCATED_PROCESSORS: -1},
        {},
        {SwfField.SUBMIT_TIME: 29},
        {SwfField.SUBMIT_TIME: 100},
    )
    workload = workload_from_swf(log, SwfReading(queues=frozenset({2}), submitted_from_s=30, submitted_before_s=100))
    assert [(request.id, request.submitted_at_s) for request in workload.requests] == [(5, 20)]
    assert workload.left_out == (
        LeftOut("partial runs of jobs that have a line of their own", 1),
        LeftOut("jobs of other queues", 1),
        LeftOut("jobs submitted earlier", 1),
        LeftOut("jobs submitted later", 1),
        LeftOut("jobs that never ran", 1),
        LeftOut("jobs that state no processors", 1),
    )


def test_jobs_that_no_lease_can_ask_for_are_left_out() -> None:
    log = log_of(
        {SwfField.REQUESTED_PROCESSORS: 80_000}, {SwfField.REQUESTED_PROCESSORS: 80_001},
        {SwfField.REQUESTED_TIME: 315_360_001},
    )  # fmt: skip
    workload = workload_from_swf(log, SwfReading(processors_per_vm=8))
    assert [request.virtual_machines for request in workload.requests] == [10_000]
    assert workload.left_out == (
        LeftOut("jobs of more than 10000 VMs", 1), LeftOut("jobs that ask for more than 315360000 s", 1),
    )  # fmt: skip


def test_skipped_bad_lines_are_among_what_is_left_out() -> None:
    log = parse_swf(io.BytesIO(b"no job\n"), "log.swf", skip_bad_lines=True)
    assert workload_from_swf(log).left_out == (LeftOut("bad lines", 1),)


@pytest.mark.parametrize(
    ("header", "per_vm", "site"),
    [
        ("; MaxNodes: 144\n; MaxProcs: 1152\n", 8, (MachineSet(144, 100, 1024),)),
        ("; MaxNodes: 144\n; MaxProcs: 1152\n", 1, (MachineSet(144, 800, 8192),)),
        ("; MaxProcs: 1152\n", 8, (MachineSet(144, 100, 1024),)),
        ("; MaxNodes: 256\n", 1, (MachineSet(256, 100, 1024),)),
        # Of unlike nodes none of the machine is lost.
        ("; MaxNodes: 184 (6, 171, 7)\n; MaxProcs: 1664\n", 8, (MachineSet(24, 200, 2048), MachineSet(160, 100, 1024))),
        ("; MaxNodes: 184\n; MaxProcs: 1,664\n", 1, (MachineSet(8, 1000, 10240), MachineSet(176, 900, 9216))),
        # A VM that stands for more than a node of the log does not come with so many nodes.
        ("; MaxNodes: 100\n; MaxProcs: 100\n", 8, (MachineSet(12, 100, 1024),)),
        ("; MaxNodes: 144\n; MaxProcs: 1152\n", 16, (MachineSet(72, 100, 1024),)),
        ("; MaxNodes: 2\n; MaxProcs: 4\n", 8, ()),
        ("; Computer: unknown\n", 1, ()),
    ],
)
def test_the_header_gives_the_site(header: str, per_vm: int, site: tuple[MachineSet, ...]) -> None:
    assert workload_from_swf(log_of({}, header=header), SwfReading(processors_per_vm=per_vm)).site == site


@pytest.mark.parametrize(
    ("header", "told"),
    [
        ("; MaxNodes: 999999999\n", r"by MaxNodes .* has 999999999 nodes, and 1000000 are the most: mend the header$"),
        ("; MaxProcs: 10649600\n", r"by MaxProcs .* 10649600 nodes.* \(--processors-per-vm\)$"),
        ("; MaxNodes: 2000000\n; MaxProcs: 2000000\n", r"by MaxNodes .* 2000000 nodes.*\(--processors-per-vm\)$"),
    ],
)
def test_a_header_with_more_nodes_than_any_machine_has_is_named(header: str, told: str) -> None:
    with pytest.raises(OnePreemptError, match=r"^log\.swf: " + told):
        workload_from_swf(log_of({}, header=header))
    if "MaxProcs" in header:
        assert workload_from_swf(log_of({}, header=header), SwfReading(processors_per_vm=64)).site


def test_the_window_moves_the_instant_of_recording() -> None:
    log = log_of({}, header="; UnixStartTime: 1000\n")
    assert workload_from_swf(log).recorded_from_s == 1000
    assert workload_from_swf(log, SwfReading(submitted_from_s=10)).recorded_from_s == 1010


def test_a_reading_that_makes_no_sense_is_refused() -> None:
    with pytest.raises(OnePreemptError, match="processors per VM 0"):
        SwfReading(processors_per_vm=0)


def test_the_blue_slice_has_5108_jobs_that_ran() -> None:
    workload = workload_from_swf(read_swf(SLICE))
    assert len(workload) == 5108
    assert workload.left_out == (LeftOut("jobs that never ran", 437),)
    widths = [request.virtual_machines for request in workload.requests]
    assert (min(widths), max(widths)) == (1, 140)
    over_runs = [r for r in workload.requests if r.actual_duration_s > r.planned_duration_s]
    assert len(over_runs) == 512
    assert workload.work_vm_s / (144 * 30 * 86_400) == pytest.approx(0.704, abs=0.0005)
    assert workload.work_vm_s / (512 * 30 * 86_400) == pytest.approx(0.198, abs=0.0005)


def test_a_workload_written_as_a_log_reads_as_it_was() -> None:
    original = workload_from_swf(read_swf(SLICE), SwfReading(memory_mib=2048))
    log = parse_swf(io.BytesIO(format_swf(swf_from_workload(original, 8)).encode()), "copy.swf")
    again = workload_from_swf(log, SwfReading(processors_per_vm=8, memory_from_log=True))
    assert again.requests == original.requests


def test_nodes_of_several_vms_read_as_they_were_written() -> None:
    original = workload_from_swf(log_of({}, header="; MaxNodes: 144\n; MaxProcs: 1152\n"))
    copy = parse_swf(io.BytesIO(format_swf(swf_from_workload(original)).encode()), "copy.swf")
    assert workload_from_swf(copy).site == original.site == (MachineSet(144, 800, 8192),)


def test_site_and_begin_are_written_into_the_header() -> None:
    workload = Workload((), site=(MachineSet(4, 100, 1024), MachineSet(2, 200, 1024)), recorded_from_s=77)
    header = swf_from_workload(workload, 8).header
    assert (header.max_nodes, header.max_procs, header.unix_start_time) == (6, 48, 77)


@with_traces
def test_the_slice_comes_out_of_the_whole_blue_log() -> None:
    whole = read_swf(Path(TRACES) / "SDSC-BLUE-2000-4.2-cln.swf.gz")
    reading = SwfReading(8, queues=frozenset({1, 2, 3, 4}), submitted_from_s=440_070, submitted_before_s=3_032_070)
    ran = workload_from_swf(whole, reading)
    # The slice is of an older conversion of the log, in which five jobs more count as cancelled.
    assert len(ran) == 5113
    assert {r.id for r in workload_from_swf(read_swf(SLICE)).requests} < {r.id for r in ran.requests}


@with_traces
def test_the_whole_blue_log_is_read() -> None:
    workload = workload_from_swf(read_swf(Path(TRACES) / "SDSC-BLUE-2000-4.2-cln.swf.gz"), SwfReading(8))
    assert len(workload) == 232_562
    assert workload.site == (MachineSet(144, 100, 1024),)


@with_traces
@pytest.mark.parametrize("path", sorted(Path(TRACES).glob("*.swf.gz")) if TRACES else [], ids=lambda path: path.name)
def test_every_trace_is_read_without_a_bad_line(path: Path) -> None:
    log = read_swf(path)
    workload = workload_from_swf(log)
    assert len(workload) + sum(left_out.count for left_out in workload.left_out) == len(log)
