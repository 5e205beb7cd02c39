"""What owners have used, measured anew every few minutes and read from the ledger in between.

Between two measurements nothing changes: an order that goes by use is the same until then.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from one_preempt.core.model.cluster_state import ClusterState
from one_preempt.core.model.owner_use import MeasuredUse, Occupants, Owner, OwnerUse, UseRules
from one_preempt.core.owner_use.half_lives import faded, faded_use
from one_preempt.core.owner_use.occupants import observed_occupants
from one_preempt.core.reconcile import Reconciliation
from one_preempt.core.reconciliation.concerned import changed_vm_ids

MEASURED_EVERY_S = 300
# Below one CPU for a second it is forgotten.
LEAST_CPU_CENTI_S = 100
# What no cloud uses, and every database can write down.
MOST_CPU_CENTI_S = 1 << 62


def with_use(
    reconciled: Reconciliation,
    known: tuple[OwnerUse, ...],
    rules: UseRules,
    last: ClusterState | None = None,
    *,
    may_measure: bool = True,
) -> Reconciliation:
    """The same with what owners have used, by what the ledger has `known` of it and who is on a host now.

    It is measured if it is time and it may be; what comes of it is to be written before anything is decided by it.
    `last` is the state of the cycle before, where it is known.
    """
    state = reconciled.state
    before = last.occupants if last is not None else None
    changed = changed_vm_ids(state.snapshot, last) if last is not None else None
    occupants = observed_occupants(state.snapshot, before, changed, state.now_s)
    if not (may_measure and is_due(known, state.now_s)):
        use = last.use if last is not None and last.use.owners == known else MeasuredUse.of(known)
        return Reconciliation(replace(state, use=use, occupants=occupants), reconciled.changes)
    found = measured(known, occupants, rules, state.now_s, _sizes(state))
    counted = replace(occupants, departed=())
    written = replace(reconciled.changes, owner_use=found) if found != known else reconciled.changes
    return Reconciliation(replace(state, use=MeasuredUse.of(found), occupants=counted), written)


def is_due(known: Sequence[OwnerUse], now_s: int) -> bool:
    """It is time to measure. What was measured in what is the future now was measured by a clock that was set back."""
    at_s = measured_at_s(known)
    return at_s is None or not at_s <= now_s < at_s + MEASURED_EVERY_S


def measured_at_s(known: Iterable[OwnerUse]) -> int | None:
    """When use was measured last; None: never."""
    return max((one.measured_at_s for one in known), default=None)


def measured(
    known: Sequence[OwnerUse], occupants: Occupants, rules: UseRules, now_s: int, sizes: tuple[int, int]
) -> tuple[OwnerUse, ...]:
    """What was `known`, faded, and what was used since, by owner in ascending ids.

    `sizes` are the CPUs of all hosts in hundredths, and their memory in MiB. Where nothing is known yet, whoever is on
    a host counts since it came there.
    """
    half_life_s = rules.half_life_s
    used: Counter[Owner] = Counter()
    names = {one.owner: (one.group_name, one.user_name) for one in known}
    for one in known:
        used[one.owner] += faded(one.used_cpu_centi_s, now_s - one.measured_at_s, half_life_s)
    for (owner, from_s, until_s), rate in _rates(known, occupants, rules, now_s, sizes).items():
        used[owner] += faded(faded_use(rate, until_s - from_s, half_life_s), now_s - until_s, half_life_s)
    names.update((one.owner, (one.group_name, one.user_name)) for one in occupants.present.values())
    for gone in occupants.departed:
        names.setdefault(gone.occupant.owner, (gone.occupant.group_name, gone.occupant.user_name))
    return tuple(
        OwnerUse(*owner, *names[owner], used_cpu_centi_s=min(amount, MOST_CPU_CENTI_S), measured_at_s=now_s)
        for owner, amount in sorted(used.items())
        if amount >= LEAST_CPU_CENTI_S
    )


def _rates(
    known: Sequence[OwnerUse], occupants: Occupants, rules: UseRules, now_s: int, sizes: tuple[int, int]
) -> Counter[tuple[Owner, int, int]]:
    """What was used in each second since the last measurement, by owner and the instants between which it was."""
    counted_until_s = measured_at_s(known) or 0
    rates: Counter[tuple[Owner, int, int]] = Counter()
    lasting = ((one, now_s) for one in occupants.present.values())
    for occupant, left_at_s in (*lasting, *((gone.occupant, gone.until_s) for gone in occupants.departed)):
        from_s, until_s = max(counted_until_s, occupant.since_s), min(left_at_s, now_s)
        if from_s < until_s:
            rates[occupant.owner, from_s, until_s] += _weight(
                occupant.cpu_centi, occupant.memory_mib, sizes if rules.counts_memory else (0, 0)
            )
    return rates


def _weight(cpu_centi: int, memory_mib: int, sizes: tuple[int, int]) -> int:
    """Its CPUs in hundredths, or as many as its memory is of all memory, if that is more."""
    all_cpu_centi, all_memory_mib = sizes
    return max(cpu_centi, memory_mib * all_cpu_centi // all_memory_mib if all_memory_mib else 0)


def _sizes(state: ClusterState) -> tuple[int, int]:
    cpu_centi, memory_mib = state.hosts.capacity.sum(axis=0).tolist()
    return cpu_centi, memory_mib
