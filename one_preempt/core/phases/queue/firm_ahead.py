"""The firm promises that lie ahead, as the queue has to respect them: found once in a cycle, for all that wait."""

from __future__ import annotations

from collections.abc import Sequence, Set
from functools import cached_property

import numpy as np

from one_preempt.core.model.cluster_state import IntArray
from one_preempt.core.model.lease import Lease
from one_preempt.core.phases.draft import PlanDraft
from one_preempt.core.phases.reservations.giving_way import left_for_starts, reserved_ahead


class FirmAhead:
    """Who was promised hosts firmly for a time to come, and what that leaves of hosts that are counted."""

    def __init__(self, draft: PlanDraft) -> None:
        self._draft = draft
        self._reserved: tuple[int, ...] | None = None
        self._others: bool | None = None

    def preempting(self) -> tuple[int, ...]:
        """The leases that will make others leave for their start."""
        if self._reserved is None:
            self._reserved = reserved_ahead(self._draft)
        return self._reserved

    @cached_property
    def sent_out(self) -> Set[int]:
        """The leases that were sent out for a start to come: they use no time before others' starts until then."""
        return left_for_starts(self._draft)

    def has_started(self, lease_id: int) -> None:
        """One of them may be on hosts by now, and is none of them any more."""
        if self._reserved is not None and lease_id in self._reserved:
            self._reserved = None

    def meeting(self, start_s: int, end_s: int | None) -> list[int]:
        """Those of the preempting ones that were promised some of the time between two instants."""
        stays = self._draft.timeline.stays
        return [
            lease_id
            for lease_id in self.preempting()
            if any(
                (end_s is None or stay.start_s < end_s) and (stay.end_s is None or stay.end_s > start_s)
                for stay in stays.get(lease_id, ())
            )
        ]

    def has_others(self) -> bool:
        """Is anybody promised hosts firmly for a time to come who makes nobody leave?"""
        if self._others is None:
            ahead, now_s = self.preempting(), self._draft.state.now_s
            self._others = any(
                stay.firm and stay.start_s > now_s
                for lease_id, stays in self._draft.timeline.stays.items()
                if lease_id not in ahead
                for stay in stays
            )
        return self._others

    def leaves_free(self, lease: Lease, start_s: int, end_s: int | None) -> IntArray | None:
        """What stays free for a lease of each host, where these are counted; None where all that is free now does."""
        if not self._draft.timeline.firm_stays.reservations():
            return None
        gives_way = self._draft.gives_way(lease)
        if gives_way and not self.has_others():
            return None
        # It leaves for those who make others leave; of all others the hosts are their own.
        return self.leaves_free_beside(self.preempting() if gives_way else (), start_s, end_s)

    def leaves_free_beside(self, leaves_for: Sequence[int], start_s: int, end_s: int | None) -> IntArray:
        """What stays free of each host for who leaves for these leases alone.

        Who makes nobody leave was promised room beside all that will be on its hosts then.
        """
        timeline = self._draft.timeline
        free = timeline.free_without(leaves_for, start_s, end_s, firmly=True)
        if not self.has_others():
            return free
        return np.minimum(free, timeline.free_without(self.preempting(), start_s, end_s))
