"""Which VMs may be moved for a better distribution: plain ones that run undisturbed."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from one_preempt.core.admission.lease_attribute import LEASE
from one_preempt.core.admission.rules import AdmissionRules
from one_preempt.core.model.prematch import Prematch
from one_preempt.core.model.virtual_machine import LockLevel, VirtualMachine

BLOCKED = "ONEDRS_BLOCKED"


def movable_vms(
    vms: Iterable[VirtualMachine],
    prematched: Mapping[int, Prematch],
    rules: AdmissionRules,
    spared: Collection[int],
) -> frozenset[int]:
    """The ids of VMs that may move; `spared` are never among them, nor are those for which oned found no hosts.

    A lease, by its attribute or by a rule, has terms that a migration could break: the daemon alone moves it.
    """
    return frozenset(
        vm.id
        for vm in vms
        if vm.id in prematched and vm.id not in spared and _is_undisturbed(vm) and not _is_lease(vm, rules)
    )


def _is_undisturbed(vm: VirtualMachine) -> bool:
    """Running, not marked, not locked, its owner lets it move, and oned can move it as it runs."""
    return (
        vm.is_running
        and not vm.resched
        and vm.lock_level is LockLevel.NONE
        and not _is_blocked(vm)
        and not vm.is_pinned
        and not vm.pci_requests
    )


def _is_lease(vm: VirtualMachine, rules: AdmissionRules) -> bool:
    rule = rules.rule_of(vm)
    return LEASE in vm.user_template or (rule is not None and rule.type is not None)


def _is_blocked(vm: VirtualMachine) -> bool:
    said = vm.user_template.get(BLOCKED, ())
    return any(isinstance(value, str) and value.strip().upper() == "YES" for value in said)
