"""How long the simulated drivers work, and how many of them at once."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


class Operation(StrEnum):
    """What a driver does: virtualization drivers the upper ones, transfer drivers the lower ones. STAGE is none of
    them: an image is brought to a host before anybody is deployed there."""

    __hash__ = str.__hash__  # Enum's own takes the name, in Python

    BOOT = "boot"
    SAVE = "save"
    RESTORE = "restore"
    SHUTDOWN = "shutdown"
    CANCEL = "cancel"
    LIVE_MIGRATE = "live_migrate"
    PROLOG = "prolog"
    PROLOG_RESUME = "prolog_resume"
    PROLOG_MIGRATE = "prolog_migrate"
    EPILOG = "epilog"
    EPILOG_STOP = "epilog_stop"
    STAGE = "stage"


TRANSFERS = frozenset(
    {Operation.PROLOG, Operation.PROLOG_RESUME, Operation.PROLOG_MIGRATE, Operation.EPILOG, Operation.EPILOG_STOP}
)


class Durations(Struct, frozen=True):
    """Seconds per operation, plus memory or disk over a rate where one is given (MiB/s, 0 = the size costs nothing)."""

    boot_s: float = 5.0
    shutdown_s: float = 10.0
    cancel_s: float = 1.0
    save_s: float = 1.0
    save_mib_per_s: float = 200.0
    restore_s: float = 1.0
    restore_mib_per_s: float = 200.0
    live_migrate_s: float = 1.0
    live_migrate_mib_per_s: float = 400.0
    prolog_s: float = 2.0
    prolog_mib_per_s: float = 400.0
    copy_s: float = 1.0
    copy_mib_per_s: float = 0.0
    epilog_s: float = 1.0
    monitor_host_s: float = 10.0
    notice_dead_host_s: float = 60.0

    def duration_ms(self, operation: Operation, memory_mib: int, disk_mib: int) -> int:
        """Whole milliseconds of one operation. `memory_mib` counts only where there is a memory image."""
        base, rate_name, memory_counts, disk_counts = _PRICES[operation]
        base_s: float = getattr(self, base)
        rate: float = getattr(self, rate_name) if rate_name else 0.0
        size_mib = memory_counts * memory_mib + disk_counts * disk_mib
        return round(1000 * (base_s + (size_mib / rate if rate else 0.0)))

    def instant_operations(self) -> frozenset[Operation]:
        """The operations that take no time, whatever the size."""
        return frozenset(
            operation
            for operation, (base, rate_name, _, _) in _PRICES.items()
            if getattr(self, base) == 0 and not (rate_name and getattr(self, rate_name))
        )


# The fields of `Durations` for the fixed part and for the rate, and whether memory and disks are moved at that rate.
_PRICES = {
    Operation.BOOT: ("boot_s", "", False, False),
    Operation.SHUTDOWN: ("shutdown_s", "", False, False),
    Operation.CANCEL: ("cancel_s", "", False, False),
    Operation.SAVE: ("save_s", "save_mib_per_s", True, False),
    Operation.RESTORE: ("restore_s", "restore_mib_per_s", True, False),
    Operation.LIVE_MIGRATE: ("live_migrate_s", "live_migrate_mib_per_s", True, False),
    Operation.PROLOG: ("prolog_s", "prolog_mib_per_s", False, True),
    Operation.PROLOG_RESUME: ("copy_s", "copy_mib_per_s", True, True),
    Operation.PROLOG_MIGRATE: ("copy_s", "copy_mib_per_s", True, True),
    Operation.EPILOG: ("epilog_s", "", False, False),
    Operation.EPILOG_STOP: ("copy_s", "copy_mib_per_s", True, True),
}


INSTANT = Durations(
    boot_s=0, shutdown_s=0, cancel_s=0, save_s=0, save_mib_per_s=0, restore_s=0, restore_mib_per_s=0,
    live_migrate_s=0, live_migrate_mib_per_s=0, prolog_s=0, prolog_mib_per_s=0, copy_s=0, copy_mib_per_s=0,
    epilog_s=0, monitor_host_s=0, notice_dead_host_s=0,
)  # fmt: skip


class DriverLimits(Struct, frozen=True):
    """How many operations run at once, as the drivers are shipped: 15 over the cloud, 1 a host, 15 transfers."""

    virtualization: int = 15
    virtualization_per_host: int = 1
    transfers: int = 15
