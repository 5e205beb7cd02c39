"""An image as oned keeps it in a datastore: where its file is, and of when."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

from msgspec import Struct, field


class ImageState(IntEnum):
    """IMAGE/STATE."""

    INIT = 0
    READY = 1
    USED = 2
    DISABLED = 3
    LOCKED = 4
    ERROR = 5
    CLONE = 6
    DELETE = 7
    USED_PERS = 8
    LOCKED_USED = 9
    LOCKED_USED_PERS = 10


# Its file is complete, and nobody writes to it. In LOCKED_USED VMs wait until it is: oned copies into the file.
COPYABLE_STATES = frozenset({ImageState.READY, ImageState.USED, ImageState.CLONE})


class StoredImage(Struct, frozen=True):
    """One image and what its datastore says of it.

    Attributes:
        id: At oned.
        name: As its owner calls it.
        source: The path of its file on the front-end; drivers of other storage name something else.
        size_mib: As oned has it, in MiB.
        modified_at_s: MODTIME; what was copied before is another image. Before 7.0, when it was registered.
        persistent: One VM alone uses it, and writes into it.
        state: Whether it can be copied.
        datastore_id: Where it is.
        base_path: The folder of that datastore, in which `source` is; empty where it is not told.
        tm_mad: The driver that makes VMs' disks from it.
        datastore: The scalar attributes of the datastore's template, by name.
    """

    id: int
    name: str
    source: str
    size_mib: int
    modified_at_s: int
    persistent: bool
    state: int
    datastore_id: int
    base_path: str = ""
    tm_mad: str = ""
    datastore: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_copyable(self) -> bool:
        """It may be copied now: its file is complete, and VMs have copies of their own."""
        return not self.persistent and self.state in COPYABLE_STATES
