"""Which images reservations need on the hosts that they were promised, and whether these can be there by then."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from msgspec.structs import replace

from one_preempt.core.availability.gang_demand import BoolArray, GangDemand
from one_preempt.core.availability.slot_table import SlotTable
from one_preempt.core.availability.timeline import Stay
from one_preempt.core.image_staging.copied_images import CopiedImage, images_of
from one_preempt.core.image_staging.pool_room import peaks_mib
from one_preempt.core.image_staging.staging_plan import ImageNeed, StagingPlan
from one_preempt.core.model.image_transfer import Place
from one_preempt.core.model.lease import Lease, LeaseState
from one_preempt.core.model.plan import Reason
from one_preempt.core.model.virtual_machine import VirtualMachine
from one_preempt.core.model.written_time import utc_text
from one_preempt.core.phases.draft import PlanDraft
from one_preempt.core.phases.images.image_draft import ImageDraft
from one_preempt.core.phases.reservations.promised import has_exact_start, is_promised, promised_leases, standing_stays

IMAGES_LATE = "reservation-images-late"
IMAGES_WITHOUT_ROOM = "reservation-images-no-room"


def look_for_needs(draft: PlanDraft, images: ImageDraft) -> Mapping[int, tuple[ImageNeed, ...]]:
    """Find what every lease with an exact start ahead needs on its hosts, by lease id, where promises have changed."""
    if images.needs is None:
        images.needs = {}
        looked_at = promised_leases(draft)
    else:
        known = (draft.state.leases.get(lease_id) for lease_id in sorted(images.changed))
        looked_at = [lease for lease in known if lease is not None]
    images.changed.clear()
    for lease in looked_at:
        images.set_needs(lease.id, _promised_to(draft, images, lease))
    return images.needs


def _promised_to(draft: PlanDraft, images: ImageDraft, lease: Lease) -> tuple[ImageNeed, ...]:
    """What a lease needs by what it was promised."""
    if lease.state is not LeaseState.WAITING or not has_exact_start(draft, lease) or not is_promised(draft, lease):
        return ()
    stays = standing_stays(draft, lease)
    if not stays or not stays[0].firm or stays[0].start_s <= draft.state.now_s:
        return ()
    vms = draft.members(lease)
    return _known_needs(draft, images, lease, vms, stays[0]) if len(stays[0].host_rows) == len(vms) else ()


def _known_needs(
    draft: PlanDraft, images: ImageDraft, lease: Lease, vms: Sequence[VirtualMachine], stay: Stay
) -> tuple[ImageNeed, ...]:
    """As `needs_at`, found once for each stay: whenever somebody is promised something, all are asked for again."""
    known = images.needs_by_stay.get(lease.id)
    if known is None or known[0] is not stay:
        known = images.needs_by_stay[lease.id] = stay, needs_at(draft, lease, vms, stay)
    return known[1]


def needs_at(draft: PlanDraft, lease: Lease, vms: Sequence[VirtualMachine], stay: Stay) -> tuple[ImageNeed, ...]:
    """What the VMs of a lease need on the hosts of a stay, each image once on each."""
    found: dict[Place, ImageNeed] = {}
    hosts = draft.state.hosts.hosts
    for vm, row in zip(vms, stay.host_rows, strict=True):
        for image in brought_for(draft, vm):
            host = hosts[row]
            if (image.id, host.id) not in found and draft.matchmaker.makes_disks_on(vm, host):
                found[image.id, host.id] = ImageNeed(
                    lease.id, image.id, host.id, image.size_mib, image.datastore_id, stay.start_s, lease.arrived_at_s
                )
    return tuple(found[place] for place in sorted(found))


def brought_for(draft: PlanDraft, vm: VirtualMachine) -> tuple[CopiedImage, ...]:
    """What of a VM's images can be brought to its host beforehand."""
    found = images_of(vm)
    if not found or draft.images is None:
        return found
    rules, datastores = draft.images.rules, draft.state.snapshot.datastores
    return tuple(
        one
        for one in found
        if rules.can_bring_from(None if one.datastore_id is None else datastores.get(one.datastore_id))
    )


def host_orders(
    draft: PlanDraft,
    vms: Sequence[VirtualMachine],
    demand: GangDemand,
    table: SlotTable,
    start_s: int,
    end_s: int | None,
) -> Iterator[GangDemand]:
    """The same demand in the orders in which hosts are to be tried: as `images_first`, and then, where what hosts keep
    is limited, first those that surely have room for its images beside those of others."""
    first = images_first(draft, vms, demand, table, start_s, end_s)
    yield first
    roomy = None if first is demand else _rows_with_pool_room(draft, vms)
    if roomy is not None and not roomy.all():
        order = np.arange(len(roomy)) if first.host_order is None else first.host_order
        yield replace(first, host_order=np.concatenate([order[roomy[order]], order[~roomy[order]]]))


