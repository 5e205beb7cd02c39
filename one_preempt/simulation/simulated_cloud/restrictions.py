"""Attributes that only administrators may write (VM_RESTRICTED_ATTR as shipped)."""

from __future__ import annotations

from one_preempt.simulation.simulated_cloud.errors import ErrorCode, OnedError
from one_preempt.simulation.simulated_cloud.objects import TemplateDict
from one_preempt.simulation.simulated_cloud.templates import text_of, vectors_of

_WHOLE = ("CPU_COST", "DEPLOY_ID", "DISK_COST", "EMULATOR", "MEMORY_COST", "PCI", "USER_PRIORITY")
_PARTS = {
    "CONTEXT": ("FILES",),
    "DISK": ("OPENNEBULA_MANAGED", "ORIGINAL_SIZE", "SIZE_PREV", "TOTAL_BYTES_SEC", "TOTAL_IOPS_SEC"),
    "NIC": ("BRIDGE", "EXTERNAL", "FILTER", "MAC", "OPENNEBULA_MANAGED", "VLAN_ID", "VLAN_TAGGED_ID"),
    "RAW": ("DATA",),
    "TOPOLOGY": ("HUGEPAGE_SIZE", "PIN_POLICY"),
    "USER_INPUTS": ("CPU", "MEMORY", "VCPU"),
}


def created_with(template: TemplateDict) -> str:
    """The first restricted attribute of a new template, or an empty string.

    oned looks for a text of that name: vectors pass, so that the restricted PCI keeps nobody from asking for devices.
    """
    for name in _WHOLE:
        if isinstance(next(iter(template.get(name, ())), None), str):
            return name
    for name, parts in _PARTS.items():
        for vector in vectors_of(template, name):
            for part in parts:
                if part in vector:
                    return part
    return ""


def taken_over(old: TemplateDict, new: TemplateDict, replace: bool) -> None:
    """Refuse a user's update that changes a restricted attribute; a replacement that leaves one out keeps it."""
    for name in _WHOLE:
        if name in new and text_of(new, name) != text_of(old, name):
            raise _changed(name, replace)
        if name not in new and text_of(old, name) and replace:
            new[name] = [text_of(old, name)]
    for name, parts in _PARTS.items():
        before, after = ([vector.get(part) for vector in vectors_of(t, name) for part in parts] for t in (old, new))
        if (any(after) or (replace and any(before))) and before != after:
            raise _changed(name, replace)


def _changed(name: str, replace: bool) -> OnedError:
    words = "Tried to change restricted attribute:" if replace else "User Template includes a restricted attribute"
    return OnedError(ErrorCode.INTERNAL, f"Cannot update template. {words} {name}")
