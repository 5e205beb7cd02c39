"""The walk through the queue that all backfilling policies share; they differ in how much they promise.

The first leases that cannot start now are promised a start each, up to a limit; a lease behind them starts now where it
takes nothing of what is promised. The limit is 1 for EASY, and there is none for conservative backfilling (Mu'alem and
Feitelson 2001).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import islice

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
        before = {request.lease_id: availability.start_of(request.lease_id) for request in queue}
        kept = self._kept_promises(before, availability, now_s)
        starting: list[int] = []
        promised: list[PromisedStart] = []
        waiting: list[int] = []
        is_held_up = False
        for request in queue:
            lease_id, not_before_s = request.lease_id, max(now_s, request.ready_at_s)
            start_s = None
            if self.overtaking or not is_held_up:
                if lease_id in kept:
                    start_s = availability.bring_forward(request, not_before_s)
                elif self.promises is None or (len(promised) < self.promises and not_before_s == now_s):
                    # Where few may be promised a start, none that is not ready yet.
                    start_s = availability.place(request, not_before_s)
                elif not_before_s == now_s and availability.place_at(request, now_s):
                    start_s = now_s
            if start_s is None:
                waiting.append(lease_id)
                # Whoever asks for what there is not holds nobody up.
                is_held_up = self.overtaking or is_held_up or not availability.is_hopeless(request)
            elif start_s <= now_s:
                starting.append(lease_id)
            else:
                is_held_up = True
                promised.append(PromisedStart(lease_id, start_s, before[lease_id]))
                if self.shielded:
                    availability.shield(lease_id)
        availability.unshield()
        return BackfillingDecision(tuple(starting), tuple(promised), tuple(waiting))

    def _kept_promises(
        self, before: Mapping[int, int | None], availability: Availability[AnyDemand], now_s: int
    ) -> Collection[int]:
        """Withdraw the promises that are out of turn, and all of them where one cannot be kept; returns the others.

        Those are made anew in the order of the queue, so that a lost host or a lease that overran does not put the
        first in the queue behind leases that happened to be promised later starts.
        """
        kept = {lease_id: start_s for lease_id, start_s in before.items() if start_s is not None}
        if self.promises is not None:
            for lease_id in kept.keys() - islice(before, self.promises):
                availability.withdraw(lease_id)
                del kept[lease_id]
        if not kept or (min(kept.values()) >= now_s and availability.keeps(kept)):
            return kept
        for lease_id in kept:
            availability.withdraw(lease_id)
        return ()
