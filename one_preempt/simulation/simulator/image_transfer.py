"""Orders for images within a simulation: copies over the simulated cloud's own link."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from one_preempt.core.model.image_transfer import (
    HeldImage,
    HostImages,
    ImageOrder,
    ImageOrderKind,
    TransferPhase,
    TransferReport,
)
from one_preempt.simulation.simulated_cloud.cloud import SimulatedCloud
from one_preempt.simulation.simulated_cloud.durations import Operation
from one_preempt.simulation.simulated_cloud.faults import Misbehaviour
from one_preempt.simulation.simulated_cloud.image_link import ImageCopy, ImageLink

_NO_VM = -1


class SimulatedImageTransfer:
    """Implements `ports.ImageTransfer` on the link of a `SimulatedCloud`, which must have one.

    A `Fault` in the operation STAGE lets a copy fail at its end, drag, or never end.
    """

    def __init__(self, cloud: SimulatedCloud, link: ImageLink) -> None:
        self._cloud, self._link = cloud, link
        self._busy: dict[str, ImageCopy | None] = {}
        self._reports: list[TransferReport] = []
        self._told: dict[int, dict[int, HeldImage]] = {}

    def is_busy(self, order_id: str) -> bool:
        """Its report was not taken yet."""
        return order_id in self._busy

    def put(self, order: ImageOrder, now_s: int) -> None:
        """Begin it; what is done already is done at once."""
        if order.kind is ImageOrderKind.DROP:
            self._link.remove(order.host_id, order.image_id)
        if order.kind is ImageOrderKind.DROP or self._link.holds(order.host_id, order.image_id):
            self._busy[order.id] = None
            self._reports.append(TransferReport(order.id, TransferPhase.DONE, now_s))
            return
        known = self._link.staged(order.host_id, order.image_id)
        if known is not None:
            # A process that was killed has begun it.
            known.arrived = partial(self._arrived, order, False)
            self._busy[order.id] = known
            return
        fault = self._cloud.faults.strike(Operation.STAGE, _NO_VM, order.host_id)
        if fault is not None and fault.misbehaviour == Misbehaviour.HANG:
            self._busy[order.id] = None
            return
        factor = fault.factor if fault is not None and fault.misbehaviour == Misbehaviour.SLOW else 1.0
        fails = fault is not None and fault.misbehaviour == Misbehaviour.FAIL
        self._busy[order.id] = self._link.copy(
            order.host_id, order.image_id, order.size_mib, partial(self._arrived, order, fails),
            is_staged=True, factor=factor,
        )  # fmt: skip

    def take_reports(self) -> Sequence[TransferReport]:
        """What became of orders since the last call."""
        reports, self._reports = self._reports, []
        for report in reports:
            del self._busy[report.order_id]
        return reports

    def take_holdings(self) -> Sequence[HostImages]:
        """The pools that are not as they were told."""
        now_s, changed = self._cloud.now_s, []
        for host_id, pool in sorted(self._link.pools.items()):
            known = self._told.get(host_id, {})
            if pool.keys() == known.keys():
                continue
            images = [known.get(image_id) or HeldImage(image_id, pool[image_id], now_s) for image_id in sorted(pool)]
            self._told[host_id] = {one.image_id: one for one in images}
            changed.append(HostImages(host_id, now_s, tuple(images)))
        return changed

    def drop(self) -> None:
        """End what is under way, and forget the reports."""
        for copy in self._busy.values():
            if copy is not None:
                self._link.cancel(copy)
        self._busy.clear()
        self._reports.clear()

    def _arrived(self, order: ImageOrder, fails: bool, copy: ImageCopy) -> None:
        if fails or not self._cloud.hosts[order.host_id].alive:
            self._link.remove(order.host_id, order.image_id)
            text = f"the copy to {order.host_name} was cut off"
            self._reports.append(TransferReport(order.id, TransferPhase.FAILED, self._cloud.now_s, text))
        else:
            self._reports.append(TransferReport(order.id, TransferPhase.DONE, self._cloud.now_s))
