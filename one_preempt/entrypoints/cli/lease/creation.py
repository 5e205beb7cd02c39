"""Create all VMs of a lease or none: what was created before a failure is terminated again."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from msgspec import Struct

from one_preempt.adapters.opennebula.owner_account import OwnerAccount, Source
from one_preempt.adapters.opennebula.owner_template import SUBMISSION
from one_preempt.core.admission.lease_attribute import LEASE, parse_lease_attribute
from one_preempt.core.model.lease import LeaseTerms
from one_preempt.entrypoints.cli.lease.asked_terms import AskedTerms
from one_preempt.errors import OnePreemptError
from one_preempt.ports import CloudUnavailable, NothingSent

SHOWN_VMS = 20


class CreationFailed(OnePreemptError):
    """Not all VMs could be created; the message says which, why, and what became of the others.

    `leaves_vms`: some may be there, as they could not be terminated again, or as a call without an answer may have been
    carried out, or be carried out yet. `reached` False: OpenNebula did not answer.
    """

    def __init__(self, text: str, *, leaves_vms: bool, reached: bool) -> None:
        super().__init__(text)
        self.leaves_vms, self.reached = leaves_vms, reached


class _Left(Struct, frozen=True):
    """What became of the VMs of a failed submission."""

    ended: Sequence[int]
    remaining: Sequence[int]


def create_all(
    account: OwnerAccount,
    source: Source,
    asked: AskedTerms,
    progress: Callable[[int], None],
    marks: Mapping[str, str] | None = None,
) -> list[int]:
    """The ids of the SIZE new VMs, on HOLD; `progress` hears of each. Raises `CreationFailed`.

    `marks` stand in every VM; the one called LEASE_SUBMISSION is drawn where it is not among them.
    """
    marks = {SUBMISSION: secrets.token_hex(8), **(marks or {})}
    created: list[int] = []
    try:
        for number in range(asked.terms.size):
            created.append(account.create(source, vm_name(asked.terms, number), asked.texts, marks))
            if number == 0:
                _check(account, created[0], asked.terms, marks[SUBMISSION])
            progress(1)
    except OnePreemptError as error:
        unanswered = _may_be_carried_out(error)
        left = _undo(account, created, marks[SUBMISSION], look_for_more=unanswered)
        what = _what_happened(f"VM {number + 1} of {asked.terms.size}", error, left)
        reached = not isinstance(error, CloudUnavailable)
        raise CreationFailed(what, leaves_vms=unanswered or bool(left.remaining), reached=reached) from None
    except KeyboardInterrupt:
        _undo(account, created, marks[SUBMISSION], look_for_more=True)
        raise
    return created


def vm_name(terms: LeaseTerms, number: int) -> str:
    """The name of one VM of a lease; oned chooses where the lease has none. Its names have no colons."""
    if not terms.name or terms.size == 1:
        return terms.name.replace(":", "-")
    return f"{terms.name.replace(':', '-')}-{number}"


def vm_list(vm_ids: Sequence[int]) -> str:
    """Ids for a sentence, not too many."""
    shown = ", ".join(map(str, vm_ids[:SHOWN_VMS]))
    return f"{shown} and {len(vm_ids) - SHOWN_VMS} more" if len(vm_ids) > SHOWN_VMS else shown


def _check(account: OwnerAccount, vm_id: int, terms: LeaseTerms, submission: str) -> None:
    """What a template adds of its own shows in the first VM only; the scheduler would hold it on HOLD for ever."""
    vm = account.vm(vm_id)
    values = vm.user_template.get(LEASE, ()) if vm is not None else ()
    if len(values) > 1:
        raise OnePreemptError(
            "the template has a LEASE of its own: remove it, because the options of this command say it"
        )
    if not values or parse_lease_attribute(values) != terms:
        raise OnePreemptError(f"VM {vm_id} did not get the LEASE attribute: does the template end where it should?")
    if vm is not None and vm.user_template.get(SUBMISSION) != (submission,):
        # VMs are found by it, and by it alone.
        raise OnePreemptError(f"the template has a {SUBMISSION} of its own: remove it")


def _undo(account: OwnerAccount, created: Sequence[int], submission: str, *, look_for_more: bool) -> _Left:
    """Terminate what was created, and what was perhaps created by a call without an answer."""
    doomed = set(created)
    if look_for_more:
        # Where that gets no answer either, those that are known are all that can be looked after.
        with suppress(OnePreemptError):
            doomed.update(account.submitted(submission, []))
    remaining = []
    for vm_id in sorted(doomed):
        try:
            account.terminate(vm_id, hard=False)
        except OnePreemptError:
            remaining.append(vm_id)
    return _Left(sorted(doomed.difference(remaining)), remaining)


def _what_happened(which: str, error: OnePreemptError, left: _Left) -> str:
    failed = f"{which} could not be created: {error}".rstrip(".")
    failed += "" if failed.endswith("?") else "."
    if left.ended:
        failed += f" What had been created was terminated again: VM {vm_list(left.ended)}."
    if left.remaining:
        ids = " ".join(map(str, left.remaining[:SHOWN_VMS]))
        failed += f" {len(left.remaining)} could not be terminated: onevm terminate {ids}"
    if _may_be_carried_out(error):
        failed += " The call without an answer may still be carried out: look with one-preempt lease list."
    elif not left.ended and not left.remaining:
        failed += " Nothing was created."
    return failed


def _may_be_carried_out(error: OnePreemptError) -> bool:
    """Was it a call without an answer that may have been sent?"""
    return isinstance(error, CloudUnavailable) and not isinstance(error, NothingSent)
