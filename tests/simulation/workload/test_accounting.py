"""An OpenNebula's accounting, as `oneacct -x` prints it, read as a workload."""

from __future__ import annotations

import gzip
import io
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from one_preempt.core.model.lease import LeaseType
from one_preempt.errors import OnePreemptError
from one_preempt.simulation.scenario.trace import TraceReading, read_trace
from one_preempt.simulation.workload.accounting import parse_accounting
from one_preempt.simulation.workload.scaling import with_overruns_cut
from one_preempt.simulation.workload.swf_workload import SwfReading
from one_preempt.simulation.workload.workload import LeftOut, MachineSet, StartKind, Workload, WorkloadRequest

EXAMPLE = Path(__file__).parents[2] / "traces" / "accounting.xml"
# 2026-11-01T00:00:00Z.
BEGIN_S = 1793491200


def at(offset_s: int) -> int:
    """An instant of the file; 0 stays 0, which is "not yet" there."""
    return offset_s and BEGIN_S + offset_s


def record(
    vm: int = 1,
    seq: int = 0,
    created: int = 1,
    ran: tuple[int, int] = (10, 110),
    left: int | None = None,
    lease: str = "",
    cpu: str = "1",
    memory: str = "512",
    host: str = "0",
    user: int = 5,
    rest: str = "",
) -> str:
    """A stay; times count from BEGIN_S. `left` is when it left its host, if not when it stopped running."""
    from_s, until_s = map(at, ran)
    attribute = f"<LEASE>{lease}</LEASE>" if lease else ""
    return (
        f"<HISTORY><OID>{vm}</OID><SEQ>{seq}</SEQ><HID>{host}</HID><STIME>{from_s or at(created)}</STIME>"
        f"<ETIME>{until_s if left is None else at(left)}</ETIME><RSTIME>{from_s}</RSTIME><RETIME>{until_s}</RETIME>"
        f"<VM><ID>{vm}</ID><UID>{user}</UID><GID>100</GID><STIME>{at(created)}</STIME><ETIME>0</ETIME>"
        f"<TEMPLATE><CPU>{cpu}</CPU><MEMORY><![CDATA[{memory}]]></MEMORY></TEMPLATE>"
        f"<USER_TEMPLATE>{rest}{attribute}</USER_TEMPLATE><HISTORY_RECORDS/></VM></HISTORY>"
    )


def parsed(*records: str, skip: bool = False) -> Workload:
    document = f"<HISTORY_RECORDS>\n{chr(10).join(records)}\n</HISTORY_RECORDS>"
    return parse_accounting(io.BytesIO(document.encode()), "month.xml", skip)


def only(*records: str) -> WorkloadRequest:
    (request,) = parsed(*records).requests
    return request


def terms(**values: str) -> str:
    return "".join(f"<{key}><![CDATA[{text}]]></{key}>" for key, text in values.items())


def test_what_oneacct_prints_is_read() -> None:
    workload = read_trace(EXAMPLE)
    requests = {request.id: request for request in workload.requests}
    assert sorted(requests) == [10, 20, 22, 24, 25, 26, 30]
    # Two VMs of one LEASE, stopped together and brought back; and a later one that goes by the same NAME.
    assert requests[20] == WorkloadRequest(
        id=20,
        submitted_at_s=9527,
        vm_sets=(MachineSet(2, 400, 512),),
        requested_duration_s=11 + 73 + 1,
        actual_duration_s=11 + 73 + 1,
        lease_type=LeaseType.BE_SUSPENDABLE,
        user=2,
        group=101,
    )
    assert requests[26].virtual_machines == 1
    assert (requests[22].requested_duration_s, requests[22].max_suspensions) == (600, 1)
    assert requests[24].lease_type is LeaseType.BE_CANCELLABLE
    assert (requests[25].start, requests[25].deadline_at_s) == (StartKind.DEADLINE, 9927)
    assert (requests[30].start, requests[30].start_at_s) == (StartKind.EXACT, 10021)
    assert (workload.recorded_from_s, workload.left_out) == (BEGIN_S, (LeftOut("VMs that never ran", 1),))
    # Both VMs of that lease ran on one host.
    assert workload.site == (MachineSet(1, 800, 1024), MachineSet(4, 800, 512), MachineSet(1, 800, 256))


