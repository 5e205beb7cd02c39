"""Stays of leases: how long they last, on which hosts they are, and how they are written down."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from one_preempt.core.availability.timeline import Stay
from one_preempt.core.model.lease import Lease
from one_preempt.core.model.plan import Placement
from one_preempt.core.model.reservation import Booking, Reservation
from one_preempt.core.model.virtual_machine import VirtualMachine
from one_preempt.core.observed_room import amounts_of, needed_s
from one_preempt.core.phases.draft import PlanDraft


def takes_s(draft: PlanDraft, lease: Lease, vms: Sequence[VirtualMachine]) -> int | None:
    """For how long the lease takes its room when it starts; None: nobody knows."""
    known = draft.memory.queue.request_of(lease, vms, draft.policies, draft.rates)
    return needed_s(draft.policies, draft.rates, lease, vms) if known is None else known.duration_s


def end_of(start_s: int, takes_s: int | None) -> int | None:
    """When a stay ends that takes so long, both in seconds; None where nobody knows how long it takes."""
    return None if takes_s is None else start_s + takes_s


def expected_end_s(draft: PlanDraft, lease: Lease, vms: Sequence[VirtualMachine], start_s: int) -> int | None:
    """When the lease gives its room back if these VMs of it start at `start_s`; None: nobody knows."""
    return end_of(start_s, takes_s(draft, lease, vms))


def stay_at(
    lease: Lease, vms: Sequence[VirtualMachine], rows: Sequence[int], start_s: int, end_s: int | None, *, firm: bool
) -> Stay:
    """The stay of VMs on the hosts of these rows."""
    return Stay(lease.id, start_s, end_s, tuple(rows), amounts_of(vms), firm=firm)


def stay_of_placed(
    draft: PlanDraft,
    lease: Lease,
    vms: Sequence[VirtualMachine],
    placed: Iterable[Placement],
    end_s: int | None,
    *,
    firm: bool = True,
) -> Stay:
    """The stay of VMs from now on, where they are placed now; placements are in the order of `vms`."""
    return stay_at(lease, vms, rows_of(draft, placed), draft.state.now_s, end_s, firm=firm)


def vms_of_stay(draft: PlanDraft, stay: Stay, vms: Sequence[VirtualMachine]) -> Sequence[VirtualMachine]:
    """Those of the VMs of its lease that have a host by a stay, in the order of its hosts."""
    return [draft.state.snapshot.vms[vm_id] for vm_id in stay.vm_ids] if stay.vm_ids else vms


def rows_of(draft: PlanDraft, placements: Iterable[Placement]) -> tuple[int, ...]:
    """By row of the table of hosts where each VM is placed, in the order of `placements`."""
    return tuple(draft.state.hosts.index_by_id[placement.host_id] for placement in placements)


def booked(draft: PlanDraft, lease: Lease, stays: Sequence[Stay]) -> Booking:
    """Stays as the ledger keeps them: by host id."""
    ids = draft.state.hosts.ids
    return Booking(
        lease.id,
        tuple(
            Reservation(
                lease_id=lease.id,
                start_at_s=stay.start_s,
                end_at_s=stay.end_s,
                host_ids=tuple(int(ids[row]) for row in stay.host_rows),
                firm=stay.firm and not stay.promise,
            )
            for stay in stays
        ),
    )


def book(draft: PlanDraft, lease: Lease, stays: Sequence[Stay]) -> None:
    """Hold `stays` instead of all that was held for the lease, and have it written down."""
    draft.timeline.replace(lease.id, tuple(stays))
    draft.book(booked(draft, lease, stays))
