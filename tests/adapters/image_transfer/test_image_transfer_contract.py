"""What every way of bringing images keeps to, seen through the port, made as the configuration asks for it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pytest
from msgspec.structs import replace

from one_preempt.adapters.clock import FixedClock
from one_preempt.adapters.image_transfer.factory import make_image_transfer
from one_preempt.configuration.image_transfer_settings import ImageTransferSettings
from one_preempt.core.model.image_transfer import (
    HeldImage,
    HostImages,
    ImageOrder,
    TransferPhase,
    TransferReport,
)
from one_preempt.ports import ImageTransfer
from tests.adapters.image_transfer.image_play import BRING, HOST_ID, IMAGE_ID, NOW_S, REMOVE, Storage, written
from tests.adapters.image_transfer.test_image_command import COPY
from tests.adapters.image_transfer.test_tm_cache import RUBY, SSH

Taken = TypeVar("Taken")
PATIENCE_S = 60
CARRYING = ("command", "tm-cache")
DONE, FAILED = TransferPhase.DONE, TransferPhase.FAILED


class Site:
    """A host that lets images be brought to it in both ways, and the port made for one of them."""

    def __init__(self, method: str, folder: Path, stack: ExitStack) -> None:
        self.storage = Storage(folder)
        self.method, self.folder = method, folder
        (folder / "bin").mkdir()
        copy = written(folder / "copy", COPY.format(folder=folder))
        remove = written(folder / "remove", f'#!/bin/sh\nrm -f {folder}/hosts/"$1"/"$2"\n')
        look = written(folder / "look", f'#!/bin/sh\nls {folder}/hosts/"$1" 2>/dev/null || true\n')
        ssh = written(folder / "ssh", SSH.format(folder=folder, host="node-03"))
        written(folder / "bin" / "ruby", RUBY.format(folder=folder))
        content = {
            "method": method,
            "command": {
                "bring": [copy, "{host}", "{source}", "{image}"],
                "remove": [remove, "{host}", "{image}"],
                "list": [look, "{host}"],
            },
            "tm_cache": {"ssh_program": ssh, "front_end": "front-end"},
        }
        settings = msgspec.convert(content, ImageTransferSettings)
        self.transfers: ImageTransfer = stack.enter_context(
            closing(make_image_transfer(settings, FixedClock(NOW_S), self.storage))
        )

    def carried(self, order: ImageOrder) -> TransferReport:
        """Put it, and wait for its report."""
        assert not self.transfers.is_busy(order.id)
        self.transfers.put(order, NOW_S)
        (report,) = gathered(self.transfers.take_reports)
        assert report.order_id == order.id
        assert report.text.isprintable()
        assert not self.transfers.is_busy(order.id)
        return report

    def looked(self) -> HostImages:
        """What is seen of the host at last."""
        return gathered(self.transfers.take_holdings)[-1]


def gathered(take: Callable[[], Sequence[Taken]], count: int = 1) -> list[Taken]:
    """What is taken until it is so much."""
    found: list[Taken] = []
    gives_up_at_s = time.monotonic() + PATIENCE_S
    while len(found) < count:
        assert time.monotonic() < gives_up_at_s
        found += take()
    return found


@pytest.fixture
def new_site(tmp_path: Path) -> Iterator[Callable[[str], Site]]:
    with ExitStack() as stack:
        yield lambda method: Site(method, tmp_path, stack)


@pytest.mark.parametrize("method", CARRYING)
def test_an_order_is_done_and_done_again_and_the_image_is_seen(new_site: Callable[[str], Site], method: str) -> None:
    site = new_site(method)
    assert [site.carried(BRING).phase for _ in range(2)] == [DONE, DONE]
    assert site.looked() == HostImages(HOST_ID, NOW_S, (HeldImage(IMAGE_ID, 2, NOW_S),))
    # It is not time to look again.
    assert list(site.transfers.take_holdings()) == []


@pytest.mark.parametrize("method", CARRYING)
def test_what_is_not_there_is_removed_as_well(new_site: Callable[[str], Site], method: str) -> None:
    site = new_site(method)
    assert site.carried(REMOVE).phase is DONE
    assert site.looked() == HostImages(HOST_ID, NOW_S)


@pytest.mark.parametrize("method", ["none", *CARRYING])
@pytest.mark.parametrize(
    "spoil",
    [
        lambda site: site.storage.images.clear(),
        lambda site: site.storage.change(persistent=True),
        lambda site: site.storage.change(state=4),
        lambda site: site.storage.change(source="/etc/shadow"),
        lambda site: site.storage.change(source="rbd/one-7"),
        lambda site: (site.storage.base / "a1b2c3").unlink(),
        lambda site: setattr(site.storage, "is_away", True),
    ],
)
def test_what_cannot_be_brought_fails_in_words_and_leaves_nothing(
    new_site: Callable[[str], Site], method: str, spoil: Callable[[Site], Any]
) -> None:
    site = new_site(method)
    spoil(site)
    report = site.carried(BRING)
    assert report.phase is FAILED
    assert len(report.text) > 20
    assert not (site.folder / "hosts").exists()
    assert not (site.folder / "cache").exists()


@pytest.mark.parametrize("method", CARRYING)
@pytest.mark.parametrize("name", ["", "-f", "a b", "$(reboot)", "a/b", "a\nb", "node-03;reboot", "ü", "x" * 300])
def test_a_host_by_a_name_that_is_none_is_left_alone(new_site: Callable[[str], Site], method: str, name: str) -> None:
    site = new_site(method)
    report = site.carried(replace(BRING, host_name=name))
    assert report.phase is FAILED
    assert "a name may have" in report.text
    assert not (site.folder / "hosts").exists()
    assert not (site.folder / "logins").exists()


@pytest.mark.parametrize("method", CARRYING)
def test_many_orders_at_once_are_all_done(new_site: Callable[[str], Site], method: str) -> None:
    site = new_site(method)
    orders = [replace(BRING, host_id=host_id) for host_id in range(10, 18)]  # the same machine by other ids
    for order in orders:
        site.transfers.put(order, NOW_S)
    found = gathered(site.transfers.take_reports, len(orders))
    assert {report.order_id for report in found} == {order.id for order in orders}
    assert {report.phase for report in found} == {DONE}
