"""Orders for images from a few threads: copies take minutes to hours, and cycles go on meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Lock

from msgspec import Struct

from one_preempt.adapters.image_transfer.carrier import Carrier, Dropped, ImagesById, TransferFailure
from one_preempt.bounded_io.child_process import Children, Finished
from one_preempt.core.model.image_transfer import (
    HeldImage,
    HostImages,
    ImageOrder,
    ImageOrderKind,
    TransferPhase,
    TransferReport,
)
from one_preempt.ports import Clock, CloudUnavailable

ImagesNow = Callable[[], ImagesById]
"""All images of oned. Raises `CloudUnavailable`."""
HostsNow = Callable[[], Mapping[int, str]]
"""The names of the hosts that can be looked at, by id. Raises `CloudUnavailable`."""

_LOOKS_AT_ONCE = 4


class _Put(Struct, frozen=True):
    """What was put, and after how many times that all was dropped."""

    order: ImageOrder
    drops: int


class BackgroundImageTransfers:
    """Implements `ports.ImageTransfer` by a carrier, who is asked from `at_once` threads, each order's turn in the
    order in which they were put.

    Whoever steps down begins nothing more, and ends removals: one that came late would take away what the next leader
    has brought. A copy under way goes on, for it does no harm, and hours may be in it; nobody reports its end, and it
    is busy until then. All programs end when this is closed.
    """

    def __init__(self, carrier: Carrier, clock: Clock, at_once: int) -> None:
        self._carrier = carrier
        self._clock = clock
        self._threads = ThreadPoolExecutor(max_workers=at_once, thread_name_prefix="image")
        self._copies, self._removals = Children(), Children()
        self._lock = Lock()
        self._waiting: dict[str, _Put] = {}
        self._begun: dict[str, _Put] = {}
        self._reports: list[TransferReport] = []
        self._drops = 0
        self._look: Look | None = None

    def watch(self, look: Look) -> None:
        """From now on hand out what `look` sees on hosts."""
        self._look = look

    def is_busy(self, order_id: str) -> bool:
        """See `ports.ImageTransfer`."""
        with self._lock:
            told = any(report.order_id == order_id for report in self._reports)
            return told or order_id in self._waiting or order_id in self._begun

    def put(self, order: ImageOrder, now_s: int) -> None:
        """Begin it as soon as a thread is free."""
        with self._lock:
            self._waiting[order.id] = _Put(order, self._drops)
        self._threads.submit(self._work)

    def take_reports(self) -> Sequence[TransferReport]:
        """See `ports.ImageTransfer`."""
        with self._lock:
            reports, self._reports = self._reports, []
        return reports

    def take_holdings(self) -> Sequence[HostImages]:
        """See `ports.ImageTransfer`; now and then it lets hosts be looked at, and what is seen comes later."""
        return self._look.take(self._clock.now_s()) if self._look is not None else ()

    def drop(self) -> None:
        """See the class."""
        with self._lock:
            self._drops += 1
            self._waiting.clear()
            self._reports.clear()
        self._removals.end()
        if self._look is not None:
            self._look.drop()

    def close(self) -> None:
        """Begin nothing more, and end all that is under way."""
        self.drop()
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._copies.end()
        if self._look is not None:
            self._look.close()

    def _work(self) -> None:
        """Carry out the first that waits, and keep its report where it is still of interest."""
        with self._lock:
            if not self._waiting:
                return
            put = self._waiting.pop(next(iter(self._waiting)))
            self._begun[put.order.id] = put
        try:
            report = self._carried_out(put)
        finally:
            with self._lock:
                del self._begun[put.order.id]
                if put.drops == self._drops:
                    self._reports.append(report)

    def _carried_out(self, put: _Put) -> TransferReport:
        brings = put.order.kind is ImageOrderKind.BRING
        children = self._copies if brings else self._removals
        carry = self._carrier.bring if brings else self._carrier.remove

        def run(arguments: list[str], timeout_s: float, extra_environment: dict[str, str] | None = None) -> Finished:
            return children.run(arguments, timeout_s, extra_environment, lambda: self._demand_wanted(put))

        try:
            carry(put.order, run)
        except Dropped:
            return self._failed(put.order, "it was dropped before it was begun")
        except TransferFailure as failure:
            return self._failed(put.order, str(failure))
        except Exception as error:  # noqa: BLE001, as the order would be busy for good without a report
            return self._failed(put.order, f"a defect, {type(error).__name__}: {error}")
        return TransferReport(put.order.id, TransferPhase.DONE, self._clock.now_s())

    def _demand_wanted(self, put: _Put) -> None:
        with self._lock:
            if put.drops != self._drops:
                raise Dropped

    def _failed(self, order: ImageOrder, why: str) -> TransferReport:
        return TransferReport(order.id, TransferPhase.FAILED, self._clock.now_s(), why)


class Look:
    """Looks at what hosts hold, all hosts once in a while, beside the orders and without waiting.

    What cannot be seen is not told: of such a host what was known is kept.
    """

    def __init__(
        self, carrier: Carrier, hosts_now: HostsNow, images_now: ImagesNow, every_s: int, clock: Clock
    ) -> None:
        self._carrier = carrier
        self._hosts_now, self._images_now = hosts_now, images_now
        self._every_s = every_s
        self._clock = clock
        self._children = Children()
        self._rounds = ThreadPoolExecutor(max_workers=1, thread_name_prefix="look-round")
        self._lock = Lock()
        self._began_at_s: int | None = None
        self._is_going = False
        self._drops = 0
        self._seen: dict[int, HostImages] = {}

    def take(self, now_s: int) -> Sequence[HostImages]:
        """What was seen since the last call, by host id; a new round is begun where it is time for one."""
        with self._lock:
            seen, self._seen = self._seen, {}
            if not self._is_going and self._is_time(now_s):
                self._is_going, self._began_at_s = True, now_s
                self._rounds.submit(self._go_round, self._drops)
        return [seen[host_id] for host_id in sorted(seen)]

    def drop(self) -> None:
        """What was seen is forgotten; whoever leads again looks afresh."""
        with self._lock:
            self._drops += 1
            self._seen.clear()
            self._began_at_s = None
        self._children.end()

    def close(self) -> None:
        """Look no more."""
        self.drop()
        self._rounds.shutdown(wait=False, cancel_futures=True)

    def _is_time(self, now_s: int) -> bool:
        last_s = self._began_at_s
        return last_s is None or not last_s <= now_s < last_s + self._every_s

    def _go_round(self, drops: int) -> None:
        try:
            hosts, images = sorted(self._hosts_now().items()), self._images_now()
            with ThreadPoolExecutor(max_workers=_LOOKS_AT_ONCE, thread_name_prefix="look") as threads:
                for host_id, host in hosts:
                    threads.submit(self._look_at, host_id, host, images, drops)
        except CloudUnavailable:
            # Nothing was seen; `check` tells why.
            pass
        finally:
            with self._lock:
                self._is_going = False

    def _look_at(self, host_id: int, host: str, images: ImagesById, drops: int) -> None:
        def run(arguments: list[str], timeout_s: float, extra_environment: dict[str, str] | None = None) -> Finished:
            return self._children.run(arguments, timeout_s, extra_environment, lambda: self._demand_wanted(drops))

        read_at_s = self._clock.now_s()
        try:
            self._demand_wanted(drops)
            pool = held(host_id, read_at_s, self._carrier.look(host, images, run), images)
        except (Dropped, TransferFailure):
            return
        with self._lock:
            if drops == self._drops:
                self._seen[host_id] = pool

    def _demand_wanted(self, drops: int) -> None:
        with self._lock:
            if drops != self._drops:
                raise Dropped


def held(host_id: int, read_at_s: int, image_ids: Collection[int], images: ImagesById) -> HostImages:
    """A host's pool with those of the images that oned has."""
    there = (images[one] for one in sorted(image_ids) if one in images)
    return HostImages(host_id, read_at_s, tuple(HeldImage(one.id, one.size_mib, read_at_s) for one in there))
