"""What accounting tells of the VMs of a zone, put together to requests: when they came, and what they computed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum

from msgspec import Struct

SECONDS_PER_HOUR = 3600


class Counted(StrEnum):
    """What a processing element is: a core, or a GiB of memory where that is what runs short."""

    CPU = "cpu"
    MEMORY = "memory"


class Stay(Struct, frozen=True):
    """A VM ran on a host; `until_s` is None while it does."""

    from_s: int
    until_s: int | None


class VmRun(Struct, frozen=True):
    """One VM as accounting tells of it.

    `submitted_at_s` is when it was created, `is_living` says that it has not ended for good. `lease_name` and
    `lease_size` are those of its LEASE attribute, '' and 1 without one. `token` is its LEASE_SUBMISSION, or ''.
    """

    vm_id: int
    uid: int
    cores: float
    memory_gib: float
    submitted_at_s: int
    is_living: bool
    stays: tuple[Stay, ...] = ()
    lease_name: str = ""
    lease_size: int = 1
    token: str = ""

    def elements(self, counted: Counted) -> float:
        """How many processing elements it takes."""
        return self.cores if counted is Counted.CPU else self.memory_gib

    def ran_s(self, now_s: int) -> int:
        """For how long it has run, all its stays together."""
        return sum(max(0, (now_s if one.until_s is None else one.until_s) - one.from_s) for one in self.stays)

    def ran_between_s(self, from_s: int, until_s: int) -> int:
        """For how long it ran between two instants."""
        ends = ((one, until_s if one.until_s is None else min(one.until_s, until_s)) for one in self.stays)
        return sum(max(0, end_s - max(one.from_s, from_s)) for one, end_s in ends)

    def is_standing(self, from_s: int, until_s: int) -> bool:
        """Whether it came before a window and is there still, or ran for longer than that: it does not come and go.

        Were a year that ended today one request of this week, a zone would count as full until the next.
        """
        return self.submitted_at_s <= from_s and (self.is_living or self.ran_s(until_s) > until_s - from_s)


class ServedRequest(Struct, frozen=True):
    """The VMs of one request: when the first was created, whether all have ended, and element-seconds computed."""

    arrived_at_s: int
    has_ended: bool
    work: float


def requests_in(runs: Iterable[VmRun], counted: Counted, now_s: int) -> tuple[ServedRequest, ...]:
    """Runs put together: VMs of one owner with one LEASE of several are one request, every other VM is one by itself.

    A name used again later is a new request once the former has its SIZE.
    """
    gangs: dict[tuple[int, str, int], list[VmRun]] = {}
    groups: list[Sequence[VmRun]] = []
    for run in sorted(runs, key=lambda run: run.vm_id):
        if run.lease_size <= 1:
            groups.append((run,))
            continue
        gang = gangs.setdefault((run.uid, run.lease_name, run.lease_size), [])
        gang.append(run)
        if len(gang) == run.lease_size:
            groups.append(gangs.pop((run.uid, run.lease_name, run.lease_size)))
    groups.extend(gangs.values())
    served = (served_together(group, counted, now_s) for group in groups)
    return tuple(sorted(served, key=lambda one: (one.arrived_at_s, one.has_ended, one.work)))


def served_together(runs: Sequence[VmRun], counted: Counted, now_s: int) -> ServedRequest:
    """The runs of one request, at least one."""
    return ServedRequest(
        arrived_at_s=min(run.submitted_at_s for run in runs),
        has_ended=not any(run.is_living for run in runs),
        work=sum(run.elements(counted) * run.ran_s(now_s) for run in runs),
    )


def by_token(runs: Iterable[VmRun], known: Mapping[str, int]) -> tuple[list[VmRun], dict[int, list[VmRun]]]:
    """Local runs, and those of external requests by number; `known` gives the number for each token of the ledger."""
    local: list[VmRun] = []
    external: dict[int, list[VmRun]] = {}
    for run in runs:
        number = known.get(run.token) if run.token else None
        if number is None:
            local.append(run)
        else:
            external.setdefault(number, []).append(run)
    return local, external
