"""What no order for an image may do, and what nobody may be promised: counted in megabits, from what was observed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from math import ceil

from one_preempt.core.model.host import HostState
from one_preempt.core.model.image_transfer import ImageOrder, ImageOrderKind, TransferPhase, TransferRecord
from one_preempt.core.model.infrastructure import DatastoreType
from one_preempt.core.model.lease import Lease, LeaseState
from one_preempt.core.model.plan import Preemption
from one_preempt.core.model.reservation import Reservation, Verdict
from one_preempt.core.model.virtual_machine import Disk, LcmState, VirtualMachine, VmState
from one_preempt.core.verify.lease_over_time import has_start_promised, recorded, slots
from one_preempt.core.verify.recount import Recount, Rule, Violation

_ON = frozenset({HostState.MONITORED, HostState.MONITORING_MONITORED})
_MEGABITS_PER_MIB = 8 * 1.048576

# A VM, the host on which it starts, and when.
_Starting = tuple[VirtualMachine, int, int]


def _each_is_for_a_promise(recount: Recount) -> Iterator[Violation]:
    """Every image is brought to a host that exists, for a lease that starts there later and is made from it.

    Of those that come ahead of a start that is only expected see `_each_is_ahead_of_a_start`.
    """
    starting = _starting_by_host(recount)
    for order in recount.plan.image_orders:
        host = recount.hosts.get(order.host_id)
        if host is None or host.name != order.host_name:
            yield Violation("image-host", f"{order.id}: there is no host {order.host_id} named {order.host_name}")
        elif order.kind is ImageOrderKind.BRING and order.needed_at_s is not None:
            starts = (*starting.get(order.host_id, ()), *_room_made_on(recount, order.host_id))
            made_there = {lease.id for lease, vm in starts if _is_made_from(vm, order)}
            if not made_there & set(order.lease_ids):
                yield Violation("image-unneeded", f"{order.id}: nobody it is for is promised that host")


def _each_comes_in_time(recount: Recount) -> Iterator[Violation]:
    """It has the link for as long as its size takes, and until its start at the latest."""
    for order in _brought(recount):
        if order.needed_at_s is not None and order.due_at_s > order.needed_at_s:
            if _is_under_way(recount, order):
                # It was ordered to be in time, and is not: it goes on all the same.
                continue
            yield Violation("image-late", f"{order.id} ends at {order.due_at_s}, and is needed at {order.needed_at_s}")
        if order.due_at_s - order.begin_at_s < _least_s(recount, order.size_mib):
            yield Violation("image-hasty", f"{order.id} has the link for less than {order.size_mib} MiB take")


def _each_is_ahead_of_a_start(recount: Recount) -> Iterator[Violation]:
    """What nobody was promised comes only where that is allowed, to where somebody waits to start, and before that."""
    bounds, now_s = recount.chosen.images, recount.state.now_s
    for order in _brought(recount):
        if order.needed_at_s is not None or bounds is None:
            continue
        starts = [
            start_s
            for lease_id in order.lease_ids
            if (lease := recount.leases.get(lease_id)) is not None and lease.state is LeaseState.WAITING
            for vm, host_id, start_s in _places(recount, lease, recorded(recount, lease, planned=True))
            if host_id == order.host_id and _is_made_from(vm, order)
        ]
        first_s = max(order.due_at_s, now_s)
        if bounds.ahead_s is None or not any(start_s <= now_s + bounds.ahead_s for start_s in starts):
            yield Violation("image-unneeded", f"{order.id}: nobody it is for is expected on that host before long")
        elif not _is_under_way(recount, order) and not any(start_s >= first_s for start_s in starts):
            yield Violation("image-late", f"{order.id} ends at {order.due_at_s}, when all it is for have started")


def _none_ahead_takes_what_was_promised(recount: Recount) -> Iterator[Violation]:
    """With it there is time enough on the link for all images that starts need, where there was without it."""
    ahead = [order for order in _brought(recount) if order.needed_at_s is None and not _is_under_way(recount, order)]
    bounds, now_s = recount.chosen.images, recount.state.now_s
    if not ahead or bounds is None:
        return
    # What comes now is not lacking then; whoever's transfer has failed may have been left to oned.
    coming = {order.place for order in ahead}
    coming |= {one.order.place for one in _failed(recount)}
    lacking = {place: needed for place, needed in _lacking(recount, set()).items() if place not in coming}
    takes_s = sum(_least_s(recount, order.size_mib) for order in ahead)
    if not _all_could_be_in_time(recount, set(), coming):
        # Somebody was given up, and nobody knows who.
        return
    for by_s, needed in _link_needed(recount, lacking, 0):
        if needed + takes_s > by_s - now_s:
            yield Violation(
                "image-ahead", f"what comes ahead leaves too little time for the images needed until {by_s}"
            )


def _failed(recount: Recount) -> list[TransferRecord]:
    return [one for one in recount.state.images.transfers.values() if one.phase is TransferPhase.FAILED]


def _is_under_way(recount: Recount, order: ImageOrder) -> bool:
    record = recount.state.images.transfers.get(order.id)
    return record is not None and record.phase is TransferPhase.UNDER_WAY


def _one_has_the_link(recount: Recount) -> Iterator[Violation]:
    """None is begun while another one has the link by its rate, whether this plan begins that or it is under way."""
    taken = [
        (record.since_s, record.since_s + _least_s(recount, record.order.size_mib), record.id)
        for record in _under_way(recount)
    ]
    known = {id for _, _, id in taken}
    for order in _brought(recount):
        if order.id in known:
            continue
        for begin_s, end_s, other in taken:
            if begin_s < order.due_at_s and order.begin_at_s < end_s and recount.state.now_s < end_s:
                yield Violation("image-link", f"{order.id} begins while {other} has the link")
        taken.append((order.begin_at_s, order.begin_at_s + _least_s(recount, order.size_mib), order.id))


def _pools_are_not_exceeded(recount: Recount) -> Iterator[Violation]:
    bounds = recount.chosen.images
    if bounds is None or bounds.pool_mib is None:
        return
    begun = [order for order in _brought(recount) if order.id not in {one.id for one in _under_way(recount)}]
    for host_id in sorted({order.host_id for order in begun}):
        sizes = {one.image_id: one.size_mib for one in recount.state.images.images_on(host_id)}
        sizes.update(
            {one.order.image_id: one.order.size_mib for one in _under_way(recount) if one.order.host_id == host_id}
        )
        sizes.update({order.image_id: order.size_mib for order in begun if order.host_id == host_id})
        if sum(sizes.values()) > bounds.pool_mib:
            yield Violation("image-pool", f"host {host_id} would hold {sum(sizes.values())} MiB of images")


def _nothing_needed_is_removed(recount: Recount) -> Iterator[Violation]:
    starting = _starting_by_host(recount)
    for order in recount.plan.image_orders:
        if order.kind is not ImageOrderKind.DROP:
            continue
        elsewhere = {one.preemptor_lease_id for one in recount.preemptions.values()}
        for lease, vm in starting.get(order.host_id, ()):
            if lease.id in elsewhere:
                # Others leave for it, which need not be on the hosts that it was promised at first.
                continue
            if any(image_id == order.image_id for image_id, _ in _copied_images(recount, vm, order.host_id)):
                yield Violation("image-needed", f"{order.id}: lease {lease.id} is promised that host, and needs it")
        for vm in _guests_being_made(recount, order.host_id):
            if _is_made_from(vm, order):
                yield Violation("image-in-use", f"{order.id}: VM {vm.id} is being made from it")


def _what_is_accepted_can_be_brought(recount: Recount) -> Iterator[Violation]:
    """For every start there is time enough on the link for all images that starts until then lack, one by one.

    Of hosts that have any shared system datastore nothing is counted: what fails this cannot be kept. Where a transfer
    has failed, or what was promised before has no time enough by itself, nobody knows what was given up for that.
    Neither does anybody of what was promised before on hosts that are not on, or for whom others leave.
    """
    bounds, now_s = recount.chosen.images, recount.state.now_s
    accepted = {one.lease_id for one in recount.plan.verdicts if one.verdict is Verdict.ACCEPTED}
    if bounds is None or not accepted & recount.booking_by_lease.keys():
        return
    if any(one.phase is TransferPhase.FAILED for one in recount.state.images.transfers.values()):
        return
    if not _all_could_be_in_time(recount, accepted, set()):
        return
    for by_s, needed in _link_needed(recount, _lacking(recount, accepted), 0):
        if needed > by_s - now_s:
            text = f"the images that are needed until {by_s} take {needed:.0f} s, and {by_s - now_s} s are left"
            yield Violation("image-promises", text)


def _all_could_be_in_time(recount: Recount, without: Set[int], coming: Set[tuple[int, int]]) -> bool:
    """Nobody needs have been given up of whom was promised a start before, but for these leases and places.

    All count who may have had their time of the link: those on a host that is just waking, say, may have come before
    others, and made them late.
    """
    bounds, now_s = recount.chosen.images, recount.state.now_s
    assert bounds is not None, "only where images are brought"
    perhaps = _lacking(recount, set(), perhaps=True, without=without)
    lacking = {place: needed for place, needed in perhaps.items() if place not in coming}
    needed_s = list(_link_needed(recount, lacking, bounds.quantum_s))
    if not bounds.keeps_deadlines:
        # Whoever starts first may be the last whose image comes, and was given up then.
        needed_s = [(by_s, needed_s[-1][1]) for by_s, _ in needed_s]
    return all(needed <= by_s - now_s for by_s, needed in needed_s)


def _link_needed(
    recount: Recount, lacking: dict[tuple[int, int], tuple[int, int]], quantum_s: int
) -> Iterator[tuple[int, float]]:
    """The starts, and for how long all that is lacking until then has the link: with a quantum, in whole ones."""

    def takes_s(size_mib: int) -> float:
        least_s = _least_s(recount, size_mib)
        return least_s if not quantum_s else max(1, ceil(least_s / quantum_s)) * quantum_s

    now_s = recount.state.now_s
    busy_s = sum(max(0.0, one.since_s + takes_s(one.order.size_mib) - now_s) for one in _under_way(recount))
    for by_s in sorted({start_s for start_s, _ in lacking.values()}):
        yield by_s, busy_s + sum(takes_s(size_mib) for start_s, size_mib in lacking.values() if start_s <= by_s)


def _lacking(
    recount: Recount, accepted: Set[int], *, perhaps: bool = False, without: Set[int] = frozenset()
) -> dict[tuple[int, int], tuple[int, int]]:
    """By image and host what has to be brought there: by when, and MiB. What is under way is not counted.

    Of those who were not `accepted` by this plan only what surely has its time of the link; or all that `perhaps` has.
    """
    found: dict[tuple[int, int], tuple[int, int]] = {}
    coming = {one.order.place for one in _under_way(recount)}
    made_for: dict[int, list[Preemption]] = {}
    for preemption in recount.preemptions.values():
        made_for.setdefault(preemption.preemptor_lease_id, []).append(preemption)
    for lease_id in (recount.state.reservations.keys() | recount.booking_by_lease.keys()) - without:
        lease = recount.leases.get(lease_id)
        if lease is None or not _waits_for_its_start(recount, lease):
            continue
        if lease_id in made_for and not perhaps:
            continue
        for vm, host_id, needed_s in _places_made(recount, lease, made_for.get(lease_id, ())):
            if not (perhaps or lease_id in accepted or _is_on(recount, host_id)):
                continue
            held = {one.image_id for one in recount.state.images.images_on(host_id)}
            for image_id, size_mib in _copied_images(recount, vm, host_id):
                place = image_id, host_id
                if image_id not in held and place not in coming:
                    known_s, known_mib = found.get(place, (needed_s, 0))
                    found[place] = min(known_s, needed_s), max(known_mib, size_mib)
    return found


def _starting_by_host(recount: Recount) -> dict[int, list[tuple[Lease, VirtualMachine]]]:
    """The VMs that are promised hosts for a start ahead, by their leases' ids; none where nothing is ordered."""
    found: dict[int, list[tuple[Lease, VirtualMachine]]] = {}
    if not recount.plan.image_orders:
        return found
    for lease_id in sorted(recount.state.reservations.keys() | recount.booking_by_lease.keys()):
        lease = recount.leases.get(lease_id)
        if lease is not None and _waits_for_its_start(recount, lease):
            for vm, host_id, _ in _promised_places(recount, lease):
                found.setdefault(host_id, []).append((lease, vm))
    return found


