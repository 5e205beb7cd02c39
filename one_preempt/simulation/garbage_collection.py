"""The garbage collector's pace where thousands of objects are made that never refer to themselves in a circle."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_YOUNG_OBJECTS = 50_000


@contextmanager
def rare_garbage_collection() -> Iterator[None]:
    """Look for circles among new objects once in 50,000 of them, not in 700.

    What was there before is not looked at meanwhile.
    """
    thresholds = gc.get_threshold()
    gc.set_threshold(_YOUNG_OBJECTS, *thresholds[1:])
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
        gc.set_threshold(*thresholds)
