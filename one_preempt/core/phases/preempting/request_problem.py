"""The question "who leaves so that this request fits?" in numbers, for `core.preemption` to answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations, product

import numpy as np
from msgspec.structs import replace

from one_preempt.core.matching.vm_groups import are_tied, group_rules, role_of
from one_preempt.core.model.host import PciDevice
from one_preempt.core.model.infrastructure import VmGroup
from one_preempt.core.model.lease import LeaseType
from one_preempt.core.model.virtual_machine import VirtualMachine
from one_preempt.core.observed_room import amounts_of
from one_preempt.core.overhead.method_pricing import LeasePrice
from one_preempt.core.phases.draft import PlanDraft
from one_preempt.core.phases.preempting.room_then import Amounts, RoomThen
from one_preempt.core.phases.reservations.leaving_in_time import who_leave_too_late
from one_preempt.core.phases.room_wanted import RoomWanted
from one_preempt.core.preemption.device_dimensions import device_dimensions
from one_preempt.core.preemption.problem import (
    BoolArray,
    Choice,
    IntArray,
    NoChoice,
    PreemptableLease,
    PreemptionProblem,
)
from one_preempt.core.victims import PossibleVictim


def request_problem(
    draft: PlanDraft,
    wanted: RoomWanted,
    possible: Sequence[PossibleVictim],
    prices: Mapping[int, LeasePrice],
    then: RoomThen,
    within: BoolArray | None = None,
) -> PreemptionProblem:
    """CPU, MiB, and the dimensions of the devices that `vms` ask for.

    They go to hosts that they may count on, and of these to those `within`, shape (H,) or one row a VM. VMs that are to
    share a host are one request, of which the one host is all of theirs: see `hosts_of_all`.
    """
    vms = wanted.vms
    kinds = device_dimensions([vm.pci_requests for vm in vms], _devices(draft))
    leases = []
    for victim, worth in zip(possible, _worths(draft, wanted, possible), strict=True):
        members = victim.vms
        price = prices[victim.lease.id]
        leases.append(
            PreemptableLease(
                id=victim.lease.id,
                overhead_ms=price.overhead_ms,
                vm_count=len(members),
                host_index=np.array([_row(draft, vm) for vm in members], dtype=np.int64),
                releases=_with_devices(
                    list(map(then.added_by, members)), [kinds.offer(_held(draft, vm)) for vm in members if kinds.sets]
                ),
                reschedules=price.reschedules,
                worth=worth,
            )
        )
    free = then.free
    if kinds.sets:
        free_devices = [kinds.offer(draft.room.free_devices(host_id)) for host_id in draft.state.hosts.ids.tolist()]
        free = np.hstack((free, np.array(free_devices, dtype=np.int64)))
    needs = _with_devices(amounts_of(vms), [kinds.need(vm.pci_requests) for vm in vms if kinds.sets])
    # What is told of one VM of a gang that is alike is told of all.
    of_kinds = vms[:1] if draft.matchmaker.are_alike(vms) else vms
    allowed = np.array([_allowed(draft, vm) for vm in of_kinds], dtype=np.bool_)
    allowed = allowed if len(of_kinds) == len(vms) else allowed.repeat(len(vms), axis=0)
    if within is not None:
        allowed &= within
    separate = _separate(draft, vms)
    if are_tied(vms, draft.state.snapshot) and not separate:
        needs = needs.sum(axis=0, keepdims=True)
        allowed = np.array([np.logical_and.reduce(allowed)], dtype=np.bool_)
    return PreemptionProblem(
        free=free.copy(),
        needs=needs,
        allowed=allowed,
        leases=tuple(leases),
        delta_ms=draft.policies.overhead.reschedule_ms,
        separate=separate,
    )


def _worths(draft: PlanDraft, wanted: RoomWanted, possible: Sequence[PossibleVictim]) -> list[int]:
    """What each lease is worth to stay: more than any other where it would leave too late for a start to come."""
    by_type = draft.policies.victims.least_valuable_first
    worths = [victim.lease.terms.type.worth if by_type else 0 for victim in possible]
    if wanted.start_s <= draft.state.now_s:
        return worths
    leavers = [list(zip(victim.vms, victim.methods, strict=True)) for victim in possible]
    too_late = who_leave_too_late(draft, wanted.lease.id, wanted.start_s, leavers)
    return [worth + len(LeaseType) * late for worth, late in zip(worths, too_late, strict=True)]


def hosts_of_all(choice: Choice | NoChoice, vms: Sequence[VirtualMachine]) -> Choice | NoChoice:
    """The choice with a host for each of `vms`: one that is for all of them is that of each."""
    if isinstance(choice, NoChoice) or len(choice.host_of_request) == len(vms):
        return choice
    return replace(choice, host_of_request=choice.host_of_request * len(vms))


def _allowed(draft: PlanDraft, vm: VirtualMachine) -> BoolArray:
    """The hosts that suit a VM whatever is free: by itself, and by the rules of its VM group; none that only sleeps."""
    mask = draft.matchmaker.match(vm).mask
    if draft.power is not None:
        mask = draft.power.visible(mask, draft.state.lease_of_vm.get(vm.id))
    rules = group_rules(vm, draft.room)
    return mask if rules is None else mask & rules.mask


def _separate(draft: PlanDraft, vms: Sequence[VirtualMachine]) -> tuple[tuple[int, ...], ...]:
    """Members of the request that must not share a host: those of one anti-affined role, and pairs of two roles."""
    rows_by_role: dict[tuple[int, str], list[int]] = {}
    groups: dict[int, VmGroup] = {}
    alone: set[tuple[int, str]] = set()
    for row, vm in enumerate(vms):
        found = role_of(vm, draft.state.snapshot)
        if found is not None:
            group, role = found
            groups[group.id] = group
            rows_by_role.setdefault((group.id, role.name), []).append(row)
            if role.policy == "ANTI_AFFINED":
                alone.add((group.id, role.name))
    apart = [tuple(rows) for role, rows in rows_by_role.items() if role in alone and len(rows) > 1]
    for (one, rows), (other, others) in combinations(rows_by_role.items(), 2):
        if one[0] == other[0] and any({one[1], other[1]} <= set(rule) for rule in groups[one[0]].anti_affined):
            apart += product(rows, others)
    return tuple(apart)


def _devices(draft: PlanDraft) -> list[Sequence[PciDevice]]:
    hosts = draft.state.snapshot.hosts
    return [hosts[host_id].pci_devices for host_id in draft.state.hosts.ids.tolist()]


def _held(draft: PlanDraft, vm: VirtualMachine) -> list[PciDevice]:
    """The devices that a victim's VM gives back when it leaves."""
    host = draft.state.snapshot.hosts[vm.history[-1].host_id]
    return [device for device in host.pci_devices if device.vm_id == vm.id]


def _row(draft: PlanDraft, vm: VirtualMachine) -> int:
    return draft.state.hosts.index_by_id[vm.history[-1].host_id]


def _with_devices(amounts: Sequence[Amounts], devices: Sequence[IntArray]) -> IntArray:
    """CPU and MiB of each VM, and its `devices` where it is about any: shape (VMs, R)."""
    room = np.array(amounts, dtype=np.int64)
    return np.hstack((room, np.array(devices, dtype=np.int64))) if devices else room