def test_all_stays_of_a_vm_are_one_request_and_what_lies_between_them_is_not_counted() -> None:
    stays = [
        record(ran=(10, 110), left=120, host="1"),
        record(seq=1, ran=(500, 530), host="2"),
        # The target of a migration that failed.
        record(seq=2, ran=(0, 0), left=535, host="3"),
        record(seq=3, ran=(540, 545), host="2"),
    ]
    request = only(*reversed(stays))
    assert (request.submitted_at_s, request.actual_duration_s, request.requested_duration_s) == (0, 135, 135)
    assert (request.lease_type, request.start) == (LeaseType.BE_SUSPENDABLE, StartKind.BEST_EFFORT)
    assert (request.user, request.group) == (5, 100)


def test_a_vm_whose_first_stays_lie_before_the_file_is_submitted_when_the_next_one_began() -> None:
    lease = terms(TYPE="DC-MIGRATABLE", DURATION="00:10:00", DEADLINE="2026-11-01T00:05:00Z")
    workload = parsed(
        record(1, seq=2, created=-90_000, ran=(100, 130), lease=lease),
        record(2, seq=1, created=-80_000, ran=(500, 510), lease=lease),
    )
    assert [(request.submitted_at_s, request.actual_duration_s) for request in workload.requests] == [
        (0, 30),
        (400, 10),
    ]
    # Its deadline had passed by then.
    assert [request.start for request in workload.requests] == [StartKind.DEADLINE, StartKind.BEST_EFFORT]


def test_a_vm_that_still_runs_ends_at_the_last_instant_of_the_file() -> None:
    workload = parsed(record(1, ran=(10, 0), left=0), record(2, created=20, ran=(30, 100), left=130))
    assert [request.actual_duration_s for request in workload.requests] == [120, 70]
    assert workload.provenance == ("read from month.xml, 1 VMs that still ran end at its last instant",)


def test_a_vm_that_was_lost_with_its_host_ran_until_it_left_it() -> None:
    assert only(record(ran=(10, 0), left=60), record(seq=1, ran=(100, 101))).actual_duration_s == 51


def test_a_stay_without_an_end_ends_when_the_next_one_began_in_whichever_order_they_are_written() -> None:
    first, second = record(ran=(10, 0), left=0), record(seq=1, ran=(100, 101), cpu="4")
    for request in (only(first, second), only(second, first)):
        assert (request.actual_duration_s, request.vm_sets) == (91, (MachineSet(1, 100, 512),))


def test_vms_that_never_ran_are_left_out_and_counted() -> None:
    workload = parsed(record(1), record(2, ran=(0, 0), left=50))
    assert ([request.id for request in workload.requests], workload.left_out) == (
        [1],
        (LeftOut("VMs that never ran", 1),),
    )


@pytest.mark.parametrize(
    ("lease", "kind", "start_at_s", "deadline_at_s"),
    [
        (terms(TYPE="DC-NON-PREEMPTABLE", START="2026-11-01T01:00:00Z"), StartKind.EXACT, 3599, None),
        (terms(TYPE="DC-NON-PREEMPTABLE", START="+01:00:00"), StartKind.EXACT, 3600, None),
        # It had passed when the VM was created.
        (terms(TYPE="DC-NON-PREEMPTABLE", START="2026-10-01T01:00:00Z"), StartKind.EXACT, 0, None),
        (terms(TYPE="DC-NON-PREEMPTABLE", START="now"), StartKind.IMMEDIATE, None, None),
        (
            terms(TYPE="dc-migratable", DURATION="00:10:00", DEADLINE="2026-11-01T02:00:00Z"),
            StartKind.DEADLINE, None, 7199,
        ),
    ],
)  # fmt: skip
def test_starts_and_deadlines_are_those_of_the_lease(
    lease: str, kind: StartKind, start_at_s: int | None, deadline_at_s: int | None
) -> None:
    request = only(record(lease=lease))
    assert (request.start, request.start_at_s, request.deadline_at_s) == (kind, start_at_s, deadline_at_s)
    assert request.lease_type in (LeaseType.DC_NON_PREEMPTABLE, LeaseType.DC_MIGRATABLE)


