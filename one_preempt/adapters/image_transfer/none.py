"""No way to bring images to hosts is configured: every order fails, and says so. As shipped."""

from __future__ import annotations

from one_preempt.adapters.image_transfer.carrier import ImagesById, RunProgram, TransferFailure
from one_preempt.core.model.image_transfer import ImageOrder


class NoCarrier:
    """Implements `Carrier` without touching anything."""

    @property
    def looks(self) -> bool:
        """Nobody does."""
        return False

    def bring(self, order: ImageOrder, run: RunProgram) -> None:
        """Say what is missing."""
        raise TransferFailure(f"nothing brings images to {order.host_name}: name image_staging.transfer.method")

    def remove(self, order: ImageOrder, run: RunProgram) -> None:
        """Say what is missing."""
        raise TransferFailure(f"nothing removes images from {order.host_name}: name image_staging.transfer.method")

    def look(self, host: str, images: ImagesById, run: RunProgram) -> frozenset[int]:
        """Never asked."""
        raise TransferFailure(f"nothing looks at {host}: name image_staging.transfer.method")
