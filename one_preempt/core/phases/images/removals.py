"""Images that make room on a host for others."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property

from one_preempt.core.image_staging.pool_room import to_be_removed
from one_preempt.core.image_staging.staging_plan import ImageNeed, PlannedTransfer
from one_preempt.core.model.image_transfer import ImageOrder, ImageOrderKind, TransferPhase
from one_preempt.core.model.virtual_machine import VirtualMachine
from one_preempt.core.phases.draft import PlanDraft
from one_preempt.core.phases.images.image_draft import ImageDraft
from one_preempt.core.phases.images.promised_images import in_use_until
from one_preempt.core.phases.reservations.promised import promised_leases


class Removals:
    """What may be removed from hosts in this cycle; looked up once for all hosts, when the first of them lacks room."""

    def __init__(self, draft: PlanDraft, images: ImageDraft, wanted: Iterable[ImageNeed]) -> None:
        """`wanted` are needs, of which none is removed."""
        self._draft, self._images, self._wanted = draft, images, wanted

    def make_room(self, transfer: PlannedTransfer, lacking_mib: int, needed_at_s: int | None) -> bool:
        """Order removals on the host of a transfer, as many as it needs, of what nobody needs; was any not before?

        One that has failed is left alone until its pause is over.
        """
        draft, images, host_id = self._draft, self._images, transfer.host_id
        now_s, records, begun = draft.state.now_s, images.known.transfers, False
        kept = self._kept.get(host_id, set())
        for image in to_be_removed(host_id, lacking_mib, images.known, kept, self._popularity):
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

    @cached_property
    def _kept(self) -> Mapping[int, set[int]]:
        """By host the images that are not removed there."""
        now_s = self._draft.state.now_s
        kept: defaultdict[int, set[int]] = defaultdict(set)
        for need in self._wanted:
            kept[need.host_id].add(need.image_id)
        for image_id, host_id in in_use_until(self._draft, self._images):
            kept[host_id].add(image_id)
        for record in self._images.known.transfers.values():
            if record.order.kind is ImageOrderKind.DROP and record.not_before_s > now_s:
                kept[record.order.host_id].add(record.order.image_id)
        for host_id, vm in _due(self._draft):
            kept[host_id].update(disk.image_id for disk in vm.disks if disk.image_id is not None)
        return kept

    @cached_property
    def _popularity(self) -> Mapping[int, int]:
        """How many of the VMs that there are were made, or are to be made, from each image."""
        vms = self._draft.state.snapshot.vms.values()
        return Counter(disk.image_id for vm in vms for disk in vm.disks if disk.image_id is not None)


def _due(draft: PlanDraft) -> Iterator[tuple[int, VirtualMachine]]:
    """The VMs that are sent to a host now, or were to start there already."""
    vms, hosts = draft.state.snapshot.vms, draft.state.hosts.hosts
    for action in draft.actions:
        if action.host_id is not None:
            yield action.host_id, vms[action.vm_id]
    for lease in promised_leases(draft):
        for stay in draft.timeline.stays.get(lease.id, ())[:1]:
            if stay.start_s <= draft.state.now_s:
                yield from ((hosts[row].id, vm) for row in set(stay.host_rows) for vm in draft.members(lease))
