"""What another user of this machine meets. Root, who may everything, takes the place of nobody meanwhile."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PosixPath
from typing import NoReturn

NOBODY_UID = 65_534


@contextmanager
def as_nobody() -> Iterator[None]:
    """Root has no more rights than nobody; whoever is not root stays who it is."""
    if os.getuid():
        yield
        return
    os.seteuid(NOBODY_UID)
    try:
        yield
    finally:
        os.seteuid(0)


@contextmanager
def closed(folder: Path) -> Iterator[None]:
    """This process cannot enter the folder, whoever it is."""
    mode = folder.stat().st_mode
    folder.chmod(0)
    try:
        with as_nobody():
            yield
    finally:
        folder.chmod(mode)


class InClosedFolder(PosixPath):
    """A file in a folder that this user may not enter, as OpenNebula 7.x closes /etc/one/schedulers."""

    def stat(self, *_: object, **__: object) -> NoReturn:
        """Whether it is there is not to be known."""
        raise PermissionError(13, "Permission denied", str(self))

    open = stat
