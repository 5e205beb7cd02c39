"""Images are brought to promised hosts before the start (VW07 6.2), and removed where room for others is needed.

For whom that fails, or comes too late, nothing is lost but time: oned copies the image when the VMs are deployed.
"""

from __future__ import annotations

from one_preempt.core.image_staging.pool_room import room_on
from one_preempt.core.image_staging.staging_plan import PlannedTransfer
from one_preempt.core.model.image_transfer import ImageOrder
from one_preempt.core.model.written_time import utc_text
from one_preempt.core.phases.draft import PlanDraft
from one_preempt.core.phases.images.expected_images import stage_ahead
from one_preempt.core.phases.images.image_draft import ImageDraft
from one_preempt.core.phases.images.promised_images import look_for_needs
from one_preempt.core.phases.images.removals import Removals

# So long before a transfer begins what is in its way is removed. Fixed: it takes seconds to delete a file, and another
# try fits in.
REMOVED_BEFORE_S = 60


def stage_images(draft: PlanDraft) -> None:
    """Order the transfers that begin by now, say when the next one does, and tell whose images will be copied late."""
    images = draft.images
    assert images is not None, "only where images are staged"
    images.look_again()
    look_for_needs(draft, images)
    plan = images.plan
    removals = Removals(draft, images, images.all_needs)
    rooms: dict[int, int | None] = {}
    for transfer in plan.transfers:
        host_id = transfer.host_id
        if host_id not in rooms:
            rooms[host_id] = room_on(host_id, images.staging)
        rooms[host_id] = _take_on(draft, images, transfer, rooms[host_id], removals)
    if images.rules.ahead_s is not None:
        stage_ahead(draft, images)
    for lease_id, why in plan.left.items():
        status = draft.statuses.get(lease_id)
        if status is not None:
            draft.statuses[lease_id] = f"{status}; its VMs wait for their disks then: {why}"


def _take_on(
    draft: PlanDraft,
    images: ImageDraft,
    transfer: PlannedTransfer,
    room_mib: int | None,
    removals: Removals,
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
            begun = removals.make_room(transfer, transfer.size_mib - room_mib, transfer.needed_s)
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
    starts = "starts" if len(transfer.lease_ids) == 1 else "start"
    text = f"{whom} {starts} there from {utc_text(transfer.needed_s)} on, and needs the image"
    return transfer.order(host.name, transfer.needed_s, "reservation", text)
