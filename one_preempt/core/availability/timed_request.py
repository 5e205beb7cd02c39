"""What a lease asks for in terms of time."""

from __future__ import annotations

from typing import Generic, TypeVar

from msgspec import Struct

DemandT = TypeVar("DemandT")


class TimedRequest(Struct, Generic[DemandT], frozen=True):
    """A lease that wants room for `duration_s` seconds, in one piece; None = nobody knows for how long.

    `demand` is a number of nodes (`AlikeNodes`) or a `GangDemand` (`UnlikeHosts`).
    """

    lease_id: int
    demand: DemandT
    duration_s: int | None

    def __post_init__(self) -> None:
        if self.duration_s is not None and self.duration_s <= 0:
            raise ValueError(f"lease {self.lease_id}: a duration of {self.duration_s} s")

    def end_s(self, start_s: int) -> int | None:
        """When it ends if it starts then."""
        return None if self.duration_s is None else start_s + self.duration_s
