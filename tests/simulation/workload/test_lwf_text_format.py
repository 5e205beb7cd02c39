from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path

import pytest

from one_preempt.core.model.lease import LeaseType
from one_preempt.errors import OnePreemptError
from one_preempt.simulation.workload.lwf_text import parse_lwf_text, read_lwf_text
from one_preempt.simulation.workload.workload import LeftOut, MachineSet, StartKind, Workload, WorkloadRequest

TRACES = os.environ.get("ONE_PREEMPT_TRACES", "")
INJECTIONS = "haizea-blue-30days-injected-ARs.tar.gz"
RESERVATION = "100 86500 11688 11000 39 1 1024 0 'NONE.img' 600"


def parsed(*lines: str, skip: bool = False) -> Workload:
    return parse_lwf_text(io.BytesIO("\n".join(lines).encode()), "ars.lwf", skip)


def test_a_line_is_an_advance_reservation() -> None:
    assert parsed("# reservations", "", RESERVATION).requests == (
        WorkloadRequest(
            id=1,
            submitted_at_s=100,
            vm_sets=(MachineSet(39, 100, 1024),),
            requested_duration_s=11688,
            actual_duration_s=11000,
            start=StartKind.EXACT,
            start_at_s=86500,
            lease_type=LeaseType.DC_NON_PREEMPTABLE,
            image="NONE.img",
            image_mib=600,
        ),
    )


def test_a_start_of_minus_one_is_a_best_effort_lease_and_other_negative_ones_are_now() -> None:
    best_effort, early = parsed("0 -1 60 60 1 2 512 0 a.img 1", "0 -1602 60 60 1 1 512 0 a.img 1").requests
    assert (best_effort.start, best_effort.start_at_s) == (StartKind.BEST_EFFORT, None)
    assert best_effort.lease_type is LeaseType.BE_SUSPENDABLE
    assert best_effort.vm_sets == (MachineSet(1, 200, 512),)
    assert (early.start, early.start_at_s) == (StartKind.EXACT, 0)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("0 1 2", "3 fields where a lease has 10: '0 1 2'"),
        (RESERVATION.replace("39", "many"), r"field 5 \(nodes\): 'many' is not a whole number"),
        (RESERVATION.replace("39", "0"), r"field 5 \(nodes\): '0' is not a whole number from 1 to 10000"),
        (RESERVATION.replace("39", "1000001"), r"field 5 \(nodes\)"),
        (RESERVATION.replace(" 1 1024", " 0 1024"), r"field 6 \(CPUs\): '0' is not a whole number from 1"),
        (RESERVATION.replace("1024", "0"), r"field 7 \(memory\): '0' is not a whole number from 1 to 999999999999"),
        (RESERVATION.replace("1024", "1000000000000"), r"field 7 \(memory\)"),
        (RESERVATION.replace("11688", "0"), r"field 3 \(duration\): '0' is not a whole number from 1"),
        (RESERVATION.replace("86500", "50"), "before its submission"),
    ],
)
def test_a_bad_line_is_named_by_file_line_and_field(line: str, words: str) -> None:
    with pytest.raises(OnePreemptError, match=r"^ars\.lwf:2: .*" + words):
        parsed(RESERVATION, line)
    workload = parsed(RESERVATION, line, RESERVATION, skip=True)
    # Its number stays free: the lines behind it keep theirs.
    assert [request.id for request in workload.requests] == [1, 3]
    assert workload.left_out == (LeftOut("bad lines", 1),)


@pytest.mark.skipif(not TRACES, reason="ONE_PREEMPT_TRACES names no folder of traces")
def test_all_injected_reservations_of_haizea_are_read(tmp_path: Path) -> None:
    with tarfile.open(Path(TRACES) / INJECTIONS) as archive:
        archive.extractall(tmp_path, filter="data")
    files = sorted(tmp_path.rglob("*.lwf"))
    assert len(files) == 72
    for file in files:
        share = int(file.name[5:7]) / 100
        assert read_lwf_text(file).work_vm_s / (144 * 30 * 86_400) == pytest.approx(share, rel=0.01)
