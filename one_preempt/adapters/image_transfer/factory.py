"""From the configuration to one `ImageTransfer`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from one_preempt.adapters.image_transfer.carrier import Carrier
from one_preempt.adapters.image_transfer.command import CommandCarrier
from one_preempt.adapters.image_transfer.in_background import BackgroundImageTransfers, Look
from one_preempt.adapters.image_transfer.none import NoCarrier
from one_preempt.adapters.image_transfer.tm_cache import TmCacheCarrier
from one_preempt.configuration.image_transfer_settings import ImageTransferSettings, TransferMethod
from one_preempt.core.model.stored_image import StoredImage
from one_preempt.ports import Clock


class KnownStorage(Protocol):
    """What oned says of images and hosts, asked afresh. Every method raises `CloudUnavailable`."""

    def all(self) -> Mapping[int, StoredImage]:
        """All images by id."""

    def of(self, image_id: int) -> StoredImage | None:
        """One image; None where there is none."""

    def answering_hosts(self) -> Mapping[int, str]:
        """The names of the hosts that can be looked at, by id."""


def make_carrier(settings: ImageTransferSettings, storage: KnownStorage) -> Carrier:
    """The way of bringing images that the configuration asks for."""
    makers: dict[TransferMethod, Callable[[], Carrier]] = {
        "none": NoCarrier,
        "command": lambda: CommandCarrier(settings.command, settings.timeout_s, storage.of),
        "tm-cache": lambda: TmCacheCarrier(settings.tm_cache, settings.timeout_s, storage.of),
    }
    return makers[settings.method]()


def make_image_transfer(
    settings: ImageTransferSettings, clock: Clock, storage: KnownStorage
) -> BackgroundImageTransfers:
    """The same in the background; the caller closes it."""
    carrier = make_carrier(settings, storage)
    transfers = BackgroundImageTransfers(carrier, clock, settings.at_once)
    if carrier.looks:
        transfers.watch(Look(carrier, storage.answering_hosts, storage.all, settings.look_every_s, clock))
    return transfers
