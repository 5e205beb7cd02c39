"""Orders for images that take long: cycles go on, nothing is lost, and who steps down begins nothing more."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from msgspec.structs import replace

from one_preempt.adapters.clock import FixedClock
from one_preempt.adapters.image_transfer.carrier import ImagesById, RunProgram, TransferFailure
from one_preempt.adapters.image_transfer.in_background import BackgroundImageTransfers, Look
from one_preempt.core.model.image_transfer import HeldImage, HostImages, ImageOrder, TransferPhase, TransferReport
from one_preempt.ports import CloudUnavailable
from tests.adapters.image_transfer.image_play import BRING, HOST, HOST_ID, IMAGE_ID, NOW_S, REMOVE, Storage

PATIENCE_S = 60
OTHER = replace(BRING, host_id=4, host_name="node-04")
THIRD = replace(BRING, host_id=5, host_name="node-05")


class SlowCarrier:
    """Brings at once where it is let go, by programs where it is given any."""

    looks = True

    def __init__(self) -> None:
        self.let_go = threading.Event()
        self.asked: list[str] = []
        self.program: list[str] | None = None
        self.wrong: Exception | None = None
        self.there: frozenset[int] = frozenset()
        self.looked_at: list[str] = []
        self.at_once, self.most_at_once = 0, 0
        self._lock = threading.Lock()

    def bring(self, order: ImageOrder, run: RunProgram) -> None:
        self._carry(order, run)

    def remove(self, order: ImageOrder, run: RunProgram) -> None:
        self._carry(order, run)

    def look(self, host: str, images: ImagesById, run: RunProgram) -> frozenset[int]:
        self.looked_at.append(host)
        if self.wrong is not None:
            raise self.wrong
        return self.there

    def _carry(self, order: ImageOrder, run: RunProgram) -> None:
        with self._lock:
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
            self.asked.append(order.id)
        try:
            if self.program is not None:
                finished = run(self.program, PATIENCE_S)
                if finished.code:
                    raise TransferFailure(f"ended with {finished.code}")
            else:
                assert self.let_go.wait(PATIENCE_S)
            if self.wrong is not None:
                raise self.wrong
        finally:
            with self._lock:
                self.at_once -= 1


@pytest.fixture
def carrier() -> Iterator[SlowCarrier]:
    slow = SlowCarrier()
    yield slow
    slow.let_go.set()


@pytest.fixture
def clock() -> FixedClock:
    return FixedClock(NOW_S)


@pytest.fixture
def transfers(carrier: SlowCarrier, clock: FixedClock) -> Iterator[BackgroundImageTransfers]:
    with closing(BackgroundImageTransfers(carrier, clock, at_once=2)) as made:
        yield made


def until(done: Callable[[], bool]) -> None:
    gives_up_at_s = time.monotonic() + PATIENCE_S
    while not done():
        assert time.monotonic() < gives_up_at_s


def reports(transfers: BackgroundImageTransfers, count: int) -> list[TransferReport]:
    found: list[TransferReport] = []

    def enough() -> bool:
        found.extend(transfers.take_reports())
        return len(found) >= count

    until(enough)
    return found


def test_an_order_is_busy_until_its_report_is_taken(
    transfers: BackgroundImageTransfers, carrier: SlowCarrier, clock: FixedClock
) -> None:
    transfers.put(BRING, NOW_S)
    assert transfers.is_busy(BRING.id)
    assert not transfers.is_busy(OTHER.id)
    assert transfers.take_reports() == []
    clock.set(NOW_S + 50)
    carrier.let_go.set()
    until(lambda: carrier.at_once == 0)
    assert transfers.is_busy(BRING.id)
    assert reports(transfers, 1) == [TransferReport(BRING.id, TransferPhase.DONE, NOW_S + 50)]
    assert not transfers.is_busy(BRING.id)
    assert transfers.take_reports() == []


def test_so_many_are_under_way_at_once_and_the_others_wait_for_their_turn(
    transfers: BackgroundImageTransfers, carrier: SlowCarrier
) -> None:
    for order in (BRING, OTHER, THIRD):
        transfers.put(order, NOW_S)
    until(lambda: len(carrier.asked) == 2)
    assert transfers.is_busy(THIRD.id)
    carrier.let_go.set()
    assert {one.order_id for one in reports(transfers, 3)} == {BRING.id, OTHER.id, THIRD.id}
    assert carrier.most_at_once == 2
    assert carrier.asked[2] == THIRD.id


@pytest.mark.parametrize(
    ("wrong", "text"),
    [(TransferFailure("no room on node-03"), "no room on node-03"), (KeyError("x"), "a defect, KeyError: 'x'")],
)
def test_whatever_goes_wrong_is_reported(
    transfers: BackgroundImageTransfers, carrier: SlowCarrier, wrong: Exception, text: str
) -> None:
    carrier.wrong = wrong
    carrier.let_go.set()
    transfers.put(BRING, NOW_S)
    assert reports(transfers, 1) == [TransferReport(BRING.id, TransferPhase.FAILED, NOW_S, text)]
    transfers.put(REMOVE, NOW_S)
    assert reports(transfers, 1)[0].order_id == REMOVE.id


def test_who_steps_down_begins_nothing_more_and_lets_a_copy_go_on(
    transfers: BackgroundImageTransfers, carrier: SlowCarrier
) -> None:
    for order in (BRING, OTHER, THIRD):
        transfers.put(order, NOW_S)
    until(lambda: len(carrier.asked) == 2)
    transfers.drop()
    assert not transfers.is_busy(THIRD.id)
    # Whoever leads again meanwhile does not order it a second time beside itself.
    assert transfers.is_busy(BRING.id)
    carrier.let_go.set()
    until(lambda: not transfers.is_busy(BRING.id) and not transfers.is_busy(OTHER.id))
    assert transfers.take_reports() == []
    assert len(carrier.asked) == 2
    transfers.put(BRING, NOW_S)
    assert [one.order_id for one in reports(transfers, 1)] == [BRING.id]


def test_a_removal_is_ended_by_who_steps_down(
    transfers: BackgroundImageTransfers, carrier: SlowCarrier, tmp_path: Path
) -> None:
    carrier.program = ["/bin/sh", "-c", f"echo > {tmp_path}/begun; exec sleep 600"]
    transfers.put(REMOVE, NOW_S)
    until((tmp_path / "begun").exists)
    transfers.drop()
    until(lambda: not transfers.is_busy(REMOVE.id))
    assert transfers.take_reports() == []


def test_what_was_dropped_while_it_was_looked_up_is_not_begun(
    transfers: BackgroundImageTransfers, carrier: SlowCarrier, tmp_path: Path
) -> None:
    def bring(order: ImageOrder, run: RunProgram) -> None:
        transfers.drop()
        run(["/usr/bin/touch", f"{tmp_path}/begun"], PATIENCE_S)

    carrier.bring = bring  # type: ignore[method-assign]
    transfers.put(BRING, NOW_S)
    until(lambda: not transfers.is_busy(BRING.id))
    assert transfers.take_reports() == []
    assert not (tmp_path / "begun").exists()


def test_all_programs_end_with_the_process(carrier: SlowCarrier, clock: FixedClock, tmp_path: Path) -> None:
    carrier.program = ["/bin/sh", "-c", f"echo > {tmp_path}/begun; exec sleep 600"]
    transfers = BackgroundImageTransfers(carrier, clock, at_once=2)
    transfers.put(BRING, NOW_S)
    until((tmp_path / "begun").exists)
    transfers.close()
    until(lambda: carrier.at_once == 0)


def seen(look: Look, now_s: int, count: int = 1) -> list[HostImages]:
    found: list[HostImages] = []

    def enough() -> bool:
        found.extend(look.take(now_s))
        return len(found) >= count

    until(enough)
    return found


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return Storage(tmp_path)


@pytest.fixture
def look(carrier: SlowCarrier, clock: FixedClock, storage: Storage) -> Iterator[Look]:
    with ExitStack() as stack:
        yield stack.enter_context(closing(Look(carrier, storage.answering_hosts, storage.all, 600, clock)))


def test_hosts_are_looked_at_once_in_a_while(look: Look, carrier: SlowCarrier, clock: FixedClock) -> None:
    carrier.there = frozenset({IMAGE_ID, 99})  # oned has no image 99
    assert seen(look, NOW_S) == [HostImages(HOST_ID, NOW_S, (HeldImage(IMAGE_ID, 2, NOW_S),))]
    assert look.take(NOW_S + 599) == []
    assert carrier.looked_at == [HOST]
    clock.set(NOW_S + 600)
    carrier.there = frozenset()
    assert seen(look, NOW_S + 600) == [HostImages(HOST_ID, NOW_S + 600, ())]
    clock.set(NOW_S)  # a clock that was set back stops nobody
    assert seen(look, NOW_S) == [HostImages(HOST_ID, NOW_S, ())]


def test_of_a_host_that_cannot_be_looked_at_nothing_is_told_and_it_is_tried_again(
    look: Look, carrier: SlowCarrier, storage: Storage
) -> None:
    carrier.wrong = TransferFailure("nobody answers there")
    look.take(NOW_S)
    until(lambda: carrier.looked_at == [HOST])
    carrier.wrong = None
    storage.hosts = {HOST_ID: HOST, 9: "node-09"}
    assert [pool.host_id for pool in seen(look, NOW_S + 600, 2)] == [HOST_ID, 9]


def test_an_oned_that_is_away_is_asked_again_later(carrier: SlowCarrier, clock: FixedClock, storage: Storage) -> None:
    asked = []

    def away() -> dict[int, str]:
        asked.append(1)
        if len(asked) == 1:
            raise CloudUnavailable("nobody answers")
        return storage.hosts

    with closing(Look(carrier, away, storage.all, 600, clock)) as look:
        look.take(NOW_S)
        until(lambda: bool(asked))
        assert len(seen(look, NOW_S + 600)) == 1


def test_who_steps_down_forgets_what_was_seen_and_looks_afresh(
    look: Look, carrier: SlowCarrier, storage: Storage
) -> None:
    assert len(seen(look, NOW_S)) == 1
    look.drop()
    assert len(seen(look, NOW_S + 1)) == 1
    assert carrier.looked_at == [HOST, HOST]
