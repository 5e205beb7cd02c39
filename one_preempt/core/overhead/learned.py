"""Rates refined by what was observed, for each operation and storage; robust, whatever is among the observations.

The median of what is left once outliers by their median absolute deviation are dropped, drawn towards the configured
rate while observations are few, and never more than a factor away from it. Whole microseconds for a MiB, or
milliseconds for an operation, so that the result does not depend on the order of anything.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from one_preempt.core.model.observed_overhead import ObservedOverhead, OverheadKind
from one_preempt.core.model.time import MS_PER_S
from one_preempt.core.overhead.rates import OverheadRates

# So many observations are needed before any of them counts,
LEAST_OBSERVATIONS = 5
# and the configured rate counts as much as so many.
CONFIGURED_WEIGHT = 5
# What is learned is never more than so many times faster or slower than what is configured.
LARGEST_FACTOR = 20
# Farther from the median than three standard deviations, of which 1 / 1.4826 is the median absolute deviation.
_OUTLIER_PER_MILLE = 4448
_US_PER_MS = 1000
_US_PER_S = 1_000_000
# Instants are whole seconds: what took none took about half of one.
_NO_SECOND_MS = MS_PER_S // 2


@dataclass(frozen=True, slots=True)
class LearnedRates:
    """`configured`, refined: `anywhere` by all observations, `by_storage` by those of each system datastore."""

    configured: OverheadRates
    anywhere: OverheadRates
    by_storage: Mapping[int, OverheadRates] = field(default_factory=dict)

    def at(self, datastore_id: int | None) -> OverheadRates:
        """The rates on one storage; where it is not known yet, of all storages together."""
        if datastore_id is None:
            return self.anywhere
        return self.by_storage.get(datastore_id, self.configured)


def learn(observations: Iterable[ObservedOverhead], configured: OverheadRates) -> LearnedRates:
    """`configured` as `observations` refine it. Without any, exactly `configured`."""
    samples: dict[int | None, dict[OverheadKind, list[int]]] = defaultdict(lambda: defaultdict(list))
    for one in observations:
        sample = _sample(one)
        if sample is not None:
            samples[one.datastore_id][one.kind].append(sample)
            samples[None][one.kind].append(sample)
    rates = {datastore_id: _refined(configured, by_kind) for datastore_id, by_kind in samples.items()}
    anywhere = rates.pop(None, configured)
    return LearnedRates(
        configured, anywhere, {datastore_id: one for datastore_id, one in rates.items() if datastore_id is not None}
    )


def robust_estimate(samples: Sequence[int], configured: int) -> int | None:
    """What `samples` say of a quantity that was configured as `configured`; None where they are too few.

    The weight of n samples that agree is n / (n + `CONFIGURED_WEIGHT`). Both in the same unit, the result too.
    """
    agreeing = _without_outliers(samples)
    count = len(agreeing)
    if count < LEAST_OBSERVATIONS:
        return None
    observed = min(max(_median(agreeing), -(-configured // LARGEST_FACTOR)), configured * LARGEST_FACTOR)
    weight = count + CONFIGURED_WEIGHT
    return (count * observed + CONFIGURED_WEIGHT * configured + weight // 2) // weight


def _sample(one: ObservedOverhead) -> int | None:
    """Microseconds for a MiB, or milliseconds for an operation whose time does not depend on the memory."""
    took_ms = one.took_s * MS_PER_S or _NO_SECOND_MS
    if one.kind in (OverheadKind.BOOT, OverheadKind.SHUT_DOWN):
        return took_ms
    return took_ms * _US_PER_MS // one.memory_mib if one.memory_mib > 0 else None


def _refined(configured: OverheadRates, samples: Mapping[OverheadKind, Sequence[int]]) -> OverheadRates:
    def rate(kind: OverheadKind, mib_per_s: float) -> float:
        estimate = robust_estimate(samples.get(kind, ()), max(1, round(_US_PER_S / mib_per_s)))
        return mib_per_s if estimate is None else _US_PER_S / estimate

    def time_ms(kind: OverheadKind, configured_ms: int) -> int:
        estimate = robust_estimate(samples.get(kind, ()), configured_ms)
        return configured_ms if estimate is None else estimate

    copy_mib_per_s = configured.live_copy_mib_per_s or configured.copy_mib_per_s
    live_copy_mib_per_s = rate(OverheadKind.LIVE_MIGRATE, copy_mib_per_s)
    return replace(
        configured,
        suspend_mib_per_s=rate(OverheadKind.SUSPEND, configured.suspend_mib_per_s),
        resume_mib_per_s=rate(OverheadKind.RESUME, configured.resume_mib_per_s),
        copy_mib_per_s=rate(OverheadKind.MIGRATE, configured.copy_mib_per_s),
        live_copy_mib_per_s=live_copy_mib_per_s,
        shutdown_ms=time_ms(OverheadKind.SHUT_DOWN, configured.shutdown_ms),
        boot_ms=time_ms(OverheadKind.BOOT, configured.boot_ms),
    )


def _without_outliers(samples: Sequence[int]) -> list[int]:
    if not samples:
        return []
    middle = _median(samples)
    deviation = _median([abs(sample - middle) for sample in samples])
    return [sample for sample in samples if abs(sample - middle) * 1000 <= deviation * _OUTLIER_PER_MILLE]


def _median(samples: Sequence[int]) -> int:
    """The middle one; of two in the middle their mean, rounded down."""
    ordered = sorted(samples)
    return (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) // 2
