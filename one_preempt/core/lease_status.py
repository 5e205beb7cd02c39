"""What a preempted lease shows in LEASE_STATUS: written for its owner, read back when the ledger was lost."""

from __future__ import annotations

import re
from collections.abc import Iterable

from one_preempt.core.model.virtual_machine import VirtualMachine

LEASE_STATUS = "LEASE_STATUS"
NOT_RESERVED = "not reserved, and waits in the queue instead"
_LEAVES = "leaving its hosts to make room"
_PREEMPTED_BY = re.compile(r"(?:preempted by|suspended in place for) lease ([0-9]{1,18})\b")
_IS_SERVED = "its DURATION is over, and it does not run"
_WAS_SERVED = "its DURATION was over, and is longer now"
_KEPT_OUT = "paused by its owner, and taken off its host to make room for lease"
_IN_PLACE = re.compile(r"suspended in place for lease [0-9]{1,18}\b")


def preempted_status(preemptor_lease_id: int | None, wait: str) -> str:
    """What the owner of a preempted lease reads."""
    return f"preempted by lease {preemptor_lease_id}; returns when there is room. {wait[:1].upper()}{wait[1:]}"


def converted_status(wait: str) -> str:
    """What the owner reads of a lease that waits as any other, for its START or DEADLINE was not granted."""
    return f"{NOT_RESERVED}: {wait}"


def kept_out_status(preemptor_lease_id: int | None) -> str:
    """What the owner reads of a VM that he had paused when it was sent out."""
    return f"{_KEPT_OUT} {preemptor_lease_id}: resume it to have it scheduled"


def leaving_status(kind: str) -> str:
    """What the owner of a lease reads that is on its way out for another one; `kind` is its type."""
    return f"{_LEAVES} ({kind})"


def terminated_status(preemptor_lease_id: int) -> str:
    """What the owner reads of a lease that is ended for another one, and of its VMs once they are gone."""
    return f"terminated to make room for lease {preemptor_lease_id}"


def in_place_status(preemptor_lease_id: int | None) -> str:
    """What the owner reads of a VM that rests on its host, where another one runs in its room."""
    return (
        f"suspended in place for lease {preemptor_lease_id}, and locked until that leaves the host; "
        "resumed there as soon as there is room"
    )


def served_status(kind: str, *, is_longer: bool) -> str:
    """What the owner reads of a lease that stands still and has had its DURATION, or had until that was made longer."""
    over = _WAS_SERVED if is_longer else _IS_SERVED
    return f"{over}: resume it to have it scheduled again ({kind})"


def started_in_part(vms: Iterable[VirtualMachine], rest: str) -> str:
    """What the owner of a lease reads of which somebody's hand put some VMs on hosts; `rest`: what the others do."""
    are_there = [vm.host_id is not None for vm in vms]
    if sum(are_there) == 1:
        return f"1 of its {len(are_there)} VMs has started; the rest {rest}"
    return f"{sum(are_there)} of its {len(are_there)} VMs have started; the rest {rest}"


def preemptor_in_status(vm: VirtualMachine) -> int | None:
    """The lease that this VM was sent out for, as its LEASE_STATUS has it; None where it says nothing of the kind."""
    found = _PREEMPTED_BY.match(status_of(vm))
    return int(found[1]) if found is not None else None


def says_leaving(vm: VirtualMachine) -> bool:
    """Its LEASE_STATUS tells that we send it out."""
    return status_of(vm).startswith(_LEAVES)


def says_served(vm: VirtualMachine) -> bool:
    """Its LEASE_STATUS tells that it stands still because its DURATION is over, or was."""
    return status_of(vm).startswith((_IS_SERVED, _WAS_SERVED))


def says_kept_out(vm: VirtualMachine) -> bool:
    """Its LEASE_STATUS tells that it was paused when we sent it out."""
    return status_of(vm).startswith(_KEPT_OUT)


def says_in_place(vm: VirtualMachine) -> bool:
    """Its LEASE_STATUS tells that we suspended it on its host."""
    return _IN_PLACE.match(status_of(vm)) is not None


def status_of(vm: VirtualMachine) -> str:
    """LEASE_STATUS, where it is one text."""
    status = vm.user_template.get(LEASE_STATUS, ("",))[0]
    return status if isinstance(status, str) else ""
