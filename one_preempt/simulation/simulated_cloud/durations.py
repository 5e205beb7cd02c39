"""How long the simulated drivers work, and how many of them at once."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Operation(StrEnum):
    """What a driver does: virtualization drivers the upper ones, transfer drivers the lower ones."""

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


TRANSFERS = frozenset(
    {Operation.PROLOG, Operation.PROLOG_RESUME, Operation.PROLOG_MIGRATE, Operation.EPILOG, Operation.EPILOG_STOP}
)


@dataclass(frozen=True, slots=True)
class Durations:
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
        base_s, size_mib, rate = {
            Operation.BOOT: (self.boot_s, 0, 0.0),
            Operation.SHUTDOWN: (self.shutdown_s, 0, 0.0),
            Operation.CANCEL: (self.cancel_s, 0, 0.0),
            Operation.SAVE: (self.save_s, memory_mib, self.save_mib_per_s),
            Operation.RESTORE: (self.restore_s, memory_mib, self.restore_mib_per_s),
            Operation.LIVE_MIGRATE: (self.live_migrate_s, memory_mib, self.live_migrate_mib_per_s),
            Operation.PROLOG: (self.prolog_s, disk_mib, self.prolog_mib_per_s),
            Operation.PROLOG_RESUME: (self.copy_s, disk_mib + memory_mib, self.copy_mib_per_s),
            Operation.PROLOG_MIGRATE: (self.copy_s, disk_mib + memory_mib, self.copy_mib_per_s),
            Operation.EPILOG: (self.epilog_s, 0, 0.0),
            Operation.EPILOG_STOP: (self.copy_s, disk_mib + memory_mib, self.copy_mib_per_s),
        }[operation]
        return round(1000 * (base_s + (size_mib / rate if rate else 0.0)))


INSTANT = Durations(
    boot_s=0, shutdown_s=0, cancel_s=0, save_s=0, save_mib_per_s=0, restore_s=0, restore_mib_per_s=0,
    live_migrate_s=0, live_migrate_mib_per_s=0, prolog_s=0, prolog_mib_per_s=0, copy_s=0, copy_mib_per_s=0,
    epilog_s=0, monitor_host_s=0, notice_dead_host_s=0,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class DriverLimits:
    """How many operations run at once, as the drivers are shipped: 15 over the cloud, 1 a host, 15 transfers."""

    virtualization: int = 15
    virtualization_per_host: int = 1
    transfers: int = 15
