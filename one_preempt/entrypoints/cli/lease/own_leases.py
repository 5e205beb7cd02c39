"""Own leases from OpenNebula alone: VMs with a LEASE attribute put together as the admission does it.

Terms are read from the attribute, as they are asked for, and how it went from LEASE_STATUS: which were admitted only
the scheduler knows. Texts of users come out of here as they are: `printable` is for who shows them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import datetime

from msgspec import Struct

from one_preempt.core.admission.gangs import GangKey, form_gangs, why_apart
from one_preempt.core.admission.lease_attribute import LEASE, MalformedLease, parse_lease_attribute
from one_preempt.core.lease_status import NOT_RESERVED, preemptor_in_status, says_in_place, status_of
from one_preempt.core.model.lease import LeaseState, LeaseTerms
from one_preempt.core.model.lease_lifecycle import VmPhase, lease_state, phase_of
from one_preempt.core.model.virtual_machine import VirtualMachine, VmState

REFUSED = ("on hold: ", "refused: ")
_STARTS_AT = re.compile(r"starts at ([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z)")
_RESERVED = "reserved: "


class Promise(Struct, frozen=True):
    """When a lease starts by its LEASE_STATUS; `firm`: that is reserved, else it may change."""

    start_at_s: int
    firm: bool


class OwnLease(Struct, frozen=True):
    """One lease of the caller. `terms` is None where the attribute cannot be read, `problem` then says why.

    `id` is the id of its oldest VM that is left; `vms` are oldest first.
    """

    id: int
    vms: tuple[VirtualMachine, ...]
    terms: LeaseTerms | None
    problem: str = ""

    @property
    def name(self) -> str:
        """Its NAME, or nothing."""
        return self.terms.name if self.terms is not None else ""

    @property
    def statuses(self) -> Sequence[str]:
        """The different texts that LEASE_STATUS of its VMs has, first that of the oldest."""
        return tuple(dict.fromkeys(text for vm in self.vms if (text := status_of(vm))))

    @property
    def preempted(self) -> bool:
        """It was sent out for another lease, by its LEASE_STATUS."""
        return any(preemptor_in_status(vm) is not None for vm in self.vms)

    @property
    def promise(self) -> Promise | None:
        """The start that its LEASE_STATUS tells of."""
        for text in self.statuses:
            found = _STARTS_AT.search(text)
            with suppress(ValueError):  # no day of the calendar: its owner wrote it
                if found is not None:
                    start_at_s = int(datetime.fromisoformat(found[1]).timestamp())
                    return Promise(start_at_s, text.startswith(_RESERVED))
        return None

    @property
    def is_turned_down(self) -> bool:
        """By its LEASE_STATUS it waits in the queue, and not for the START or DEADLINE that it asks for."""
        return any(text.startswith(NOT_RESERVED) for text in self.statuses)

    @property
    def waits(self) -> bool:
        """None of its VMs was started yet."""
        return all(phase_of(vm) is VmPhase.WAITING for vm in self.vms)

    @property
    def state(self) -> LeaseState:
        """Where it stands, by the states of its VMs and by LEASE_STATUS."""
        if self.waits:
            if any(text.startswith(REFUSED) for text in self.statuses):
                return LeaseState.REFUSED
            if self.terms is not None and len(self.vms) < self.terms.size:
                return LeaseState.INCOMPLETE
        in_place = {vm.id for vm in self.vms if says_in_place(vm)}
        return lease_state(self.vms, preempted=self.preempted, in_place=in_place)

    @property
    def running_since_s(self) -> int | None:
        """Since when all its VMs run; None where they do not."""
        stays = [vm.last_history for vm in self.vms if phase_of(vm) in (VmPhase.RUNNING, VmPhase.BUSY)]
        starts = [stay.running_start_at_s or stay.start_at_s for stay in stays if stay is not None]
        return max(starts) if starts and len(starts) == len(self.vms) else None


def own_leases(vms: Iterable[VirtualMachine]) -> list[OwnLease]:
    """The leases that the VMs with a LEASE attribute form, oldest first. VMs that have ended belong to none."""
    found: list[OwnLease] = []
    candidates: list[tuple[VirtualMachine, LeaseTerms]] = []
    for vm in vms:
        if LEASE not in vm.user_template or vm.state == VmState.DONE:
            continue
        terms = parse_lease_attribute(vm.user_template[LEASE])
        if isinstance(terms, MalformedLease):
            found.append(OwnLease(vm.id, (vm,), None, terms.text))
        elif terms.size == 1:
            found.append(OwnLease(vm.id, (vm,), terms))
        else:
            candidates.append((vm, terms))
    found += _gangs(candidates)
    return sorted(found, key=lambda lease: lease.id)


def lease_of(vm_id: int, leases: Iterable[OwnLease]) -> OwnLease | None:
    """The lease that this VM belongs to."""
    return next((lease for lease in leases if any(vm.id == vm_id for vm in lease.vms)), None)


def _gangs(candidates: Iterable[tuple[VirtualMachine, LeaseTerms]]) -> list[OwnLease]:
    gangs = form_gangs([((vm,), terms) for vm, terms in candidates], {})
    found = [OwnLease(vms[0].id, vms, key.terms) for key, vms in gangs.complete]
    formed = [*gangs.complete, *((key, vms) for key, vms, _ in gangs.waiting)]
    for key, vms, text in gangs.waiting:
        lease = OwnLease(vms[0].id, vms, key.terms, text)
        # Once it was started it had all its VMs.
        found.append(lease if lease.waits else OwnLease(lease.id, vms, key.terms, _why_fewer(key, vms, formed)))
    terms_of = {vm.id: terms for vm, terms in candidates}
    found += [OwnLease(vm.id, (vm,), terms_of[vm.id], text) for vm, text in gangs.extra]
    return found


def _why_fewer(
    key: GangKey, vms: Sequence[VirtualMachine], formed: Iterable[tuple[GangKey, Sequence[VirtualMachine]]]
) -> str:
    """Those that are missing have ended, unless their owner has changed what they ask for."""
    for one, others in formed:
        if one.terms.name == key.terms.name and one != key:
            return why_apart(key.terms, others[0].id, one.terms)
    return f"{len(vms)} of its {key.terms.size} VMs {'is' if len(vms) == 1 else 'are'} left"
