"""The walk through the queue that all backfilling policies share; they differ in how much they promise.

The first leases that cannot start now are promised a start each, up to a limit; a lease behind them starts now where it
takes nothing of what is promised. The limit is 1 for EASY, and there is none for conservative backfilling (Mu'alem and
Feitelson 2001).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from msgspec import Struct

from one_preempt.core.availability.timed_request import TimedRequest
from one_preempt.core.backfilling.policy import AnyDemand, Availability, BackfillingDecision, PromisedStart


class QueueWalk(Struct, frozen=True):
    """A backfilling policy by how many leases are promised a start (None = all).

    `overtaking`: those behind may start before them. `shielded`: they do not count on room that comes free in the very
    second in which a promised lease starts (see `Availability.shield`).
    """

    name: str
    promises: int | None
    description: str
    overtaking: bool = True
    shielded: bool = False

    def decide(
        self, queue: Sequence[TimedRequest[AnyDemand]], availability: Availability[AnyDemand], now_s: int
    ) -> BackfillingDecision:
        """See `BackfillingPolicy`."""
        if not queue:
            return BackfillingDecision((), (), ())
        before = availability.starts_of([request.lease_id for request in queue])
        kept = self._kept_promises(queue, before, availability, now_s)
        starting: list[int] = []
        waiting: list[int] = []
        promised: list[PromisedStart] = []
        turns = iter(queue)
        for request in turns:
            lease_id = request.lease_id
            start_s: int | None
            if lease_id in kept:
                start_s = availability.bring_forward(request, now_s)
            else:
                start_s = availability.place(request, now_s)
            if start_s is None:
                waiting.append(lease_id)
                # Whoever asks for what there is not holds nobody up.
                if not (self.overtaking or availability.is_hopeless(request)):
                    break
            elif start_s <= now_s:
                starting.append(lease_id)
            else:
                promised.append(PromisedStart(lease_id, start_s))
                if self.shielded:
                    availability.shield(lease_id)
                if not self.overtaking or len(promised) == self.promises:
                    break
        behind = list(turns)
        if behind:
            tried = availability.worth_trying(behind, now_s) if self.overtaking else ()
            starting += [request.lease_id for request in tried if availability.place_at(request, now_s)]
            started = frozenset(starting)
            waiting += [request.lease_id for request in behind if request.lease_id not in started]
        availability.unshield()
        return BackfillingDecision(tuple(starting), tuple(promised), tuple(waiting))

    def _kept_promises(
        self,
        queue: Sequence[TimedRequest[AnyDemand]],
        before: Mapping[int, int],
        availability: Availability[AnyDemand],
        now_s: int,
    ) -> Collection[int]:
        """Withdraw the promises that are out of turn, and all of them where one cannot be kept; returns the others.

        Those are made anew in the order of the queue, so that a lost host or a lease that overran does not put the
        first in the queue behind leases that happened to be promised later starts.
        """
        kept = dict(before)
        if self.promises is not None:
            for lease_id in kept.keys() - {request.lease_id for request in queue[: self.promises]}:
                availability.withdraw(lease_id)
                del kept[lease_id]
        if not kept or (min(kept.values()) >= now_s and availability.keeps(kept)):
            return kept
        for lease_id in kept:
            availability.withdraw(lease_id)
        return ()
