"""Who gets a turn where there are fewer turns in a cycle than there are who wait for one."""

from __future__ import annotations

# Knuth's multiplier: consecutive instants, and those at any steady interval, come to fall far apart.
_SCATTER = 2654435761


def drawn_place(places: int, now_s: int) -> int:
    """One of so many places, from 0 on: another one at another instant, each of them sooner or later.

    It depends on the instant alone, in no step with how often there are cycles.
    """
    return (now_s * _SCATTER & 0xFFFFFFFF) * places >> 32