def _room_made_on(recount: Recount, host_id: int) -> Iterator[tuple[Lease, VirtualMachine]]:
    """The VMs for which others leave, before their start, and that are to start on a host then."""
    for preemption in recount.preemptions.values():
        lease = recount.leases.get(preemption.preemptor_lease_id)
        if lease is not None and _waits_for_its_start(recount, lease):
            placed = [one.vm_id for one in preemption.placements if one.host_id == host_id]
            yield from ((lease, recount.vms[vm_id]) for vm_id in placed if vm_id in recount.vms)


def _is_on(recount: Recount, host_id: int) -> bool:
    """It can take images now: it does not sleep, and is not lost."""
    host = recount.hosts.get(host_id)
    return host is not None and host.state in _ON


def _is_made_from(vm: VirtualMachine, order: ImageOrder) -> bool:
    return any(disk.image_id == order.image_id for disk in vm.disks)


def _waits_for_its_start(recount: Recount, lease: Lease) -> bool:
    return lease.state is LeaseState.WAITING and has_start_promised(recount, lease)


def _promised_places(recount: Recount, lease: Lease) -> list[_Starting]:
    """Each VM with the host that it is firmly promised first, and when it starts there."""
    return _places(recount, lease, slots(recount, lease, planned=True))


def _places(recount: Recount, lease: Lease, known: Iterable[Reservation]) -> list[_Starting]:
    """Each VM with the host that it has in the first of these reservations to come, and when it may start there."""
    now_s = recount.state.now_s
    ahead = [one for one in known if one.start_at_s > now_s and len(one.host_ids) == len(lease.vm_ids)]
    if not ahead:
        return []
    first = min(ahead, key=lambda one: one.start_at_s)
    vms = [recount.vms[vm_id] for vm_id in lease.vm_ids]
    return [(vm, host_id, first.start_at_s) for vm, host_id in zip(vms, first.host_ids, strict=True)]


