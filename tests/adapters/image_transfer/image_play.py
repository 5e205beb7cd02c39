"""Images with files, orders for them, and an oned that tells where they are."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from one_preempt.bounded_io.child_process import Children
from one_preempt.core.model.image_transfer import ImageOrder, ImageOrderKind
from one_preempt.core.model.stored_image import StoredImage
from one_preempt.ports import CloudUnavailable

IMAGE_ID, HOST_ID, HOST = 7, 3, "node-03"
NOW_S = 1_800_000_000
BRING = ImageOrder(
    ImageOrderKind.BRING, IMAGE_ID, HOST_ID, HOST, 1, 2, NOW_S, NOW_S + 60, NOW_S + 90, (4,), "START", "for lease 4"
)
REMOVE = replace(BRING, kind=ImageOrderKind.DROP, needed_at_s=None, reason_code="ROOM", reason_text="room is needed")


def run(arguments: list[str], timeout_s: float, extra_environment: dict[str, str] | None = None) -> Any:
    return Children().run(arguments, timeout_s, extra_environment)


class Storage:
    """What oned says of its images; the files are in a folder of the test."""

    def __init__(self, folder: Path, driver: str = "local", **datastore: str) -> None:
        self.base = folder / "datastores" / "1"
        self.base.mkdir(parents=True)
        file = self.base / "a1b2c3"
        file.write_bytes(b"x" * 2_000_000)
        self.images = {
            IMAGE_ID: StoredImage(
                IMAGE_ID, "base os", str(file), 2, 1_795_000_000, False, 1, 1, str(self.base), driver,
                {"CACHE_ENABLE": "YES", "CACHE_PATH": f"{folder}/cache", **datastore},
            )
        }  # fmt: skip
        self.hosts = {HOST_ID: HOST}
        self.is_away = False

    def change(self, **changes: Any) -> None:
        self.images[IMAGE_ID] = replace(self.images[IMAGE_ID], **changes)

    def all(self) -> Mapping[int, StoredImage]:
        self._demand_answer()
        return self.images.copy()

    def of(self, image_id: int) -> StoredImage | None:
        self._demand_answer()
        return self.images.get(image_id)

    def answering_hosts(self) -> Mapping[int, str]:
        self._demand_answer()
        return self.hosts

    def _demand_answer(self) -> None:
        if self.is_away:
            raise CloudUnavailable("nobody answers at http://one")


def written(path: Path, text: str) -> str:
    """A program with this text."""
    path.write_text(text)
    path.chmod(0o755)
    return str(path)
