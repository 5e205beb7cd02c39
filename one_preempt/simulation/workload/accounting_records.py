"""The records of an OpenNebula's accounting, as `oneacct -x` prints them: each a stay of a VM on a host.

Files are not trusted: no entities, no document type, and users wrote what is below USER_TEMPLATE.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import numpy as np
from lxml.etree import _Element
from msgspec import Struct

from one_preempt.core.admission.lease_attribute import LAST_YEAR, LEASE, MalformedLease, parse_lease_attribute
from one_preempt.core.model.lease import LeaseTerms
from one_preempt.core.model.plain_words import plain_words
from one_preempt.core.model.virtual_machine import AttributeValue
from one_preempt.simulation.workload.lwf_elements import WrongElement, elements
from one_preempt.simulation.workload.trace_files import BadLineCounter, ByteStream
from one_preempt.simulation.workload.workload import SECONDS_PER_DAY, MachineSet

ROOT, RECORD = "HISTORY_RECORDS", "HISTORY"
_LATEST_S = (LAST_YEAR - 1970) * 365 * SECONDS_PER_DAY
_GREATEST_ID = (1 << 31) - 1
_MOST_MIB = 1 << 40
_MOST_CPUS = 1e7
_WHOLE_NUMBER = re.compile(r"[0-9]{1,15}", re.ASCII)


class Record(Struct, frozen=True):
    """A stay, and the VM as it was then. Seconds since the epoch, 0: not yet.

    `submitted_at_s` is when the VM was created, for a later stay when that began: in a file that begins in between, the
    stays before it are not replayed. `lease` is None where it is unusable.
    """

    line: int
    host_id: int
    began_at_s: int
    ran_from_s: int
    ran_until_s: int
    left_at_s: int
    submitted_at_s: int
    user: int
    group: int
    machine: MachineSet
    lease: LeaseTerms | None
    has_lease: bool


def read_records(stream: ByteStream, source: str, bad: BadLineCounter) -> tuple[dict[int, dict[int, Record]], int]:
    """The records by the ids of their VMs and their numbers, and the last instant that any of them tells.

    Raises:
        OnePreemptError: It is no accounting, or has a record that cannot be understood and `bad` does not let pass.
    """
    records: dict[int, dict[int, Record]] = {}
    last_s = 0
    for place, element in enumerate(_record_elements(stream, source), 1):
        try:
            id, number = _number(element, "OID", most=_GREATEST_ID), _number(element, "SEQ", most=_GREATEST_ID)
            record = _record(element, number)
            if number in records.get(id, {}):
                raise WrongElement(element, f"SEQ {number} of this VM is there twice")
        except WrongElement as wrong:
            vm = plain_words(element.findtext("OID") or "?", 20)
            bad.add(wrong.line, f"record {place} (VM {vm}): {wrong.what}")
            continue
        records.setdefault(id, {})[number] = record
        last_s = max(last_s, record.submitted_at_s, record.ran_from_s, record.ran_until_s, record.left_at_s)
    return records, last_s


def _record_elements(stream: ByteStream, source: str) -> Iterator[_Element]:
    """Each record once it is whole. Users may give their attributes the same name: these are passed by."""
    for element in elements(stream, source, ROOT, (RECORD,), "as oneacct -x prints it"):
        parent = element.getparent()
        if parent is not None and parent.getparent() is None:
            yield element


def _record(element: _Element, number: int) -> Record:
    ran_from_s, left_at_s = _number(element, "RSTIME"), _number(element, "ETIME")
    # A VM that was lost with its host leaves no time at which it stopped running; and what left does not run.
    ran_until_s = min(filter(None, (_number(element, "RETIME"), left_at_s)), default=0)
    if ran_from_s and ran_until_s and ran_until_s < ran_from_s:
        raise WrongElement(element, f"it stopped running at {ran_until_s} (RETIME, ETIME), before RSTIME {ran_from_s}")
    created_at_s, began_at_s = _number(element, "VM/STIME", least=1), _number(element, "STIME")
    # What was deleted before anything was done for it has no STIME.
    submitted_at_s = began_at_s if number and began_at_s else created_at_s
    leases = element.findall(f"VM/USER_TEMPLATE/{LEASE}")
    return Record(
        line=int(element.sourceline or 0),
        host_id=_number(element, "HID", most=_GREATEST_ID),
        began_at_s=began_at_s,
        ran_from_s=ran_from_s,
        ran_until_s=ran_until_s,
        left_at_s=left_at_s,
        submitted_at_s=submitted_at_s,
        user=_number(element, "VM/UID", most=_GREATEST_ID),
        group=_number(element, "VM/GID", most=_GREATEST_ID),
        machine=MachineSet(1, _cpu_centi(element), _number(element, "VM/TEMPLATE/MEMORY", 1, _MOST_MIB)),
        lease=_usable_lease(leases, submitted_at_s),
        has_lease=bool(leases),
    )


def _usable_lease(leases: Sequence[_Element], submitted_at_s: int) -> LeaseTerms | None:
    """What the owner asked for; None where nothing, or what the daemon would refuse."""
    terms = parse_lease_attribute(tuple(map(_attribute, leases))) if leases else None
    if terms is None or isinstance(terms, MalformedLease):
        return None
    if terms.deadline_at_s is not None and terms.deadline_at_s <= ready_at_s(terms, submitted_at_s):
        return None
    return terms


def _attribute(lease: _Element) -> AttributeValue:
    values = {child.tag: child.text or "" for child in lease if isinstance(child.tag, str)}
    return values or lease.text or ""


def ready_at_s(terms: LeaseTerms, submitted_at_s: int) -> int:
    """When it may start at the earliest; a START that had passed by the submission is the submission."""
    if terms.start_offset_s is not None:
        return submitted_at_s + terms.start_offset_s
    return max(submitted_at_s, terms.start_at_s or 0)


def _number(element: _Element, path: str, least: int = 0, most: int = _LATEST_S) -> int:
    text = (element.findtext(path) or "").strip()
    if not _WHOLE_NUMBER.fullmatch(text) or not least <= int(text) <= most:
        raise WrongElement(element, f"{path} '{plain_words(text, 40)}' is not a whole number from {least} to {most}")
    return int(text)


def _cpu_centi(element: _Element) -> int:
    """CPU in hundredths as oned charges it, which counts in single precision."""
    text = (element.findtext("VM/TEMPLATE/CPU") or "").strip()
    try:
        is_amount = 0 <= float(text) <= _MOST_CPUS
    except ValueError:
        is_amount = False
    if not is_amount:
        raise WrongElement(element, f"VM/TEMPLATE/CPU '{plain_words(text, 40)}' is not an amount of CPUs")
    return int(np.float32(text) * np.float32(100))