def _places_made(recount: Recount, lease: Lease, made_for: Iterable[Preemption]) -> list[_Starting]:
    """The same, with the hosts on which others leave for it."""
    promised = _promised_places(recount, lease)
    if not promised:
        return []
    start_s = promised[0][2]
    placed = [one for preemption in made_for for one in preemption.placements if one.vm_id in recount.vms]
    return [*promised, *((recount.vms[one.vm_id], one.host_id, start_s) for one in placed)]


def _copied_images(recount: Recount, vm: VirtualMachine, host_id: int) -> list[tuple[int, int]]:
    """The images that have to be on a host for a VM, with their MiB."""
    host = recount.hosts.get(host_id)
    if host is None or vm.state not in (VmState.PENDING, VmState.HOLD):
        return []
    for store in recount.state.snapshot.datastores.values():
        if store.type == DatastoreType.SYSTEM and store.shared and host.cluster_id in store.cluster_ids:
            return []
    return [
        (disk.image_id, disk.image_size_mib or disk.size_mib)
        for disk in vm.disks
        if disk.image_id is not None and disk.clone and disk.clone_target == "SYSTEM" and _is_brought(recount, disk)
    ]


def _is_brought(recount: Recount, disk: Disk) -> bool:
    """Its image is not of a datastore from which none can be brought."""
    bounds = recount.chosen.images
    if bounds is None or not bounds.cached_only:
        return True
    store = None if disk.datastore_id is None else recount.state.snapshot.datastores.get(disk.datastore_id)
    return store is not None and (store.tm_mad, store.attributes.get("TEMPLATE/CACHE_ENABLE")) == ("local", ("YES",))


