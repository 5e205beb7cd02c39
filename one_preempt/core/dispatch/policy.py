"""What a dispatch policy is: one question, one method. It keeps nothing: what was sent so far is handed to it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from one_preempt.errors import OnePreemptError

_ADD_UP_WITHIN = 1e-9


class Routing(Struct, frozen=True):
    """What is known before the first request.

    Attributes:
        shares: P_j of each cluster: its part of the external requests, as a workload allocation policy says.
        fastest: The cluster in which external requests take least (least theta): X is 1 there.
        seed: Of policies that draw.

    Raises:
        OnePreemptError: The shares are none, or the fastest cluster is not among them.
    """

    shares: tuple[float, ...]
    fastest: int = 0
    seed: int = 0

    def __post_init__(self) -> None:
        # Written so that a share that is not a number is refused too.
        if not all(share >= 0 for share in self.shares) or not abs(sum(self.shares) - 1) <= _ADD_UP_WITHIN:
            told = ", ".join(f"{share:g}" for share in self.shares)
            raise OnePreemptError(f"shares of clusters ({told}): none may be below 0, and together they must be 1")
        if not 0 <= self.fastest < len(self.shares):
            raise OnePreemptError(
                f"the fastest cluster has the number {self.fastest}: there are {len(self.shares)}, counted from 0"
            )


def routing(rates_per_s: Sequence[float], service_s: Sequence[float], seed: int = 0) -> Routing:
    """From what a workload allocation policy answers, and theta of each cluster."""
    whole = sum(rates_per_s)
    fastest = min(range(len(service_s)), key=lambda place: (service_s[place], place))
    return Routing(tuple(rate / whole for rate in rates_per_s), fastest, seed)


class DispatchPolicy(Protocol):
    """Which cluster does the next request go to?"""

    @property
    def name(self) -> str:
        """The name on the command line."""

    @property
    def description(self) -> str:
        """One line for people."""

    def cluster(self, routing: Routing, sent_of_type: Sequence[float], sent: int) -> int:
        """The number of a cluster with a share above 0.

        `sent_of_type` is how many requests of this one's type each cluster was sent before, or, for the same answer, by
        how much that is more than its share of them; `sent` how many of all types all of them were.
        """
