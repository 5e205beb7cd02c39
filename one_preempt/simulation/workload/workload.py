"""A workload as a value: requests for leases, in the order in which they arrive.

Instants (``*_at_s``) are whole seconds since the start of the workload, not since the epoch: a log is replayed at any
time. `Workload.recorded_from_s` says when that was in reality, where a log tells.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import StrEnum
from itertools import pairwise
from operator import attrgetter

from msgspec import Struct, field
from msgspec.structs import force_setattr, replace

from one_preempt.core.admission.lease_attribute import LAST_YEAR, MAX_DURATION_S, MAX_SIZE, MAX_SUSPENSIONS
from one_preempt.core.model.lease import LeaseType

SECONDS_PER_HOUR = 3600
SECONDS_PER_DAY = 24 * SECONDS_PER_HOUR
UNKNOWN_ID = -1
# A site of more nodes is a slip of who wrote the file.
MOST_NODES = 1_000_000
# A lease can ask for no more.
MOST_MACHINES = MAX_SIZE
LONGEST_S = MAX_DURATION_S
MOST_SUSPENSIONS = MAX_SUSPENSIONS
# Nor can it name a later time, whenever of this half of the century instant 0 is.
LATEST_S = (LAST_YEAR - 2050) * 365 * SECONDS_PER_DAY


class StartKind(StrEnum):
    """When a lease wants to run."""

    BEST_EFFORT = "best-effort"
    EXACT = "exact"
    IMMEDIATE = "immediate"
    DEADLINE = "deadline"


_BEST_EFFORT = StartKind.BEST_EFFORT


class MachineSet(Struct, frozen=True, order=True):
    """`count` machines that nothing tells apart: VMs of a request, or nodes of a site. Amounts are for each of them."""

    count: int
    cpu_centi: int
    memory_mib: int

    def __post_init__(self) -> None:
        if self.count < 1:
            raise ValueError(f"{self.count} machines: at least 1 is needed")
        if self.cpu_centi < 0 or self.memory_mib < 0:
            raise ValueError(f"{self.cpu_centi / 100:g} CPUs and {self.memory_mib} MiB: amounts are not negative")


class WorkloadRequest(Struct, frozen=True, gc=False):
    """One request for a lease: all its VMs together or not at all.

    Attributes:
        id: Unique in its workload.
        submitted_at_s: When the scheduler hears of it.
        vm_sets: What it asks for; mostly one set of equal VMs.
        requested_duration_s: What the user says it takes; None = the user does not say.
        actual_duration_s: What it takes in truth, without overheads; may be shorter (a premature end), longer (an
            over-run) or 0.
        start: When it wants to run.
        start_at_s: EXACT: the start. DEADLINE: the earliest start, None = the submission. Else None.
        deadline_at_s: DEADLINE: when it must have ended. Else None.
        lease_type: What may be done to it once it runs.
        external: It came from another site, and not from a user of this one (CCPE13's external requests).
        max_suspensions: How often it may be suspended (SR11); None = no limit.
        image: What its VMs are made from; '' = not said. `image_mib` is its size.
        user, group, queue: Numbers as in a log, `UNKNOWN_ID` where unknown.

    Raises:
        ValueError: The attributes contradict one another.
    """

    id: int
    submitted_at_s: int
    vm_sets: tuple[MachineSet, ...]
    requested_duration_s: int | None
    actual_duration_s: int
    start: StartKind = StartKind.BEST_EFFORT
    start_at_s: int | None = None
    deadline_at_s: int | None = None
    lease_type: LeaseType = LeaseType.BE_SUSPENDABLE
    external: bool = False
    max_suspensions: int | None = None
    image: str = ""
    image_mib: int = 0
    user: int = UNKNOWN_ID
    group: int = UNKNOWN_ID
    queue: int = UNKNOWN_ID

    def __post_init__(self) -> None:
        if not self.vm_sets:
            raise ValueError("it asks for no VM")
        vms = 0
        for vm_set in self.vm_sets:
            vms += vm_set.count
            if vm_set.cpu_centi < 1 or vm_set.memory_mib < 1:
                at_least = "at least 0.01 CPUs and 1 MiB are needed"
                raise ValueError(f"a VM without CPU or memory: no cloud takes it; {at_least}")
        if vms > MOST_MACHINES:
            raise ValueError(f"{vms} VMs: {MOST_MACHINES} are the most")
        if self.submitted_at_s < 0 or self.actual_duration_s < 0:
            raise ValueError(f"submitted at {self.submitted_at_s} s for {self.actual_duration_s} s: at least 0 each")
        asked_s = self.requested_duration_s
        if asked_s is not None and asked_s < 1:
            raise ValueError(f"a requested duration of {asked_s} s: at least 1 s is needed")
        if asked_s is not None and asked_s > LONGEST_S:
            raise ValueError(f"a requested duration of {asked_s} s: {LONGEST_S} s is the most")
        if self.max_suspensions is not None and not 0 <= self.max_suspensions <= MOST_SUSPENSIONS:
            raise ValueError(f"{self.max_suspensions} suspensions at most: 0 to {MOST_SUSPENSIONS} can be asked for")
        if self.start is not _BEST_EFFORT or self.start_at_s is not None or self.deadline_at_s is not None:
            _check_start(self)

    @property
    def virtual_machines(self) -> int:
        """How many VMs it has."""
        return sum([vm_set.count for vm_set in self.vm_sets])

    @property
    def preemptable(self) -> bool:
        """May it be a victim?"""
        return self.lease_type.preemptable

    @property
    def ready_at_s(self) -> int:
        """When it could start at the earliest."""
        return self.submitted_at_s if self.start_at_s is None else self.start_at_s

    @property
    def planned_duration_s(self) -> int:
        """What one would plan with: the requested duration, else the actual one, at least a second."""
        return self.requested_duration_s or max(1, self.actual_duration_s)

    @property
    def work_vm_s(self) -> int:
        """VM seconds that it takes in truth."""
        return self.virtual_machines * self.actual_duration_s


def _check_start(request: WorkloadRequest) -> None:
    may_have_start = request.start in (StartKind.EXACT, StartKind.DEADLINE)
    if request.start_at_s is not None and not may_have_start:
        raise ValueError(f"start {request.start} takes no time of its own")
    if request.start_at_s is None and request.start is StartKind.EXACT:
        raise ValueError("an exact start needs its time")
    if (request.deadline_at_s is not None) != (request.start is StartKind.DEADLINE):
        raise ValueError(f"start {request.start} and deadline {request.deadline_at_s} do not go together")
    if request.ready_at_s < request.submitted_at_s:
        raise ValueError(f"it starts at {request.ready_at_s} s, before its submission at {request.submitted_at_s} s")
    if request.deadline_at_s is not None and request.deadline_at_s <= request.ready_at_s:
        raise ValueError(f"deadline {request.deadline_at_s} s is not after {request.ready_at_s} s, when it is ready")
    _check_instants(request)


def _check_instants(request: WorkloadRequest) -> None:
    """What a lease cannot ask for in its words would be refused by whoever reads them, and not by who wrote it."""
    for what, at_s in (("start", request.start_at_s), ("deadline", request.deadline_at_s)):
        if at_s is not None and at_s > LATEST_S:
            raise ValueError(f"{what} {at_s} s: {LATEST_S} s after the start of the workload is the latest")
    if request.deadline_at_s is not None and request.planned_duration_s > LONGEST_S:
        raise ValueError(f"a deadline for {request.planned_duration_s} s of work: {LONGEST_S} s is the most")


def promisable(request: WorkloadRequest) -> WorkloadRequest:
    """The request. Raises ValueError where it names a deadline, and leases of its type are promised none."""
    if request.deadline_at_s is not None and request.lease_type.best_effort:
        raise ValueError(f"a lease of type {request.lease_type} is promised no deadline")
    return request


class LeftOut(Struct, frozen=True):
    """What a source held and the workload does not: `count` entries, and why."""

    reason: str
    count: int


class Workload(Struct, frozen=True):
    """Requests in the order (submission, id), with what is known of where they come from.

    Attributes:
        requests: Sorted on construction.
        name: For people.
        site: The nodes it was recorded on or is meant for; () = not stated.
        recorded_from_s: Seconds since the epoch at instant 0; None = not stated.
        provenance: What it was read or drawn from and what was done to it since, in order.
        left_out: What did not become a request.

    Raises:
        ValueError: Two requests have the same id.
    """

    requests: tuple[WorkloadRequest, ...]
    name: str = ""
    site: tuple[MachineSet, ...] = ()
    recorded_from_s: int | None = None
    provenance: tuple[str, ...] = ()
    left_out: tuple[LeftOut, ...] = field(default=())

    def __post_init__(self) -> None:
        in_order = sorted(self.requests, key=attrgetter("id"))
        if any(one.id == following.id for one, following in pairwise(in_order)):
            raise ValueError("two requests of a workload have the same id")
        in_order.sort(key=attrgetter("submitted_at_s"))
        force_setattr(self, "requests", tuple(in_order))

    def __len__(self) -> int:
        return len(self.requests)

    @property
    def span_s(self) -> int:
        """From instant 0 to the last submission."""
        return self.requests[-1].submitted_at_s if self.requests else 0

    @property
    def work_vm_s(self) -> int:
        """VM seconds of all requests, as they take in truth."""
        return sum(request.work_vm_s for request in self.requests)

    def after(self, step: str, requests: Iterable[WorkloadRequest]) -> Workload:
        """The same workload with other requests; `step` is written into its provenance."""
        return replace(self, requests=tuple(requests), provenance=(*self.provenance, step))

    def mapped(self, step: str, change: Callable[[WorkloadRequest], WorkloadRequest]) -> Workload:
        """The same workload with each request changed."""
        return self.after(step, map(change, self.requests))
