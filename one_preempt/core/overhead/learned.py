"""Rates refined by what was observed, for each operation and storage; robust, whatever is among the observations.

The median of what is left once outliers by their median absolute deviation are dropped, drawn towards the configured
rate while observations are few, and never more than a factor away from it. Whole microseconds for a MiB, or
milliseconds for an operation, so that the result does not depend on the order of anything.

What takes longer than is configured is drawn by the mean, what takes less by the geometric mean: of the two times the
configured one may be a hundred times as long, and would count for all in a mean, however many observations there are.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import groupby
from operator import attrgetter

from msgspec import Struct, field
from msgspec.structs import replace

from one_preempt.core.model.observed_overhead import ObservedOverhead, OverheadKind
from one_preempt.core.model.time import MS_PER_S
from one_preempt.core.overhead.rates import OverheadRates

# So many observations are needed before any of them counts,
LEAST_OBSERVATIONS = 5
# and the configured rate counts as much as so many.
CONFIGURED_WEIGHT = 5
# What is learned takes never more than so many times as long as what is configured, for guests can make things slow,
LARGEST_FACTOR_SLOWER = 20
# and is never more than so many times as fast: from the rates of CCPE13, which are shipped, to some 2.5 GiB/s.
LARGEST_FACTOR_FASTER = 400
# Farther from the median than three standard deviations, of which 1 / 1.4826 is the median absolute deviation.
_OUTLIER_PER_MILLE = 4448
_US_PER_MS = 1000
_US_PER_S = 1_000_000
# Instants are whole seconds: what took none took about half of one.
_NO_SECOND_MS = MS_PER_S // 2

_TIMES_OF_A_GUEST = frozenset({OverheadKind.BOOT, OverheadKind.SHUT_DOWN})

_operation = attrgetter("datastore_id", "kind")
_told = attrgetter("datastore_id", "kind", "memory_mib", "took_s")

_Samples = dict[OverheadKind, tuple[int, ...]]


class LearnedRates(Struct, frozen=True):
    """`configured`, refined: `anywhere` by all observations, `by_storage` by those of each system datastore.

    `not_shared` are the system datastores that lie on the hosts' own disks; with None, so does what is not known yet.
    """

    configured: OverheadRates
    anywhere: OverheadRates
    by_storage: Mapping[int, OverheadRates] = field(default_factory=dict)
    not_shared: frozenset[int | None] = frozenset()

    def at(self, datastore_id: int | None) -> OverheadRates:
        """The rates on one storage; where it is not known yet, of all storages together."""
        if datastore_id is None:
            return self.anywhere
        return self.by_storage.get(datastore_id, self.configured)

    def is_shared(self, datastore_id: int | None) -> bool:
        """What lies there need not be copied when its VM leaves its host or comes back."""
        return datastore_id not in self.not_shared


class Learner:
    """Learns anew only when there is anything new to learn from."""

    def __init__(self) -> None:
        self._from: tuple[tuple[ObservedOverhead, ...], OverheadRates] | None = None
        self._rates: LearnedRates | None = None

    def learned(
        self,
        observations: tuple[ObservedOverhead, ...],
        configured: OverheadRates,
        not_shared: frozenset[int | None] = frozenset(),
    ) -> LearnedRates:
        """As `learn` says; the same object where it says the same as the last time."""
        if self._rates is None or self._from != (observations, configured):
            known, self._from = self._from, (observations, configured)
            if known is None or known[1] != configured or not _say_the_same(observations, known[0]):
                learned = learn(observations, configured)
                if self._rates is None or learned != replace(self._rates, not_shared=frozenset()):
                    self._rates = learned
        assert self._rates is not None
        if self._rates.not_shared != not_shared:
            self._rates = replace(self._rates, not_shared=not_shared)
        return self._rates


def _say_the_same(observations: Sequence[ObservedOverhead], before: Sequence[ObservedOverhead]) -> bool:
    """What is new took what that took which is not told of any more: order, VMs and instants say nothing.

    As it is with starts by the thousand, each of which takes no time.
    """
    last = before[-1] if len(before) == len(observations) > 0 else None
    new = next((number for number, one in enumerate(reversed(observations)) if one is last), 0)
    if not new or observations[:-new] != before[new:]:
        return False
    return sorted(map(_told, observations[-new:])) == sorted(map(_told, before[:new]))


def learn(observations: Sequence[ObservedOverhead], configured: OverheadRates) -> LearnedRates:
    """`configured` as `observations` refine it. Without any, exactly `configured`."""
    by_storage: dict[int, _Samples] = defaultdict(dict)
    anywhere: _Samples = {}
    for (datastore_id, kind), alike in _by_operation(observations):
        samples = _samples(kind, alike)
        by_storage[datastore_id][kind] = samples
        anywhere[kind] = anywhere.get(kind, ()) + samples
    rates = {
        datastore_id: _refined(configured, tuple(of_kinds.items())) for datastore_id, of_kinds in by_storage.items()
    }
    return LearnedRates(configured, _refined(configured, tuple(anywhere.items())), rates)


def _by_operation(
    observations: Sequence[ObservedOverhead],
) -> Iterable[tuple[tuple[int, OverheadKind], Sequence[ObservedOverhead]]]:
    """The observations of each operation on each storage; mostly those of one on one follow each other."""
    observed: dict[tuple[int, OverheadKind], list[ObservedOverhead]] = defaultdict(list)
    for operation, run in groupby(observations, _operation):
        observed[operation] += run
    return observed.items()


def robust_estimate(samples: Sequence[int], configured: int) -> int | None:
    """What `samples` say of a quantity that was configured as `configured`; None where they are too few.

    The weight of n samples that agree is n / (n + `CONFIGURED_WEIGHT`). Both in the same unit, the result too.
    """
    agreeing = _without_outliers(samples)
    count = len(agreeing)
    if count < LEAST_OBSERVATIONS:
        return None
    fastest, slowest = -(-configured // LARGEST_FACTOR_FASTER), configured * LARGEST_FACTOR_SLOWER
    observed = min(max(_median(agreeing), fastest), slowest)
    weight = count + CONFIGURED_WEIGHT
    if observed < configured:
        return round(configured * math.pow(observed / configured, count / weight))
    return (count * observed + CONFIGURED_WEIGHT * configured + weight // 2) // weight


def _samples(kind: OverheadKind, alike: Iterable[ObservedOverhead]) -> tuple[int, ...]:
    """Microseconds for a MiB, or milliseconds for an operation whose time does not depend on the memory."""
    if kind in _TIMES_OF_A_GUEST:
        return tuple([one.took_s * MS_PER_S or _NO_SECOND_MS for one in alike])
    took_us = [((one.took_s * MS_PER_S or _NO_SECOND_MS) * _US_PER_MS, one.memory_mib) for one in alike]
    return tuple([took // memory_mib for took, memory_mib in took_us if memory_mib > 0])


@lru_cache(maxsize=256)
def _refined(configured: OverheadRates, told: tuple[tuple[OverheadKind, tuple[int, ...]], ...]) -> OverheadRates:
    """`configured` with what samples of each kind say; that itself where they say nothing.

    Remembered, for what starts by the thousand mostly takes what it took the last time.
    """
    samples = dict(told)

    def rate(kind: OverheadKind, mib_per_s: float) -> float:
        us_per_mib = robust_estimate(samples.get(kind, ()), max(1, round(_US_PER_S / mib_per_s)))
        return mib_per_s if us_per_mib is None else _US_PER_S / us_per_mib

    def time_ms(kind: OverheadKind, configured_ms: int) -> int:
        took_ms = robust_estimate(samples.get(kind, ()), configured_ms)
        return configured_ms if took_ms is None else took_ms

    # A cold copy that is learned says nothing about a live one.
    apart = replace(configured, live_copy_mib_per_s=configured.live_copy_mib_per_s or configured.copy_mib_per_s)
    refined = replace(
        apart,
        suspend_mib_per_s=rate(OverheadKind.SUSPEND, apart.suspend_mib_per_s),
        resume_mib_per_s=rate(OverheadKind.RESUME, apart.resume_mib_per_s),
        copy_mib_per_s=rate(OverheadKind.MIGRATE, apart.copy_mib_per_s),
        live_copy_mib_per_s=rate(OverheadKind.LIVE_MIGRATE, apart.live_copy_mib_per_s or apart.copy_mib_per_s),
        shutdown_ms=time_ms(OverheadKind.SHUT_DOWN, apart.shutdown_ms),
        boot_ms=time_ms(OverheadKind.BOOT, apart.boot_ms),
    )
    return configured if refined == apart else refined


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
