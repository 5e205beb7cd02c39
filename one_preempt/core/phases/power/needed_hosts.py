"""Who waits for hosts, and the hosts that are on and that somebody of these cannot do without.

Who fits on the hosts that are on only as long as all of them stay on would have one woken again at once. Who would not
fit if nobody else were there has none woken, and keeps none on: a user may ask for more than there is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

import numpy as np
from msgspec.structs import replace

from one_preempt.core.availability.gang_demand import BoolArray, GangDemand
from one_preempt.core.availability.slot_table import fit_in
from one_preempt.core.memory.lease_concerns import WAITING_STATES, Concern
from one_preempt.core.model.cluster_state import IntArray
from one_preempt.core.model.lease import Lease
from one_preempt.core.model.reservation import Verdict
from one_preempt.core.model.virtual_machine import VirtualMachine
from one_preempt.core.phases.draft import PlanDraft
from one_preempt.core.phases.power.fit_answers import FitAnswers
from one_preempt.core.phases.power.power_draft import PowerDraft
from one_preempt.core.phases.power.suited_hosts import suited_hosts
from one_preempt.core.phases.power.would_fit import fits
from one_preempt.core.phases.queue.turns import waiting_leases
from one_preempt.core.phases.reservations.demand_ahead import gang_demand
from one_preempt.core.phases.reservations.promised import is_promised, not_before_s, standing_stays

# So many requests that may preempt, and so many that only sleeping hosts suit, are looked at in one cycle.
LOOKED_AT = 32
# Why those wait for whom hosts are being switched on: they need the others that are on all the same.
WAKING = "waking"


def lacking_hosts(draft: PlanDraft, power: PowerDraft, *, preempting: bool = False) -> Iterator[Lease]:
    """Who waits, was found no room, and may be helped by hosts: in the order of the queue, once that was placed.

    `preempting`: only those of them that may preempt.
    """
    for lease in waiting_leases(draft):
        if preempting and not lease.preempts:
            continue
        if _lacks_room(draft, lease) and fits_at_all(draft, power, lease):
            yield lease


def fits_at_all(draft: PlanDraft, power: PowerDraft, lease: Lease) -> bool:
    """Would it have room on hosts that are on, come or sleep, were nobody there?"""
    if power.fits_at_all is None:
        power.fits_at_all = FitAnswers(draft.state.hosts.capacity, power.known_hosts)
    return fits(draft, draft.startable(lease), power.fits_at_all)


def starts_if_woken(draft: PlanDraft, power: PowerDraft, lease: Lease) -> bool:
    """Would it have room if all hosts that come or sleep were up, and everybody who is there stayed?"""
    if power.fits_if_up is None:
        power.fits_if_up = FitAnswers(power.free_if_up(draft.room.free), power.known_hosts)
    return fits(draft, draft.startable(lease), power.fits_if_up)


def may_wait(draft: PlanDraft, lease: Lease) -> bool:
    """A boot is in time for it: not for who asks for START = "now" and has no answer, which is given in this cycle."""
    return not lease.terms.at_once or lease.verdict is not Verdict.NONE or lease.id in draft.verdicts


def _lacks_room(draft: PlanDraft, lease: Lease) -> bool:
    if lease.id in draft.reserved or not draft.startable(lease):
        return False
    waits = draft.waits.get(lease.id)
    return lease.id in draft.lacking_room or (waits is not None and waits.code == WAKING)


def too_late(draft: PlanDraft) -> list[Lease]:
    """What was promised a time and could not have it starts as soon as it can: it has no slot for which hosts wake."""
    concerned = draft.concerns.all(Concern.TIME)
    late = (concerned[one] for one in sorted(draft.reserved & draft.waits.keys() & concerned.keys()))
    return [
        lease
        for lease in late
        if lease.state in WAITING_STATES
        and not_before_s(draft, lease) <= draft.state.now_s
        and is_promised(draft, lease)
        and not standing_stays(draft, lease)
        and draft.startable(lease)
    ]


def are_counted(draft: PlanDraft, vms: Sequence[VirtualMachine]) -> bool:
    """Is it enough to count the places for the largest of these VMs? So it is of those that need devices or cores."""
    return len(vms) == 1 or draft.matchmaker.are_alike(vms) or any(vm.needs_hardware for vm in vms)


def demand_anywhere(draft: PlanDraft, power: PowerDraft, lease: Lease, vms: Sequence[VirtualMachine]) -> GangDemand:
    """What the VMs of a lease need together, on hosts that are on or sleep."""
    with power.granting(lease.id, power.asleep):
        return gang_demand(draft, vms)


def fits_on(draft: PlanDraft, demand: GangDemand, rows: IntArray) -> tuple[int, ...] | None:
    """The rows of these, the first ones first, that would take a gang were nobody there; None where none would."""
    others = np.ones(len(draft.state.hosts.capacity), dtype=np.bool_)
    others[rows] = False
    capacity = np.where(others[:, None], -1, draft.state.hosts.capacity)
    order = np.concatenate([rows, np.flatnonzero(others)])
    return fit_in(replace(demand, allowed=demand.allowed & ~others, host_order=order), capacity)


class _Counted:
    """A lease that needs so many places for its largest VM."""

    def __init__(self, draft: PlanDraft, lease: Lease, on: BoolArray) -> None:
        vms = draft.startable(lease)
        self._places = suited_hosts(draft, vms).places(draft.state.hosts.capacity)
        self._to_spare = int(self._places[on].sum()) - len(vms)

    def spares(self, row: int) -> bool:
        """There are as many places without the host of this row."""
        return int(self._places[row]) <= max(self._to_spare, 0)

    def do_without(self, row: int) -> None:
        """Count the host of this row as gone: the places on it are not there to spare any more."""
        self._to_spare -= int(self._places[row])


class _Packed:
    """A lease of VMs that differ: it is looked where all of them would be."""

    def __init__(self, draft: PlanDraft, power: PowerDraft, lease: Lease, on: BoolArray) -> None:
        self._draft, self._on = draft, on.copy()
        self._demand = demand_anywhere(draft, power, lease, draft.startable(lease))
        self._found = self._fit_on(on)

    def spares(self, row: int) -> bool:
        """It fits without the host of this row as well; what does not fit anyway keeps those that it could be on."""
        if self._found is None:
            return not self._demand.allowed[:, row].any()
        return row not in self._found or self._without(row) is not None

    def do_without(self, row: int) -> None:
        """Count the host of this row as gone; what would have been on it is placed anew on the others."""
        if self._found is not None and row in self._found:
            self._found = self._without(row)
        self._on[row] = False

    def _without(self, row: int) -> tuple[int, ...] | None:
        mask = self._on.copy()
        mask[row] = False
        return self._fit_on(mask)

    def _fit_on(self, mask: BoolArray) -> tuple[int, ...] | None:
        return fits_on(self._draft, self._demand, np.flatnonzero(mask))


class NeededHosts:
    """What those who wait have to spare of the hosts that are on or come, as some of these go."""

    def __init__(self, draft: PlanDraft, power: PowerDraft) -> None:
        on = power.awake | power.coming
        waiting = () if power.rules.policy.strands else islice(lacking_hosts(draft, power), LOOKED_AT)
        late = (lease for lease in too_late(draft) if fits_at_all(draft, power, lease))
        self._needs = [
            _Counted(draft, lease, on)
            if are_counted(draft, draft.startable(lease))
            else _Packed(draft, power, lease, on)
            for lease in (*waiting, *late)
        ]

    def spare(self, row: int) -> bool:
        """May the host of this row, which is on, go as well? Then it counts as gone from now on."""
        if not all(need.spares(row) for need in self._needs):
            return False
        for need in self._needs:
            need.do_without(row)
        return True
