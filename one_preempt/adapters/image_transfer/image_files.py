"""The file of an image on the front-end, fit to be copied: looked up at oned right before it is."""

from __future__ import annotations

import os
import re
from collections.abc import Callable

from msgspec import Struct

from one_preempt.adapters.image_transfer.carrier import TransferFailure
from one_preempt.core.model.host_name import HOST_NAME_HINT, is_host_name
from one_preempt.core.model.image_transfer import ImageOrder
from one_preempt.core.model.plain_words import plain_words
from one_preempt.core.model.stored_image import ImageState, StoredImage
from one_preempt.ports import CloudUnavailable

ImageOf = Callable[[int], StoredImage | None]
"""The image of that id as oned has it now. Raises `CloudUnavailable`."""

LONGEST_WORDS = 200
# Programs on the way take paths apart in their own ways: nothing in it may mean anything to them.
_PLAIN_PATH = re.compile(r"/[A-Za-z0-9._/+@=,-]{1,4000}")


class ImageFile(Struct, frozen=True):
    """An image and its file: `path` is its real name, of `size` bytes."""

    image: StoredImage
    path: str
    size: int

    @property
    def name(self) -> str:
        """The last part of the path, by which oned's drivers know it."""
        return os.path.basename(self.path)


def image_file(order: ImageOrder, image_of: ImageOf) -> ImageFile:
    """The file that `order` is about. Raises `TransferFailure` where it cannot be copied."""
    try:
        image = image_of(order.image_id)
    except CloudUnavailable as error:
        raise TransferFailure(f"OpenNebula does not say where image {order.image_id} is: {error}") from None
    if image is None:
        raise TransferFailure(f"OpenNebula has no image {order.image_id} any more, or none that can be read")
    named = f"image {image.id}"
    if image.persistent:
        raise TransferFailure(f"{named} is persistent: the one VM that uses it writes into it, and no copy is used")
    if not image.is_copyable:
        raise TransferFailure(f"{named} is {_state_name(image.state)}: it can be copied when it is ready")
    path = checked_path(image)
    try:
        size = os.stat(path).st_size
    except OSError as error:
        raise TransferFailure(
            f"{named}: {path} cannot be seen here: {error.strerror}; the daemon must run where its datastore "
            f"{image.datastore_id} is"
        ) from None
    return ImageFile(image, path, size)


def checked_path(image: StoredImage) -> str:
    """The path of its file, below the folder of its datastore. Raises `TransferFailure` for any other."""
    path, base = os.path.normpath(image.source), os.path.normpath(image.base_path or "/")
    if not _PLAIN_PATH.fullmatch(image.source) or not image.base_path or not path.startswith(f"{base}/"):
        shown = plain_words(image.source, LONGEST_WORDS)
        raise TransferFailure(
            f"image {image.id}: its SOURCE '{shown}' is no file of datastore {image.datastore_id} (driver "
            f"{plain_words(image.tm_mad, LONGEST_WORDS) or 'unknown'}): only images that are files are copied"
        )
    # As it stands: drivers compare its last part, and two slashes in a path are one.
    return image.source


def checked_host(name: str) -> str:
    """`name` where it can be used. Raises `TransferFailure`."""
    if not is_host_name(name):
        shown = plain_words(name, LONGEST_WORDS)
        raise TransferFailure(f"nothing is brought to the host '{shown}': a name may have {HOST_NAME_HINT}")
    return name


def _state_name(state: int) -> str:
    try:
        return ImageState(state).name
    except ValueError:
        return f"in state {state}"