def test_a_duration_is_what_was_asked_for_and_overruns_can_be_cut() -> None:
    long = record(lease=terms(TYPE="BE-CANCELLABLE", DURATION="00:01:00"))
    (whole,), (cut,) = parsed(long).requests, with_overruns_cut(parsed(long)).requests
    assert (whole.requested_duration_s, whole.actual_duration_s) == (60, 100)
    assert (cut.requested_duration_s, cut.actual_duration_s) == (60, 60)


@pytest.mark.parametrize(
    "lease",
    [
        "in words",
        terms(TYPE="BE-WHATEVER"),
        terms(DURATION="00:01:00"),
        terms(TYPE="DC-MIGRATABLE", DURATION="00:00:10", DEADLINE="2026-10-01T02:00:00Z"),
    ],
)
def test_a_lease_that_would_be_refused_counts_as_none(lease: str) -> None:
    workload = parsed(record(lease=lease))
    assert (workload.requests, workload.site) == (parsed(record()).requests, parsed(record()).site)
    assert workload.provenance[0].endswith("the LEASE of 1 VMs is unusable and counts as none")


def test_vms_of_one_owner_and_name_are_one_request_of_the_size_that_they_state() -> None:
    lease = terms(TYPE="BE-SUSPENDABLE", NAME="sweep", SIZE="2")
    workload = parsed(
        record(1, lease=lease),
        record(2, lease=lease, created=5, ran=(10, 60), memory="256"),
        # The same name of another owner; and once more of the first one, when his first lease is full, or long over.
        record(3, lease=lease, user=6),
        record(4, lease=lease, created=30),
        record(5, lease=lease, created=9000, ran=(9001, 9002)),
        record(6, lease=lease, created=9000, ran=(9001, 9002)),
    )
    assert [(request.id, request.virtual_machines) for request in workload.requests] == [
        (3, 1), (1, 2), (4, 1), (5, 2),
    ]  # fmt: skip
    both = workload.requests[1]
    # It is there when its last VM is, and takes as long as the longest.
    assert (both.submitted_at_s, both.actual_duration_s) == (4, 100)
    assert both.vm_sets == (MachineSet(1, 100, 512), MachineSet(1, 100, 256))


def test_hosts_are_as_large_as_what_ran_on_them_at_once() -> None:
    workload = parsed(
        record(1, ran=(10, 100), cpu="0.5"),
        record(2, ran=(50, 120), cpu="2", memory="1024"),
        record(3, ran=(120, 200), cpu="1", memory="128"),
        record(4, ran=(10, 10), cpu="8", memory="64", host="7"),
    )
    assert workload.site == (MachineSet(1, 800, 64), MachineSet(1, 250, 1536))


