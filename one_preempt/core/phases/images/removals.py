"""Images that make room on a host for others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from one_preempt.core.image_staging.pool_room import to_be_removed
from one_preempt.core.image_staging.staging_plan import ImageNeed, PlannedTransfer
from one_preempt.core.model.image_transfer import ImageOrder, ImageOrderKind, TransferPhase
from one_preempt.core.phases.draft import PlanDraft
from one_preempt.core.phases.images.image_draft import ImageDraft
from one_preempt.core.phases.images.promised_images import in_use_until
from one_preempt.core.phases.reservations.promised import promised_leases


def make_room(
    draft: PlanDraft,
    images: ImageDraft,
    transfer: PlannedTransfer,
    lacking_mib: int,
    wanted: Iterable[ImageNeed],
    needed_at_s: int | None,
) -> bool:
    """Order removals on the host of a transfer, as many as it needs, of what nobody needs there; was any not before?

    `wanted` are needs, of which none is removed. One that has failed is left alone until its pause is over.
    """
    now_s, host_id = draft.state.now_s, transfer.host_id
    records = images.known.transfers
    kept = {one.image_id for one in wanted if one.host_id == host_id}
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
            needed_at_s=needed_at_s,
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
