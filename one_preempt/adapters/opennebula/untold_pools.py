"""Pools that oned cannot send whole: what cannot be sent is left out, and the rest is told in parts.

The XML-RPC library of oned sends no character beyond the first 65,536, and users can store one: in a template of XML,
as a character reference. From then on the answer with that object in it is a fault, to everybody. So the pool is asked
for in parts, halved until the object that keeps them back is alone. It is there by its id: nothing is done with it.
Which objects these are is kept from reading to reading, so that each costs its search, of some 60 calls, once. They are
asked for again by turns: a user may have thousands of them, and each would cost a call in every reading.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Container, Iterator

from one_preempt.adapters.opennebula.oned_errors import OtherFault
from one_preempt.adapters.opennebula.pool_pieces import GREATEST_ID, NOT_SENT_MARK
from one_preempt.adapters.opennebula.transport import OnedTransport, Parameter
from one_preempt.adapters.opennebula.trusted_pools import (
    POOLS,
    Asking,
    Pool,
    as_trusted,
    is_not_sent,
    part_of,
    told_alone,
)

# Of those known as untold so many are asked for again in one reading: somebody may have mended or ended them.
AGAIN = 64
# So often parts are halved in one reading; the next one goes on with what was found.
MOST_SPLITS = 4000


class UntoldPools:
    """Reads pools, and remembers which of their objects oned could not send the last time."""

    def __init__(self, transport: OnedTransport) -> None:
        self._transport = transport
        self._untold: defaultdict[str, set[int]] = defaultdict(set)
        self._last_again: defaultdict[str, int] = defaultdict(int)

    def document(self, name: str, parameters: tuple[Parameter, ...], wanted: Callable[[], Collection[int]]) -> bytes:
        """The answer to the call `name`, in which nobody passes for another. Of a pool that oned does not tell in parts
        those that are `wanted` are in it.

        Raises `OnedError` where it is refused for another reason, or too much of it cannot be sent; what was found of
        that is known to the next reading. Raises `CloudUnavailable`.
        """
        try:
            answer = self._transport.document(f"one.{name}", *parameters)
        except OtherFault as error:
            pool = POOLS.get(name)
            if pool is None or not is_not_sent(error):
                raise
        else:
            self._untold.pop(name, None)
            return as_trusted(self._transport, name, parameters, answer, wanted)
        if not pool.in_parts:
            objects = [told_alone(self._transport, pool, object_id) for object_id in sorted(wanted())]
        else:
            again = self._asked_again(name)
            objects = list(_Parts(self._transport, name, pool, parameters, self._untold[name]).all(again))
        return b"".join([f"<{pool.name}>".encode(), *objects, f"</{pool.name}>".encode()])

    def _asked_again(self, name: str) -> frozenset[int]:
        """Those of the pool whose turn it is, in the order of their ids and then from the first one on."""
        last_id = self._last_again[name]
        by_turn = sorted(self._untold[name], key=lambda object_id: (object_id <= last_id, object_id))[:AGAIN]
        if by_turn:
            self._last_again[name] = by_turn[-1]
        return frozenset(by_turn)


class _Parts:
    """Asks for parts of one pool, halved so often at most; `untold` are the ids that could not be sent, as found.

    What stands between two of these is asked for in any case: it is objects of others.
    """

    def __init__(
        self,
        transport: OnedTransport,
        name: str,
        pool: Pool,
        parameters: tuple[Parameter, ...],
        untold: set[int],
    ) -> None:
        self._transport, self._name, self._pool, self._untold = transport, name, pool, untold
        self._parameters = parameters
        self._asking = Asking(transport, name, pool, parameters)
        self._splits_left = MOST_SPLITS

    def all(self, again: Container[int]) -> Iterator[bytes]:
        """All objects of the pool, without the pool around them: what lies between those known as untold at once, and
        of these each one of `again` alone, in case it can be told by now."""
        first_id = 0
        for object_id in sorted(self._untold):
            yield from self._between(first_id, object_id - 1)
            if object_id in again:
                yield from self._between(object_id, object_id)
            else:
                yield self._untold_object(object_id)
            first_id = object_id + 1
        yield from self._between(first_id, GREATEST_ID)

    def _untold_object(self, object_id: int) -> bytes:
        tag = self._pool.tag
        return f"<{tag}><ID>{object_id}</ID><{NOT_SENT_MARK}></{NOT_SENT_MARK}></{tag}>".encode()

    def _between(self, first_id: int, last_id: int) -> Iterator[bytes]:
        pool = self._pool
        if first_id > last_id:
            return
        try:
            parameters = part_of(self._parameters, first_id, last_id)
            document = self._transport.document(f"one.{self._name}", *parameters).strip()
        except OtherFault as error:
            if not is_not_sent(error) or (self._splits_left <= 0 and first_id < last_id):
                raise
        else:
            if first_id == last_id:
                self._untold.discard(first_id)
            document = self._asking.trusted(document, first_id=first_id, last_id=last_id)
            yield document.removeprefix(f"<{pool.name}>".encode()).removesuffix(f"</{pool.name}>".encode())
            return
        if first_id == last_id:
            self._untold.add(first_id)
            yield self._untold_object(first_id)
            return
        self._splits_left -= 1
        middle_id = (first_id + last_id) // 2
        yield from self._between(first_id, middle_id)
        yield from self._between(middle_id + 1, last_id)
