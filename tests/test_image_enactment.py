"""Orders for images: written down before they are given, and once; what became of them, and what hosts hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from one_preempt.adapters.clock import FixedClock
from one_preempt.adapters.lease_store.memory_lease_store import MemoryLeaseStore
from one_preempt.core.model.image_transfer import (
    HeldImage,
    HostImages,
    ImageOrder,
    ImageOrderKind,
    TransferPhase,
    TransferReport,
)
from one_preempt.core.model.ledger import LedgerChanges
from one_preempt.core.model.plan import Plan
from one_preempt.enactment.image_enactment import UNHEARD, ImageEnactment

NOW_S = 1_000_000


def order(kind: ImageOrderKind = ImageOrderKind.BRING, image_id: int = 7, host_id: int = 2) -> ImageOrder:
    return ImageOrder(
        kind=kind,
        image_id=image_id,
        host_id=host_id,
        host_name=f"host{host_id}",
        datastore_id=1,
        size_mib=600,
        begin_at_s=NOW_S,
        due_at_s=NOW_S + 50,
        needed_at_s=NOW_S + 80,
        lease_ids=(12,),
        reason_code="reservation",
        reason_text="for VM 12",
    )


@dataclass
class Transfers:
    """An image transfer whose end the test tells."""

    put_ids: list[str] = field(default_factory=list)
    reports: list[TransferReport] = field(default_factory=list)
    pools: list[HostImages] = field(default_factory=list)
    busy: set[str] = field(default_factory=set)

    def is_busy(self, order_id: str) -> bool:
        return order_id in self.busy

    def put(self, order: ImageOrder, now_s: int) -> None:
        self.put_ids.append(order.id)
        self.busy.add(order.id)

    def take_reports(self) -> Sequence[TransferReport]:
        taken, self.reports = self.reports, []
        self.busy -= {report.order_id for report in taken}
        return taken

    def take_holdings(self) -> Sequence[HostImages]:
        taken, self.pools = self.pools, []
        return taken

    def drop(self) -> None:
        self.busy.clear()


def enactment(store: MemoryLeaseStore, transfers: Transfers, now_s: int = NOW_S) -> ImageEnactment:
    return ImageEnactment(store, transfers, FixedClock(now_s))


def plan(*orders: ImageOrder) -> Plan:
    return Plan(made_at_s=NOW_S, policy="NOP", image_orders=orders)


def test_an_order_is_given_once_while_it_is_under_way_and_again_by_a_process_that_took_its_place() -> None:
    store, transfers = MemoryLeaseStore(), Transfers()
    enactment(store, transfers).enact(plan(order()), lambda: True)
    enactment(store, transfers).enact(plan(order()), lambda: True)
    assert transfers.put_ids == ["stage/7/2"]
    assert store.image_transfers()["stage/7/2"].phase is TransferPhase.UNDER_WAY

    after_the_crash = Transfers()
    enactment(store, after_the_crash, NOW_S + 20).enact(plan(order()), lambda: True)

    assert after_the_crash.put_ids == ["stage/7/2"]
    assert (store.image_transfers()["stage/7/2"].attempts, store.image_transfers()["stage/7/2"].since_s) == (
        2,
        NOW_S + 20,
    )


def test_what_is_done_is_on_its_host_and_no_order_any_more() -> None:
    store, transfers = MemoryLeaseStore(), Transfers()
    enact = enactment(store, transfers)
    enact.enact(plan(order()), lambda: True)
    transfers.reports = [TransferReport("stage/7/2", TransferPhase.DONE, NOW_S + 40)]

    enact.take_reports()

    assert store.image_transfers() == {}
    assert store.held_images() == {2: HostImages(2, 0, (HeldImage(7, 600, NOW_S + 40),))}

    enact.enact(plan(order(ImageOrderKind.DROP)), lambda: True)
    transfers.reports = [TransferReport("drop/7/2", TransferPhase.DONE, NOW_S + 41)]
    enact.take_reports()
    assert store.held_images() == {}


def test_a_failure_says_why_and_when_it_makes_sense_again() -> None:
    store, transfers = MemoryLeaseStore(), Transfers()
    enact = enactment(store, transfers)
    enact.enact(plan(order()), lambda: True)
    transfers.reports = [TransferReport("stage/7/2", TransferPhase.FAILED, NOW_S + 5, "no space left on host2")]

    enact.take_reports()

    record = store.image_transfers()["stage/7/2"]
    assert (record.phase, record.text, record.not_before_s) == (
        TransferPhase.FAILED,
        "no space left on host2",
        NOW_S + 20,
    )


def test_what_came_after_a_host_was_looked_at_is_not_missing_there() -> None:
    store, transfers = MemoryLeaseStore(), Transfers()
    enact = enactment(store, transfers)
    store.apply(
        LedgerChanges(
            held_images=(HostImages(2, NOW_S - 50, (HeldImage(3, 100, NOW_S - 90), HeldImage(7, 600, NOW_S))),)
        )
    )
    transfers.pools = [HostImages(2, NOW_S - 1, (HeldImage(9, 50),))]

    enact.take_reports()

    # Image 3 was there before, and was not seen: somebody removed it.
    assert [image.image_id for image in store.held_images()[2].images] == [7, 9]


def test_nothing_is_ordered_while_the_operator_has_paused_or_another_front_end_leads() -> None:
    store, transfers = MemoryLeaseStore(), Transfers()
    enact = enactment(store, transfers)
    assert enact.enact(plan(order()), lambda: False) == ()
    store.set_paused(True, NOW_S)
    assert enact.enact(plan(order()), lambda: True) == ()
    assert transfers.put_ids == []
    assert store.image_transfers() == {}


def test_what_nobody_wants_and_nobody_will_hear_of_is_given_up() -> None:
    store, transfers = MemoryLeaseStore(), Transfers()
    mine = enactment(store, transfers)
    mine.enact(plan(order()), lambda: True)
    mine.enact(plan(), lambda: True)
    # This process hears of its end yet.
    assert store.image_transfers()["stage/7/2"].phase is TransferPhase.UNDER_WAY

    enactment(store, Transfers(), NOW_S + 20).enact(plan(order(host_id=3)), lambda: False)

    record = store.image_transfers()["stage/7/2"]
    assert (record.phase, record.since_s, record.text) == (TransferPhase.FAILED, NOW_S + 20, UNHEARD)


def test_what_is_seen_again_did_not_come_now() -> None:
    store, transfers = MemoryLeaseStore(), Transfers()
    enact = enactment(store, transfers)
    store.apply(LedgerChanges(held_images=(HostImages(2, NOW_S - 50, (HeldImage(7, 600, NOW_S - 90),)),)))
    transfers.pools = [HostImages(2, NOW_S, (HeldImage(7, 601, NOW_S), HeldImage(9, 50, NOW_S)))]

    enact.take_reports()

    assert store.held_images()[2].images == (HeldImage(7, 601, NOW_S - 90), HeldImage(9, 50, NOW_S))


def test_what_ended_is_told_once_and_is_there_until_the_next_look() -> None:
    store, transfers = MemoryLeaseStore(), Transfers()
    enact = enactment(store, transfers)
    enact.enact(plan(order(), order(host_id=3)), lambda: True)
    transfers.reports = [
        TransferReport("stage/7/2", TransferPhase.DONE, NOW_S + 5),
        TransferReport("stage/7/3", TransferPhase.FAILED, NOW_S + 5, "no room"),
    ]
    enact.take_reports()
    assert [(record.id, record.phase) for record in enact.ended] == [
        ("stage/7/2", TransferPhase.DONE),
        ("stage/7/3", TransferPhase.FAILED),
    ]
    enact.take_reports()
    assert enact.ended == ()


def test_of_hosts_that_were_deleted_nothing_is_kept() -> None:
    store = MemoryLeaseStore()
    pools = tuple(HostImages(host_id, NOW_S, (HeldImage(7, 600, NOW_S),)) for host_id in (1, 2, 3))
    store.apply(LedgerChanges(held_images=pools))
    enactment(store, Transfers()).forget_hosts({1, 3, 4})
    assert list(store.held_images()) == [1, 3]


def test_what_came_before_the_clock_was_set_back_is_missed_where_it_is_gone() -> None:
    """By the time at which it came it would be on its host for another day, whatever is seen there."""
    store, transfers = MemoryLeaseStore(), Transfers()
    came = HeldImage(7, 600, NOW_S + 86_400)
    store.apply(LedgerChanges(held_images=(HostImages(2, NOW_S + 86_400, (came, HeldImage(8, 600, NOW_S + 86_400))),)))
    transfers.pools.append(HostImages(2, NOW_S - 5, (HeldImage(8, 600, NOW_S - 5),)))
    enactment(store, transfers).take_reports()
    assert store.held_images()[2].images == (HeldImage(8, 600, NOW_S),)
