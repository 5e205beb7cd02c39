"""A request beside what became of it, and the groups of requests that figures are told for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct

from one_preempt.core.model.lease import LeaseType
from one_preempt.simulation.simulator.result import Fate, RequestRecord, SimulationResult
from one_preempt.simulation.workload.workload import StartKind, Workload, WorkloadRequest


class Outcome(Struct, frozen=True):
    """What was asked for and what came of it."""

    request: WorkloadRequest
    record: RequestRecord

    @property
    def fate(self) -> Fate:
        """How it ended."""
        return self.record.fate

    @property
    def ready_ms(self) -> int:
        """When it could start. What starts before the START that it was not given was ready then."""
        asked_ms, started_at_ms = 1000 * self.request.ready_at_s, self.record.started_at_ms
        return asked_ms if started_at_ms is None else min(asked_ms, started_at_ms)

    @property
    def response_ms(self) -> int | None:
        """From the time it was ready to its end; None where it did not complete."""
        if self.fate is not Fate.COMPLETED or self.record.ended_at_ms is None:
            return None
        return self.record.ended_at_ms - self.ready_ms

    @property
    def waited_ms(self) -> int | None:
        """From the time it was ready to its first start; None where it never started."""
        started_at_ms = self.record.started_at_ms
        return None if started_at_ms is None else started_at_ms - self.ready_ms

    @property
    def best_effort(self) -> bool:
        """It waits for its turn and may be preempted."""
        return self.request.lease_type.best_effort and self.request.start is StartKind.BEST_EFFORT

    def stays_ms(self, ended_at_ms: int) -> Iterator[tuple[int, int]]:
        """When all its VMs ran, from and until; what still ran when the simulation ended ends at `ended_at_ms`."""
        record = self.record
        if record.started_at_ms is None:
            return
        from_ms, ran_ms = record.started_at_ms, 0
        for interruption in record.interruptions:
            yield from_ms, interruption.from_ms
            ran_ms += interruption.from_ms - from_ms
            if interruption.until_ms is None:
                return
            from_ms = interruption.until_ms
        if record.ended_at_ms is None:
            yield from_ms, ended_at_ms
        else:
            # Shutting down is no service: the last stay is as long as what its VMs were served beyond the others.
            left_ms = max(0, record.served_vm_ms // record.virtual_machines - ran_ms)
            yield from_ms, min(record.ended_at_ms, from_ms + left_ms)


Chosen = Callable[[Outcome], bool]


def outcomes(workload: Workload, result: SimulationResult) -> tuple[Outcome, ...]:
    """Requests with their records, by id; requests that the simulation did not come to are left out."""
    requests = {request.id: request for request in workload.requests}
    return tuple(Outcome(requests[record.request_id], record) for record in result.records)


def groups(found: Sequence[Outcome]) -> dict[str, tuple[Outcome, ...]]:
    """All, though there be none, then those of each origin, kind of start and lease type as far as there are any."""
    named: dict[str, Chosen] = {
        "all": lambda _: True,
        "local": lambda one: not one.request.external,
        "external": lambda one: one.request.external,
        **{start.value: _has_start(start) for start in StartKind},
        **{lease_type.value: _has_type(lease_type) for lease_type in LeaseType},
    }
    chosen = {name: tuple(filter(is_chosen, found)) for name, is_chosen in named.items()}
    return {name: members for name, members in chosen.items() if members or name == "all"}


def _has_start(start: StartKind) -> Chosen:
    return lambda one: one.request.start is start


def _has_type(lease_type: LeaseType) -> Chosen:
    return lambda one: one.request.lease_type is lease_type
