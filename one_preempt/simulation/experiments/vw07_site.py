"""The testbed of VW07 section 8: what all its experiments have in common."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from one_preempt.core.image_staging.transfer import transfer_ms
from one_preempt.core.model.time import MS_PER_S

IMAGE_MB, MEGABIT_PER_S = 600, 100
TRANSFER_MS = transfer_ms(IMAGE_MB, MEGABIT_PER_S)
PLACES = dict.fromkeys(range(8), 2)
MB_PER_GB = 1000


def chance_of(*numbers: int) -> np.random.Generator:
    """Draws that are the same for the same numbers, on every machine."""
    return np.random.Generator(np.random.PCG64(numbers))


def drawn_image(chance: np.random.Generator, weights: Sequence[int]) -> str:
    """One of so many images, each drawn as often as its weight says."""
    bounds = np.cumsum(weights)
    return f"image-{int(np.searchsorted(bounds, chance.integers(bounds[-1]), side='right')) + 1}"


def drawn_ms(chance: np.random.Generator, below_ms: int) -> int:
    """A whole second before `below_ms`, at least 0."""
    return MS_PER_S * int(chance.integers(max(1, below_ms // MS_PER_S)))
