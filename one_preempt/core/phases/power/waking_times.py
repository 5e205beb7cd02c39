"""When hosts that sleep and were promised must be woken at the latest, though few may boot at once."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from heapq import heappop, heappush
from types import MappingProxyType

from one_preempt.core.availability.timeline import Stay
from one_preempt.core.host_power.hosts_to_come import last_switching_s
from one_preempt.core.memory.remembered_wakings import Waking, Wakings
from one_preempt.core.model.lease import Lease
from one_preempt.core.phases.draft import PlanDraft
from one_preempt.core.phases.images.promised_images import receiving_rows
from one_preempt.core.phases.power.power_draft import PowerDraft
from one_preempt.core.phases.reservations.promised import promised_leases

# A boot that waits for the end of another one begins so long after it: that end must be seen first.
TURN_S = 30
# So long before and after the end of its boot a host counts as up any moment: then nobody else's hosts are looked at.
ENABLED_WITHIN_S = 30
_NOTHING_BROUGHT: Mapping[int, int] = MappingProxyType({})


def promised_wakings(draft: PlanDraft, power: PowerDraft) -> tuple[list[Lease], Wakings]:
    """Who was promised a start, and when hosts are woken for them; boots due soon are noted in `power.due_soon`."""
    waiting = [lease for lease in promised_leases(draft) if not lease.terms.at_once]
    promised = sorted(waiting, key=lambda lease: (lease.arrived_at_s, lease.id))
    wakings = waking_times(draft, power, promised)
    soon_s = power.now_s + max(power.boots_s.values()) + TURN_S
    power.due_soon = frozenset(row for row, waking in wakings.by_row.items() if waking.begin_s <= soon_s)
    return promised, wakings


def waking_times(draft: PlanDraft, power: PowerDraft, promised: Iterable[Lease]) -> Wakings:
    """When the sleeping hosts on which these leases start next are woken."""
    known = (draft.timeline.stays.get(lease.id, ())[:1] for lease in promised)
    firsts = [stay for first in known for stay in first]
    under: tuple[object, ...] = (power.boots_s, power.rules, draft.policies)
    if draft.images is not None:
        # Transfers follow from more than stays.
        under = (*under, object())
    return draft.memory.wakings.of(under, firsts, power.now_s, lambda: _waking_times(draft, power, firsts))


def _waking_times(draft: PlanDraft, power: PowerDraft, firsts: Iterable[Stay]) -> dict[int, Waking]:
    brought_s = {} if draft.images is None else receiving_rows(draft, draft.images)
    return latest_wakings(draft, power, first_starts_s(firsts, power.boots_s), power.boots_s, power.now_s, brought_s)


def latest_wakings(
    draft: PlanDraft,
    power: PowerDraft,
    starts_s: Mapping[int, int],
    boots_s: Mapping[int, int],
    from_s: int,
    brought_s: Mapping[int, int] = _NOTHING_BROUGHT,
) -> dict[int, Waking]:
    """Counted from the last of these starts backwards, so that never more boot at once than may; none before `from_s`.

    Starts and boots are by row, and so is when images that are `brought_s` begin to come: hosts must be up by then.
    """
    margin_s, most = draft.policies.time.preparation_margin_s, max(power.rules.most_booting, 1)
    needed_s = {row: min(start_s, brought_s.get(row, start_s)) for row, start_s in starts_s.items()}
    found: dict[int, Waking] = {}
    switching_s: dict[int, int] = {}
    begun: list[int] = []
    for row in sorted(needed_s, key=lambda row: (-needed_s[row], row)):
        up_by_s = needed_s[row] - margin_s
        if len(begun) == most:
            up_by_s = min(up_by_s, -heappop(begun) - TURN_S)
        before_s = up_by_s - boots_s[row]
        if before_s not in switching_s:
            switching_s[before_s] = last_switching_s(power.rules, before_s, from_s)
        found[row] = Waking(starts_s[row], switching_s[before_s])
        heappush(begun, -switching_s[before_s])
    return found


def first_starts_s(stays: Iterable[Stay], among: Container[int] | None = None) -> dict[int, int]:
    """When the first of these stays begins on each host, by row; None: on any, else on those `among` these rows."""
    found: dict[int, int] = {}
    for stay in stays:
        for row in stay.host_rows:
            if among is None or row in among:
                found[row] = min(found.get(row, stay.start_s), stay.start_s)
    return found


def may_sleep_until(draft: PlanDraft, power: PowerDraft, row: int, start_s: int) -> bool:
    """Sleep saves something though the host is woken in time for a start, whoever else must be woken before."""
    host_power = power.rules.power_of(power.host(row))
    if host_power.break_even_s is None:
        return False
    boot_s = max((power.rules.up_after(host_power), *power.boots_s.values()))
    # As if all others that sleep were to start before: so it takes nobody's turn.
    turns = -(-(len(power.boots_s) + len(power.until_then) + 1) // max(power.rules.most_booting, 1))
    before_s = start_s - draft.policies.time.preparation_margin_s - turns * boot_s - (turns - 1) * TURN_S
    return last_switching_s(power.rules, before_s, power.now_s) - power.now_s > host_power.break_even_s


def come_up_any_moment(draft: PlanDraft, stay: Stay) -> bool:
    """Hosts of it are up any moment: they were woken for it, and nobody is to leave others for so little."""
    power = draft.power
    if power is None:
        return False
    due_s = power.to_come.due_s
    coming = [due_s[row] for row in set(stay.host_rows) if row in due_s]
    # What never lost its power has no such instant.
    return bool(coming) and all(not at_s or abs(power.now_s - at_s) < ENABLED_WITHIN_S for at_s in coming)
