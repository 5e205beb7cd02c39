"""May a reservation be accepted beside those that were promised? Only if its VMs fit, and its images are there in time.

The whole of VW07's model for closed advance reservations: slots for VMs (6.1), for transfers (6.2), and images that are
used again (6.3).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum

from msgspec import Struct, field
from msgspec.structs import replace

from one_preempt.core.image_staging.link import Link, link_from
from one_preempt.core.image_staging.policy import ImageStagingPolicy
from one_preempt.core.image_staging.transfer import Span, StagedTransfer, Transfer, transfer_ms
from one_preempt.simulation.vw07_model.planned_images import ImageUse, PlannedImage, peak_disk_mb, shared_image
from one_preempt.simulation.vw07_model.slot_fitting import Booking, fitted, rooms_between


class TransferUnit(Enum):
    """For what an image is transferred once."""

    VM = "each VM"
    NODE = "each node"
    RESERVATION = "all nodes of a reservation at once"


class Refusal(Enum):
    """Why a reservation is not accepted."""

    OVER = "its start is over"
    NO_ROOM = "its VMs do not fit"
    TRANSFERS_LATE = "its images, or those of others, would come too late"
    DISK_FULL = "its images do not fit on a node's disk"


class WorkspaceRequest(Struct, frozen=True):
    """A closed advance reservation: so many VMs of one image from `start_ms` to `end_ms`, known since `asked_ms`."""

    id: int
    vms: int
    image: str
    size_mb: int
    asked_ms: int
    start_ms: int
    end_ms: int


class StagingRules(Struct, frozen=True):
    """The site and its policy.

    Attributes:
        policy: How transfers are staged; one that plans slots.
        places: How many VMs each node can take, by its id.
        megabit_per_s: The link's rate.
        unit: For what an image is transferred once.
        reuses: VMs share what is on a node, or is to come; then those of a node never need more than one transfer.
        copies: Each VM has a copy of the template of its own.
        disk_limit_mb: The most that images may take on a node; None: no limit.
    """

    policy: ImageStagingPolicy
    places: Mapping[int, int]
    megabit_per_s: int = 100
    unit: TransferUnit = TransferUnit.VM
    reuses: bool = False
    copies: bool = False
    disk_limit_mb: int | None = None


class Promised(Struct, frozen=True):
    """What was promised: places for VMs, transfers and when they have the link, and what these leave on which node.

    `begun` are the transfers that have begun, and that nothing moves any more.
    """

    now_ms: int = 0
    bookings: tuple[Booking, ...] = ()
    images: tuple[PlannedImage, ...] = ()
    begun: tuple[StagedTransfer, ...] = ()
    waiting: tuple[StagedTransfer, ...] = ()
    next_transfer_id: int = 0

    @property
    def staged(self) -> dict[int, StagedTransfer]:
        """All transfers by their ids."""
        return {one.transfer.id: one for one in (*self.begun, *self.waiting)}

    def at(self, now_ms: int) -> Promised:
        """The same at a later time: what was to begin by then has begun."""
        begun = tuple(one for one in self.waiting if one.begin_ms < now_ms)
        waiting = tuple(one for one in self.waiting if one.begin_ms >= now_ms)
        return replace(self, now_ms=now_ms, begun=(*self.begun, *begun), waiting=waiting)


class _Needs(Struct):
    """What a request needs beyond what is there: changed images of others, own ones, and transfers."""

    images: dict[tuple[int, int], PlannedImage]
    transfers: list[Transfer] = field(default_factory=list)


def admitted(request: WorkspaceRequest, promised: Promised, rules: StagingRules) -> Promised | Refusal:
    """Everything that is promised with this request, or why it is refused; then nothing has changed."""
    if request.start_ms < promised.now_ms:
        return Refusal.OVER
    with_image = _nodes_with_image(request, promised) if rules.reuses else ()
    rooms = rooms_between(promised.bookings, rules.places, request.start_ms, request.end_ms)
    nodes = fitted(request.vms, rooms, with_image)
    if nodes is None:
        return Refusal.NO_ROOM
    needs = _needs(request, nodes, promised, rules)
    transfers = [*(one.transfer for one in promised.waiting), *needs.transfers]
    waiting = rules.policy.stage(transfers, _link(promised))
    if any(one.late_ms for one in waiting):
        return Refusal.TRANSFERS_LATE
    then = replace(
        promised,
        bookings=(*promised.bookings, *(Booking(node, request.start_ms, request.end_ms) for node in nodes)),
        images=tuple(needs.images.values()),
        waiting=waiting,
        next_transfer_id=promised.next_transfer_id + len(needs.transfers),
    )
    if rules.disk_limit_mb is not None:
        # Where others' transfers move, it may be the disk of a node that the request does not touch.
        peaks_mb = peak_disk_mb(then.images, then.staged, rules.copies)
        if any(peak_mb > rules.disk_limit_mb for peak_mb in peaks_mb.values()):
            return Refusal.DISK_FULL
    return then


def _link(promised: Promised) -> Link:
    return link_from(promised.now_ms, [Span(one.begin_ms, one.end_ms) for one in promised.begun])


def _arrived(promised: Promised) -> dict[int, int]:
    return {one.transfer.id: one.end_ms for one in promised.begun if one.end_ms <= promised.now_ms}


def _nodes_with_image(request: WorkspaceRequest, promised: Promised) -> set[int]:
    """Where a VM of the request would find its image."""
    arrived = _arrived(promised)
    nodes = {one.node for one in promised.images if one.image == request.image}
    return {node for node in nodes if shared_image(_use(request, 0, node), promised.images, arrived) is not None}


def _use(request: WorkspaceRequest, number: int, node: int) -> ImageUse:
    return ImageUse(number, node, request.image, request.size_mb, request.start_ms, request.end_ms)


def _needs(request: WorkspaceRequest, nodes: Sequence[int], promised: Promised, rules: StagingRules) -> _Needs:
    """Who uses which image; what is not there yet is transferred once for each unit."""
    needs = _Needs({(one.transfer_id, one.node): one for one in promised.images})
    arrived = _arrived(promised)
    first_vm = len(promised.bookings)
    uses = [_use(request, first_vm + number, node) for number, node in enumerate(nodes)]
    missing: list[ImageUse] = []
    for use in uses:
        found = shared_image(use, needs.images.values(), arrived) if rules.reuses else None
        if found is None:
            missing.append(use)
        else:
            needs.images[found.transfer_id, found.node] = replace(found, uses=(*found.uses, use))
    unit = TransferUnit.NODE if rules.reuses and rules.unit == TransferUnit.VM else rules.unit
    for together in _units(missing, unit):
        id = promised.next_transfer_id + len(needs.transfers)
        by_node: dict[int, list[ImageUse]] = {}
        for use in together:
            by_node.setdefault(use.node, []).append(use)
        for node, of_node in by_node.items():
            needs.images[id, node] = PlannedImage(id, node, request.start_ms, tuple(of_node))
        duration_ms = transfer_ms(request.size_mb, rules.megabit_per_s)
        ready_ms = max(request.asked_ms, promised.now_ms)
        needs.transfers.append(
            Transfer(id, request.image, tuple(by_node), duration_ms, ready_ms, request.start_ms, request.id)
        )
    return needs


def _units(uses: Sequence[ImageUse], unit: TransferUnit) -> list[list[ImageUse]]:
    """Which VMs get their image by one transfer."""
    groups: dict[int, list[ImageUse]] = {}
    for use in uses:
        key = {TransferUnit.VM: use.vm, TransferUnit.NODE: use.node, TransferUnit.RESERVATION: 0}[unit]
        groups.setdefault(key, []).append(use)
    return list(groups.values())