@settings(max_examples=40)
@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 30), st.integers(1, 8), st.integers(0, 2)), max_size=12))
def test_what_ran_together_fits_on_the_hosts_of_the_file(runs: list[tuple[int, int, int, int]]) -> None:
    workload = parsed(
        *(
            record(vm, ran=(10 + begin, 10 + begin + lasts), cpu=str(cpus), memory=str(64 * cpus), host=str(host))
            for vm, (begin, lasts, cpus, host) in enumerate(runs)
        )
    )
    most: list[tuple[int, int]] = []
    for used in {host for *_, host in runs}:
        there = [run for run in runs if run[3] == used]
        together = (
            sum(cpus for begin, lasts, cpus, _ in there if begin <= now_s < begin + max(1, lasts))
            for now_s in range(91)
        )
        cpus = max(together)
        most.append((100 * cpus, 64 * cpus))
    sizes = [(one.cpu_centi, one.memory_mib) for one in workload.site for _ in range(one.count)]
    assert sizes == sorted(most, reverse=True)
    assert len(workload.site) == len(set(most))


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (record(9, host="x"), r"month\.xml:3: record 2 \(VM 9\): HID 'x' is not a whole number from 0 to \d+\."),
        (record(9, memory=""), r"record 2 \(VM 9\): VM/TEMPLATE/MEMORY '' is not a whole number from 1"),
        (record(9, cpu="nan"), r"record 2 \(VM 9\): VM/TEMPLATE/CPU 'nan' is not an amount of CPUs"),
        (record(9, cpu="0"), r"month\.xml:3: VM 9: a VM without CPU or memory"),
        (record(9, created=-BEGIN_S), r"record 2 \(VM 9\): VM/STIME '0' is not a whole number from 1"),
        (record(9, created=10**15), r"record 2 \(VM 9\): VM/STIME '1\d+' is not a whole number from 1 to \d+\."),
        (record(9, ran=(50, 40)), r"record 2 \(VM 9\): it stopped running at \d+ \(RETIME, ETIME\), before RSTIME"),
        (record(9, ran=(50, 400_000_000)), r"month\.xml:3: VM 9: a requested duration of \d+ s: \d+ s is the most"),
        (record(1), r"record 2 \(VM 1\): SEQ 0 of this VM is there twice"),
        ("<HISTORY/>", r"record 2 \(VM \?\): OID '' is not a whole number"),
        (
            "<HISTORY><OID>7\n&#x202e;</OID></HISTORY>",
            r"record 2 \(VM 7\): OID '7' is not a whole number",
        ),
    ],
)
def test_a_record_that_cannot_be_understood_is_named_or_left_out(bad: str, message: str) -> None:
    with pytest.raises(OnePreemptError, match=message):
        parsed(record(1), bad)
    workload = parsed(record(1), bad, skip=True)
    assert (workload.requests, workload.left_out) == (parsed(record(1)).requests, (LeftOut("bad records", 1),))


def test_records_that_a_user_writes_into_his_vm_are_none() -> None:
    forged = f"<HISTORY_RECORDS>{record(2)}</HISTORY_RECORDS><HISTORY>{record(3)}</HISTORY>"
    assert [request.id for request in parsed(record(1, rest=forged)).requests] == [1]


BOMB = '<!DOCTYPE a [<!ENTITY b "bbbbbbbb"><!ENTITY c "&b;&b;&b;&b;">]>'


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            f"{BOMB}<HISTORY_RECORDS><HISTORY><OID>&c;</OID></HISTORY></HISTORY_RECORDS>",
            "without a DOCTYPE, as oneacct",
        ),
        ("<VM_POOL><VM/></VM_POOL>", r"month\.xml:1: <VM_POOL> is not a <HISTORY_RECORDS> .*, as oneacct -x prints it"),
        ("<HISTORY_RECORDS><HISTORY>", r"month\.xml:1: not XML"),
        ("[one.vmpool.accounting] User couldn't be authenticated, aborting.", r"month\.xml:1: not XML"),
        ("", r"not XML"),
    ],
)
def test_what_is_no_accounting_is_refused(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "month.xml").write_text(content)
    with pytest.raises(OnePreemptError, match=message):
        read_trace(tmp_path / "month.xml", TraceReading(skip_bad_lines=True))


def test_a_month_without_a_vm_is_no_mistake() -> None:
    assert parsed() == Workload((), "month.xml", provenance=("read from month.xml",))


def test_accounting_tells_no_processors(tmp_path: Path) -> None:
    path = tmp_path / "month"
    path.write_bytes(gzip.compress(f"<HISTORY_RECORDS>{record()}</HISTORY_RECORDS>".encode()))
    assert len(read_trace(path)) == 1
    with pytest.raises(OnePreemptError, match=r"month \(accounting\) is no log \(SWF\): leave out processors"):
        read_trace(path, TraceReading(SwfReading(8)))
