"""Put VMs together that ask for one lease: all or nothing, so a gang waits until all its VMs exist."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from one_preempt.core.admission.lease_attribute import quoted
from one_preempt.core.model.lease import LeaseTerms
from one_preempt.core.model.virtual_machine import VirtualMachine

SHOWN_VMS = 5
_FIELDS_OF_KEY = {
    "TYPE": ("type",),
    "SIZE": ("size",),
    "DURATION": ("duration_s",),
    "START": ("start_at_s", "start_offset_s", "at_once"),
    "DEADLINE": ("deadline_at_s",),
    "MAX_SUSPENSIONS": ("max_suspensions",),
    "SHUTDOWN_OK": ("shutdown_ok",),
}


class GangKey(Struct, frozen=True):
    """What all VMs of one gang have in common: the owner, and equal terms with the same NAME and SIZE."""

    uid: int
    terms: LeaseTerms


class Gangs(Struct, frozen=True):
    """VMs sorted into gangs, each oldest first. `waiting` and `extra` say in a text what their owner reads."""

    complete: tuple[tuple[GangKey, tuple[VirtualMachine, ...]], ...]
    waiting: tuple[tuple[GangKey, tuple[VirtualMachine, ...], str], ...]
    extra: tuple[tuple[VirtualMachine, str], ...]


def form_gangs(
    candidates: Iterable[tuple[Sequence[VirtualMachine], LeaseTerms]], running: Mapping[GangKey, tuple[int, ...]]
) -> Gangs:
    """Give each gang the SIZE oldest of its VMs. `running`: gangs that were admitted before, with their VMs.

    Each of the `candidates` are VMs of one owner that ask for the same terms, oldest first, with none between them.
    """
    groups: dict[GangKey, list[VirtualMachine]] = {}
    for alike, terms in sorted(candidates, key=_first_id):
        groups.setdefault(GangKey(alike[0].uid, terms), []).extend(alike)
    complete: list[tuple[GangKey, tuple[VirtualMachine, ...]]] = []
    incomplete: list[GangKey] = []
    extra: list[tuple[VirtualMachine, str]] = []
    for key, vms in groups.items():
        size = key.terms.size
        if key in running:
            surplus = vms
        elif len(vms) < size:
            incomplete.append(key)
            continue
        else:
            complete.append((key, tuple(vms[:size])))
            surplus = vms[size:]
        if surplus:
            members = running.get(key) or tuple([vm.id for vm in vms[:size]])
            extra.extend((vm, _why_extra(key, members)) for vm in surplus)
    return Gangs(tuple(complete), tuple(_waiting(incomplete, groups)) if incomplete else (), tuple(extra))


def _first_id(candidate: tuple[Sequence[VirtualMachine], LeaseTerms]) -> int:
    return candidate[0][0].id


def _waiting(
    incomplete: Iterable[GangKey], groups: Mapping[GangKey, list[VirtualMachine]]
) -> Iterator[tuple[GangKey, tuple[VirtualMachine, ...], str]]:
    """Gangs of which VMs are missing, with what their owner reads."""
    # By owner and NAME, so that thousands of them are not each held against all others.
    named: dict[tuple[int, str], list[GangKey]] = {}
    for key in groups:
        named.setdefault((key.uid, key.terms.name), []).append(key)
    for key in incomplete:
        yield key, tuple(groups[key]), _what_is_missing(key, groups, named[key.uid, key.terms.name])


def _what_is_missing(key: GangKey, groups: Mapping[GangKey, list[VirtualMachine]], namesakes: Iterable[GangKey]) -> str:
    text = f"{len(groups[key])} of the {key.terms.size} VMs of lease {quoted(key.terms.name)} exist: create the others"
    other = next((other for other in namesakes if other != key), None)
    if other is None:
        return f"{text} with the same LEASE attribute"
    return f"{text}; {why_apart(key.terms, groups[other][0].id, other.terms)}"


def why_apart(terms: LeaseTerms, other_vm_id: int, other: LeaseTerms) -> str:
    """Why a VM with the same NAME belongs to another lease than those that ask for `terms`."""
    keys = [key for key, fields in _FIELDS_OF_KEY.items() if _values(terms, fields) != _values(other, fields)]
    what = f"{', '.join(keys[:-1])} and {keys[-1]}" if len(keys) > 1 else "".join(keys)
    return f"VM {other_vm_id} has this NAME too, but another {what}: they must be equal"


def _values(terms: LeaseTerms, fields: Iterable[str]) -> tuple[object, ...]:
    return tuple(getattr(terms, name) for name in fields)


def _why_extra(key: GangKey, members: tuple[int, ...]) -> str:
    shown = ", ".join(str(vm_id) for vm_id in members[:SHOWN_VMS]) + (", ..." if len(members) > SHOWN_VMS else "")
    return f"lease {quoted(key.terms.name)} has its {key.terms.size} VMs already ({shown}): use another NAME"