def _brought(recount: Recount) -> list[ImageOrder]:
    return [order for order in recount.plan.image_orders if order.kind is ImageOrderKind.BRING]


def _under_way(recount: Recount) -> list[TransferRecord]:
    return [
        one
        for one in recount.state.images.transfers.values()
        if one.phase is TransferPhase.UNDER_WAY and one.order.kind is ImageOrderKind.BRING
    ]


def _least_s(recount: Recount, size_mib: int) -> float:
    bounds = recount.chosen.images
    return 0.0 if bounds is None else size_mib * _MEGABITS_PER_MIB / bounds.link_megabit_per_s


def _guests_being_made(recount: Recount, host_id: int) -> list[VirtualMachine]:
    """VMs of which the disks are being copied on a host, or which are sent there by this plan."""
    coming = {action.vm_id for action in recount.plan.actions if action.host_id == host_id}
    return [
        recount.vms[vm_id]
        for vm_id in sorted(coming | set(recount.books.guests(recount.state, host_id)))
        if vm_id in coming or recount.vms[vm_id].lcm_state == LcmState.PROLOG
    ]


RULES: tuple[Rule, ...] = (
    _each_is_for_a_promise,
    _each_is_ahead_of_a_start,
    _each_comes_in_time,
    _none_ahead_takes_what_was_promised,
    _one_has_the_link,
    _pools_are_not_exceeded,
    _nothing_needed_is_removed,
)
RULES_OF_PROMISES: tuple[Rule, ...] = (_what_is_accepted_can_be_brought,)
