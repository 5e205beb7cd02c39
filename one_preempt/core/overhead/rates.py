"""The speeds and times that the overhead models are fed with."""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct


class OverheadRates(Struct, frozen=True):
    """What the models are fed with. The defaults are CCPE13's simulations (section 7.2).

    Attributes:
        suspend_mib_per_s: s, writing memory to the storage.
        resume_mib_per_s: r, reading it back.
        copy_mib_per_s: b, to another host or provider (100 Mbit/s: 1024 MB in 160.2 s).
        pause_ms: tp, pausing or unpausing one VM.
        reschedule_ms: delta, finding a new time and place.
        shutdown_ms: A guest's orderly shutdown; not of the paper, an assumption until durations are observed.
        boot_ms: A guest's boot; likewise.
        live_copy_mib_per_s: b of live migrations, where it was learned apart; None: as `copy_mib_per_s`.
    """

    suspend_mib_per_s: float = 6.36
    resume_mib_per_s: float = 8.12
    copy_mib_per_s: float = 1024 / 160.2
    pause_ms: int = 5
    reschedule_ms: int = 2300
    shutdown_ms: int = 20_000
    boot_ms: int = 40_000
    live_copy_mib_per_s: float | None = None

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if value is None:
                continue
            if not (value > 0 if name.endswith("_per_s") else value >= 0) or value == float("inf"):
                raise ValueError(f"{name} is {value}: rates must be finite and above 0, times not below 0")

    def at(self, datastore_id: int | None) -> OverheadRates:
        """The same on every storage."""
        return self

    def is_shared(self, datastore_id: int | None) -> bool:
        """All storage counts as shared by all hosts."""
        return True


class RatesByStorage(Protocol):
    """Rates that may differ from storage to storage: `OverheadRates` themselves, or what was learned."""

    def at(self, datastore_id: int | None) -> OverheadRates:
        """The rates where a VM's system datastore is `datastore_id`; None: it is not known yet."""

    def is_shared(self, datastore_id: int | None) -> bool:
        """False: what lies there is on the host's own disks, and is copied when its VM leaves or comes back."""
