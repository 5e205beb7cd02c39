"""`held_capacity.json`: the room that the daemon has promised, for a placement that has to do without the daemon.

The daemon replaces the file before it acts on a promise. Only the standard library: `place` reads it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import asdict

from one_preempt.core.model.held_room import HeldRoom
from one_preempt.errors import OnePreemptError, why_not_written

VERSION = 1
MAX_BYTES = 16 << 20
KEYS = HeldRoom.__struct_fields__


class HeldCapacityError(OnePreemptError):
    """The file cannot be written, or read with sense; the message names it."""


class HeldCapacityFile:
    """Implements `ports.HeldCapacity`. The file is touched only where its content changes, or is gone."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._written: tuple[HeldRoom, ...] | None = None

    def replace(self, rooms: Sequence[HeldRoom]) -> None:
        """Let the file name `rooms` and no others; on disk when this returns. Raises `HeldCapacityError`."""
        wanted = tuple(sorted(rooms))
        try:
            if wanted == self._written if self._path.exists() else not wanted:
                return
            _write(self._path, wanted)
        except OSError as error:
            raise HeldCapacityError(
                f"cannot write {self._path}: {why_not_written(error)}; see store.held_capacity_file"
            ) from error
        self._written = wanted


def _write(path: Path, rooms: tuple[HeldRoom, ...]) -> None:
    if path.exists() and not path.is_file():  # a device, say: root would put a file in its place
        raise HeldCapacityError(f"cannot write {path}: what is there is not a file; see store.held_capacity_file")
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    document = {"version": VERSION, "held": [asdict(room) for room in rooms]}
    aside = path.with_name(path.name + ".new")
    with open(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="ascii") as stream:
        json.dump(document, stream)
        stream.flush()
        os.fsync(stream.fileno())
    aside.replace(path)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)  # that the file is another one stands in its folder
    finally:
        os.close(folder)


def read_held_capacity(path: Path, now_s: int) -> tuple[HeldRoom, ...]:
    """The promises that still hold, by host and VM; none where there is no file.

    Raises `HeldCapacityError` where the file is there and cannot be trusted: nothing may be placed then.
    """
    try:
        with path.open("rb") as stream:
            content = stream.read(MAX_BYTES + 1)
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise HeldCapacityError(f"cannot read {path}: {error.strerror}") from error
    try:
        rooms = _rooms(json.loads(content))
    except (ValueError, TypeError, LookupError, RecursionError):
        raise HeldCapacityError(
            f"{path} does not hold what the daemon writes; the next cycle writes it again"
        ) from None
    return tuple(sorted(room for room in rooms if room.expires_at_s > now_s))


def _rooms(document: object) -> list[HeldRoom]:
    if not isinstance(document, dict) or document["version"] != VERSION:
        raise ValueError
    rooms = []
    for entry in document["held"]:
        values = [entry[key] for key in KEYS]
        if any(type(value) is not int or value < 0 for value in values):
            raise ValueError
        rooms.append(HeldRoom(*values))
    return rooms


def held_on_hosts(rooms: Sequence[HeldRoom], vms_on_host: dict[int, frozenset[int]]) -> dict[int, tuple[int, int]]:
    """(CPU in hundredths, MiB) promised on each host beside what oned counts there already.

    `vms_on_host`: the VMs that each host's accounting has.
    """
    held: dict[int, tuple[int, int]] = {}
    for room in rooms:
        if room.vm_id not in vms_on_host.get(room.host_id, frozenset()):
            cpu_centi, memory_mib = held.get(room.host_id, (0, 0))
            held[room.host_id] = (cpu_centi + room.cpu_centi, memory_mib + room.memory_mib)
    return held
