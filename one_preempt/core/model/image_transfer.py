"""Images that are brought to hosts before VMs start there: what is ordered, what became of it, what hosts hold."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct, field
from msgspec.structs import replace

Place = tuple[int, int]
"""An image on a host, by its id and that of the host."""


class ImageOrderKind(StrEnum):
    """BRING copies an image to a host's pool; DROP removes one from there, because room for another is needed."""

    BRING = "stage"
    DROP = "drop"


class ImageOrder(Struct, frozen=True):
    """One step for one image on one host; it is named again, under the same id, until it is seen to be done.

    Attributes:
        kind: What is to be done there.
        image_id: Which image, by its id at oned.
        host_id: Where.
        host_name: How oned names that host.
        datastore_id: The image's datastore.
        size_mib: What is transferred at most, and what the image takes in the pool.
        begin_at_s: When it is to have the link from on. Both instants are in seconds since the epoch.
        due_at_s: It has the link until then; by its rate it is there.
        needed_at_s: When the first VM starts for which it is; None: nobody was promised that it is there, it comes
            ahead of a start that is only expected.
        lease_ids: For whom, ascending.
        reason_code: Why, for programs.
        reason_text: The same in one sentence.
    """

    kind: ImageOrderKind
    image_id: int
    host_id: int
    host_name: str
    datastore_id: int | None
    size_mib: int
    begin_at_s: int
    due_at_s: int
    needed_at_s: int | None
    lease_ids: tuple[int, ...]
    reason_code: str
    reason_text: str

    @property
    def id(self) -> str:
        """Names the step, whenever it is taken: `stage/IMAGE/HOST`, `drop/IMAGE/HOST`."""
        return order_id(self.kind, self.place)

    @property
    def place(self) -> Place:
        """What is brought or removed, and where."""
        return self.image_id, self.host_id

    def is_as_before(self, before: ImageOrder) -> bool:
        """It is for the same start as an earlier order of this id, or ahead of somebody's for whom that was, too."""
        if self.needed_at_s is not None or before.needed_at_s is not None:
            return self.needed_at_s == before.needed_at_s
        return bool({*self.lease_ids} & {*before.lease_ids})


def order_id(kind: ImageOrderKind, place: Place) -> str:
    """The id of an order."""
    return f"{kind}/{place[0]}/{place[1]}"


class TransferPhase(StrEnum):
    """UNDER_WAY: it was ordered, and nothing was heard of its end. FAILED: it may be ordered again."""

    UNDER_WAY = "under-way"
    DONE = "done"
    FAILED = "failed"


class TransferRecord(Struct, frozen=True):
    """An order that was given, and what became of it.

    `since_s` is when it came into this phase: under way, when it was ordered last. `attempts` counts how often it was
    ordered since it was done last. After a failure it makes no sense to order it again before `not_before_s`, and
    `text` says what went wrong, in one sentence.
    """

    order: ImageOrder
    phase: TransferPhase
    since_s: int
    attempts: int = 1
    not_before_s: int = 0
    text: str = ""

    @property
    def id(self) -> str:
        """That of the order."""
        return self.order.id

    def no_later_than(self, now_s: int) -> TransferRecord:
        """The same; of now, and its pause over, where it was written by a clock that has been set back since."""
        if self.since_s <= now_s:
            return self
        return replace(self, since_s=now_s, not_before_s=min(self.not_before_s, now_s))


class TransferReport(Struct, frozen=True):
    """What became of an order: its `phase` is DONE or FAILED."""

    order_id: str
    phase: TransferPhase
    at_s: int
    text: str = ""


class HeldImage(Struct, frozen=True):
    """An image in a host's pool: complete, and found there by whatever copies it for a VM. There since `since_s`."""

    image_id: int
    size_mib: int
    since_s: int = 0


class HostImages(Struct, frozen=True):
    """The pool of one host as it was seen at `read_at_s`, with what came there since; by ascending image id."""

    host_id: int
    read_at_s: int
    images: tuple[HeldImage, ...] = ()

    def with_image(self, image: HeldImage) -> HostImages:
        """The same with one that has come, in place of an older one of its id."""
        others = (one for one in self.images if one.image_id != image.image_id)
        return HostImages(self.host_id, self.read_at_s, tuple(sorted((*others, image), key=_image_id)))

    def without_image(self, image_id: int) -> HostImages:
        """The same without one that was removed."""
        return HostImages(self.host_id, self.read_at_s, tuple(one for one in self.images if one.image_id != image_id))


def _image_id(image: HeldImage) -> int:
    return image.image_id


class ImageBounds(Struct, frozen=True):
    """What holds whatever is decided: the rate of the link, of which a transfer has whole quanta, and the most that
    images may take on a host (None: all that there is). `cached_only`: images of datastores that hosts do not cache are
    never brought. `keeps_deadlines`: the order of transfers makes none late that could be in time. `ahead_s`: so long
    before a start that is only expected an image may come; None: not at all."""

    link_megabit_per_s: int
    quantum_s: int = 1
    pool_mib: int | None = None
    cached_only: bool = False
    keeps_deadlines: bool = True
    ahead_s: int | None = None


class KnownImages(Struct, frozen=True):
    """What the decision may know: pools by host id, and by order id what is under way or has failed.

    What is done is told by the pools alone.
    """

    held: Mapping[int, HostImages] = field(default_factory=dict)
    transfers: Mapping[str, TransferRecord] = field(default_factory=dict)

    def images_on(self, host_id: int) -> tuple[HeldImage, ...]:
        """What a host holds, as far as is known."""
        pool = self.held.get(host_id)
        return () if pool is None else pool.images

    def record_of(self, kind: ImageOrderKind, place: Place) -> TransferRecord | None:
        """What became of an order for a place."""
        return self.transfers.get(order_id(kind, place))

    def is_held(self, place: Place) -> bool:
        """The image is on the host, and is not being removed."""
        image_id, host_id = place
        if all(image.image_id != image_id for image in self.images_on(host_id)):
            return False
        removal = self.record_of(ImageOrderKind.DROP, place)
        return removal is None or removal.phase is not TransferPhase.UNDER_WAY

    @property
    def coming(self) -> list[TransferRecord]:
        """The transfers that were ordered, and of whose end nothing was heard."""
        return [
            record
            for record in self.transfers.values()
            if record.phase is TransferPhase.UNDER_WAY and record.order.kind is ImageOrderKind.BRING
        ]


NO_IMAGES_KNOWN = KnownImages()
