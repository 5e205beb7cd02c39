"""What a lease asks of time, its START, DEADLINE and DURATION: can it be, and may it still be asked otherwise?"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from msgspec import Struct
from msgspec.structs import replace

from one_preempt.core.model.lease import LeaseTerms
from one_preempt.core.model.ledger import LeaseRecord
from one_preempt.core.model.reservation import Verdict
from one_preempt.core.model.virtual_machine import VirtualMachine, VmState
from one_preempt.core.model.written_time import duration_text, utc_text
from one_preempt.core.reconciliation.counted_on import CountedOn

CLOCKS_DIFFER_S = 300
NOT_STARTED = frozenset({VmState.INIT, VmState.PENDING, VmState.HOLD, VmState.CLONING, VmState.CLONING_FAILURE})
_NOT_GRANTED = frozenset({Verdict.REFUSED, Verdict.CONVERTED})


class ImpossibleWish(Struct, frozen=True):
    """A wish that no room could fulfil: a code, and what its owner may write instead."""

    code: str
    text: str


def as_asked(terms: LeaseTerms) -> LeaseTerms:
    """Terms as their owner wrote them: a relative START is counted from the admission only afterwards."""
    return terms if terms.start_offset_s is None else replace(terms, start_at_s=None)


def counted_from(terms: LeaseTerms, now_s: int) -> LeaseTerms:
    """Terms whose relative START, if there is one, has become an instant."""
    return terms if terms.start_offset_s is None else replace(terms, start_at_s=now_s + terms.start_offset_s)


def impossible_wish(asked: LeaseTerms, now_s: int, clock: str = "the scheduler's clock") -> ImpossibleWish | None:
    """Why time itself forbids what is asked for at `now_s`, or None.

    An exact START may be `CLOCKS_DIFFER_S` old. An earliest START, one with a DEADLINE, may have passed.
    `clock` is whose `now_s` is. The text names no moment of now: it stands in LEASE_STATUS, which is written again
    whenever it changes.
    """
    terms = counted_from(asked, now_s)
    start_at_s, deadline_at_s = terms.start_at_s, terms.deadline_at_s
    if deadline_at_s is not None:
        duration_s = terms.duration_s or 0
        if max(now_s, start_at_s or now_s) + duration_s <= deadline_at_s:
            return None
        text = (
            f"DEADLINE {utc_text(deadline_at_s)} cannot be met: with DURATION {duration_text(duration_s)} it would "
            f"have to start by {utc_text(deadline_at_s - duration_s)}: move DEADLINE or shorten DURATION"
        )
        return ImpossibleWish("deadline-impossible", text)
    if start_at_s is not None and start_at_s < now_s - CLOCKS_DIFFER_S:
        text = f"START {utc_text(start_at_s)} has passed by {clock}: write a later one"
        return ImpossibleWish("start-passed", text)
    return None


def spared_after(terms: LeaseTerms) -> float:
    """After how many suspensions nobody may make it leave any more. What has no end is never spared so (SR11)."""
    return inf if terms.max_suspensions is None or terms.duration_s is None else terms.max_suspensions


def asks_anew(record: LeaseRecord, vms: Sequence[VirtualMachine], asked: LeaseTerms, now_s: int) -> bool:
    """Is this another wish in place of one that was not granted, while its VMs still wait?

    So is the same with another TYPE, as long as there is time for it: whether others leave for a START, and whether
    there may be several slots before a DEADLINE, depends on that.
    """
    if record.verdict not in _NOT_GRANTED or not _still_waits(vms):
        return False
    if _wish(asked) != _wish(as_asked(record.terms)):
        return True
    return asked.type is not record.terms.type and impossible_wish(asked, now_s) is None


def why_wish_stays(
    record: LeaseRecord,
    vms: Sequence[VirtualMachine],
    asked: LeaseTerms,
    now_s: int,
    counted_on: CountedOn,
    *,
    by_owner: bool,
) -> str:
    """Why START, DEADLINE and DURATION cannot change to those of `asked`; "" where they can, or are the same.

    `by_owner`: it is its owner who asks for something else, and not the rule for it that has changed.
    """
    before = as_asked(record.terms)
    if _wish(asked) == _wish(before):
        return ""
    if record.verdict is Verdict.ACCEPTED:
        return _why_accepted_stays(before, asked)
    anew = asks_anew(record, vms, asked, now_s)
    if _start(asked) != _start(before) and not anew:
        return "START cannot change: create new VMs"
    if not _still_waits(vms):
        if asked.deadline_at_s != before.deadline_at_s:
            return "DEADLINE cannot change once its VMs have started"
        is_longer = by_owner and _is_longer(asked.duration_s, before.duration_s)
        return _why_no_longer(record, before, asked, now_s, counted_on) if is_longer else ""
    impossible = impossible_wish(asked, now_s) if anew or asked.deadline_at_s != before.deadline_at_s else None
    return impossible.text if impossible is not None else ""


def _why_no_longer(
    record: LeaseRecord, before: LeaseTerms, asked: LeaseTerms, now_s: int, counted_on: CountedOn
) -> str:
    """Others may have been promised the room after the end of a lease that nobody can make leave earlier, or that those
    to whom it was promised cannot."""
    if not before.type.preemptable:
        return f"DURATION of {before.type} cannot become longer once its VMs have started"
    if asked.duration_s is not None and record.preemptions >= spared_after(before):
        return "DURATION cannot become longer once MAX_SUSPENSIONS is used up"
    began_at_s = now_s if record.run_began_at_s is None else record.run_began_at_s
    ends_at_s = inf if asked.duration_s is None else began_at_s + asked.duration_s - record.served_s
    promised_from_s = counted_on.promised_at_s(record.id)
    if ends_at_s > promised_from_s:
        return f"DURATION cannot reach beyond {utc_text(int(promised_from_s))}: its hosts are promised to others then"
    return ""


def _why_accepted_stays(before: LeaseTerms, asked: LeaseTerms) -> str:
    """What was accepted may shrink: others were told what is left."""
    if _start(asked) != _start(before):
        return "START of an accepted reservation cannot change: create new VMs"
    if _is_longer(asked.duration_s, before.duration_s):
        return "DURATION of an accepted reservation cannot become longer"
    if before.deadline_at_s == asked.deadline_at_s:
        return ""
    if before.deadline_at_s is None or (asked.deadline_at_s is None and _start(asked) != _start(LeaseTerms())):
        return "START of an accepted reservation stays exact or earliest: a DEADLINE can neither be added nor left out"
    if asked.deadline_at_s is not None and asked.deadline_at_s < before.deadline_at_s:
        return f"DEADLINE of an accepted reservation cannot become earlier than {utc_text(before.deadline_at_s)}"
    return ""


def _is_longer(asked_s: int | None, before_s: int | None) -> bool:
    """None has no end."""
    return before_s is not None and (asked_s is None or asked_s > before_s)


def _still_waits(vms: Sequence[VirtualMachine]) -> bool:
    return all(vm.state in NOT_STARTED for vm in vms)


def _start(terms: LeaseTerms) -> tuple[bool, int | None, int | None]:
    return terms.at_once, terms.start_at_s, terms.start_offset_s


def _wish(terms: LeaseTerms) -> tuple[object, ...]:
    return (*_start(terms), terms.deadline_at_s, terms.duration_s)
