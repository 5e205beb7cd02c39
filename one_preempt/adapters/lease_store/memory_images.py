"""What is known of images on hosts, in memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from one_preempt.core.model.image_transfer import HostImages, TransferPhase, TransferRecord
from one_preempt.core.model.ledger import Ledger


class ImageBook:
    """Orders that are under way or have failed by their ids, and the images on hosts by host id."""

    def __init__(self, start: Ledger) -> None:
        # Each write makes new ones, so that what was handed out stays what it was.
        self.transfers: Mapping[str, TransferRecord] = dict(sorted(start.image_transfers.items()))
        self.held: Mapping[int, HostImages] = dict(sorted(start.held_images.items()))

    def write(self, transfers: Iterable[TransferRecord], held: Iterable[HostImages]) -> None:
        """Over those of the same ids and hosts; what is done, and a pool that is empty, is forgotten."""
        if transfers:
            merged = {**self.transfers, **{record.id: record for record in transfers}}
            self.transfers = {
                id: record for id, record in sorted(merged.items()) if record.phase is not TransferPhase.DONE
            }
        if held:
            pools = {**self.held, **{pool.host_id: pool for pool in held}}
            self.held = {host_id: pool for host_id, pool in sorted(pools.items()) if pool.images}

    def prune(self, before_s: int) -> None:
        """Forget failures since which nothing was ordered."""
        self.transfers = {
            id: record
            for id, record in self.transfers.items()
            if record.phase is not TransferPhase.FAILED or record.since_s >= before_s
        }
