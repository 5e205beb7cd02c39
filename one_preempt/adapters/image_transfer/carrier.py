"""What the ways of bringing images to hosts have in common: an order is carried out by whoever waits for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from one_preempt.bounded_io.child_process import Finished
from one_preempt.core.model.image_transfer import ImageOrder
from one_preempt.core.model.stored_image import StoredImage

ImagesById = Mapping[int, StoredImage]


class TransferFailure(Exception):
    """An order or a look that failed, as one sentence: what, where, how to mend it; it never leaves the adapter."""


class RunProgram(Protocol):
    """`Children.run`, of children who are ended together; see there."""

    def __call__(
        self, arguments: list[str], timeout_s: float, extra_environment: dict[str, str] | None = None
    ) -> Finished:
        """Run it and wait for the end. Raises `NotStarted` or `TookTooLong`, and `Dropped` where nobody wants it."""


class Dropped(Exception):
    """It was dropped before it was begun; nothing was done."""


class Carrier(Protocol):
    """One way of bringing images to hosts. Asked from several threads; each method waits for the end.

    What is done already is done again at once, and two that do the same at a time do no harm: a daemon that was killed
    may have left behind what goes on.
    """

    def bring(self, order: ImageOrder, run: RunProgram) -> None:
        """Return once the image is complete on the host. Raises `TransferFailure`, or what `run` raises."""

    def remove(self, order: ImageOrder, run: RunProgram) -> None:
        """Return once the image is not on the host any more. Raises as `bring` does."""

    @property
    def looks(self) -> bool:
        """It can be seen what hosts hold."""

    def look(self, host: str, images: ImagesById, run: RunProgram) -> frozenset[int]:
        """Which of these images, all that oned has, are complete on the host named so. Raises as `bring` does."""
