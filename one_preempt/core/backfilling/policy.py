"""The question that a backfilling policy answers, and what it may ask of free capacity over time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol, TypeVar

from msgspec import Struct

from one_preempt.core.availability.timed_request import TimedRequest

AnyDemand = TypeVar("AnyDemand")


class Availability(Protocol[AnyDemand]):
    """Free capacity over time, less what leases have and are promised. A start is in seconds since the epoch."""

    def starts_of(self, lease_ids: Iterable[int]) -> dict[int, int]:
        """The starts that these leases have or are promised, in this order, without those for which nothing is held."""

    def place(self, request: TimedRequest[AnyDemand], not_before_s: int) -> int | None:
        """Hold room from the first instant at which there is enough for the duration; None where there is none."""

    def place_at(self, request: TimedRequest[AnyDemand], start_s: int) -> bool:
        """Hold room from exactly then on, if there is enough for the duration."""

    def worth_trying(
        self, requests: Sequence[TimedRequest[AnyDemand]], start_s: int
    ) -> Iterable[TimedRequest[AnyDemand]]:
        """Those that `place_at` may serve then, in this order; of the others it is known without looking at each."""

    def is_hopeless(self, request: TimedRequest[AnyDemand]) -> bool:
        """There would be no room for it if nobody else had any: asked of what was not placed just now."""

    def bring_forward(self, request: TimedRequest[AnyDemand], not_before_s: int) -> int:
        """Let a lease that is promised a start have an earlier one, if there is one by now; returns its start."""

    def withdraw(self, lease_id: int) -> None:
        """Give back what is held for the lease, because it has ended or is to have no promise any more."""

    def keeps(self, lease_ids: Iterable[int]) -> bool:
        """Is there still room for what these leases are promised?"""

    def shield(self, lease_id: int) -> None:
        """Keep others off what the lease might need, more strictly than by what is held for it (see EASY)."""

    def unshield(self) -> None:
        """Give back what `shield` kept."""


class PromisedStart(Struct, frozen=True):
    """A lease that waits for a start that is held for it."""

    lease_id: int
    start_s: int


class BackfillingDecision(Struct, frozen=True):
    """What becomes of each lease in the queue, in the order of the queue.

    `starting` lease ids start now, their room is held; `promised` wait for a start; `waiting` lease ids wait for
    nothing in particular.
    """

    starting: tuple[int, ...]
    promised: tuple[PromisedStart, ...]
    waiting: tuple[int, ...]


class BackfillingPolicy(Protocol):
    """Decides who of the queue starts now, and who gets a promise that those behind must respect."""

    @property
    def name(self) -> str:
        """What the configuration calls it."""

    @property
    def description(self) -> str:
        """Who may overtake whom, on one line."""

    @property
    def overtaking(self) -> bool:
        """May those behind somebody who waits start before him at all?"""

    def decide(
        self, queue: Sequence[TimedRequest[AnyDemand]], availability: Availability[AnyDemand], now_s: int
    ) -> BackfillingDecision:
        """Go through the queue, first to last; then room is held for all that start or have a promise.

        Promises of an earlier decision are known by `availability`; one is only ever changed for an earlier start,
        unless room was lost (somebody overran, a host is gone) or the queue has another order.
        """
