"""No plan gives PCI devices away that were promised for a time to come.

At each instant at which anybody's claim on a host begins, everybody who claims it then is to have devices of his own:
who runs there keeps those that he has, the others share what is left. What gives way claims nothing, and its devices
are free. A plan takes them from nobody who would have them without it, and brings nobody where there is none for him.
Whose time has come, or for whom others have left, takes what there is: first come, first served.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Set
from itertools import groupby

from msgspec.structs import replace

from one_preempt.core.model.host import Host
from one_preempt.core.model.virtual_machine import VirtualMachine
from one_preempt.core.verify.claims_over_time import (
    JudgedClaim,
    claims_on_hosts,
    hosts_that_get_more,
    leases_of_the_plan,
)
from one_preempt.core.verify.lease_over_time import may_overstay, slots
from one_preempt.core.verify.pci_devices import left_over
from one_preempt.core.verify.recount import Recount, Rule, Violation

FREE = -1


def _no_promised_device_is_given_away(recount: Recount) -> Iterator[Violation]:
    if not _is_about_devices(recount):
        return
    by_host: dict[int, list[JudgedClaim]] = {}
    come = {lease_id for lease_id in leases_of_the_plan(recount) & recount.leases.keys() if has_come(recount, lease_id)}
    for judged in claims_on_hosts(recount, hosts_that_get_more(recount)):
        vm, is_new = judged.claim.vm, not judged.before
        if vm.pci_requests and not (is_new and has_lost_a_host(recount, recount.lease_of_vm[vm.id])):
            settled = replace(judged, before=True) if recount.lease_of_vm[vm.id] in come else judged
            by_host.setdefault(judged.claim.host_id, []).append(settled)
    for host_id, claims in sorted(by_host.items()):
        host = recount.host_then(host_id)
        assert host is not None, "only hosts that there are get more"
        yield from _lacking(recount, host, claims)


def _is_about_devices(recount: Recount) -> bool:
    """It changes what is claimed by anybody who asks for one."""
    leases = [recount.leases[one] for one in leases_of_the_plan(recount) if one in recount.leases]
    return any(recount.vms[vm_id].pci_requests for lease in leases for vm_id in lease.vm_ids)


def has_lost_a_host(recount: Recount, lease_id: int) -> bool:
    """A host of a promise of its is not there: where else it could be, others who are due may come first."""
    standing = slots(recount, recount.leases[lease_id], planned=False)
    hosts = [recount.host_then(host_id) for one in standing for host_id in one.host_ids]
    return any(host is None or not host.accepts_vms for host in hosts)


def has_come(recount: Recount, lease_id: int) -> bool:
    """Its promised time has begun, or room was being made for it before this plan."""
    if any(opened.preemption.preemptor_lease_id == lease_id for opened in recount.state.preemptions):
        return True
    standing = slots(recount, recount.leases[lease_id], planned=False)
    return any(one.start_at_s <= recount.state.now_s for one in standing)


def _lacking(recount: Recount, host: Host, claims: Iterable[JudgedClaim]) -> Iterator[Violation]:
    """The first instant at which the plan takes a device from who would have one, or brings somebody to none."""
    now_s, then = recount.state.now_s, list[JudgedClaim]()

    def begins_s(one: JudgedClaim) -> int:
        return max(now_s, one.claim.start_s)

    for at_s, begin in groupby(sorted(claims, key=begins_s), key=begins_s):
        then = [*(one for one in then if one.claim.end_s is None or one.claim.end_s > at_s), *begin]
        if all(one.before and one.after for one in then):
            continue
        before = [one.claim.vm for one in then if one.before]
        without = {vm.id for vm in before} - _served(recount, host, before)
        have = [one.claim.vm for one in then if one.after and one.claim.vm.id not in without]
        lacking = _left_over(recount, host, have, {vm.id for vm in have})
        if lacking:
            text = f"{lacking} requests for PCI devices of host {host.id} would be left without one at {at_s}"
            yield Violation("promise-broken", text)
            return


def _served(recount: Recount, host: Host, vms: Sequence[VirtualMachine]) -> set[int]:
    """The VMs that have all they ask for if each takes it before the next: who lacks any of it takes nothing.

    Nobody counts on the end of what outlives its DURATION.
    """
    served, staying = list[VirtualMachine](), {vm.id for vm in vms}
    holders = {device.vm_id: recount.lease_of(device.vm_id) for device in host.pci_devices}
    staying |= {vm_id for vm_id, lease in holders.items() if lease is not None and may_overstay(recount, lease)}
    for vm in vms:
        if not _left_over(recount, host, [*served, vm], staying):
            served.append(vm)
    return {vm.id for vm in served}


def _left_over(recount: Recount, host: Host, vms: Sequence[VirtualMachine], staying: Set[int]) -> int:
    """How many requests of those who claim the host get nothing, beside those `staying` who have devices there."""
    holders = {device.vm_id for device in host.pci_devices}
    # Who is in no lease is never expected to leave.
    gone = {FREE, *(one for one in holders if one in recount.lease_of_vm and one not in staying)}
    # Who is there already asks for none, though the host may have lost the one that was his.
    coming = [vm for vm in vms if vm.id not in holders and host.id not in vm.charged_host_ids]
    requests = [request for vm in coming for request in vm.pci_requests]
    return left_over(requests, [device for device in host.pci_devices if device.vm_id in gone])


RULES: tuple[Rule, ...] = (_no_promised_device_is_given_away,)
