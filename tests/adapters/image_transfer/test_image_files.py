"""Which images are copied at all: those that are files of their datastore, complete, and not written to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from one_preempt.adapters.image_transfer.carrier import TransferFailure
from one_preempt.adapters.image_transfer.image_files import image_file
from one_preempt.core.model.stored_image import ImageState, StoredImage
from one_preempt.ports import CloudUnavailable
from tests.adapters.image_transfer.image_play import BRING, IMAGE_ID, Storage


def test_a_file_is_told_with_its_size_and_its_name(tmp_path: Path) -> None:
    storage = Storage(tmp_path)
    # oned writes two slashes where its own folder ends.
    storage.change(source=f"{tmp_path}//datastores/1/a1b2c3", base_path=f"{tmp_path}//datastores/1")
    file = image_file(BRING, storage.of)
    assert (file.name, file.size, file.path) == ("a1b2c3", 2_000_000, f"{tmp_path}//datastores/1/a1b2c3")


@pytest.mark.parametrize("state", [ImageState.READY, ImageState.USED, ImageState.CLONE])
def test_an_image_that_others_read_is_copied(tmp_path: Path, state: ImageState) -> None:
    storage = Storage(tmp_path)
    storage.change(state=state)
    assert image_file(BRING, storage.of).image.id == IMAGE_ID


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"persistent": True}, "is persistent"),
        ({"state": ImageState.LOCKED}, "is LOCKED: it can be copied when it is ready"),
        ({"state": ImageState.LOCKED_USED}, "is LOCKED_USED: it can be copied when it is ready"),
        ({"state": 99}, "is in state 99"),
        ({"source": "one/one-7"}, "is no file of datastore 1"),
        ({"source": "dummy_path"}, "is no file of datastore 1"),
        ({"source": "/etc/shadow"}, "is no file of datastore 1"),
        ({"base_path": ""}, "is no file of datastore 1"),
        ({"base_path": "/"}, "is no file of datastore 1"),
    ],
)
def test_others_are_not_and_it_is_said_why(tmp_path: Path, changes: dict[str, Any], why: str) -> None:
    storage = Storage(tmp_path)
    storage.change(**changes)
    with pytest.raises(TransferFailure, match=why):
        image_file(BRING, storage.of)


@pytest.mark.parametrize("below", ["../../../etc/shadow", "a;reboot", "$(reboot)", "a b", "'", "a\nb", "ü", "..", ""])
def test_a_path_that_leads_elsewhere_or_means_something_is_refused(tmp_path: Path, below: str) -> None:
    storage = Storage(tmp_path)
    storage.change(source=f"{storage.base}/{below}")
    with pytest.raises(TransferFailure, match="is no file of datastore 1") as failure:
        image_file(BRING, storage.of)
    assert str(failure.value).isprintable()


def test_a_file_that_is_not_here_is_said(tmp_path: Path) -> None:
    storage = Storage(tmp_path)
    storage.change(source=f"{storage.base}/gone")
    with pytest.raises(
        TransferFailure, match=r"gone cannot be seen here: No such file.*must run where its datastore 1"
    ):
        image_file(BRING, storage.of)


def test_an_image_that_is_gone_and_an_oned_that_is_away_are_said() -> None:
    with pytest.raises(TransferFailure, match="OpenNebula has no image 7 any more"):
        image_file(BRING, lambda _: None)

    def away(_: int) -> StoredImage | None:
        raise CloudUnavailable("nobody answers at http://one")

    with pytest.raises(TransferFailure, match="does not say where image 7 is: nobody answers"):
        image_file(BRING, away)