def images_first(
    draft: PlanDraft,
    vms: Sequence[VirtualMachine],
    demand: GangDemand,
    table: SlotTable,
    start_s: int,
    end_s: int | None,
) -> GangDemand:
    """The same demand with the hosts first to which the least has to be copied, then those with room for more VMs.

    So VW07's Algorithm 1 has it; what is left equal stays in the order of preference.
    """
    wanted = {image.id: image.size_mib for vm in vms for image in brought_for(draft, vm)}
    if draft.images is None or not draft.images.rules.acts or not wanted:
        return demand
    hosts = draft.state.hosts.hosts
    lacking = np.full(len(hosts), sum(wanted.values()), dtype=np.int64)
    lacking[~_copied_to(draft, vms[0])] = 0
    for image_id, size_mib in wanted.items():
        for host_id in _there_by(draft, draft.images, image_id, start_s):
            row = draft.state.hosts.index_by_id.get(host_id)
            if row is not None and lacking[row]:
                lacking[row] -= size_mib
    free = table.free_during(start_s, end_s)
    need = np.maximum(demand.needs[0], 1)
    places = (free // need).min(axis=1)
    rank = np.empty(len(hosts), dtype=np.int64)
    order = np.arange(len(hosts)) if demand.host_order is None else demand.host_order
    rank[order] = np.arange(len(hosts))
    return replace(demand, host_order=np.lexsort((rank, -places, lacking)))


def _copied_to(draft: PlanDraft, vm: VirtualMachine) -> BoolArray:
    """The rows of the hosts on which a VM's disks are made, shape (H,)."""
    hosts = draft.state.hosts.hosts
    return np.array([draft.matchmaker.makes_disks_on(vm, host) for host in hosts], dtype=np.bool_)


def _there_by(draft: PlanDraft, images: ImageDraft, image_id: int, start_s: int) -> set[int]:
    """Hosts that have an image, or to which it comes for somebody who starts by then."""
    there = set(images.held_or_coming.get(image_id, ()))
    look_for_needs(draft, images)
    if images.in_time.are_all:
        return there | set(images.in_time.come_by(image_id, start_s))
    return there | {
        one.host_id for one in images.plan.transfers if one.image_id == image_id and one.needed_s <= start_s
    }


def _rows_with_pool_room(draft: PlanDraft, vms: Sequence[VirtualMachine]) -> BoolArray | None:
    """The rows of the hosts that may keep all images of VMs beside all that is promised there, whenever that comes and
    goes; shape (H,). None where there is no limit."""
    images = draft.images
    if images is None or images.rules.pool_mib is None:
        return None
    kept = {place: _held_mib(images, place) for place in in_use_until(draft, images)}
    for record in images.known.coming:
        kept[record.order.place] = record.order.size_mib
    for of_lease in look_for_needs(draft, images).values():
        kept.update((one.place, max(one.size_mib, kept.get(one.place, 0))) for one in of_lease)
    kept_mib: dict[int, int] = {}
    for (_, host_id), size_mib in kept.items():
        kept_mib[host_id] = kept_mib.get(host_id, 0) + size_mib
    wanted = {image.id: image.size_mib for vm in vms for image in brought_for(draft, vm)}
    return np.array(
        [
            kept_mib.get(host.id, 0) + sum(mib for image_id, mib in wanted.items() if (image_id, host.id) not in kept)
            <= images.rules.pool_mib
            for host in draft.state.hosts.hosts
        ],
        dtype=np.bool_,
    )


def receiving_rows(draft: PlanDraft, images: ImageDraft) -> Mapping[int, int]:
    """By row of the hosts to which images come, when the first of them begins."""
    look_for_needs(draft, images)
    coming = [(record.order.host_id, record.since_s) for record in images.known.coming]
    coming += [(one.host_id, one.begin_s) for one in images.plan.transfers]
    found: dict[int, int] = {}
    for host_id, begin_s in coming:
        row = draft.state.hosts.index_by_id.get(host_id)
        if row is not None:
            found[row] = min(found.get(row, begin_s), begin_s)
    return found


def why_not_staged(draft: PlanDraft, lease: Lease, vms: Sequence[VirtualMachine], stay: Stay) -> Reason | None:
    """Why a lease cannot be promised this stay beside the others for the sake of images; None where it can."""
    images = draft.images
    if images is None or not images.rules.acts:
        return None
    own = needs_at(draft, lease, vms, stay)
    if not own:
        return None
    promised = look_for_needs(draft, images)
    in_time = None if lease.id in promised else images.in_time.also(own)
    if in_time is False:
        return _comes_late(images, own, stay.start_s)
    if in_time and _surely_has_pool_room(draft, images, own):
        return None
    before = images.plan
    needs = [*(one for other, of in promised.items() if other != lease.id for one in of), *own]
    then = images.plan_for(needs)
    late = then.left.keys() - before.left.keys() or then.tight - before.tight
    if lease.id in then.left or late or any(one.place in then.tight for one in own):
        return _comes_late(images, own, stay.start_s)
    return _lacks_pool_room(draft, images, needs, then)


def may_be_staged(draft: PlanDraft, lease: Lease, vms: Sequence[VirtualMachine], stay: Stay) -> bool:
    """A lease loses no image by being promised this stay in place of another."""
    return why_not_staged(draft, lease, vms, stay) is None


def _comes_late(images: ImageDraft, own: Sequence[ImageNeed], start_s: int) -> Reason:
    """Why, and from when on it surely could be accepted: once all that others were promised has been brought."""
    rules = images.rules
    missing = {one.place: one.size_mib for one in own if not images.known.is_held(one.place)}
    own_s = sum(rules.transfer_s(size_mib) for size_mib in missing.values())
    others_s = images.in_time.others_s(missing)
    sure_s = images.now_s + others_s + own_s + rules.margin_s
    what = "its image" if len({one.image_id for one in own}) == 1 else "its images"
    if images.now_s + own_s + rules.margin_s > start_s:
        why = f"{what} cannot be on its hosts by START {utc_text(start_s)}, because bringing them there takes {own_s} s"
    else:
        why = f"{what} cannot be on its hosts by START {utc_text(start_s)}: the link is taken by others' transfers"
    return Reason(IMAGES_LATE, f"{why}; it can surely be accepted from {utc_text(max(sure_s, start_s + 1))} on")


def _surely_has_pool_room(draft: PlanDraft, images: ImageDraft, own: Sequence[ImageNeed]) -> bool:
    """Every host may keep all that was promised at the same time, and need not look at when it comes and goes."""
    pool_mib = images.rules.pool_mib
    if pool_mib is None:
        return True
    others_mib: dict[int, int] = {}
    for place in in_use_until(draft, images):
        others_mib[place[1]] = others_mib.get(place[1], 0) + _held_mib(images, place)
    for record in images.known.coming:
        host_id = record.order.host_id
        others_mib[host_id] = others_mib.get(host_id, 0) + record.order.size_mib
    room_mib = images.in_time.room_mib(own)
    return all(
        room_mib.get(host_id, 0) + others_mib.get(host_id, 0) <= pool_mib for host_id in {*room_mib, *others_mib}
    )


def _lacks_pool_room(
    draft: PlanDraft, images: ImageDraft, needs: Sequence[ImageNeed], then: StagingPlan
) -> Reason | None:
    """With these needs, and the plan for them, some host would have to keep more images at a time than it may.

    And more than without them.
    """
    pool_mib = images.rules.pool_mib
    if pool_mib is None:
        return None
    in_use = in_use_until(draft, images)
    peaks = peaks_mib(needs, then, images.staging, in_use)
    over = {host_id: peak for host_id, peak in peaks.items() if peak > pool_mib}
    if not over:
        return None
    peaks_before = peaks_mib(images.all_needs, images.plan, images.staging, in_use)
    worse = [host_id for host_id, peak in over.items() if peak > peaks_before.get(host_id, 0)]
    if not worse:
        return None
    host = draft.state.snapshot.hosts[worse[0]]
    text = f"its images do not fit on host {host.name} beside those of others: {pool_mib} MiB may be kept there"
    return Reason(IMAGES_WITHOUT_ROOM, text)


def _held_mib(images: ImageDraft, place: Place) -> int:
    """What an image takes on a host of which something is held."""
    return sum(one.size_mib for one in images.known.images_on(place[1]) if one.image_id == place[0])


def in_use_until(draft: PlanDraft, images: ImageDraft) -> dict[Place, int]:
    """Images on hosts from which VMs were made there a moment ago, or are being made, and until when they are kept."""
    if images.in_use_until is not None:
        return images.in_use_until
    found = images.in_use_until = dict[Place, int]()
    vms, hosts, kept_s = draft.state.snapshot.vms, draft.state.snapshot.hosts, images.rules.kept_after_start_s
    for host_id in images.known.held:
        for vm_id in hosts[host_id].vm_ids if host_id in hosts else ():
            vm = vms.get(vm_id)
            stay = vm.last_history if vm is not None else None
            if vm is None or stay is None or stay.host_id != host_id:
                continue
            until_s = stay.start_at_s + kept_s if stay.prolog_end_at_s else images.now_s + kept_s
            if until_s > images.now_s:
                for disk in vm.disks:
                    if disk.image_id is not None:
                        place = disk.image_id, host_id
                        found[place] = max(found.get(place, 0), until_s)
    return found
