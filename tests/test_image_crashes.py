"""The daemon is killed between any two steps of bringing and removing images: each ends where it was to be."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from one_preempt.adapters.clock import FixedClock
from one_preempt.adapters.lease_store.memory_lease_store import MemoryLeaseStore
from one_preempt.adapters.lease_store.sql_lease_store import SqlLeaseStore
from one_preempt.core.model.image_transfer import (
    HostImages,
    ImageOrder,
    ImageOrderKind,
    TransferPhase,
    TransferRecord,
    TransferReport,
)
from one_preempt.core.model.plan import Plan
from one_preempt.enactment.image_enactment import ImageEnactment
from one_preempt.ports import LeaseStore
from tests.mortal import NEVER, Killed, Mortal

NOW_S = 1_800_000_000
COPY_S = 12
CYCLE_S = 5
HOSTS = (1, 2)
BRINGS, DROPS = ImageOrderKind.BRING, ImageOrderKind.DROP


class World:
    """The disks of the hosts, and copies that go on whether or not the daemon that ordered them lives."""

    def __init__(self) -> None:
        self.now_s = NOW_S
        self.disks: dict[int, set[int]] = {host: set() for host in HOSTS}
        self.copies: dict[tuple[int, int], int] = {}
        self.begun: list[str] = []

    def pass_time(self) -> None:
        self.now_s += CYCLE_S
        for (image, host), done_s in list(self.copies.items()):
            if done_s <= self.now_s:
                self.disks[host].add(image)
                del self.copies[image, host]


class Transfers:
    """A process's threads: they wait for what goes on in the world, and tell it as long as their process lives."""

    def __init__(self, world: World, fails: Callable[[ImageOrder], bool]) -> None:
        self.world, self.fails = world, fails
        self.put_orders: dict[str, ImageOrder] = {}

    def is_busy(self, order_id: str) -> bool:
        return order_id in self.put_orders

    def put(self, order: ImageOrder, now_s: int) -> None:
        self.put_orders[order.id] = order
        key, disk = (order.image_id, order.host_id), self.world.disks[order.host_id]
        if order.kind is DROPS:
            disk.discard(order.image_id)
        elif order.image_id not in disk:
            # One that goes on is waited for, as a lock on the host lets it be.
            self.world.copies.setdefault(key, now_s + COPY_S)
            self.world.begun.append(order.id)

    def take_reports(self) -> Sequence[TransferReport]:
        found = []
        for order in list(self.put_orders.values()):
            if (order.image_id, order.host_id) in self.world.copies:
                continue
            del self.put_orders[order.id]
            if self.fails(order):
                self.world.disks[order.host_id].discard(order.image_id)
                found.append(TransferReport(order.id, TransferPhase.FAILED, self.world.now_s, "no way"))
            else:
                found.append(TransferReport(order.id, TransferPhase.DONE, self.world.now_s))
        return found

    def take_holdings(self) -> Sequence[HostImages]:
        return ()

    def drop(self) -> None:
        self.put_orders.clear()


def order(kind: ImageOrderKind, image_id: int, host_id: int) -> ImageOrder:
    return ImageOrder(kind, image_id, host_id, f"node{host_id}", 1, 600, NOW_S, NOW_S, None, (5,), "r", "why")


class MortalPlay(Mortal):
    """Dies once, at the boundary of that number before or after a write or call; then it is started again."""

    def __init__(self, dies_at: int, store: LeaseStore, fails_first: int = 0) -> None:
        super().__init__(dies_at)
        self.world, self.store, self.clock = World(), store, FixedClock(NOW_S)
        self.left_to_fail = fails_first
        self.wanted: set[tuple[int, int]] = set()
        self._apply = self.mortal(store.apply)
        self.told: list[TransferRecord] = []
        self.start_daemon()

    def start_daemon(self) -> None:
        transfers = Transfers(self.world, self.fails)
        self.make_mortal(transfers, ("put", "take_reports"))
        self.daemon = ImageEnactment(MortalStore(self), transfers, self.clock, retry_delay_s=0)

    def fails(self, _order: ImageOrder) -> bool:
        self.left_to_fail -= 1
        return self.left_to_fail >= 0

    def plan(self) -> Plan:
        """What is wanted and not known to be there, and what is known to be there and not wanted."""
        there = {(one.image_id, host) for host, pool in self.store.held_images().items() for one in pool.images}
        brings = [order(BRINGS, *key) for key in sorted(self.wanted - there)]
        return Plan(NOW_S, "MOML", image_orders=(*brings, *(order(DROPS, *key) for key in sorted(there - self.wanted))))

    def cycle(self) -> None:
        self.world.pass_time()
        self.clock.set(self.world.now_s)
        try:
            self._cycle()
        except Killed:
            self.start_daemon()
            self._cycle()

    def _cycle(self) -> None:
        self.daemon.take_reports()
        self.told += self.daemon.ended
        self.daemon.enact(self.plan(), lambda: True)

    def until_settled(self) -> None:
        for _ in range(40):
            self.cycle()
            if not (self.plan().image_orders or self.store.image_transfers()):
                return
        pytest.fail(f"it does not come to rest: {self.store.image_transfers()}")


class MortalStore:
    """The ledger, whose writes a process may not survive."""

    def __init__(self, play: MortalPlay) -> None:
        self._store = play.store
        self.apply = play._apply

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


def story(play: MortalPlay) -> int:
    """Two images come to two hosts, one of them is removed from one; how many boundaries that has."""
    play.wanted = {(7, 1), (7, 2), (8, 2)}
    play.until_settled()
    assert play.world.disks == {1: {7}, 2: {7, 8}}
    play.wanted = {(7, 1), (8, 2), (8, 1)}
    play.until_settled()
    assert play.world.disks == {1: {7, 8}, 2: {8}}
    held = {host: {one.image_id for one in pool.images} for host, pool in play.store.held_images().items()}
    assert held == play.world.disks
    return play.passed


@pytest.fixture
def new_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[], LeaseStore]]:
    numbers = count()
    with ExitStack() as opened:
        if request.param == "memory":
            yield MemoryLeaseStore
        else:
            yield lambda: opened.enter_context(closing(SqlLeaseStore(f"sqlite:///{tmp_path}/{next(numbers)}.db")))


@pytest.mark.parametrize("fails_first", [0, 2])
@pytest.mark.parametrize(("new_store", "every"), [("memory", 1), ("database", 7)], indirect=["new_store"])
def test_killed_anywhere_images_end_where_they_were_to_be(
    new_store: Callable[[], LeaseStore], every: int, fails_first: int
) -> None:
    undisturbed = MortalPlay(NEVER, new_store(), fails_first)
    boundaries = story(undisturbed)
    assert boundaries > 20
    for dies_at in range(1, boundaries + 1, every):
        play = MortalPlay(dies_at, new_store(), fails_first)
        story(play)
        assert play.has_died
        # What went on was taken up; what had failed, or was done, was begun once more at most.
        assert len(play.world.begun) <= len(undisturbed.world.begun) + 3, dies_at


def test_who_hears_nothing_of_an_order_orders_it_again_under_its_id() -> None:
    play = MortalPlay(NEVER, MemoryLeaseStore())
    play.wanted = {(7, 1)}
    play.cycle()
    play.start_daemon()
    play.cycle()
    record = play.store.image_transfers()["stage/7/1"]
    assert (record.phase, record.attempts) == (TransferPhase.UNDER_WAY, 2)
    play.until_settled()
    assert [one.phase for one in play.told] == [TransferPhase.DONE]
