"""RND, random order (JPDC12 section 5.2.1): each request is drawn for itself, with the shares as probabilities.

What is drawn follows from the seed and the number of the request alone, so that a sequence can go on anywhere.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

from msgspec import Struct

from one_preempt.core.dispatch.policy import Routing

_BITS = 53


class AtRandom(Struct, frozen=True):
    """A cluster drawn with its share as probability."""

    name: str = "RND"
    description: str = "drawn at random, with the shares as probabilities"

    def cluster(self, routing: Routing, sent_of_type: Sequence[float], sent: int) -> int:
        """By the seed and the number of requests before."""
        limits = list(accumulate(routing.shares))
        drawn = _uniform(routing.seed, sent) * limits[-1]
        return bisect_right(limits, drawn)


def _uniform(seed: int, number: int) -> float:
    """From 0 to below 1, the same on every machine."""
    digest = hashlib.blake2b(f"{seed} {number}".encode(), digest_size=8).digest()
    return (int.from_bytes(digest) >> (64 - _BITS)) / 2.0**_BITS


POLICY = AtRandom()
