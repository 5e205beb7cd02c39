"""What there is to draw of leases: running stays with expected ends, what is asked for or promised, and waiting.

What was refused waits for its owner and not for its time: its row has a mark and no stay.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from one_preempt.core.model.lease import LeaseState, LeaseTerms
from one_preempt.core.model.ledger import LeaseRecord
from one_preempt.core.model.reservation import Reservation, Verdict
from one_preempt.core.model.virtual_machine import VirtualMachine
from one_preempt.entrypoints.cli.gantt import Bar, BarKind
from one_preempt.entrypoints.cli.lease.own_leases import OwnLease
from one_preempt.explanation.explain import printable

LONGEST_LABEL = 40


def own_bars(leases: Iterable[OwnLease], now_s: int) -> Iterator[Bar]:
    """The leases of one owner, by LEASE and the states of their VMs.

    A START that LEASE_STATUS does not confirm is drawn as expected: only the scheduler knows whether it was accepted.
    """
    for lease in leases:
        terms = lease.terms or LeaseTerms()
        label = label_of(lease.id, terms)
        since_s = lease.running_since_s
        if since_s is not None:
            yield Bar(
                label,
                since_s,
                _expected_end_s(terms, max(_run_s(vm, now_s) for vm in lease.vms), now_s),
                BarKind.RUNNING,
            )
        elif lease.state is LeaseState.REFUSED:
            yield _refused(label, now_s)
        elif lease.promise is not None:
            yield from _waiting(label, terms, lease.promise.start_at_s, now_s, firm=lease.promise.firm)
        else:
            waits_for_start = lease.waits and not lease.is_turned_down
            yield from _waiting(label, terms, _start_asked_for_s(lease, terms) if waits_for_start else None, now_s)
        yield from _deadline(label, terms)


def recorded_bars(
    records: Iterable[LeaseRecord], reservations: Mapping[int, Sequence[Reservation]], now_s: int
) -> Iterator[Bar]:
    """The leases on record with what each is promised, by its id."""
    for record in records:
        terms, promised = record.terms, reservations.get(record.id, ())
        label = label_of(record.id, terms)
        if record.run_began_at_s is not None:
            run_s = record.served_s + max(now_s - record.run_began_at_s, 0)
            yield Bar(label, record.run_began_at_s, _expected_end_s(terms, run_s, now_s), BarKind.RUNNING)
            promised = [stay for stay in promised if stay.start_at_s > now_s]
        elif record.verdict is Verdict.REFUSED:
            yield _refused(label, now_s)
        elif promised:
            yield Bar(label, now_s, max(promised[0].start_at_s, now_s + 1), BarKind.WAITING)
        else:
            in_queue = record.preempted_by is not None or record.verdict is Verdict.CONVERTED
            yield from _waiting(label, terms, None if in_queue else terms.start_at_s, now_s)
        for stay in promised:
            yield Bar(label, stay.start_at_s, stay.end_at_s, BarKind.RESERVED if stay.firm else BarKind.EXPECTED)
        yield from _deadline(label, terms)


def label_of(lease_id: int, terms: LeaseTerms) -> str:
    """How a row is called."""
    return f"{lease_id} {printable(terms.name, LONGEST_LABEL)}".rstrip()


def _waiting(label: str, terms: LeaseTerms, start_at_s: int | None, now_s: int, *, firm: bool = False) -> Iterator[Bar]:
    if start_at_s is None or start_at_s <= now_s:
        yield Bar(label, now_s, None, BarKind.WAITING)
        return
    end_s = None if terms.duration_s is None else start_at_s + terms.duration_s
    yield Bar(label, now_s, start_at_s, BarKind.WAITING)
    yield Bar(label, start_at_s, end_s, BarKind.RESERVED if firm else BarKind.EXPECTED)


def _refused(label: str, now_s: int) -> Bar:
    return Bar(label, now_s, now_s + 1, BarKind.REFUSED)


def _deadline(label: str, terms: LeaseTerms) -> Iterator[Bar]:
    if terms.deadline_at_s is not None:
        yield Bar(label, terms.deadline_at_s, terms.deadline_at_s + 1, BarKind.DEADLINE)


def _expected_end_s(terms: LeaseTerms, run_s: int, now_s: int) -> int | None:
    """When what it has run so far and what follows make up its DURATION; what outlives it ends any moment."""
    return None if terms.duration_s is None else now_s + max(terms.duration_s - run_s, 1)


def _run_s(vm: VirtualMachine, now_s: int) -> int:
    """How long the VM has run, over all its stays on hosts."""
    return sum(
        max((stay.running_end_at_s or now_s) - stay.running_start_at_s, 0)
        for stay in vm.history
        if stay.running_start_at_s
    )


def _start_asked_for_s(lease: OwnLease, terms: LeaseTerms) -> int | None:
    if terms.start_offset_s is None:
        return terms.start_at_s
    # The admission follows within a cycle once all VMs exist.
    return max(vm.submitted_at_s for vm in lease.vms) + terms.start_offset_s
