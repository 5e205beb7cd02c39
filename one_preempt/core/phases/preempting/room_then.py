"""What is free for a request while nobody leaves for it, and what each who could leave would add to that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import sub

import numpy as np
from msgspec import Struct

from one_preempt.core.model.cluster_state import IntArray
from one_preempt.core.model.virtual_machine import VirtualMachine
from one_preempt.core.overhead.method_pricing import LeasePrice
from one_preempt.core.phases.draft import PlanDraft
from one_preempt.core.phases.reservations.giving_way import Taken, giving_way
from one_preempt.core.phases.reservations.known_ends import known_end_s
from one_preempt.core.phases.reservations.room_ahead import firm_ceiling, to_spare
from one_preempt.core.phases.room_wanted import RoomWanted
from one_preempt.core.victims import PossibleVictim

Amounts = tuple[int, int]
_NOTHING = (0, 0)


class RoomThen(Struct, frozen=True, eq=False):
    """`free`: shape (H, 2), what is free for the whole stay of a request while those who could leave are there.

    `of_no_use`: what the leaving of a VM, by id, does not add of what it takes: it ends before others need that.
    """

    free: IntArray
    of_no_use: Mapping[int, Amounts]

    def added_by(self, vm: VirtualMachine) -> Amounts:
        """CPU in hundredths and MiB that are free for the whole stay if this VM leaves as well."""
        cpu_centi, memory_mib = self.of_no_use.get(vm.id, _NOTHING)
        return vm.cpu_centi - cpu_centi, vm.memory_mib - memory_mib


def room_then(
    draft: PlanDraft, wanted: RoomWanted, possible: Sequence[PossibleVictim], prices: Mapping[int, LeasePrice]
) -> RoomThen:
    """What is free for the whole stay, and what those who could leave, at `prices` by lease id, would add.

    At first each of them counts for all of that time, also one that holds its room firmly for a part of it: what its
    leaving gives must not be lent from the time after its end, which may be promised to somebody else. But of what is
    to spare until then they have as much as they take: nobody has to leave who ends before others need his room.
    """
    now_s, ends_s = draft.state.now_s, {one.lease.id: one.ends_at_s for one in giving_way(draft)}
    held = [draft.timeline.stays.get(one.lease.id, ()) for one in possible if one.lease.id not in ends_s]
    held = [stays for stays in held if stays and stays[0].firm and stays[0].start_s <= now_s]
    for stays in held:
        lease_id = stays[0].lease_id
        ends_s[lease_id] = known_end_s(draft, draft.state.leases[lease_id], stays[0])
        draft.timeline.replace(lease_id, stays[1:])
    firm = firm_ceiling(draft, wanted.lease, wanted.start_s, wanted.end_s, throughout=True)
    dearest_first = sorted(possible, key=lambda one: (-prices[one.lease.id].overhead_ms, one.lease.id))
    there = _there(draft, possible, ends_s)
    spare = {} if firm is None else to_spare(draft, wanted.lease, wanted.start_s, wanted.end_s, there)
    for stays in held:
        draft.timeline.replace(stays[0].lease_id, stays)
    if firm is None:
        return RoomThen(draft.room.free, {})
    for stays in held:
        for row, amounts in zip(stays[0].host_rows, stays[0].amounts, strict=True):
            firm[row] -= amounts
    if wanted.start_s > now_s:
        return RoomThen(firm, _stay_until_they_end(draft, firm, spare, dearest_first, ends_s))
    free = draft.room.free
    for row, parts in spare.items():
        # Beside what is free already, whoever has that.
        parts[wanted.start_s] = np.minimum(parts[wanted.start_s], np.maximum(free[row] - firm[row], 0)).tolist()
    of_no_use = _stay_until_they_end(draft, firm, spare, dearest_first, ends_s)
    return RoomThen(np.minimum(firm, free), of_no_use)


def _there(
    draft: PlanDraft, possible: Sequence[PossibleVictim], ends_s: Mapping[int, int | None]
) -> dict[int, list[Taken]]:
    """Who could leave, by row, and when each of them ends by himself."""
    index, there = draft.state.hosts.index_by_id, dict[int, list[Taken]]()
    for one in possible:
        end_s = ends_s.get(one.lease.id)
        for vm in one.vms if end_s is not None else ():
            row = index[vm.history[-1].host_id]
            there.setdefault(row, []).append(Taken(row, end_s, (vm.cpu_centi, vm.memory_mib)))
    return there


def _stay_until_they_end(
    draft: PlanDraft,
    firm: IntArray,
    spare: Mapping[int, Mapping[int, list[int]]],
    possible: Sequence[PossibleVictim],
    ends_s: Mapping[int, int | None],
) -> dict[int, Amounts]:
    """Give what is to `spare` to those who end, the first ones first, and add it to `firm`; what each VM has of it."""
    index, of_no_use = draft.state.hosts.index_by_id, dict[int, Amounts]()
    for one in possible if spare else ():
        end_s = ends_s.get(one.lease.id)
        for vm in one.vms if end_s is not None else ():
            row = index[vm.history[-1].host_id]
            before = [amounts for from_s, amounts in spare.get(row, {}).items() if end_s is None or from_s < end_s]
            has = [min(amounts) for amounts in zip((vm.cpu_centi, vm.memory_mib), *before, strict=True)]
            if before and any(has):
                for amounts in before:
                    amounts[:] = map(sub, amounts, has)
                firm[row] += has
                of_no_use[vm.id] = has[0], has[1]
    return of_no_use
