"""What the administrator chose about time: who may be suspended for whom, and what becomes of a lease that overruns."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


class Suspension(StrEnum):
    """Which best-effort leases may be suspended for what was promised a start, and resumed after it (VW07 6.1).

    SERIAL_ONLY: those of one VM, because the others are all or nothing and cost most to save together.
    """

    NONE = "none"
    SERIAL_ONLY = "serial-only"
    ALL = "all"


class Overrun(StrEnum):
    """What happens to a lease that runs on after its DURATION.

    Until it is over, the queue expects it to end any second, and nothing firm is promised in its place.
    KEEP: it runs on. PREEMPT: it runs on and is an admissible victim from then on. STOP: it is stopped and owed
    nothing. TERMINATE: it is ended for good.
    """

    KEEP = "keep"
    PREEMPT = "preempt"
    STOP = "stop"
    TERMINATE = "terminate"


class Exclusion(StrEnum):
    """What saving and restoring memory takes turns on: a host, or the storage that all share (CCPE13)."""

    HOST = "host"
    SHARED_STORAGE = "shared-storage"
    NONE = "none"


class RefusedReservation(StrEnum):
    """What becomes of a reservation that cannot be kept: it waits on HOLD, or in the queue as best effort (SR11)."""

    REFUSE = "refuse"
    QUEUE = "queue"


class TimeRules(Struct, frozen=True):
    """How time is handed out. All times in whole seconds.

    `least_run_before_suspension_s`: nothing is started that would be suspended again before having run for so long.
    `overrun_grace_s`: how long after its duration a lease is left alone before it is stopped or terminated, and before
    its deadline or its limit of suspensions no longer protects it; with `Overrun.PREEMPT` it makes room at once.
    `grace_s`: how long before a stop its guest is warned. `preparation_margin_s`: added to the overheads that must be
    over at a start.
    """

    suspension: Suspension = Suspension.ALL
    least_run_before_suspension_s: int = 300
    refused_reservation: RefusedReservation = RefusedReservation.REFUSE
    overrun: Overrun = Overrun.KEEP
    overrun_grace_s: int = 300
    grace_s: int = 0
    preparation_margin_s: int = 30
    exclusion: Exclusion = Exclusion.SHARED_STORAGE

    @property
    def overruns_are_ended_in_s(self) -> int | None:
        """How long after its DURATION a lease is made to leave at the latest, with the margin; None: nobody ends it."""
        is_ended = self.overrun in (Overrun.STOP, Overrun.TERMINATE)
        return self.overrun_grace_s + self.preparation_margin_s if is_ended else None
