"""What a scheduling cycle is plugged into: the same cycle serves every mode, with other surroundings."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from one_preempt.enactment.image_enactment import ImageEnactment
from one_preempt.enactment.power_enactment import PowerEnactment
from one_preempt.enactment.power_recording import PowerRecorder
from one_preempt.ports import Clock, Enactor, EventSource, GangIssuer, HeldCapacity, LeaseStore, PoolReader


class Surroundings(Struct, frozen=True):
    """The cloud, the ledger and the time of a cycle, and what else there is around it.

    Attributes:
        reader: Observes the cloud.
        store: The ledger.
        enactor: Calls oned; None: decide and explain only.
        clock: What time it is.
        held_capacity: Where promised room is made known to a placement without the daemon.
        events: Tells at which instants VMs reached states.
        gangs: Is asked first to issue what is ready for a lease.
        power: Switches hosts.
        images: Brings images to hosts before VMs start there.
        recorder: Keeps what hosts do, for reports of energy.
        clock_gained_s: How much farther the clock has gone than time, in seconds, since this was asked last; None: who
            steps the time sets it.
        clock_ahead_s: How far ahead of oned's time the clock is, in seconds, by oned's last answer; None: it does not
            say, or, for the function, who steps the time sets it.
    """

    reader: PoolReader
    store: LeaseStore
    enactor: Enactor | None
    clock: Clock
    held_capacity: HeldCapacity | None = None
    events: EventSource | None = None
    gangs: GangIssuer | None = None
    power: PowerEnactment | None = None
    images: ImageEnactment | None = None
    recorder: PowerRecorder | None = None
    clock_gained_s: Callable[[], int] | None = None
    clock_ahead_s: Callable[[], int | None] | None = None
