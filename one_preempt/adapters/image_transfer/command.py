"""The administrator's own programs: argument vectors, run without a shell.

What they bring must be found by the driver that makes VMs' disks on that host: that is theirs to see to.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence

from one_preempt.adapters.image_transfer.carrier import ImagesById, RunProgram, TransferFailure
from one_preempt.adapters.image_transfer.image_files import (
    LONGEST_WORDS,
    ImageOf,
    checked_host,
    checked_path,
    image_file,
)
from one_preempt.bounded_io.child_process import LONGEST_OUTPUT_BYTES, Finished, NotStarted, TookTooLong, WroteTooMuch
from one_preempt.configuration.image_transfer_settings import PLACEHOLDERS, ImageCommandSettings
from one_preempt.core.model.image_transfer import ImageOrder
from one_preempt.core.model.plain_words import plain_words
from one_preempt.core.model.stored_image import StoredImage
from one_preempt.core.model.written_time import utc_text
from one_preempt.ports import CloudUnavailable

_VARIABLES = {
    "{image}": "STAGING_IMAGE_ID",
    "{source}": "STAGING_SOURCE",
    "{size_mib}": "STAGING_SIZE_MIB",
    "{host}": "STAGING_HOST",
    "{destination}": "STAGING_DESTINATION",
}
_PLACEHOLDER = re.compile("|".join(map(re.escape, PLACEHOLDERS)))
_LOOK_S = 60.0


class CommandCarrier:
    """Implements `Carrier`. Placeholders are replaced wherever they stand in an argument; exit code 0 is a yes."""

    def __init__(self, settings: ImageCommandSettings, timeout_s: float, image_of: ImageOf) -> None:
        """`timeout_s`: when `bring` and `remove` are killed."""
        self._settings = settings
        self._timeout_s = timeout_s
        self._image_of = image_of

    @property
    def looks(self) -> bool:
        """There is a program for it."""
        return bool(self._settings.list)

    def bring(self, order: ImageOrder, run: RunProgram) -> None:
        """Run `bring`."""
        file = image_file(order, self._image_of)
        told = self._told(order, file.image, file.path) | {"STAGING_SIZE_BYTES": str(file.size)}
        self._run("bring", self._settings.bring, self._timeout_s, told, run)

    def remove(self, order: ImageOrder, run: RunProgram) -> None:
        """Run `remove`; of an image that oned has no more the source and the destination are empty."""
        if not self._settings.remove:
            raise TransferFailure("command.remove is not configured: nothing is removed from hosts")
        try:
            image = self._image_of(order.image_id)
        except CloudUnavailable as error:
            raise TransferFailure(f"OpenNebula does not say what image {order.image_id} is: {error}") from None
        told = self._told(order, image, "" if image is None else checked_path(image))
        self._run("remove", self._settings.remove, self._timeout_s, told, run)

    def look(self, host: str, images: ImagesById, run: RunProgram) -> frozenset[int]:
        """Run `list`, which writes the id of an image on each line, or the name of its file; what else it writes is
        no image of oned's."""
        told = {"STAGING_HOST": checked_host(host)}
        said = self._run("list", self._settings.list, min(_LOOK_S, self._timeout_s), told, run).output
        if len(said.encode()) >= LONGEST_OUTPUT_BYTES:
            raise TransferFailure(f"command.list wrote more than {LONGEST_OUTPUT_BYTES} bytes for {host}")
        by_word = {os.path.basename(image.source): image_id for image_id, image in images.items()}
        by_word |= {str(image_id): image_id for image_id in images}
        return frozenset(by_word[word] for word in said.split() if word in by_word)

    def _told(self, order: ImageOrder, image: StoredImage | None, source: str) -> dict[str, str]:
        """What a program is told in its environment, and of that what may stand in its arguments."""
        destination = os.path.join(self._settings.folder, os.path.basename(source)) if source else ""
        return {
            "STAGING_IMAGE_ID": str(order.image_id),
            "STAGING_IMAGE_NAME": "" if image is None else plain_words(image.name, LONGEST_WORDS),
            "STAGING_MODIFIED_AT": "" if image is None else str(image.modified_at_s),
            "STAGING_DATASTORE_ID": "" if image is None else str(image.datastore_id),
            "STAGING_SOURCE": source,
            "STAGING_SIZE_MIB": str(order.size_mib if image is None else image.size_mib),
            "STAGING_HOST_ID": str(order.host_id),
            "STAGING_HOST": checked_host(order.host_name),
            "STAGING_DESTINATION": destination,
            "STAGING_NEEDED_AT": "" if order.needed_at_s is None else utc_text(order.needed_at_s),
        }

    def _run(
        self, key: str, vector: Sequence[str], timeout_s: float, told: Mapping[str, str], run: RunProgram
    ) -> Finished:
        about = told["STAGING_HOST"]
        if told.get("STAGING_IMAGE_ID"):
            about = f"image {told['STAGING_IMAGE_ID']} and {about}"
        arguments = [_PLACEHOLDER.sub(lambda found: told.get(_VARIABLES[found.group()], ""), part) for part in vector]
        try:
            finished = run(arguments, timeout_s, dict(told))
        except NotStarted as error:
            raise TransferFailure(f"cannot run {vector[0]} of command.{key}: {error}") from None
        except WroteTooMuch:
            raise TransferFailure(
                f"command.{key} for {about} wrote without end and was killed: keep it quiet"
            ) from None
        except TookTooLong:
            raise TransferFailure(
                f"command.{key} for {about} did not end within {timeout_s:g} s and was killed; see "
                "image_staging.transfer.timeout_s"
            ) from None
        if finished.code != 0:
            said = plain_words(finished.errors.strip() or finished.output, LONGEST_WORDS)
            how = "was ended by a signal" if finished.may_be_killed else f"ended with exit code {finished.code}"
            raise TransferFailure(f"command.{key} for {about} {how}{': ' if said else ''}{said}")
        return finished
