"""Nobody is given a host that surely does not suit him, now or for a time to come.

Only what a plan adds is judged: what was promised, or decided upon, before a host or a rule changed goes on as it may.
"""

from __future__ import annotations

from collections.abc import Iterator

from one_preempt.core.model.host import Host
from one_preempt.core.model.infrastructure import VmGroupRole
from one_preempt.core.model.lease import Lease
from one_preempt.core.model.plan import Action
from one_preempt.core.model.reservation import Reservation
from one_preempt.core.verify.host_requirements import Residents
from one_preempt.core.verify.recount import Recount, Rule, Violation, is_kept_out
from one_preempt.core.verify.vm_group_rules import role_of

UNSUITED = "unsuited-host"


def _hosts_suit_who_comes(recount: Recount) -> Iterator[Violation]:
    snapshot, suiting = recount.state.snapshot, recount.books.suiting
    suiting.follow(snapshot)
    for action, vm, host in recount.arrivals:
        if suiting.is_known(snapshot, vm, host):
            continue
        if not recount.under_way(action) and not _was_decided_before(recount, action):
            # Who waits for others to leave finds another load.
            is_plain = not action.after and action.preemption_id is None
            beside = _residents(recount, host) if is_plain else _nobody_knows
            for fault in suiting.faults(snapshot, vm, host, beside, load_is_known=is_plain):
                yield Violation(UNSUITED, f"{action.id} brings VM {vm.id} to host {host.id}, {fault}")


def _was_decided_before(recount: Recount, action: Action) -> bool:
    """It stands in the ledger already, or is of a preemption that does."""
    record = recount.state.actions.get(action.id)
    if record is not None and record.host_id == action.host_id:
        return True
    opened = [one.preemption for one in recount.state.preemptions if one.preemption.id == action.preemption_id]
    places: set[tuple[int, int | None]] = set()
    for preemption in opened:
        places |= {(one.vm_id, one.host_id) for one in preemption.placements}
        places |= {(one.vm_id, one.target_host_id) for one in preemption.victims}
    return (action.vm_id, action.host_id) in places


def _nobody_knows(_: int) -> None:
    """Who will be there then."""
    return


def _residents(recount: Recount, host: Host) -> Residents:
    """Who is on a host when somebody comes there now; not known of those who come or go themselves."""

    def is_there(vm_id: int) -> bool | None:
        if vm_id in recount.moving_vm_ids:
            return None
        vm, is_listed = recount.vms.get(vm_id), vm_id in host.vm_ids
        if vm is None or vm.host_id != host.id:
            return None if is_listed else False
        return True if vm.is_running else None

    return is_there


def _hosts_suit_who_takes_part_in_preemptions(recount: Recount) -> Iterator[Violation]:
    for preemption in recount.plan.preemptions:
        places = [(one.vm_id, one.host_id) for one in preemption.placements]
        places += [(one.vm_id, one.target_host_id) for one in preemption.victims if one.target_host_id is not None]
        for vm_id, host_id in places:
            yield from _judged(recount, vm_id, host_id, f"preemption {preemption.id} gives VM {vm_id} host {host_id}")


def _hosts_suit_who_is_promised_them(recount: Recount) -> Iterator[Violation]:
    for booking in recount.plan.bookings:
        lease = recount.leases.get(booking.lease_id)
        if lease is None or not any(one.host_ids for one in booking.reservations):
            continue
        known = _known_hosts(recount, lease)
        promised = {pair for one in booking.reservations for pair in _placed(recount, lease, one)}
        for vm_id, host_id in sorted(promised):
            if host_id not in known:
                what = f"VM {vm_id} of lease {lease.id} is promised host {host_id}"
                yield from _judged(recount, vm_id, host_id, what)


def _known_hosts(recount: Recount, lease: Lease) -> set[int]:
    """Hosts that it was promised, or room was being made for it on, before; and those that it is on."""
    found = {host_id for one in recount.state.reservations.get(lease.id, ()) for host_id in one.host_ids}
    for opened in recount.state.preemptions:
        if opened.preemption.preemptor_lease_id == lease.id:
            found |= {one.host_id for one in opened.preemption.placements}
    return found | {host_id for vm_id in lease.vm_ids for host_id in recount.vms[vm_id].charged_host_ids}


def _placed(recount: Recount, lease: Lease, slot: Reservation) -> Iterator[tuple[int, int]]:
    """Which VM is promised which host: all of the lease, or those of it that are on none and wait for one."""
    vms = [recount.vms[vm_id] for vm_id in lease.vm_ids]
    vm_ids = [vm.id for vm in vms if vm.host_id is None and not is_kept_out(lease, vm)]
    if len(slot.host_ids) == len(lease.vm_ids):
        vm_ids = list(lease.vm_ids)
    # That it is one host a VM is a rule of its own.
    yield from zip(vm_ids, slot.host_ids, strict=False)


def _judged(recount: Recount, vm_id: int, host_id: int, what: str) -> Iterator[Violation]:
    """What is wrong with a host at a time to come, of which nobody knows who will be there."""
    snapshot, suiting = recount.state.snapshot, recount.books.suiting
    suiting.follow(snapshot)
    vm, host = recount.vms.get(vm_id), recount.hosts.get(host_id)
    if vm is None or host is None:
        return
    found = role_of(recount, vm_id) if vm.vm_group_id is not None else None
    if found is not None and _keeps_away(found[1], host_id):
        yield Violation(UNSUITED, f"{what}, from which role {found[1].name} of VM group {found[0].id} keeps away")
    if suiting.is_known(snapshot, vm, host):
        return
    for fault in suiting.faults(snapshot, vm, host, _nobody_knows, load_is_known=False):
        yield Violation(UNSUITED, f"{what}, {fault}")


def _keeps_away(role: VmGroupRole, host_id: int) -> bool:
    """For who comes now, who else is there matters too: that is a rule of its own."""
    return (bool(role.host_affined) and host_id not in role.host_affined) or host_id in role.host_anti_affined


RULES: tuple[Rule, ...] = (_hosts_suit_who_comes,)
RULES_OF_PREEMPTIONS: tuple[Rule, ...] = (_hosts_suit_who_takes_part_in_preemptions,)
RULES_OF_PROMISES: tuple[Rule, ...] = (_hosts_suit_who_is_promised_them,)
