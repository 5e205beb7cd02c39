"""one.vmpool.accounting as values: who ran when, and how much of a zone that took."""

from __future__ import annotations

from collections.abc import Collection

from lxml.etree import _Element
from msgspec import Struct

from one_preempt.adapters.opennebula.owner_template import LEASE, SUBMISSION
from one_preempt.adapters.opennebula.xml_document import (
    UNREADABLE_OBJECT,
    UnreadableDocument,
    amount,
    first_texts_of,
    parse_document,
    shortened,
    whole_number_or,
)
from one_preempt.core.gateway.vm_runs import Stay, VmRun

MIB_PER_GIB = 1024
MOST_PROBLEMS = 5
LONGEST_NAME = 200
LARGEST_AMOUNT = 1e9


class _Record(Struct, frozen=True):
    """A stay, and what is said there of the VM; `stay` is None where it never ran during it."""

    stay: Stay | None
    vm: VmRun


def read_accounting(document: bytes, living: Collection[int], problems: list[str]) -> tuple[VmRun, ...]:
    """The VMs of which there is a record, by id. `living` are the ids of VMs that are not DONE.

    The document tells a VM as it was when each stay began, so its end is not seen in it. A record that cannot be read
    is left out and told; raises `UnreadableDocument` where it is another document. Users can write markup into their
    own records (see `pool_pieces`), and with it records of others: figures are made of it, and nothing is done by it.
    """
    root = parse_document(document, problems, "the accounting")
    if root.tag != "HISTORY_RECORDS":
        raise UnreadableDocument(f"a <HISTORY_RECORDS> was expected, not the element {shortened(str(root.tag))}")
    runs: dict[int, VmRun] = {}
    stays: dict[int, list[Stay]] = {}
    unread = 0
    for element in root.iterchildren("HISTORY"):
        try:
            record = _record(element, living)
        except UNREADABLE_OBJECT as error:
            unread += 1
            if unread <= MOST_PROBLEMS:
                problems.append(
                    f"the accounting of VM {shortened(element.findtext('OID') or '?')} cannot be read: {error}"
                )
            continue
        runs[record.vm.vm_id] = record.vm
        if record.stay is not None:
            stays.setdefault(record.vm.vm_id, []).append(record.stay)
    if unread > MOST_PROBLEMS:
        problems.append(f"{unread - MOST_PROBLEMS} more records of the accounting cannot be read")
    return tuple(_with_stays(runs[vm_id], stays.get(vm_id, [])) for vm_id in sorted(runs))


def _with_stays(run: VmRun, stays: list[Stay]) -> VmRun:
    return VmRun(
        run.vm_id, run.uid, run.cores, run.memory_gib, run.submitted_at_s, run.is_living, tuple(stays),
        run.lease_name, run.lease_size, run.token,
    )  # fmt: skip


def _record(element: _Element, living: Collection[int]) -> _Record:
    texts = first_texts_of(element)
    vm_id = amount(texts["OID"])
    vm = element.find("VM")
    if vm is None:
        raise KeyError("VM")
    vm_texts = first_texts_of(vm)
    lease_name, lease_size = _lease(vm)
    run = VmRun(
        vm_id=vm_id,
        uid=amount(vm_texts["UID"]),
        cores=_number(vm.findtext("TEMPLATE/CPU")),
        memory_gib=_number(vm.findtext("TEMPLATE/MEMORY")) / MIB_PER_GIB,
        submitted_at_s=amount(vm_texts["STIME"]),
        is_living=vm_id in living,
        lease_name=lease_name,
        lease_size=lease_size,
        token=vm.findtext(f"USER_TEMPLATE/{SUBMISSION}") or "",
    )
    return _Record(_stay(texts, run.is_living), run)


def _stay(texts: dict[str, str], is_living: bool) -> Stay | None:
    from_s, until_s = amount(texts["RSTIME"]), amount(texts["RETIME"])
    if not from_s:
        return None
    if until_s:
        return Stay(from_s, until_s)
    # A VM that was lost with its host leaves no time at which it stopped running.
    ended_s = amount(texts["ETIME"])
    if ended_s or not is_living:
        return Stay(from_s, max(from_s, ended_s))
    return Stay(from_s, None)


def _lease(vm: _Element) -> tuple[str, int]:
    """NAME and SIZE of a LEASE of several VMs; '' and 1 for all others."""
    leases = vm.findall(f"USER_TEMPLATE/{LEASE}")
    if len(leases) != 1:
        return "", 1
    texts = {str(child.tag).upper(): child.text or "" for child in leases[0] if isinstance(child.tag, str)}
    size = whole_number_or(texts.get("SIZE"), 1)
    return (texts.get("NAME", "")[:LONGEST_NAME], size) if size > 1 else ("", 1)


def _number(text: str | None) -> float:
    """An amount of CPU or memory; `ValueError` where it is none."""
    number = float(text or "0")
    if not 0 <= number <= LARGEST_AMOUNT:
        raise ValueError(f"{shortened(text or '')} is no amount")
    return number
