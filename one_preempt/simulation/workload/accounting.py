"""An OpenNebula's accounting as a workload: what `oneacct -x` prints, a request for each VM that ran.

A record (HISTORY) is a stay of a VM on a host, with the VM as it was when the stay began. All stays of a VM are one
request; so are the VMs of a lease of several (one owner, NAME and SIZE). What the accounting does not know: how long
owners thought it would take, unless they wrote a DURATION, VMs that never got a host, and how large hosts are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from one_preempt.core.model.lease import LeaseTerms, LeaseType
from one_preempt.simulation.workload.accounting_records import Record, read_records, ready_at_s
from one_preempt.simulation.workload.accounting_site import Stay, smallest_hosts
from one_preempt.simulation.workload.trace_files import BadLineCounter, ByteStream, open_trace
from one_preempt.simulation.workload.workload import LeftOut, MachineSet, StartKind, Workload, WorkloadRequest

# As for the jobs of logs.
_WITHOUT_LEASE = LeaseTerms(LeaseType.BE_SUSPENDABLE)


class _Run(Struct, frozen=True):
    """A VM that ran: its first record, when it ran on which hosts, and whether it still did at the end of the file."""

    id: int
    first: Record
    stays: tuple[Stay, ...]
    still_runs: bool

    @property
    def duration_s(self) -> int:
        """How long it ran in all."""
        return sum(stay.until_s - stay.from_s for stay in self.stays)

    @property
    def ended_at_s(self) -> int:
        """When it ran last."""
        return max(stay.until_s for stay in self.stays)


def read_accounting_file(path: Path | str, skip_bad_lines: bool) -> Workload:
    """The workload in a file, plain or compressed with gzip. Instant 0 is when the first VM that ran was submitted.

    Args:
        path: Where it is.
        skip_bad_lines: Leave out and count records that cannot be understood, instead of refusing the file.

    Raises:
        OnePreemptError: The file cannot be read, or is bad: file, line, record and field.
    """
    with open_trace(path) as stream:
        return parse_accounting(stream, str(path), skip_bad_lines)


def parse_accounting(stream: ByteStream, source: str, skip_bad_lines: bool = False) -> Workload:
    """The workload in a stream of bytes. `source` names it in messages; see `read_accounting_file`."""
    bad = BadLineCounter(source, skip_bad_lines)
    records, last_s = read_records(stream, source, bad)
    runs = [_run(id, of_vm, last_s) for id, of_vm in sorted(records.items())]
    ran = [run for run in runs if run.stays]
    origin_s = min((run.first.submitted_at_s for run in ran), default=0)
    requests: list[WorkloadRequest] = []
    played: list[_Run] = []
    for members in _together(ran):
        try:
            requests.append(_request(members, origin_s))
            played += members
        except ValueError as error:
            bad.add(members[0].first.line, f"VM {members[0].id}: {error}")
    left_out = (LeftOut("VMs that never ran", len(runs) - len(ran)), LeftOut("bad records", bad.count))
    return Workload(
        requests=tuple(requests),
        name=source,
        site=smallest_hosts(stay for run in played for stay in run.stays),
        recorded_from_s=origin_s if ran else None,
        provenance=(f"read from {source}{_doubts(played)}",),
        left_out=tuple(one for one in left_out if one.count),
    )


def _doubts(runs: Sequence[_Run]) -> str:
    """What is known of some of them only in part."""
    still_run = sum(run.still_runs for run in runs)
    unusable = sum(run.first.has_lease and run.first.lease is None for run in runs)
    told = f", {still_run} VMs that still ran end at its last instant" if still_run else ""
    return told + (f", the LEASE of {unusable} VMs is unusable and counts as none" if unusable else "")


def _run(id: int, records: dict[int, Record], last_s: int) -> _Run:
    in_order = [records[seq] for seq in sorted(records)]
    stays = []
    for record, following in zip(in_order, [*in_order[1:], None], strict=True):
        if record.ran_from_s:
            until_s = record.ran_until_s or (last_s if following is None else following.began_at_s)
            stays.append(Stay(record.host_id, record.ran_from_s, max(record.ran_from_s, until_s), record.machine))
    still_runs = bool(in_order[-1].ran_from_s and not in_order[-1].ran_until_s)
    return _Run(id, in_order[0], tuple(stays), still_runs)


def _together(runs: Sequence[_Run]) -> list[list[_Run]]:
    """The VMs of each lease. A NAME may serve again: who comes to a full lease, or after its end, is of another one."""
    leases: list[list[_Run]] = []
    last: dict[tuple[int, str], list[_Run]] = {}
    for run in runs:
        terms = run.first.lease
        if terms is None or terms.size == 1:
            leases.append([run])
            continue
        key = (run.first.user, terms.name)
        members = last.get(key, [])
        if 0 < len(members) < terms.size and run.first.submitted_at_s <= max(one.ended_at_s for one in members):
            members.append(run)
        else:
            last[key] = [run]
            leases.append(last[key])
    return leases


def _request(members: Sequence[_Run], origin_s: int) -> WorkloadRequest:
    """One request of all of them: there when the last one is, and as long as the longest one ran."""
    first = members[0].first
    terms = first.lease or _WITHOUT_LEASE
    submitted_at_s = max(run.first.submitted_at_s for run in members)
    duration_s = max(run.duration_s for run in members)
    start = StartKind.IMMEDIATE if terms.at_once else StartKind.BEST_EFFORT
    start_at_s = deadline_at_s = None
    if terms.start_at_s is not None or terms.start_offset_s is not None:
        start, start_at_s = StartKind.EXACT, ready_at_s(terms, submitted_at_s) - origin_s
    if terms.deadline_at_s is not None:
        start, deadline_at_s = StartKind.DEADLINE, terms.deadline_at_s - origin_s
    machines = Counter((run.first.machine.cpu_centi, run.first.machine.memory_mib) for run in members)
    return WorkloadRequest(
        id=members[0].id,
        submitted_at_s=submitted_at_s - origin_s,
        vm_sets=tuple(MachineSet(count, *size) for size, count in machines.items()),
        requested_duration_s=terms.duration_s or max(1, duration_s),
        actual_duration_s=duration_s,
        start=start,
        start_at_s=start_at_s,
        deadline_at_s=deadline_at_s,
        lease_type=terms.type,
        max_suspensions=terms.max_suspensions,
        user=first.user,
        group=first.group,
    )
