"""The one link over which images come from their store to the hosts, and what hosts keep of them.

What is brought beforehand has the link before what a deployment copies, as throttled copies let it; of each kind first
come first served, one at a time. A copy that has to let another one pass goes on after it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from msgspec import Struct

from one_preempt.simulation.simulated_cloud.virtual_time import EventQueue, VirtualClock

_BITS_PER_MIB = 8 << 20
_BITS_PER_MEGABIT = 1_000_000
_MS_PER_S = 1000


class ImageCopy(Struct, eq=False):
    """An image on its way to a host: so much of it is still to come. `arrived` is called once all of it is there."""

    number: int
    host_id: int
    image_id: int
    size_mib: int
    is_staged: bool
    left_bits: int
    arrived: Callable[[ImageCopy], None]

    @property
    def turn(self) -> tuple[bool, int]:
        """Who is served first: the least."""
        return not self.is_staged, self.number


class ImageLink:
    """`pools` are the images on hosts from which disks are made there: MiB by image id, by host id.

    `keeps_copies`: what a deployment copies stays in its host's pool, too, as with a cache of the driver's.
    """

    def __init__(self, clock: VirtualClock, events: EventQueue, megabit_per_s: int, *, keeps_copies: bool) -> None:
        self.pools: dict[int, dict[int, int]] = {}
        self.keeps_copies = keeps_copies
        self._clock, self._events = clock, events
        self._bits_per_ms = megabit_per_s * _BITS_PER_MEGABIT // _MS_PER_S
        self._waiting: list[ImageCopy] = []
        self._served: ImageCopy | None = None
        self._since_ms = clock.now_ms
        self._number = 0
        self._turns = 0

    def holds(self, host_id: int, image_id: int) -> bool:
        """The image is in the host's pool."""
        return image_id in self.pools.get(host_id, {})

    def copy(
        self,
        host_id: int,
        image_id: int,
        size_mib: int,
        arrived: Callable[[ImageCopy], None],
        *,
        is_staged: bool,
        factor: float = 1.0,
    ) -> ImageCopy:
        """Begin to copy an image to a host, in turn; `factor` times as slowly as its size makes it."""
        self._number += 1
        left_bits = max(1, round(size_mib * _BITS_PER_MIB * factor))
        copy = ImageCopy(self._number, host_id, image_id, size_mib, is_staged, left_bits, arrived)
        self._waiting.append(copy)
        self._serve()
        return copy

    def staged(self, host_id: int, image_id: int) -> ImageCopy | None:
        """The copy of an image that is being brought to a host beforehand, whoever began it."""
        place = host_id, image_id
        return next((one for one in self._waiting if one.is_staged and (one.host_id, one.image_id) == place), None)

    def cancel(self, copy: ImageCopy) -> None:
        """Nobody waits for a copy any more; one that has arrived is left alone."""
        if copy in self._waiting:
            self._waiting.remove(copy)
            self._serve()

    def keep(self, host_id: int, image_id: int, size_mib: int) -> None:
        """Put an image into a host's pool."""
        self.pools.setdefault(host_id, {})[image_id] = size_mib

    def remove(self, host_id: int, image_id: int) -> None:
        """Take one out of it, if it is there."""
        self.pools.get(host_id, {}).pop(image_id, None)

    def _serve(self) -> None:
        """Count what was copied by now, and let whose turn it is go on."""
        now_ms = self._clock.now_ms
        if self._served is not None:
            self._served.left_bits -= (now_ms - self._since_ms) * self._bits_per_ms
        self._served, self._since_ms = min(self._waiting, key=_turn, default=None), now_ms
        self._turns += 1
        if self._served is not None:
            takes_ms = max(0, -(-self._served.left_bits // self._bits_per_ms))
            self._events.plan(now_ms + takes_ms, partial(self._end, self._served, self._turns))

    def _end(self, copy: ImageCopy, turn: int) -> None:
        if turn != self._turns:
            # Another one had the link meanwhile.
            return
        self._waiting.remove(copy)
        self._served = None
        self._serve()
        if copy.is_staged or self.keeps_copies:
            self.keep(copy.host_id, copy.image_id, copy.size_mib)
        copy.arrived(copy)


def _turn(copy: ImageCopy) -> tuple[bool, int]:
    return copy.turn
