"""The part of a cycle that is about images on hosts: what became of orders, what is ordered.

What is written before and after each order is as with actions: the intent, then the effect, then what became of it,
which is heard in a later cycle.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

from msgspec.structs import replace

from one_preempt.core.model.image_transfer import (
    HeldImage,
    HostImages,
    ImageOrder,
    ImageOrderKind,
    TransferPhase,
    TransferRecord,
    TransferReport,
)
from one_preempt.core.model.ledger import LedgerChanges
from one_preempt.core.model.plan import Plan
from one_preempt.ports import Clock, ImageTransfer, LeaseStore

UNHEARD = "nobody wants it any more, and the daemon that had ordered it ended before it was done"


class ImageEnactment:
    """Gives the orders for images of plans, and writes down what became of them."""

    def __init__(self, store: LeaseStore, transfers: ImageTransfer, clock: Clock, retry_delay_s: int = 15) -> None:
        """`retry_delay_s`: pause after a failure."""
        self._store = store
        self._transfers = transfers
        self._clock = clock
        self._retry_delay_s = retry_delay_s
        # Nobody hands them out again: they are kept until they are written, though the database fails.
        self._unwritten: list[TransferReport] = []
        self._unwritten_pools: dict[int, HostImages] = {}
        self.ended: tuple[TransferRecord, ...] = ()
        """What was found done or failed when reports were taken last."""

    def take_reports(self) -> None:
        """Write down what became of orders, and what hosts were seen to hold."""
        self.ended = ()
        self._unwritten += self._transfers.take_reports()
        self._unwritten_pools |= {pool.host_id: pool for pool in self._transfers.take_holdings()}
        if not (self._unwritten or self._unwritten_pools):
            return
        now_s = self._clock.now_s()
        changes = _changes(self._store, self._unwritten, self._unwritten_pools.values(), self._retry_delay_s, now_s)
        if not changes.is_empty:
            self._store.apply(changes)
        self.ended = changes.image_transfers
        self._unwritten.clear()
        self._unwritten_pools.clear()

    def enact(self, plan: Plan, may_act: Callable[[], bool]) -> tuple[ImageOrder, ...]:
        """Put the orders of `plan` that are not under way in this process; which were put."""
        known = self._store.image_transfers()
        self._give_up_unheard(known, {order.id for order in plan.image_orders})
        waiting = [order for order in plan.image_orders if not self._transfers.is_busy(order.id)]
        if not waiting or self._store.is_paused() or not may_act():
            return ()
        for order in waiting:
            before, now_s = known.get(order.id), self._clock.now_s()
            # For another start it is tried anew.
            attempts = before.attempts + 1 if before is not None and order.is_as_before(before.order) else 1
            record = TransferRecord(order, TransferPhase.UNDER_WAY, now_s, attempts)
            self._store.apply(LedgerChanges(image_transfers=(record,)))
            self._transfers.put(order, now_s)
        return tuple(waiting)

    def _give_up_unheard(self, known: Mapping[str, TransferRecord], wanted: Collection[str]) -> None:
        """Of what another process has begun nobody will hear; where it is wanted no more, nobody orders it anew."""
        given_up = tuple(
            replace(record, phase=TransferPhase.FAILED, since_s=self._clock.now_s(), text=UNHEARD)
            for record in known.values()
            if record.phase is TransferPhase.UNDER_WAY and record.id not in wanted
            if not self._transfers.is_busy(record.id)
        )
        if given_up:
            self._store.apply(LedgerChanges(image_transfers=given_up))

    def forget_hosts(self, existing: Collection[int]) -> None:
        """Of hosts that are not among these ids, because they were deleted, nothing is kept."""
        gone = sorted(self._store.held_images().keys() - set(existing))
        if gone:
            self._store.apply(LedgerChanges(held_images=tuple(HostImages(host_id, 0) for host_id in gone)))

    def step_down(self) -> None:
        """Another process may order from now on."""
        self._transfers.drop()
        self._unwritten.clear()
        self._unwritten_pools.clear()


def _changes(
    store: LeaseStore,
    reports: Iterable[TransferReport],
    seen: Iterable[HostImages],
    retry_delay_s: int,
    now_s: int,
) -> LedgerChanges:
    """What the ledger has otherwise than it was reported."""
    known, before = store.image_transfers(), store.held_images()
    pools = dict(before)
    for pool in seen:
        pools[pool.host_id] = _with_late(pool, before.get(pool.host_id), now_s)
    transfers: dict[str, TransferRecord] = {}
    for report in reports:
        record = transfers.get(report.order_id) or known.get(report.order_id)
        if record is None or record.phase is not TransferPhase.UNDER_WAY:
            continue
        if report.phase is TransferPhase.DONE:
            transfers[record.id] = replace(record, phase=TransferPhase.DONE, since_s=report.at_s, text="")
            pools[record.order.host_id] = _after(record.order, pools.get(record.order.host_id), report.at_s)
        else:
            not_before_s = report.at_s + retry_delay_s
            transfers[record.id] = replace(
                record, phase=TransferPhase.FAILED, since_s=report.at_s, not_before_s=not_before_s, text=report.text
            )
    held = tuple(pool for host_id, pool in sorted(pools.items()) if before.get(host_id) != pool)
    return LedgerChanges(image_transfers=tuple(transfers.values()), held_images=held)


def _with_late(seen: HostImages, known: HostImages | None, now_s: int) -> HostImages:
    """What came while a pool was looked at, or after, is not missing there; what was there before did not come now.

    What seems to come yet came before the clock was set back.
    """
    found = {image.image_id: image for image in seen.images}
    for image in known.images if known is not None else ():
        if image.image_id in found:
            found[image.image_id] = replace(found[image.image_id], since_s=min(image.since_s, now_s))
        elif seen.read_at_s <= image.since_s <= now_s:
            found[image.image_id] = image
    return replace(seen, images=tuple(found[image_id] for image_id in sorted(found)))


def _after(order: ImageOrder, pool: HostImages | None, at_s: int) -> HostImages:
    """A host's pool once an order for it is done."""
    pool = pool or HostImages(order.host_id, 0)
    if order.kind is ImageOrderKind.DROP:
        return pool.without_image(order.image_id)
    return pool.with_image(HeldImage(order.image_id, order.size_mib, at_s))
