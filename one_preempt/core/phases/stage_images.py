"""Images are brought to promised hosts before the start (VW07 6.2), and removed where room for others is needed.

For whom that fails, or comes too late, nothing is lost but time: oned copies the image when the VMs are deployed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from one_preempt.core.image_staging.pool_room import room_on, to_be_removed
from one_preempt.core.image_staging.staging_plan import ImageNeed, PlannedTransfer
from one_preempt.core.model.image_transfer import ImageOrder, ImageOrderKind, TransferPhase
from one_preempt.core.model.written_time import utc_text
from one_preempt.core.phases.draft import PlanDraft
from one_preempt.core.phases.images.image_draft import ImageDraft
from one_preempt.core.phases.images.promised_images import in_use_until, promised_needs
from one_preempt.core.phases.reservations.promised import promised_leases

# So long before a transfer begins what is in its way is removed.
REMOVED_BEFORE_S = 60


def stage_images(draft: PlanDraft) -> None:
    """Order the transfers that begin by now, say when the next one does, and tell whose images will be copied late."""
    images = draft.images
    assert images is not None, "only where images are staged"
    images.look_again()
    needs = promised_needs(draft, images)
    plan = images.plan_of(needs)
    rooms: dict[int, int | None] = {}
    for transfer in plan.transfers:
        host_id = transfer.host_id
        if host_id not in rooms:
            rooms[host_id] = room_on(host_id, images.known, images.rules)
        rooms[host_id] = _take_on(draft, images, transfer, rooms[host_id], needs)
    for lease_id, why in plan.left.items():
        status = draft.statuses.get(lease_id)
        if status is not None:
            draft.statuses[lease_id] = f"{status}; its VMs wait for their disks then: {why}"


def _take_on(
    draft: PlanDraft,
    images: ImageDraft,
    transfer: PlannedTransfer,
    room_mib: int | None,
    needs: Mapping[int, tuple[ImageNeed, ...]],
) -> int | None:
    """Order a transfer that is under way or begins now, or the removals before it; what is left of its host's pool."""
    now_s = draft.state.now_s
    if transfer.is_under_way:
        images.orders.append(_order(draft, transfer))
        # By then it is there, or something is wrong with it.
        draft.wake_by(transfer.end_s if transfer.end_s > now_s + 1 else now_s + images.rules.retry_delay_s)
        return room_mib
    if room_mib is not None and transfer.size_mib > room_mib:
        if transfer.begin_s > now_s + REMOVED_BEFORE_S:
            draft.wake_by(transfer.begin_s - REMOVED_BEFORE_S)
        else:
            begun = _remove(draft, images, transfer, transfer.size_mib - room_mib, needs)
            # What is just ordered may be done at once; else whatever is in the way is looked at again after a while.
            draft.wake_by(now_s + 1 if begun else now_s + images.rules.retry_delay_s)
        return room_mib
    if transfer.begin_s > now_s:
        draft.wake_by(transfer.begin_s)
    else:
        images.orders.append(_order(draft, transfer))
        draft.wake_by(transfer.end_s)
    return None if room_mib is None else room_mib - transfer.size_mib


def _order(draft: PlanDraft, transfer: PlannedTransfer) -> ImageOrder:
    leases = draft.state.leases
    first = min(transfer.lease_ids)
    whom = leases[first].label if len(transfer.lease_ids) == 1 else f"{len(transfer.lease_ids)} leases"
    host = draft.state.snapshot.hosts[transfer.host_id]
    return ImageOrder(
        kind=ImageOrderKind.BRING,
        image_id=transfer.image_id,
        host_id=transfer.host_id,
        host_name=host.name,
        datastore_id=transfer.datastore_id,
        size_mib=transfer.size_mib,
        begin_at_s=transfer.begin_s,
        due_at_s=transfer.end_s,
        needed_at_s=transfer.needed_s,
        lease_ids=transfer.lease_ids,
        reason_code="reservation",
        reason_text=f"{whom} start{'s' if len(transfer.lease_ids) == 1 else ''} there from "
        f"{utc_text(transfer.needed_s)} on, and needs the image",
    )


def _remove(
    draft: PlanDraft,
    images: ImageDraft,
    transfer: PlannedTransfer,
    lacking_mib: int,
    needs: Mapping[int, tuple[ImageNeed, ...]],
) -> bool:
    """Order removals on the host of a transfer, as many as it needs, of what nobody needs there; was any not before?

    One that has failed is left alone until its pause is over.
    """
    now_s, host_id = draft.state.now_s, transfer.host_id
    records = images.known.transfers
    kept = {one.image_id for of_lease in needs.values() for one in of_lease if one.host_id == host_id}
    kept |= {image_id for image_id, host in in_use_until(draft, images) if host == host_id}
    kept |= _due(draft, host_id)
    removals = [one for one in records.values() if one.order.kind is ImageOrderKind.DROP]
    kept |= {one.order.image_id for one in removals if one.order.host_id == host_id and one.not_before_s > now_s}
    begun = False
    for image in to_be_removed(host_id, lacking_mib, images.known, kept, _popularity(draft)):
        order = ImageOrder(
            kind=ImageOrderKind.DROP,
            image_id=image.image_id,
            host_id=host_id,
            host_name=draft.state.snapshot.hosts[host_id].name,
            datastore_id=None,
            size_mib=image.size_mib,
            begin_at_s=now_s,
            due_at_s=max(now_s, transfer.begin_s),
            needed_at_s=transfer.needed_s,
            lease_ids=transfer.lease_ids,
            reason_code="pool-room",
            reason_text=f"image {transfer.image_id} comes there, and nobody was promised this one",
        )
        if all(order.id != known.id for known in images.orders):
            images.orders.append(order)
            begun |= order.id not in records or records[order.id].phase is not TransferPhase.UNDER_WAY
    return begun


def _due(draft: PlanDraft, host_id: int) -> set[int]:
    """The images of VMs that are sent to a host now, or were to start there already."""
    vms, row = draft.state.snapshot.vms, draft.state.hosts.index_by_id[host_id]
    due = [vms[action.vm_id] for action in draft.actions if action.host_id == host_id]
    for lease in promised_leases(draft):
        for stay in draft.timeline.stays.get(lease.id, ())[:1]:
            if stay.start_s <= draft.state.now_s and row in stay.host_rows:
                due += draft.members(lease)
    return {disk.image_id for vm in due for disk in vm.disks if disk.image_id is not None}


def _popularity(draft: PlanDraft) -> Mapping[int, int]:
    """How many of the VMs that there are were made, or are to be made, from each image."""
    return Counter(
        disk.image_id for vm in draft.state.snapshot.vms.values() for disk in vm.disks if disk.image_id is not None
    )
