"""The file of promised room: replaced as a whole, believed only where it makes sense."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from one_preempt.adapters.held_capacity import (
    HeldCapacityError,
    HeldCapacityFile,
    held_on_hosts,
    read_held_capacity,
)
from one_preempt.core.model.held_room import HeldRoom

NOW_S = 1_800_000_000
LATER_S = NOW_S + 3600
ROOMS = (HeldRoom(3, 12, 200, 4096, LATER_S), HeldRoom(1, 7, 100, 1024, LATER_S), HeldRoom(3, 9, 100, 512, LATER_S))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "held_capacity.json"


def test_what_is_written_is_read_in_the_order_of_hosts_and_vms(path: Path) -> None:
    HeldCapacityFile(path).replace(ROOMS)
    assert read_held_capacity(path, NOW_S) == tuple(sorted(ROOMS))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(path.parent.iterdir()) == [path]


def test_without_promises_there_is_no_file_to_make_and_one_that_is_there_is_emptied(path: Path) -> None:
    file = HeldCapacityFile(path.parent / "no such folder" / "held.json")
    file.replace(())
    assert read_held_capacity(path, NOW_S) == ()
    HeldCapacityFile(path).replace(ROOMS)
    HeldCapacityFile(path).replace(())
    assert read_held_capacity(path, NOW_S) == ()
    assert json.loads(path.read_text())["held"] == []


def test_the_folder_is_made_and_what_stays_the_same_is_not_written_again(tmp_path: Path) -> None:
    path = tmp_path / "state" / "held.json"
    file = HeldCapacityFile(path)
    file.replace(ROOMS)
    first = path.stat().st_ino
    file.replace(tuple(reversed(ROOMS)))
    assert path.stat().st_ino == first
    file.replace(ROOMS[:1])
    assert read_held_capacity(path, NOW_S) == ROOMS[:1]


def test_a_file_that_was_taken_away_is_written_again(path: Path) -> None:
    file = HeldCapacityFile(path)
    file.replace(ROOMS)
    path.unlink()
    file.replace(ROOMS)
    assert read_held_capacity(path, NOW_S) == tuple(sorted(ROOMS))
    path.unlink()
    file.replace(())
    assert not path.exists()


def test_the_file_and_its_name_are_on_disk_before_anything_relies_on_them(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[tuple[bool, bool]] = []
    monkeypatch.setattr(
        os, "fsync", lambda number: synced.append((stat.S_ISDIR(os.fstat(number).st_mode), path.exists()))
    )
    HeldCapacityFile(path).replace(ROOMS)
    assert synced == [(False, False), (True, True)]


def test_promises_run_out(path: Path) -> None:
    HeldCapacityFile(path).replace((ROOMS[0], HeldRoom(5, 1, 100, 1, NOW_S)))
    assert read_held_capacity(path, NOW_S) == ROOMS[:1]
    assert read_held_capacity(path, LATER_S) == ()


def test_a_death_between_writing_and_replacing_leaves_the_former_promises(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = HeldCapacityFile(path)
    file.replace(ROOMS)

    def die(*_: object) -> None:
        raise SystemExit

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", die)
        with pytest.raises(SystemExit):
            file.replace(())
    assert read_held_capacity(path, NOW_S) == tuple(sorted(ROOMS))
    file.replace(())
    assert read_held_capacity(path, NOW_S) == ()


def test_what_is_no_file_is_not_replaced_by_one(path: Path) -> None:
    os.mkfifo(path)
    with pytest.raises(HeldCapacityError, match=r"what is there is not a file; see store\.held_capacity_file"):
        HeldCapacityFile(path).replace(ROOMS)
    assert path.is_fifo()


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(HeldCapacityError, match=r"store\.held_capacity_file"):
        HeldCapacityFile(tmp_path / "file" / "held.json").replace(ROOMS)


def entry(**changes: object) -> dict[str, object]:
    return {"host_id": 1, "vm_id": 2, "cpu_centi": 3, "memory_mib": 4, "expires_at_s": LATER_S, **changes}


BROKEN: list[object] = [
    [],
    None,
    {},
    {"version": 2, "held": []},
    {"version": 1},
    {"version": 1, "held": 3},
    {"version": 1, "held": [3]},
    {"version": 1, "held": [{}]},
    *(
        {"version": 1, "held": [entry(**{key: value})]}
        for key in ("host_id", "cpu_centi", "expires_at_s")
        for value in (-1, "1", 1.5, True, None)
    ),
]


@pytest.mark.parametrize("document", BROKEN, ids=range(len(BROKEN)))
def test_a_file_without_sense_is_not_taken_for_no_promises(path: Path, document: object) -> None:
    path.write_text(json.dumps(document))
    with pytest.raises(HeldCapacityError):
        read_held_capacity(path, NOW_S)


@settings(derandomize=True, max_examples=300, deadline=None)
@given(content=st.binary(max_size=300) | st.sampled_from([b"[" * 100_000, b"1" * 10_000]))
def test_any_bytes_are_refused_or_read(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "any.json"
    path.write_bytes(content)
    with pytest.raises(HeldCapacityError):
        read_held_capacity(path, NOW_S)


def test_a_file_that_cannot_be_read_is_no_empty_file(tmp_path: Path) -> None:
    with pytest.raises(HeldCapacityError, match="cannot read"):
        read_held_capacity(tmp_path, NOW_S)


def test_room_is_added_up_by_host_and_not_counted_twice_where_the_vm_has_arrived() -> None:
    assert held_on_hosts(ROOMS, {}) == {3: (300, 4608), 1: (100, 1024)}
    assert held_on_hosts(ROOMS, {3: frozenset({12}), 1: frozenset({7, 9})}) == {3: (100, 512)}
