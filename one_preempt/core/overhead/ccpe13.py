"""Overhead of preempting one lease of v VMs (CCPE13 section 5). Results in whole milliseconds.

Worst case as in the paper: the storage is shared, so the suspends, the resumes and the copies of one lease run one
after another. Symbols: ts_j, tr_j, tc_j suspend, resume and copy VM j; tp pauses or unpauses one VM; delta is the
re-scheduling; h is the overhead of the lease. Each time is rounded before it is added, so that sums and ties do not
depend on the order of additions.
"""

from __future__ import annotations

from collections.abc import Sequence

from one_preempt.core.model.time import seconds_to_ms
from one_preempt.core.overhead.rates import OverheadRates


def suspend_ms(memory_mib: int, rates: OverheadRates) -> int:
    """ts_j = mem_j / s."""
    return seconds_to_ms(memory_mib / rates.suspend_mib_per_s)


def resume_ms(memory_mib: int, rates: OverheadRates) -> int:
    """tr_j = mem_j / r."""
    return seconds_to_ms(memory_mib / rates.resume_mib_per_s)


def copy_ms(size_mib: int, rates: OverheadRates) -> int:
    """tc_j = mem_j / b; the size is the VM's memory in the paper, with its disks where they have to move too."""
    return seconds_to_ms(size_mib / rates.copy_mib_per_s)


def live_copy_ms(size_mib: int, rates: OverheadRates) -> int:
    """tc_j of a VM that runs while it is copied."""
    return seconds_to_ms(size_mib / (rates.live_copy_mib_per_s or rates.copy_mib_per_s))


def cancellable_overhead_ms() -> int:
    """h = 0: stopping for good is near instant, and nothing is scheduled again."""
    return 0


def suspend_part_ms(memories_mib: Sequence[int], rates: OverheadRates) -> int:
    """v tp + sum ts_j + delta: the part of h that passes before the room is free."""
    ts = sum(suspend_ms(memory, rates) for memory in memories_mib)
    return len(memories_mib) * rates.pause_ms + ts + rates.reschedule_ms


def resume_part_ms(memories_mib: Sequence[int], rates: OverheadRates) -> int:
    """v tp + sum tr_j: the part of h that passes when the lease returns."""
    return len(memories_mib) * rates.pause_ms + sum(resume_ms(memory, rates) for memory in memories_mib)


def suspendable_overhead_ms(memories_mib: Sequence[int], rates: OverheadRates) -> int:
    """h = 2 v tp + delta + sum_j (ts_j + tr_j), for the memory of each VM of the lease in MiB."""
    return suspend_part_ms(memories_mib, rates) + resume_part_ms(memories_mib, rates)


def migratable_overhead_ms(
    memories_mib: Sequence[int], rates: OverheadRates, copied_mib: Sequence[int] | None = None
) -> int:
    """h = sum_j tc_j + ts_1 + sum_{j=2..v} max(ts_j, tr_{j-1}) + tr_v + 2 v tp + delta.

    Suspending VM j overlaps resuming VM j-1, so the order of `memories_mib` is the order of moving. `copied_mib` is
    what has to be copied of each VM, by default its memory as in the paper.
    """
    if not memories_mib:
        return rates.reschedule_ms
    ts = [suspend_ms(memory, rates) for memory in memories_mib]
    tr = [resume_ms(memory, rates) for memory in memories_mib]
    tc = sum(copy_ms(size, rates) for size in (memories_mib if copied_mib is None else copied_mib))
    overlapped = sum(max(suspending, resuming) for suspending, resuming in zip(ts[1:], tr, strict=False))
    return tc + ts[0] + overlapped + tr[-1] + 2 * len(memories_mib) * rates.pause_ms + rates.reschedule_ms
