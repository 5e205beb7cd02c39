"""The walk through the queue that all backfilling policies share; they differ in how much they promise.

The first leases that cannot start now are promised a start each, up to a limit; a lease behind them starts now where it
takes nothing of what is promised. The limit is 1 for EASY, and there is none for conservative backfilling (Mu'alem and
Feitelson 2001).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from one_preempt.core.availability.timed_request import TimedRequest
from one_preempt.core.backfilling.policy import AnyDemand, Availability, BackfillingDecision, PromisedStart


@dataclass(frozen=True, slots=True)
class QueueWalk:
    """A backfilling policy by how many leases are promised a start (None = all).

    `overtaking`: those behind may start before them. `shielded`: they do not count on room that comes free in the very
    second in which a promised lease starts (see `Availability.shield`).
    """

    name: str
    promises: int | None
    overtaking: bool = True
    shielded: bool = False

    def decide(
        self, queue: Sequence[TimedRequest[AnyDemand]], availability: Availability[AnyDemand], now_s: int
    ) -> BackfillingDecision:
        """See `BackfillingPolicy`."""
        before = {request.lease_id: availability.start_of(request.lease_id) for request in queue}
        self._drop_promises(queue, availability, now_s)
        starting: list[int] = []
        promised: list[PromisedStart] = []
        waiting: list[int] = []
        for request in queue:
            lease_id = request.lease_id
            start_s = self._start_of(request, availability, now_s, len(promised), bool(promised or waiting))
            if start_s is None:
                waiting.append(lease_id)
            elif start_s <= now_s:
                starting.append(lease_id)
            else:
                promised.append(PromisedStart(lease_id, start_s, before[lease_id]))
                if self.shielded:
                    availability.shield(lease_id)
        availability.unshield()
        return BackfillingDecision(tuple(starting), tuple(promised), tuple(waiting))

    def _start_of(
        self,
        request: TimedRequest[AnyDemand],
        availability: Availability[AnyDemand],
        now_s: int,
        promises_given: int,
        somebody_waits: bool,
    ) -> int | None:
        """When the lease starts, its room held; None where it just waits."""
        if somebody_waits and not self.overtaking:
            return None
        if self.promises is not None and (promises_given >= self.promises or request.ready_at_s > now_s):
            return now_s if request.ready_at_s <= now_s and availability.place_at(request, now_s) else None
        not_before_s = max(now_s, request.ready_at_s)
        if availability.start_of(request.lease_id) is not None:
            return availability.bring_forward(request, not_before_s)
        return availability.place(request, not_before_s)

    def _drop_promises(
        self, queue: Sequence[TimedRequest[AnyDemand]], availability: Availability[AnyDemand], now_s: int
    ) -> None:
        """Withdraw the promises that are out of turn, and all of them where one cannot be kept.

        Made anew in the order of the queue, so that a lost host or a lease that overran does not put the first in the
        queue behind those that happened to be promised later starts.
        """
        kept = []
        for position, request in enumerate(queue):
            if availability.start_of(request.lease_id) is None:
                continue
            if self.promises is None or position < self.promises:
                kept.append(request.lease_id)
            else:
                availability.withdraw(request.lease_id)
        missed = any((availability.start_of(lease_id) or 0) < now_s for lease_id in kept)
        if missed or not availability.keeps(kept):
            for lease_id in kept:
                availability.withdraw(lease_id)
