"""How long simulated drivers take, and that the scheduler plans with the same: neither is surprised by the other."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec.structs import replace

from one_preempt.configuration.settings import OverheadSettings
from one_preempt.simulation.simulated_cloud.durations import INSTANT, Durations

# A rate of 0 says of a driver that size costs nothing; the scheduler is told a rate that comes to the same.
_NO_TIME_MIB_PER_S = 1e9


def simulated_durations(
    overhead: OverheadSettings, given: Mapping[str, float], *, shared_storage: bool = True
) -> Durations:
    """Saving, restoring and copying at the rates of the configuration, and `given` instead where it names a duration.

    On shared storage only live migrations copy. Nothing else takes time: what a log says of run times has boots in it
    already.
    """
    rates = replace(
        INSTANT,
        save_s=overhead.pause_s,
        save_mib_per_s=overhead.suspend_mib_per_s,
        restore_s=overhead.pause_s,
        restore_mib_per_s=overhead.resume_mib_per_s,
        live_migrate_mib_per_s=overhead.copy_mib_per_s,
        copy_mib_per_s=0.0 if shared_storage else overhead.copy_mib_per_s,
    )
    return replace(rates, **given)


def planned_overhead(overhead: OverheadSettings, durations: Durations) -> OverheadSettings:
    """What the scheduler expects operations to take where they take `durations`: of two kinds of copies the slower."""
    copies_mib_per_s = [rate for rate in (durations.live_migrate_mib_per_s, durations.copy_mib_per_s) if rate]
    return msgspec.structs.replace(
        overhead,
        suspend_mib_per_s=durations.save_mib_per_s or _NO_TIME_MIB_PER_S,
        resume_mib_per_s=durations.restore_mib_per_s or _NO_TIME_MIB_PER_S,
        copy_mib_per_s=min(copies_mib_per_s, default=_NO_TIME_MIB_PER_S),
        pause_s=max(durations.save_s, durations.restore_s),
        boot_s=durations.boot_s,
        shutdown_s=durations.shutdown_s,
    )
