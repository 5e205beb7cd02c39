"""Room over time that a lease was promised, and what became of its wish for one."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


class Verdict(StrEnum):
    """What was said to a lease that asks for a START, a DEADLINE or to be served at once.

    NONE: it asked for nothing of the kind, or was not judged yet. ACCEPTED stands until the lease ends. CONVERTED:
    it cannot be kept, or never could, and waits as a best-effort lease instead (SR11). REFUSED: it waits on HOLD.
    """

    NONE = "none"
    ACCEPTED = "accepted"
    REFUSED = "refused"
    CONVERTED = "converted"


class Reservation(Struct, frozen=True, order=True):
    """One stay that a lease is promised, all its VMs together, from `start_at_s` until `end_at_s` (None: unknown).

    Instants in seconds since the epoch. `host_ids` has one entry a VM, in the order of the VMs that the lease had when
    it was promised: all that it was admitted with, or those that were left of them. It is empty where hosts are alike
    and picked at the start. `firm`: an accepted advance reservation or deadline, which nobody may take away; else a
    promise of the backfilling policy, which may change when what it counts on changes.
    """

    lease_id: int
    start_at_s: int
    end_at_s: int | None
    host_ids: tuple[int, ...] = ()
    firm: bool = False


class Booking(Struct, frozen=True):
    """All reservations of one lease from now on, in the order of time: they replace those it had. Empty: none."""

    lease_id: int
    reservations: tuple[Reservation, ...] = ()


class VerdictGiven(Struct, frozen=True):
    """A verdict of this cycle, with one sentence for the lease's owner."""

    lease_id: int
    verdict: Verdict
    text: str
