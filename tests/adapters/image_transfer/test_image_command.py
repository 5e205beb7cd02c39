"""The administrator's programs that bring images: real ones, run without a shell."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from one_preempt.adapters.image_transfer.carrier import TransferFailure
from one_preempt.adapters.image_transfer.command import CommandCarrier
from one_preempt.configuration.image_transfer_settings import ImageCommandSettings
from tests.adapters.image_transfer.image_play import BRING, HOST, IMAGE_ID, REMOVE, Storage, run, written

# Copies to a folder of each host, under a name of its own until it is complete: two may copy the same at a time.
COPY = """#!/bin/sh
set -e
mkdir -p {folder}/hosts/"$1"
cp "$2" {folder}/hosts/"$1"/"$3".part.$$ && mv {folder}/hosts/"$1"/"$3".part.$$ {folder}/hosts/"$1"/"$3"
"""


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return Storage(tmp_path, driver="ssh")


def carrier(storage: Storage, timeout_s: float = 60, **vectors: object) -> CommandCarrier:
    settings = ImageCommandSettings(folder="/srv/staged", **vectors)  # type: ignore[arg-type]
    return CommandCarrier(settings, timeout_s, storage.of)


def test_an_image_is_brought_seen_and_removed(storage: Storage, tmp_path: Path) -> None:
    copy = written(tmp_path / "copy", COPY.format(folder=tmp_path))
    remove = written(tmp_path / "remove", f'#!/bin/sh\nrm -f {tmp_path}/hosts/"$1"/"$2"\n')
    look = written(tmp_path / "look", f'#!/bin/sh\nls {tmp_path}/hosts/"$1" 2>/dev/null || true\n')
    mine = carrier(
        storage,
        bring=(copy, "{host}", "{source}", "{image}"),
        remove=(remove, "{host}", "{image}"),
        list=(look, "{host}"),
    )
    assert mine.looks
    assert mine.look(HOST, storage.all(), run) == frozenset()
    for _ in range(2):  # what is there already is brought again
        mine.bring(BRING, run)
        assert mine.look(HOST, storage.all(), run) == {IMAGE_ID}
    assert (tmp_path / "hosts" / HOST / str(IMAGE_ID)).stat().st_size == 2_000_000
    for _ in range(2):
        mine.remove(REMOVE, run)
        assert mine.look(HOST, storage.all(), run) == frozenset()


def test_programs_are_told_all_by_arguments_and_by_their_environment(storage: Storage, tmp_path: Path) -> None:
    told = written(
        tmp_path / "told",
        f"#!/usr/bin/env python3\nimport json, os, sys\njson.dump([sys.argv[1:], dict(os.environ)], "
        f"open({str(tmp_path / 'told.json')!r}, 'w'))\n",
    )
    vector = (told, "{image}", "{source}", "{size_mib}", "to={host}:{destination}", "$HOME; touch x", "*")
    carrier(storage, bring=vector).bring(BRING, run)
    arguments, environment = json.loads((tmp_path / "told.json").read_text())
    source = f"{storage.base}/a1b2c3"
    assert arguments == ["7", source, "2", f"to={HOST}:/srv/staged/a1b2c3", "$HOME; touch x", "*"]
    assert {name: text for name, text in environment.items() if name.startswith("STAGING_")} == {
        "STAGING_IMAGE_ID": "7",
        "STAGING_IMAGE_NAME": "base os",
        "STAGING_MODIFIED_AT": "1795000000",
        "STAGING_DATASTORE_ID": "1",
        "STAGING_SOURCE": source,
        "STAGING_SIZE_MIB": "2",
        "STAGING_SIZE_BYTES": "2000000",
        "STAGING_HOST_ID": "3",
        "STAGING_HOST": HOST,
        "STAGING_DESTINATION": "/srv/staged/a1b2c3",
        "STAGING_NEEDED_AT": "2027-01-15T08:01:30Z",
    }
    assert not environment.keys() & {"ONE_AUTH", "PYTHONPATH"}


def test_a_placeholder_in_what_is_put_in_is_not_replaced_again(storage: Storage) -> None:
    odd = storage.base / "image={host}"
    odd.write_bytes(b"x")
    storage.change(source=str(odd))
    with pytest.raises(TransferFailure, match="is no file of datastore 1"):
        carrier(storage, bring=("/bin/echo", "{source}")).bring(BRING, run)


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("echo no room left >&2; exit 3", "command.bring for image 7 and node-03 ended with exit code 3: no room left"),
        ("printf 'red\\033[31m\\n' >&2; exit 1", r"exit code 1: red \[31m"),
        ("yes | head -c 3000000; exit 4", "exit code 4: y y y"),
        ("kill -9 $$", "was ended by a signal"),
        ("yes", "wrote without end and was killed"),
    ],
)
def test_a_program_that_fails_says_why_in_one_line(storage: Storage, tmp_path: Path, script: str, why: str) -> None:
    program = written(tmp_path / "program", f"#!/bin/sh\n{script}\n")
    with pytest.raises(TransferFailure, match=why) as failure:
        carrier(storage, bring=(program,)).bring(BRING, run)
    assert str(failure.value).isprintable()
    assert len(str(failure.value)) < 400


def test_a_program_that_hangs_is_killed_at_its_time_limit(storage: Storage, tmp_path: Path) -> None:
    program = written(tmp_path / "program", "#!/bin/sh\nsleep 600\n")
    with pytest.raises(TransferFailure, match=r"did not end within 0\.2 s and was killed; see .*timeout_s"):
        carrier(storage, timeout_s=0.2, bring=(program,)).bring(BRING, run)


def test_a_program_that_is_missing_is_named(storage: Storage) -> None:
    with pytest.raises(TransferFailure, match=r"cannot run /nonexistent/copy of command\.bring: No such file"):
        carrier(storage, bring=("/nonexistent/copy",)).bring(BRING, run)


def test_without_a_program_nothing_is_removed(storage: Storage) -> None:
    with pytest.raises(TransferFailure, match=r"command\.remove is not configured"):
        carrier(storage, bring=("/bin/true",)).remove(REMOVE, run)


def test_what_oned_has_no_more_is_removed_by_its_id(storage: Storage, tmp_path: Path) -> None:
    storage.images.clear()
    program = written(tmp_path / "remove", f'#!/bin/sh\necho "$1|$2|$STAGING_DESTINATION" > {tmp_path}/called\n')
    carrier(storage, remove=(program, "{image}", "{source}")).remove(REMOVE, run)
    assert (tmp_path / "called").read_text() == "7||\n"


@pytest.mark.parametrize(
    ("said", "images"),
    [("7", {7}), ("a1b2c3\n7", {7}), ("8 a1b2c3.part -1 07 ٧ ü", set()), ("", set()), ("lost+found\n\na1b2c3\n", {7})],
)
def test_a_list_names_images_by_their_ids_or_files_and_other_words_are_nothing(
    storage: Storage, tmp_path: Path, said: str, images: set[int]
) -> None:
    program = written(tmp_path / "look", f"#!/bin/sh\ncat <<'E'\n{said}\nE\n")
    assert carrier(storage, list=(program,)).look(HOST, storage.all(), run) == images


def test_a_list_that_is_cut_off_tells_nothing(storage: Storage, tmp_path: Path) -> None:
    program = written(tmp_path / "look", "#!/bin/sh\nseq 1 100000\n")
    with pytest.raises(TransferFailure, match="wrote more than"):
        carrier(storage, list=(program,)).look(HOST, storage.all(), run)


def test_a_host_by_a_strange_name_reaches_no_program(storage: Storage, tmp_path: Path) -> None:
    program = written(tmp_path / "program", f"#!/bin/sh\ntouch {tmp_path}/called\n")
    mine = carrier(storage, bring=(program, "{host}"), remove=(program,), list=(program,))
    for name in ("-oProxyCommand=x", "a b", "$(reboot)", "", "a/b", "a\nb"):
        for call in (mine.bring, mine.remove):
            with pytest.raises(TransferFailure, match="a name may have"):
                call(replace(BRING, host_name=name), run)
        with pytest.raises(TransferFailure, match="a name may have"):
            mine.look(name, storage.all(), run)
    assert not (tmp_path / "called").exists()
